# Made of pgqueue/_async/adapt.py by tools/unasync.py: change that file, not this one.
"""Calls in the transaction of a session or connection of SQLAlchemy 2, on its own connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import Connection

from pgqueue._sync._compat import Lock, begun, driver_connection
from pgqueue._sync.lenders import no_dsn
from pgqueue._sync.listen import one_line
from pgqueue._sync.wire import Line
from pgqueue.errors import CannotConnect
from pgqueue.statements.foreign import for_dialect, our_errors
from pgqueue.statements.statement import Reply, Statement

T = TypeVar("T")


class Alchemy:
    """Lends the connection that a session or connection of SQLAlchemy uses, with its transaction begun.

    Nothing is committed or rolled back but by SQLAlchemy. With the dialect psycopg the calls go to psycopg's
    connection directly; with another (psycopg2, asyncpg) through SQLAlchemy, by the queue's name.
    """

    replaces = False
    waits = False

    def __init__(self, server: Any) -> None:
        self._server = server
        self._line: Line | ForeignLine | None = None
        self._lock = Lock()

    def lend(self) -> Line | ForeignLine:
        self._lock.acquire()
        try:
            try:
                conn = begun(self._server)
                driver = driver_connection(conn)
            except Exception as error:  # of SQLAlchemy, of the driver below it, of the socket
                said = one_line(getattr(error, "orig", None) or error)
                raise CannotConnect(f"SQLAlchemy gave no connection: {said}") from error
            if not isinstance(driver, Connection):
                return ForeignLine(conn)
            if self._line is None or self._line.conn is not driver:
                self._line = Line(driver)
            return self._line
        except BaseException:
            self._lock.release()
            raise

    def take_back(self, line: Line | ForeignLine) -> None:
        self._lock.release()

    def dsn(self) -> str:
        raise no_dsn()

    @contextmanager
    def block(self, line: Line | ForeignLine) -> Iterator[None]:
        """A savepoint, made by SQLAlchemy so that it knows of it. What the caller's own calls raise stays theirs."""
        savepoint = self._server.begin_nested()
        with our_errors():
            savepoint.__enter__()
            begun(self._server)  # a session makes the savepoint when it is asked for its connection
        try:
            yield
        except BaseException:
            if not savepoint.__exit__(*sys.exc_info()):
                raise
            return
        with our_errors():
            savepoint.__exit__(None, None, None)

    def close(self) -> None:
        self._line = None


class ForeignLine:
    """A connection of SQLAlchemy with another driver than psycopg 3."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    @property
    def commits(self) -> bool:
        return False

    def run_all(self, statements: Sequence[Statement[T]]) -> list[T]:
        """The results of several statements."""
        return [self.run(one) for one in statements]

    def run(self, statement: Statement[T]) -> T:
        """The result of a statement. Raises a PgqueueError."""
        sql, params = for_dialect(statement, self.conn.dialect.paramstyle)
        with our_errors():
            result = self.conn.exec_driver_sql(sql, params)
            reply = Reply(list(result.keys()), result.fetchall())
        return statement.parse(reply)
