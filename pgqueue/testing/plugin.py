"""The fixtures: `queue`, `make_queue`, `pgqueue_client`, `pgqueue_dsn`.

Every pytest run loads this file where pgqueue is installed, so it imports next to nothing by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pgqueue._sync.client import Client
    from pgqueue.testing.queue import CleanQueue

FOLDER = pytest.StashKey[str]()
XDIST = "pgqueue_folder"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pgqueue")
    group.addoption(
        "--pgqueue-dsn",
        default=None,
        help="Server for queues in tests, where databases are made and dropped. Default: PGQUEUE_TEST_SERVER,"
        " else a private Postgres.",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the folder of the server that all of them share."""
    node.workerinput[XDIST] = _folder(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the server, once nobody needs it."""
    folder = config.stash.get(FOLDER, None)
    if folder is not None and not hasattr(config, "workerinput"):
        from pgqueue.testing.server import destroy

        destroy(folder)


@pytest.fixture(scope="session")
def pgqueue_dsn(pytestconfig: pytest.Config) -> Iterator[str]:
    """The DSN of a database for this test run, with pgqueue installed in it."""
    from pgqueue.testing.server import database, destroy_orphans

    server = pytestconfig.getoption("--pgqueue-dsn") or os.environ.get("PGQUEUE_TEST_SERVER")
    if server is None:
        destroy_orphans()
        server = f"embedded:{_folder(pytestconfig)}"
    with database(server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def pgqueue_client(pgqueue_dsn: str) -> Iterator[Client]:
    """A client of the tests' database."""
    from pgqueue._sync.client import Client

    with Client(pgqueue_dsn) as client:
        yield client


@pytest.fixture
def make_queue(pgqueue_client: Client, pgqueue_dsn: str) -> Callable[[str], CleanQueue]:
    """A function that gives an empty queue of a name, for code that knows its queues by their names."""
    from pgqueue.testing.queue import CleanQueue

    def make(name: str) -> CleanQueue:
        pgqueue_client.create(name)
        queue = CleanQueue(pgqueue_client, name, pgqueue_dsn)
        queue.clear()
        return queue

    return make


@pytest.fixture
def queue(make_queue: Callable[[str], CleanQueue]) -> CleanQueue:
    """An empty queue, whose travel(seconds) lets time pass."""
    return make_queue("test_queue")


def _folder(config: pytest.Config) -> str:
    """Where the private server of this run lives: one for all workers of pytest-xdist."""
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if FOLDER not in config.stash:
        from pgqueue.testing.server import new_folder

        config.stash[FOLDER] = given.get(XDIST) or new_folder()
    return config.stash[FOLDER]
