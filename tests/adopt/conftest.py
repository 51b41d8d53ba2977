"""Databases that an old pgmq is built in: on a server that offers pgmq as an extension, in every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adopt.offering import offering
from tests.conftest import CHOICE, FOREIGN_DSN
from tests.databases import Cluster, Database


@pytest.fixture(scope="session")
def old_server() -> Iterator[Cluster]:
    """A server of its own with pgmq's files in its extension folder, whatever the other tests use."""
    if FOREIGN_DSN:
        pytest.skip("PGQUEUE_TEST_DSN: pgmq's files cannot be put into that server's extension folder")
    with offering(CHOICE) as server:
        cluster = Cluster(server.conninfo)
        yield cluster
        cluster.close()


@pytest.fixture
def old_db(old_server: Cluster) -> Iterator[Database]:
    """An empty database of this test's own; layouts.build(old_db.connect(), "1.4.4", "extension") fills it."""
    database = old_server.create_database()
    yield database
    database.drop()
