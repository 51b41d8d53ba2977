"""A database for a whole module, where a test's queues are dropped behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import Cluster, Database
from tests.sql.asking import Connection, do

#: A test that failed may have left a transaction open, which a drop would wait for.
CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'"""


@pytest.fixture(scope="module")
def house(server: Cluster, template: str) -> Iterator[Database]:
    """The module's database."""
    database = server.create_database(template)
    yield database
    database.drop()


@pytest.fixture
def shared(house: Database) -> Iterator[Connection]:
    """An autocommit connection to the module's database; every queue is dropped afterwards."""
    conn = house.connect()
    yield conn
    conn.rollback()
    do(conn, CUT)
    do(conn, "select pgmq.drop_queue(queue_name) from pgmq.meta")
    conn.close()
