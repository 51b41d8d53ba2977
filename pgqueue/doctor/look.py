"""How the doctor asks: read only, in short transactions that are rolled back, with little patience."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from pgqueue.doctor.findings import Limits

#: row_security: where a policy would hide rows or run its author's code in this session, an error instead.
#: No index is worth a parallel worker here, and pgmq's locking read cannot have one.
_MANNERS = """
set transaction isolation level read committed, read only;
set local lock_timeout = {lock_ms};
set local statement_timeout = {statement_ms};
set local search_path = pg_catalog;
set local row_security = off;
set local max_parallel_workers_per_gather = 0;
set local jit = off;
set local datestyle = 'ISO';
set local intervalstyle = 'postgres';
set local quote_all_identifiers = off;
"""


class Look:
    """A connection of which only reading is asked. It must not be inside a transaction."""

    def __init__(self, conn: psycopg.Connection[Any], limits: Limits) -> None:
        self._conn = conn
        self._manners = _MANNERS.format(lock_ms=limits.lock_ms, statement_ms=limits.statement_ms).encode()

    def said(self, problem: psycopg.DatabaseError) -> str:
        """What the server said, on one line.

        Re-raises an error that did not come from the server, or a lost connection.
        """
        if self._conn.closed or problem.sqlstate is None:
            raise problem
        return " ".join((problem.diag.message_primary or str(problem)).split())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction for what is asked inside; nothing of it stays."""
        with self._conn.transaction(force_rollback=True):
            self._conn.execute(self._manners)
            yield

    def rows(self, sql: str, *params: object) -> list[Any]:
        """Rows as named tuples. With params a literal % is doubled, as psycopg has it."""
        with self._conn.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(sql.encode(), params or None).fetchall()

    def value(self, sql: str, *params: object) -> Any:
        """The first column of the first row."""
        return self.rows(sql, *params)[0][0]

    def set(self, name: str, value: str) -> None:
        """A setting for the rest of the transaction."""
        self.rows("select set_config(%s, %s, true)", name, value)
