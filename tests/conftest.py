"""The fixtures that every test may use.

Environment:
    PGQUEUE_TEST_PG      embedded (default), 14 … 18, debian15: which throwaway server, see tests/servers.py
    PGQUEUE_TEST_DSN     a DSN of a server's superuser: the tests run there instead, in databases of their own
    PGQUEUE_TEST_SUBJECT ours (default), reference: which SQL `db` holds

With pytest-xdist each worker has a server of its own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.compat.reference import reference_sql
from tests.databases import Cluster, Database, our_sql
from tests.servers import Server

CHOICE = os.environ.get("PGQUEUE_TEST_PG", "embedded")
FOREIGN_DSN = os.environ.get("PGQUEUE_TEST_DSN", "")
SUBJECT = os.environ.get("PGQUEUE_TEST_SUBJECT", "ours")


def pytest_configure() -> None:
    # In the background of a script, and under nohup, these are ignored, and by every program that tests start.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def pytest_report_header() -> str:
    where = "PGQUEUE_TEST_DSN" if FOREIGN_DSN else CHOICE
    return f"postgres: {where}; subject: {SUBJECT}"


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    """The server of this test run (one a worker). Few tests need it; most take `db` or `conn`.

    `.version` is its major, `.create_database()` makes an empty database, `.create_role()` a role.
    """
    process = None if FOREIGN_DSN else Server(CHOICE)
    try:
        if process is not None:
            process.start()
        given = {name: str(value) for name, value in conninfo_to_dict(FOREIGN_DSN).items()}
        cluster = Cluster(process.conninfo if process is not None else given)
        yield cluster
        cluster.close()
    finally:
        if process is not None:
            process.stop()


@pytest.fixture
def new_server() -> Iterator[Callable[..., Server]]:
    """A function that starts a further server for this test alone, e.g. new_server(wal_level="logical").

    It can be crashed and started again, see Server; Cluster(server.conninfo) makes databases in it.
    """
    started: list[Server] = []

    def start(choice: str = CHOICE, **settings: str) -> Server:
        started.append(Server(choice, settings))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture(scope="session")
def template(server: Cluster) -> str:
    """Name of the database with our schema, installed once by an ordinary owner; `db` is a clone of it."""
    return server.template(our_sql() if SUBJECT == "ours" else reference_sql())


@pytest.fixture
def db(server: Cluster, template: str) -> Iterator[Database]:
    """This test's own database, with our schema: `.dsn`, `.connect()`, `.create_role()`."""
    database = server.create_database(template)
    yield database
    database.drop()


@pytest.fixture
def conn(db: Database) -> psycopg.Connection[Any]:
    """An autocommit connection to `db` as its owner."""
    return db.connect()


@pytest.fixture
def empty_db(server: Cluster) -> Iterator[Database]:
    """A database of this test's own without any schema of ours."""
    database = server.create_database()
    yield database
    database.drop()


@pytest.fixture
def reference_db(server: Cluster) -> Iterator[Database]:
    """A database of this test's own with pgmq's own SQL, installed the same way."""
    database = server.create_database(server.template(reference_sql()))
    yield database
    database.drop()
