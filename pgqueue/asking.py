"""Short questions to a server: one value, or one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import scalar_row


def scalar(conn: psycopg.Connection[Any], query: str, params: Sequence[object] = ()) -> object:
    """The first column of the first row; None where there is no row. With params a literal % is doubled."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(query.encode(), params or None).fetchone()


def texts(conn: psycopg.Connection[Any], query: str, params: Sequence[object] = ()) -> tuple[str, ...]:
    """The first column of all rows, as text. With params a literal % is doubled."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        return tuple(map(str, cursor.execute(query.encode(), params or None).fetchall()))
