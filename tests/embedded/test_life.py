"""The life of a server: made, started, stopped, destroyed, closed to others."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from pgqueue.embedded import Embedded, Status, binaries, postmaster
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import AS_USER, Run, ask, postmasters, until


def test_start_use_stop_start_again_destroy(home: Path) -> None:
    embedded = Embedded(home)
    absent = embedded.status()
    assert absent == Status(home, running=False, pid=None, version=None, dsn=embedded.dsn, size=0)
    embedded.stop()
    assert not home.exists()

    dsn = embedded.start()
    assert dsn == embedded.dsn == f"postgresql:///postgres?host={home}&port=5432&user=postgres"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept as select generate_series(1, 2000) as id")
    assert embedded.start() == dsn, "a second start attaches"
    up = embedded.status()
    assert up.running
    assert up.pid is not None
    assert postmasters(home) == [up.pid]
    assert up.version == binaries.find().version
    assert up.size > 20_000_000

    embedded.stop()
    down = embedded.status()
    assert (down.running, down.pid, down.version) == (False, None, binaries.find().major)
    assert postmasters(home) == []
    embedded.stop()

    embedded.start()
    assert ask(dsn, "select count(*) from kept") == 2000
    embedded.destroy()
    assert not home.exists()
    assert postmasters(home) == []
    with pytest.raises(EmbeddedError, match="holds no embedded Postgres"):
        embedded.destroy()


def test_the_server_is_closed_durable_and_plain(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    settings = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "unix_socket_directories": f'"{home}"',
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "server_encoding": "UTF8",
        "cluster_name": "pgqueue",
    }
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(
            "select name, setting from pg_settings where name = any(%s)", [list(settings)]
        ).fetchall()
        assert dict(rows) == settings
        assert conn.execute(
            "select datcollate, datctype from pg_database where datname = 'postgres'"
        ).fetchone() == ("C.UTF-8", "C.UTF-8")
        assert conn.execute(
            "select distinct auth_method from pg_hba_file_rules where type <> 'local'"
        ).fetchall() == [("reject",)]
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / postmaster.SOCKET).stat().st_mode & 0o777 == 0o700
    pid = embedded.status().pid
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {
        "/dev/null",
        str(home / "log"),
    }
    assert os.getsid(pid or 0) not in (0, os.getsid(0))


def test_a_folder_that_was_opened_to_others_is_closed_again(embedded: Embedded, home: Path) -> None:
    embedded.start()
    home.chmod(0o777)
    embedded.start()
    assert home.stat().st_mode & 0o777 == 0o700


def test_variables_of_libpq_and_secrets_do_not_reach_the_server(
    embedded: Embedded, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "7777")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c fsync=off")
    monkeypatch.setenv("API_TOKEN", "secret")
    dsn = embedded.start()
    monkeypatch.delenv("PGOPTIONS")
    assert ask(dsn, "select current_setting('port') || current_setting('fsync')") == "5432on"
    assert b"secret" not in Path(f"/proc/{embedded.status().pid}/environ").read_bytes()


def test_ctrl_c_in_the_callers_terminal_does_not_reach_the_server(
    embedded: Embedded, home: Path, run: Run
) -> None:
    """The caller leads a session with a terminal: Ctrl-C goes to its process group, then it hangs up."""
    code = """
import termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
Embedded(place).start()
os.write(1, b"started")
signal.pause()
"""
    control, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", AS_USER + code, str(binaries.find().folder), str(os.geteuid()), str(home)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while b"started" not in seen:
        seen += os.read(control, 1000)
    os.write(control, b"\x03")
    until(lambda: b"^C" in os.read(control, 1000))
    os.close(control)  # the terminal hangs up
    child.wait(20)
    assert child.returncode == -signal.SIGHUP
    assert embedded.status().running
    assert ask(embedded.dsn, "select 1") == 1
