"""Databases that an old pgmq is built in: on a server that offers pgmq as an extension, in every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adopt.matrix import has_partman
from tests.adopt.offering import offering
from tests.conftest import CHOICE, FOREIGN_DSN
from tests.databases import Cluster, Database
from tests.servers import ServerError


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


@pytest.fixture(scope="session")
def partman() -> Iterator[Cluster]:
    """Such a server of Debian's, whose pg_partman 4.7 can be created."""
    try:
        with offering("debian15") as server:
            cluster = Cluster(server.conninfo)
            if not has_partman(cluster):
                pytest.skip("pg_partman is not there: apt-get install postgresql-15-partman")
            yield cluster
            cluster.close()
    except ServerError as error:
        pytest.skip(f"pg_partman is tested on Debian's Postgres: {error}")
