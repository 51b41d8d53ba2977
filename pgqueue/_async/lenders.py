# The source of pgqueue/_sync/lenders.py: after a change here run tools/unasync.py.
"""Who lends a client the connection for a call: the client's own, a pool, or the caller's."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from pgqueue._async._compat import Lock, blocking
from pgqueue._async.wire import IDLE, Line, is_lost
from pgqueue.dsn import cannot_connect, parameters
from pgqueue.errors import BadValue, CannotConnect, ConnectionLost, InDoubt
from pgqueue.sqlstate import from_server
from pgqueue.statements.statement import Statement

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")

PYTHONS = ("autocommit", "prepare_threshold", "row_factory", "cursor_factory", "context")
"""What psycopg's connect() takes and libpq does not."""


class Lent(Protocol):
    """A connection, and how statements are run on it."""

    conn: Any

    @property
    def commits(self) -> bool:
        """A statement that is run now is committed by itself."""
        ...

    async def run(self, statement: Statement[T]) -> T: ...

    async def run_all(self, statements: Sequence[Statement[T]]) -> list[T]: ...


class Lender(Protocol):
    """Lends a connection for one call or one transaction.

    replaces: a lost connection can be had anew, and each call commits by itself
    waits: no transaction of somebody else stays open while nothing is done
    """

    replaces: bool

    @property
    def waits(self) -> bool: ...

    async def lend(self) -> Lent:
        """A connection that works, for the borrower alone. Raises CannotConnect, ConnectionLost."""
        ...

    async def take_back(self, line: Any) -> None: ...

    def dsn(self) -> str:
        """With what another connection can be opened. Raises BadValue where nobody knows."""
        ...

    def block(self, line: Any) -> AbstractAsyncContextManager[None]:
        """A transaction, or a savepoint in one that is open. Raises InDoubt, ConnectionLost."""
        ...

    async def close(self) -> None: ...


