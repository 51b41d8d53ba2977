"""The way from --dsn to a server."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pgqueue.cli.output import note
from pgqueue.dsn import cannot_connect, find, parameters
from pgqueue.errors import BadDsn

if TYPE_CHECKING:
    import psycopg

    from pgqueue._sync.client import Client
    from pgqueue.embedded import Embedded

PATIENCE = 10
"""Seconds that connecting may take, unless the DSN or PGCONNECT_TIMEOUT says otherwise."""


def address(dsn: str | None) -> str:
    """The DSN of the server to talk to, checked; `embedded:` starts one. Raises NoServer, BadDsn."""
    from psycopg.conninfo import make_conninfo

    found, source = find(dsn, os.environ)
    if found.startswith("embedded:"):
        from pgqueue.embedded import resolve

        return resolve(found, started=tell_of_start)
    known = _parameters(found, source)
    if "service" not in known and not os.environ.keys() & {"PGSERVICE", "PGCONNECT_TIMEOUT"}:
        known = {"connect_timeout": PATIENCE, **known}
    return make_conninfo(**known)


def _parameters(dsn: str, source: str) -> dict[str, Any]:
    """The parts of a DSN. Raises BadDsn with libpq's own reason, as far as that can be no piece of a password."""
    try:
        known = parameters(dsn, source)
    except BadDsn as error:
        raise _with_slip(error, dsn, source) from None
    for port in str(known.get("port", "")).split(","):
        if not re.fullmatch(r"\s*\d*\s*", port):
            # postgresql://app:secret, which lacks a host, has its password here.
            quoted = "@" in dsn or "://" not in dsn
            value = f'integer value "{port}"' if quoted else "integer value"
            raise BadDsn(f'{source}: invalid {value} for connection option "port"')
    return known


def _with_slip(error: BadDsn, dsn: str, source: str) -> BadDsn:
    """The error, or one that names an option which is nearly one of libpq's."""
    from psycopg import ProgrammingError, pq
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(dsn)
    except ProgrammingError as said:
        slip = re.match(r'invalid (?:connection option|URI query parameter:) "(\w+)"', str(said))
        options = [one.keyword.decode() for one in pq.Conninfo.get_defaults()]
        if slip and (meant := get_close_matches(slip[1], options, n=1, cutoff=0.75)):
            return BadDsn(f'{source}: invalid connection option "{slip[1]}"; did you mean {meant[0]}?')
    return error


def tell_of_start(server: Embedded) -> None:
    """Say on stderr that a server was started, since it runs on when we have ended."""
    from pgqueue.embedded import Embedded

    folder = "" if server.folder == Embedded().folder else f" --folder {shlex.quote(str(server.folder))}"
    note(f"started a server in {server.folder}; `pgqueue embedded stop{folder}` stops it")


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
