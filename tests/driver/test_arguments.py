"""What a client can be made of."""

from __future__ import annotations

import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgqueue import AsyncClient, Client
from pgqueue.errors import BadMessage, BadValue
from tests.databases import Database


def test_what_is_of_the_other_world_is_refused(db: Database) -> None:
    """And not taken, to fail at the first call."""
    with pytest.raises(BadValue, match=r"a DSN, or an asyncio connection, .* not psycopg\.Connection"):
        AsyncClient(db.connect())  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"an asyncio connection, .* not psycopg_pool\.pool\.ConnectionPool"):
        AsyncClient(ConnectionPool(db.dsn, open=False))  # type: ignore[arg-type]
    with pytest.raises(
        BadValue, match=r"a sync connection, .* not psycopg_pool\.pool_async\.AsyncConnectionPool"
    ):
        Client(AsyncConnectionPool(db.dsn, open=False))  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"not builtins\.int"):
        Client(5)  # type: ignore[arg-type]


def test_what_postgres_cannot_store_is_told(db: Database) -> None:
    with Client(db.dsn) as client:
        client.create("orders")
        for text, said in (("\x00", r"\\u0000 cannot be converted"), ("\ud800", "surrogate")):
            with pytest.raises(BadMessage, match=said):
                client.queue("orders").send(text)
