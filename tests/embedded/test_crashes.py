"""Crashes, and what half-made folders and slow servers come to."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgqueue.embedded import Embedded, folder, postmaster, server
from pgqueue.embedded.account import server_account
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import MARKER, ROOT, Run, ask, postmasters, until


def test_kill_9_keeps_the_rows(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept (id integer)")
    for turn in (1, 2):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("insert into kept select generate_series(1, 500)")
            pid = embedded.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        assert embedded.start() == dsn
        assert time.monotonic() - began < 20
        assert ask(dsn, "select count(*) from kept") == 500 * turn
        assert len(postmasters(home)) == 1


def test_a_zombie_is_no_server(embedded: Embedded, home: Path) -> None:
    """A postmaster that nobody reaps, as in a container whose first process never waits."""
    dsn = embedded.start()
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    zombie = subprocess.Popen(["true"])
    until(lambda: Path(f"/proc/{zombie.pid}/stat").read_text().split()[2] == "Z")
    written = (home / "data/postmaster.pid").read_text().split("\n", 1)[1]
    (home / "data/postmaster.pid").write_text(f"{zombie.pid}\n{written}")
    (home / f"{postmaster.SOCKET}.lock").write_text(f"{zombie.pid}\n{written}")
    assert not postmaster.lives(zombie.pid)
    assert not embedded.status().running
    assert embedded.start() == dsn
    assert ask(dsn, "select 1") == 1
    zombie.wait()


def test_a_stranger_with_the_old_pid_is_no_server_and_is_left_alone(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    who = server_account(home)
    kin: dict[str, Any] = {"user": who.uid, "group": who.gid, "extra_groups": []} if ROOT else {}
    with subprocess.Popen(["sleep", "60"], **kin) as stranger:
        written = (home / "data/postmaster.pid").read_text().split("\n", 1)[1]
        for path in (home / "data/postmaster.pid", home / f"{postmaster.SOCKET}.lock"):
            path.write_text(f"{stranger.pid}\n{written}")
        assert not embedded.status().running
        embedded.stop()
        assert stranger.poll() is None
        assert embedded.start() == dsn
        assert ask(dsn, "select 1") == 1
        assert stranger.poll() is None
        stranger.kill()


def test_children_of_a_killed_server_are_waited_for(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    with psycopg.connect(dsn) as conn:
        child = conn.info.backend_pid
        os.kill(child, signal.SIGSTOP)  # cannot notice that its parent is gone
        os.kill(embedded.status().pid or 0, signal.SIGKILL)
        with pytest.raises(EmbeddedError, match=r"gave no answer in 0.5 s: .*shared memory block"):
            embedded.start(timeout=0.5)
        threading.Timer(0.5, os.kill, (child, signal.SIGCONT)).start()
        assert embedded.start() == dsn
        assert not postmaster.lives(child)


def test_a_killed_initdb_is_healed(home: Path, run: Run) -> None:
    """Both what it leaves at once, and what is left when its caller is killed in the middle."""
    half = "import threading; threading.Thread(target=Embedded(place).start, daemon=True).start()\n"
    half += "while not list(Path(place).glob('initdb-*/*')): pass\n"
    half += "os.kill(os.getpid(), signal.SIGKILL)"
    assert run(half, home).returncode == -signal.SIGKILL
    left = list(home.glob("initdb-*"))
    assert left
    assert not (home / "data").exists()
    (home / "initdb-older").mkdir()
    assert ask(Embedded(home).start(), "select 1") == 1
    assert not (home / "initdb-older").exists()
    until(lambda: not postmasters(left[0]))
    Embedded(home).destroy()
    assert not home.exists()


def test_a_failed_initdb_says_why_and_leaves_nothing_half_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "INITDB", (*server.INITDB, "--wal-segsize=3"))
    with pytest.raises(EmbeddedError, match=r"initdb failed in .*: initdb: error: .*wal-segsize") as refused:
        Embedded(home).start()
    assert "\n" not in str(refused.value)
    assert os.listdir(home) == [MARKER]
    monkeypatch.undo()
    Embedded(home).start()


def test_a_locale_that_is_missing_falls_back_to_c(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOCALES", ("xx_YY.UTF-8", "C"))
    dsn = Embedded(home).start()
    assert ask(dsn, "select datcollate from pg_database where datname = 'postgres'") == "C"
    assert ask(dsn, "show server_encoding") == "UTF8"


def test_a_server_that_does_not_start_tells_the_end_of_its_log(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    with open(home / "data/postgresql.conf", "a") as settings:
        settings.write("shared_buffers = 'plenty'\n")
    with pytest.raises(EmbeddedError, match=r"did not start: .*shared_buffers") as refused:
        embedded.start()
    assert "\n" not in str(refused.value)


def test_a_server_that_never_answers_ends_in_an_error_at_the_deadline(embedded: Embedded, home: Path) -> None:
    embedded.start()
    pid = embedded.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(EmbeddedError, match=r"gave no answer in 0.3 s: .*ready to accept connections"):
            embedded.start(timeout=0.3)
        assert time.monotonic() - began < 20
        assert embedded.status().running
        with pytest.raises(EmbeddedError, match=rf"pid {pid}.* did not stop within 0.3 s"):
            embedded.stop(timeout=0.3)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not postmaster.lives(pid))  # the signal to stop was waiting
    assert not embedded.status().running


def test_a_log_that_has_grown_is_put_aside(
    embedded: Embedded, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "BIG_LOG", 100)
    for _ in range(2):
        embedded.start()
        embedded.stop()
    assert (home / "log.old").stat().st_size > 100
    embedded.destroy()
    assert not home.exists()
