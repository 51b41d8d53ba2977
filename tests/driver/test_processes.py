"""What concerns the process: forks, imports, where the server's address comes from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqueue import Client
from pgqueue.embedded import Embedded
from pgqueue.errors import NoServer
from tests.databases import Database
from tests.servers import Server


def test_a_client_that_is_carried_into_a_fork_opens_its_own_connection(db: Database) -> None:
    with Client(db.dsn) as client:
        client.create("orders")
        orders = client.queue("orders")
        orders.send("parent")
        child = os.fork()
        if child == 0:
            try:
                for n in range(20):
                    orders.send(n)
                client.close()
            except BaseException:
                os._exit(1)
            os._exit(0)
        for n in range(20):
            orders.send(n)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert orders.send("parent") == 42, "and the parent's connection is alive"


@pytest.mark.parametrize("library", ["sqlalchemy", "opentelemetry", "psycopg_pool", "pydantic", "msgspec"])
def test_nothing_is_loaded_that_the_application_does_not_use(library: str) -> None:
    code = f"import sys, pgqueue; pgqueue.Client; pgqueue.AsyncClient; print({library!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no server."""
    for name in [*os.environ]:
        if name.startswith("PG") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    return monkeypatch


def variables(db: Database) -> dict[str, str]:
    known = conninfo_to_dict(db.dsn)
    return {"PGHOST": str(known["host"]), "PGUSER": str(known["user"]), "PGDATABASE": str(known["dbname"])}


@pytest.mark.parametrize("how", ["PGQUEUE_DSN", "DATABASE_URL", "libpq", "empty"])
def test_the_environment_names_the_server(db: Database, bare: pytest.MonkeyPatch, how: str) -> None:
    """Case 95: every part of the address is honoured."""
    given = variables(db) if how in ("libpq", "empty") else {how: db.dsn}
    for name, value in given.items():
        bare.setenv(name, value)
    with Client("") if how == "empty" else Client() as client, client.transaction() as conn:
        assert conn.info.dbname == db.name


def test_no_server_at_all_is_told(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoServer, match="embedded:"):
        Client()


def test_a_password_of_odd_characters_and_options_of_a_session(new_server: Callable[..., Server]) -> None:
    """Case 95: a percent-encoded password, a folder of sockets, options."""
    server = new_server(password_encryption="scram-sha-256")
    (server.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    with Client(f"postgresql://postgres@/postgres?host={server.root}") as admin, admin.transaction() as conn:
        conn.execute("create role odd login password 'p@ss/w:rd%20 é'")
        conn.execute("select pg_reload_conf()")
    dsn = f"postgresql://odd:p%40ss%2Fw%3Ard%2520%20%C3%A9@/postgres?host={server.root}&options=-c%20work_mem%3D5MB"
    with Client(dsn) as client, client.transaction() as conn:
        assert conn.execute("select current_user, current_setting('work_mem')").fetchone() == ("odd", "5MB")


def test_an_embedded_server(tmp_path: Path) -> None:
    folder = tmp_path / "pg"
    try:
        with Client(f"embedded:{folder}") as client, client.transaction() as conn:
            assert conn.execute("select 1").fetchone() == (1,)
    finally:
        Embedded(folder).destroy()
