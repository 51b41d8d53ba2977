"""Short questions to a server: one value, one column, what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import psycopg
from psycopg.rows import scalar_row, tuple_row


def scalar(conn: psycopg.Connection[Any], query: str, params: Sequence[object] = ()) -> object:
    """The first column of the first row; None where there is no row. With params a literal % is doubled."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(query.encode(), params or None).fetchone()


Params = Sequence[object] | Mapping[str, object]


def texts(conn: psycopg.Connection[Any], query: str, params: Params = ()) -> tuple[str, ...]:
    """The first column of all rows, as text, nulls left out: what was dropped since the query began has a null for a
    name. With params a literal % is doubled."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        found = cursor.execute(query.encode(), params or None).fetchall()
    return tuple(str(one) for one in found if one is not None)


Kind = Literal["absent", "pgqueue", "extension", "sql"]
"""What is in a database: nothing of these, pgqueue, pgmq's extension, or pgmq without its extension."""

#: By the catalogue, which every role may read. One query, since whoever installs or adopts meanwhile does all at once.
INSTALLED = """
select
    case
        when exists (select from pg_catalog.pg_extension e where e.extname = 'pgmq') then 'extension'
        when exists (
            select from pg_catalog.pg_class c
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'pgqueue' and c.relname = 'migration'
        ) then 'pgqueue'
        when exists (
            select from pg_catalog.pg_class c
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'pgmq' and c.relname = 'meta'
            union all
            select from pg_catalog.pg_proc p
            join pg_catalog.pg_namespace n on n.oid = p.pronamespace
            where n.nspname = 'pgmq'
        ) then 'sql'
        else 'absent'
    end as kind,
    (select e.extversion from pg_catalog.pg_extension e where e.extname = 'pgmq') as extension"""


def installed(conn: psycopg.Connection[Any]) -> tuple[Kind, str | None]:
    """What is in a database, and the version of the extension if that is it."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        row: tuple[Kind, str | None] | None = cursor.execute(INSTALLED.encode()).fetchone()
    assert row is not None
    return row
