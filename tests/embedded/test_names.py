"""Names: odd and long folders, short sockets, DSNs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded, folder, resolve, sockets
from pgqueue.embedded.account import Account, server_account
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import ROOT, ask, postmasters


@pytest.mark.parametrize("name", ["x" * 110, "com,ma", "a b'c\"d$(e)`f`%g&h;i?j#é"])
def test_odd_and_long_names(place: Path, pattern: Path, name: str) -> None:
    home = place / name
    if "$" not in name:  # that one is for initdb too
        subprocess.run(["cp", "-a", pattern, home], check=True)
    embedded = Embedded(home)
    dsn = embedded.start()
    assert ask(dsn, "select 1") == 1
    assert embedded.status().running
    short = sockets.short_folder(home)
    assert short.exists() == (len(name) > 100 or "," in name)
    if short.exists():
        assert short.stat().st_mode & 0o777 == 0o700
        assert short.stat().st_uid == server_account(home).uid
    embedded.stop()
    assert not short.exists()
    embedded.destroy()
    assert os.listdir(place) == []


def test_processes_with_different_temp_folders_find_one_socket(
    place: Path, pattern: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / ("x" * 110)
    subprocess.run(["cp", "-a", pattern, home], check=True)
    dsn = Embedded(home).start()
    (place / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    assert Embedded(home).start() == dsn
    Embedded(home).stop()
    assert os.listdir(place / "tmp") == []
    assert not (Path("/tmp") / sockets.short_folder(home).name).exists()
    os.chmod(place / "tmp", 0o1777)
    assert Embedded(home).start() != dsn
    Embedded(home).destroy()
    assert os.listdir(place / "tmp") == []


@pytest.mark.parametrize("trap", ["open", "file", "link", "foreign"])
def test_a_short_folder_that_is_not_ours_is_refused(place: Path, trap: str) -> None:
    if trap == "foreign" and not ROOT:
        pytest.skip("only root can make another user's folder")
    home = place / ("x" * 110)
    short = sockets.short_folder(home)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    try:
        if trap == "file":
            short.touch(mode=0o600)
            server_account(home).give(short)
        elif trap == "link":
            short.symlink_to(elsewhere)
        else:
            short.mkdir(mode=0o700)
            who = server_account(home) if trap == "open" else Account(54321, 54321, switch=True)
            who.give(short)
            short.chmod(0o755 if trap == "open" else 0o700)
        with pytest.raises(EmbeddedError, match=rf"{short}, where the .* socket should be, (is|belongs)"):
            Embedded(home).start()
        assert os.path.lexists(short)
        assert os.listdir(elsewhere) == []
        assert postmasters(place) == []
    finally:
        (shutil.rmtree if trap in ("open", "foreign") else os.unlink)(short)


def test_a_short_folder_that_a_server_wrote_down_is_believed_only_by_its_name(place: Path) -> None:
    """Settings can move the socket; stop() removes its folder, and must not remove what is not ours."""
    home = place / ("x" * 110)
    (home / "data").mkdir(parents=True)
    precious = place / "precious"
    precious.mkdir(mode=0o700)
    (home / "data/postmaster.pid").write_text(f"99999999\n{home}/data\n0\n5432\n{precious}\n")
    assert sockets.socket_folder(home, home / "data") == sockets.short_folder(home)


@pytest.mark.parametrize(
    ("dsn", "wanted"),
    [
        ("embedded:", "/env/pg"),
        ("embedded:/a/b", "/a/b"),
        ("embedded:///a/b", "/a/b"),
        ("embedded:below/../here", "{cwd}/here"),
        ("embedded:~/x", "/home/of/me/x"),
    ],
)
def test_resolve(dsn: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/me")
    monkeypatch.setenv("PGQUEUE_EMBEDDED_HOME", "/env/pg")
    monkeypatch.setattr(Embedded, "start", lambda self, started: str(self.folder))
    assert resolve(dsn) == wanted.format(cwd=Path.cwd().resolve())


@pytest.mark.parametrize("dsn", ["", "postgresql://u@h/d", "host=/tmp", "embedded", "service=embedded:"])
def test_resolve_leaves_other_dsns_alone(dsn: str) -> None:
    assert resolve(dsn) == dsn


@pytest.mark.parametrize(
    "dsn", ["embedded://folder", "embedded:a\0b", "embedded:a\nb", "embedded:~no-such-user/x"]
)
def test_resolve_refuses_what_names_no_folder(dsn: str) -> None:
    with pytest.raises(EmbeddedError, match=r"names no folder|is not the name of a folder"):
        resolve(dsn)


@pytest.mark.parametrize(
    ("platform", "wanted"),
    [
        ("linux", "~/.local/share/pgqueue"),
        ("darwin", "~/Library/Application Support/pgqueue"),
        ("win32", "~/AppData/Local/pgqueue"),
    ],
)
def test_default_folder(platform: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_EMBEDDED_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    assert folder.default_folder() == Path(wanted)
    monkeypatch.setenv("PGQUEUE_EMBEDDED_HOME", "")
    assert folder.default_folder() == Path(wanted)
