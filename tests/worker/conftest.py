"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import psycopg
import pytest

from pgqueue import Client, Queue, Worker
from tests.databases import Cluster, Database
from tests.worker.running import Running


@pytest.fixture(scope="session")
def shared(server: Cluster, template: str) -> Iterator[Database]:
    """One database for all of these tests: making one takes longer than most of them."""
    database = server.create_database(template)
    yield database
    database.drop()


@pytest.fixture
def db(shared: Database) -> Iterator[Database]:
    """The shared database, without queues or tables."""
    with psycopg.connect(shared.dsn, autocommit=True) as conn:
        conn.execute(CLEAN)
    yield shared
    shared.disconnect()


CLEAN = """
    do $$
    declare
        v_table text;
    begin
        perform pgmq.drop_queue(m.queue_name) from pgmq.meta m;
        for v_table in select tablename from pg_tables where schemaname = 'public' loop
            execute format('drop table public.%I', v_table);
        end loop;
    end
    $$"""


@pytest.fixture
def client(db: Database) -> Iterator[Client]:
    """A client of this test's own database."""
    with Client(db.dsn) as client:
        yield client


@pytest.fixture
def orders(client: Client) -> Queue[object]:
    """An empty queue."""
    client.create("orders")
    return client.queue("orders")


@pytest.fixture
def worker(db: Database) -> Worker:
    """A worker without handlers, that looks often."""
    return Worker(db.dsn, poll=0.1, grace=10)


@pytest.fixture
def running() -> Callable[[Worker], AbstractContextManager[Running]]:
    """Runs a worker in a thread for the length of a with block, then stops it: `with running(worker):`."""
    return Running
