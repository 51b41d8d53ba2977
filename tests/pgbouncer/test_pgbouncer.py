"""Behind pgbouncer in transaction mode: each statement of a client may meet another session of the server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.databases import Database

CLIENTS = 20
SESSIONS = 4
ROUNDS = 15
PORT = "6432"  # names the socket; nothing listens on the network

READ = "select msg_id, message ->> 'note', pg_backend_pid() from pgmq.read('shop', 60, 1)"

CONFIGURATION = """
[databases]
{name} = host={host} dbname={name} user={user}
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
logfile = {folder}/log
"""


def identity() -> dict[str, Any]:
    """As whom pgbouncer runs, which refuses root: as the test server does, whose socket folder is private."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def wait_for(dsn: str, bouncer: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            if bouncer.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(log.read_text() if log.exists() else "pgbouncer did not start") from None
            time.sleep(0.02)


@pytest.fixture
def bouncer(db: Database) -> Iterator[str]:
    """A pgbouncer before this test's database, with few sessions for many clients; its DSN."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer here: apt-get install pgbouncer")
    given = conninfo_to_dict(db.dsn)
    with tempfile.TemporaryDirectory(prefix="pgb-", dir="/tmp") as name:  # a socket's path must be short
        folder = Path(name)
        owner = identity()
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        settings = CONFIGURATION.format(
            name=db.name, host=given["host"], user=given["user"], port=PORT, folder=folder, sessions=SESSIONS
        )
        (folder / "pgbouncer.ini").write_text(settings)
        command = [program, "--quiet", str(folder / "pgbouncer.ini")]
        process = subprocess.Popen(command, cwd="/", **owner)
        try:
            dsn = make_conninfo(host=name, port=PORT, dbname=db.name, user=given["user"])
            wait_for(dsn, process, folder / "log")
            yield dsn
        finally:
            process.terminate()
            process.wait(20)


def test_many_clients_share_few_sessions(bouncer: str, db: Database) -> None:
    """Every message of 20 clients on 4 sessions is read once, and deleted."""
    owner = db.connect()
    owner.execute("select pgmq.create('shop')")
    together = threading.Barrier(CLIENTS)

    def client(number: int) -> tuple[list[int], list[str], set[int]]:
        taken, notes, backends = [], [], set()
        with psycopg.connect(bouncer, autocommit=True, prepare_threshold=None) as conn:
            together.wait(30)
            for turn in range(ROUNDS):
                note = f"{number}-{turn}"
                conn.execute("select pgmq.send('shop', jsonb_build_object('note', %s::text))", [note])
                while (row := conn.execute(READ).fetchone()) is None:
                    pass  # as many are sent as are read, so there is one to come
                taken.append(row[0])
                notes.append(row[1])
                backends.add(row[2])
                assert conn.execute("select pgmq.delete('shop', %s::bigint)", row[:1]).fetchone() == (True,)
        return taken, notes, backends

    with ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(client, range(CLIENTS)))

    reads = Counter(msg_id for taken, _, _ in results for msg_id in taken)
    assert reads == Counter(range(1, CLIENTS * ROUNDS + 1))
    wanted = {f"{number}-{turn}" for number in range(CLIENTS) for turn in range(ROUNDS)}
    assert {note for _, notes, _ in results for note in notes} == wanted
    assert 1 < len(set().union(*(backends for _, _, backends in results))) <= SESSIONS
    metrics = owner.execute("select queue_length, total_messages from pgmq.metrics('shop')").fetchone()
    assert metrics == (0, CLIENTS * ROUNDS)
