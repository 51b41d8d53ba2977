"""Fixtures of the sync tests; their twins are in tests/_async/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.orm

from pgqueue import Client
from tests.databases import Database


@pytest.fixture
def client(db: Database) -> Iterator[Client]:
    """A client of this test's own database."""
    with Client(db.dsn) as client:
        yield client


@pytest.fixture
def owned(db: Database) -> Iterator[psycopg.Connection[Any]]:
    """A caller's own connection, not in autocommit."""
    with psycopg.Connection.connect(db.dsn) as conn:
        yield conn
        conn.rollback()


# --- SQLAlchemy -----------------------------------------------------------------------------------

DRIVERS = ("psycopg", "psycopg2")
AlchemyEngine = sqlalchemy.Engine
AlchemySession = sqlalchemy.orm.Session


def engine_of(driver: str, dsn: str) -> AlchemyEngine:
    """An engine of one connection."""
    url = dsn.replace("postgresql://", f"postgresql+{driver}://")
    return sqlalchemy.create_engine(url, pool_size=1, max_overflow=0, pool_timeout=5)