class Own:
    """One connection by a DSN, opened at the first call, and again when it was lost."""

    replaces = True
    waits = True

    def __init__(self, dsn: str, prepare: bool) -> None:
        self._dsn = dsn
        self._prepare = prepare
        self._line: Line | None = None
        self._lock = Lock()
        self._process = os.getpid()

    async def lend(self) -> Line:
        if self._process != os.getpid():  # after a fork the connection is the parent's
            self._line, self._lock, self._process = None, Lock(), os.getpid()
        await self._lock.acquire()
        try:
            if self._line is None or not await self._is_idle(self._line.conn):
                await self.close()
                self._line = Line(await self.open())
            return self._line
        except BaseException:
            self._lock.release()
            raise

    async def take_back(self, line: Line) -> None:
        self._lock.release()

    def dsn(self) -> str:
        return self._dsn

    def block(self, line: Line) -> AbstractAsyncContextManager[None]:
        return block(line.conn)

    async def _is_idle(self, conn: AsyncConnection[Any]) -> bool:
        """It works, and no call that was broken off left anything on it."""
        return conn.pgconn.transaction_status == IDLE and not await is_lost(conn)

    async def open(self) -> AsyncConnection[Any]:
        """A new connection. Raises BadDsn, CannotConnect, EmbeddedError."""
        dsn = self._dsn
        if dsn.startswith("embedded:"):
            from pgqueue.embedded import resolve  # only those who ask for it load the launcher

            dsn = await blocking(resolve, dsn)
        given = parameters(dsn, "what was given")
        options = {"fallback_application_name": "pgqueue", "client_encoding": "utf8", **given}
        try:
            conn = await AsyncConnection.connect(**options, autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise cannot_connect(error, dsn, os.environ) from None  # its traceback may show the password
        if not self._prepare:
            conn.prepare_threshold = None
        return conn

    async def close(self) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            await line.conn.close()


class Pool:
    """Connections of a psycopg_pool that the caller owns. While lent, a connection commits each call."""

    replaces = True
    waits = True

    def __init__(self, pool: AsyncConnectionPool[Any], prepare: bool) -> None:
        self._pool = pool
        self._prepare = prepare
        self._lines: dict[int, Line] = {}
        self._found: dict[int, tuple[bool, int | None]] = {}

    async def lend(self) -> Line:
        for _ in range(self._pool.max_size + 1):  # after a restart of the server all of them are lost
            try:
                conn = await self._pool.getconn()
            except psycopg.Error as error:
                raise CannotConnect(f"the pool gave no connection: {error}") from error
            line = await self._prepared(conn)
            try:
                if not await is_lost(conn):
                    return line
            except BaseException:
                await self.take_back(line)
                raise
            await self.take_back(line)
        raise ConnectionLost()

    async def take_back(self, line: Line) -> None:
        conn = line.conn
        autocommit, threshold = self._found.pop(id(conn))
        if conn.pgconn.transaction_status == IDLE:
            conn.prepare_threshold = threshold
            if not autocommit:
                await conn.set_autocommit(False)
        await self._pool.putconn(conn)

    def dsn(self) -> str:
        conninfo, options = self._pool.conninfo, self._pool.kwargs or {}
        if callable(conninfo) or callable(options):
            raise BadValue("the pool's connection parameters are made by a function: give a DSN instead")
        return make_conninfo(conninfo, **{name: one for name, one in options.items() if name not in PYTHONS})

    def block(self, line: Line) -> AbstractAsyncContextManager[None]:
        return block(line.conn)

    async def _prepared(self, conn: AsyncConnection[Any]) -> Line:
        """The connection set for our calls; how it was found is kept for when it goes back."""
        self._found[id(conn)] = (conn.autocommit, conn.prepare_threshold)
        if not conn.autocommit and conn.pgconn.transaction_status == IDLE:
            await conn.set_autocommit(True)
        if not self._prepare:
            conn.prepare_threshold = None
        line = self._lines.get(id(conn))
        if line is None or line.conn is not conn:
            self._lines = {at: one for at, one in list(self._lines.items()) if not one.conn.closed}
            line = self._lines[id(conn)] = Line(conn)
        return line

    async def open(self) -> AsyncConnection[Any]:
        line = await self.lend()
        info = line.conn.info
        options: dict[str, Any] = {**info.get_parameters(), "password": info.password}
        await self.take_back(line)
        try:
            return await AsyncConnection.connect(**options, autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise cannot_connect(error, info.dsn, os.environ) from None

    async def close(self) -> None:
        self._lines.clear()


class Callers:
    """A connection of the caller's: the client neither begins, commits nor closes anything on it."""

    replaces = False

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._conn = conn
        self._line: Line | None = None
        self._lock = Lock()

    @property
    def waits(self) -> bool:
        return self._conn.autocommit and self._conn.pgconn.transaction_status == IDLE

    async def lend(self) -> Line:
        await self._lock.acquire()
        if self._conn.closed:
            self._lock.release()
            raise ConnectionLost()
        if self._line is None:
            self._line = Line(self._conn)
        return self._line

    async def take_back(self, line: Line) -> None:
        self._lock.release()

    def dsn(self) -> str:
        raise no_dsn()

    def block(self, line: Line) -> AbstractAsyncContextManager[None]:
        return block(line.conn)

    async def close(self) -> None:
        pass


def no_dsn() -> BadValue:
    """The error of a client whose connection is somebody else's."""
    return BadValue("no further connection can be made of the one that was given: give a DSN or a pool")


@asynccontextmanager
async def block(conn: AsyncConnection[Any]) -> AsyncIterator[None]:
    """psycopg's transaction, whose begin and end raise our errors."""
    inner = conn.pgconn.transaction_status != IDLE
    transaction = conn.transaction()
    try:
        await transaction.__aenter__()
    except psycopg.Error as error:
        raise (ConnectionLost(sqlstate=error.sqlstate) if conn.closed else from_server(error)) from error
    try:
        yield
    except BaseException:
        if not await transaction.__aexit__(*sys.exc_info()):
            raise
        return
    try:
        await transaction.__aexit__(None, None, None)
    except psycopg.Error as error:
        if not conn.closed:
            raise from_server(error) from error
        raise (ConnectionLost if inner else InDoubt)(sqlstate=error.sqlstate) from error
