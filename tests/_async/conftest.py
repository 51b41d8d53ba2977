"""Fixtures of the async tests; their twins are in tests/_sync/conftest.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import sqlalchemy.ext.asyncio as alchemy

from pgqueue import AsyncClient
from tests.databases import Database


@pytest.fixture
async def client(db: Database) -> AsyncIterator[AsyncClient]:
    """A client of this test's own database."""
    async with AsyncClient(db.dsn) as client:
        yield client


@pytest.fixture
async def owned(db: Database) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A caller's own connection, not in autocommit."""
    async with await psycopg.AsyncConnection.connect(db.dsn) as conn:
        yield conn
        await conn.rollback()


# --- SQLAlchemy -----------------------------------------------------------------------------------

DRIVERS = ("psycopg", "asyncpg")
AlchemyEngine = alchemy.AsyncEngine
AlchemySession = alchemy.AsyncSession


def engine_of(driver: str, dsn: str) -> AlchemyEngine:
    """An engine of one connection."""
    url = dsn.replace("postgresql://", f"postgresql+{driver}://")
    return alchemy.create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=5)
