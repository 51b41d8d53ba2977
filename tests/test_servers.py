"""The tests' own servers: they start, recover, and go, whatever happens to the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.databases import OWNER, Cluster, Database, uri
from tests.servers import Server

ROOT = Path(__file__).resolve().parent.parent


def test_the_owner_is_no_superuser(reference_db: Database) -> None:
    query = (
        "select rolname, rolsuper or rolcreaterole or rolcreatedb from pg_roles where rolname = current_user"
    )
    assert reference_db.connect().execute(query).fetchone() == (OWNER, False)


def test_each_test_has_its_own_clone(server: Cluster, reference_db: Database) -> None:
    reference_db.connect().execute("select pgmq.create('mine')")
    other = server.create_database(server.template("select 1"))
    try:
        assert other.connect().execute("select to_regclass('pgmq.q_mine')").fetchone() == (None,)
    finally:
        other.drop()


def test_limits_are_the_default_ones(empty_db: Database) -> None:
    with empty_db.connect() as conn:
        rows = conn.execute(
            "select name from pg_settings where name in ('max_locks_per_transaction', 'max_connections')"
            " and setting <> boot_val"
        ).fetchall()
    assert rows == []


def test_crash_and_shutdown_keep_logged_tables(new_server: Callable[..., Server]) -> None:
    server = new_server()
    with psycopg.connect(uri(server.conninfo), autocommit=True) as conn:
        conn.execute("create table kept (a int); insert into kept values (1)")
        conn.execute("create unlogged table lost (a int); insert into lost values (1); checkpoint")
    for end in (server.shut_down, server.crash):
        end()
        server.start()
    with psycopg.connect(uri(server.conninfo), autocommit=True) as conn:
        row = conn.execute("select (select count(*) from kept), (select count(*) from lost)").fetchone()
    assert row == (1, 0)


def test_a_server_goes_when_its_owner_is_killed() -> None:
    program = "from tests.servers import Server; import sys\n"
    program += "s = Server(sys.argv[1]); s.start(); print(s.root, s.data, flush=True); sys.stdin.read()"
    choice = os.environ.get("PGQUEUE_TEST_PG", "embedded")
    command = [sys.executable, "-c", program, choice]
    owner = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    root, data = map(Path, owner.stdout.readline().split())
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    deadline = time.monotonic() + 20
    while (root.exists() or data.parent.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not root.exists()
    assert not data.parent.exists()
    assert not Path(f"/proc/{postmaster}").exists()
