"""Short questions to a server: one value, or one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import scalar_row


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
