"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pgqueue import Client, Queue, Worker
from tests.databases import Database
from tests.worker.running import Running


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
