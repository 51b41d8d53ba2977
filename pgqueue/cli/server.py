"""The way from --dsn to a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgqueue.dsn import cannot_connect, find, parameters

if TYPE_CHECKING:
    import psycopg

    from pgqueue._sync.client import Client

PATIENCE = 10
"""Seconds that connecting may take, unless the DSN or PGCONNECT_TIMEOUT says otherwise."""


def address(dsn: str | None) -> str:
    """The DSN of the server to talk to, checked; `embedded:` starts one. Raises NoServer, BadDsn."""
    from psycopg.conninfo import make_conninfo

    found, source = find(dsn, os.environ)
    if found.startswith("embedded:"):
        from pgqueue.embedded import resolve

        return resolve(found)
    known = parameters(found, source)
    if "service" not in known and not os.environ.keys() & {"PGSERVICE", "PGCONNECT_TIMEOUT"}:
        known = {"connect_timeout": PATIENCE, **known}
    return make_conninfo(**known)


@contextmanager
def client(dsn: str | None) -> Iterator[Client]:
    """A connected client that leaves JSON as the text it is."""
    from pgqueue._sync.client import Client
    from pgqueue.codec import AS_TEXT

    with Client.connect(address(dsn), codec=AS_TEXT, transaction_pooling=True) as connected:
        yield connected


@contextmanager
def connection(dsn: str | None) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection with a transaction: committed at the end, rolled back on an error."""
    import psycopg

    where = address(dsn)
    try:
        conn = psycopg.connect(where, fallback_application_name="pgqueue", client_encoding="utf8")
    except (psycopg.Error, OSError) as error:
        raise cannot_connect(error, where, os.environ) from None
    conn.prepare_threshold = None  # a pooler in transaction mode may stand between
    with conn:
        yield conn
