# The source of pgqueue/_sync/wire.py: after a change here run tools/unasync.py.
"""The wire: one statement on one psycopg connection."""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timezone
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, capabilities
from psycopg.abc import Buffer
from psycopg.adapt import Transformer
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzBinaryLoader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextBinaryLoader

from pgqueue.errors import BadValue, Conflict, ConnectionLost, InDoubt, NoSuchQueue, PgqueueError
from pgqueue.sqlstate import from_server
from pgqueue.statements.queue import probe
from pgqueue.statements.statement import Reply, Statement

T = TypeVar("T")

UNDEFINED_FUNCTION = "42883"
IDLE = TransactionStatus.IDLE
BY_NAME_SECONDS = 60.0
"""A queue found without compiled functions is looked at again after so long."""


class Line:
    """A connection, and what calls on it need."""

    __slots__ = ("_ways", "conn", "cursor")

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self.conn = conn
        self.cursor = AsyncRawCursor(conn, row_factory=tuple_row)
        adapters = self.cursor.adapters
        for name in ("json", "text", "varchar"):
            adapters.register_loader(name, Utf8Loader)
        adapters.register_loader("jsonb", JsonbLoader)
        adapters.register_dumper(int, Int8Dumper)  # one type for all: one prepared statement
        server = conn.pgconn
        self._ways = _WAYS.setdefault((server.host, server.port, server.db), {})

    @property
    def commits(self) -> bool:
        """A statement that is run now is committed by itself."""
        return self.conn.autocommit and self.conn.pgconn.transaction_status == IDLE

    async def run(self, statement: Statement[T]) -> T:
        """The result of a statement. Raises a PgqueueError.

        A connection lost in an open transaction is ConnectionLost, outside one InDoubt.
        """
        queue = statement.queue
        if queue is None or not await self._is_compiled(queue):
            return await self._run_by_name(statement)
        try:
            return statement.parse(await self._reply(*statement.by_compiled(), statement.shape))
        except PgqueueError as error:
            self._look_again(error, queue)
        if not await self._is_compiled(queue):
            return await self._run_by_name(statement)
        return statement.parse(await self._reply(*statement.by_compiled(), statement.shape))

    async def run_all(self, statements: Sequence[Statement[T]]) -> list[T]:
        """The results of several statements, all or none, on one way to the server and back if libpq can."""
        queues = {one.queue for one in statements if one.queue is not None}
        compiled = {queue for queue in queues if await self._is_compiled(queue)}
        try:
            return await self._run_all(statements, compiled)
        except PgqueueError as error:
            if not compiled:
                raise
            self._look_again(error, *compiled)
        return await self._run_all(statements, {queue for queue in queues if await self._is_compiled(queue)})

    async def _run_all(self, statements: Sequence[Statement[T]], compiled: set[str]) -> list[T]:
        calls = [one.by_compiled() if one.queue in compiled else (one.sql, one.params) for one in statements]
        cursors = [AsyncRawCursor(self.conn, row_factory=tuple_row) for _ in calls]
        alone = self.commits
        try:
            async with AsyncExitStack() as stack:
                if capabilities.has_pipeline():
                    await stack.enter_async_context(self.conn.pipeline())
                if alone:
                    await stack.enter_async_context(self.conn.transaction())
                for cursor, (sql, params) in zip(cursors, calls, strict=True):
                    await cursor.execute(sql, params, prepare=True, binary=False)
            replies = [Reply((), await cursor.fetchall()) for cursor in cursors]
        except psycopg.Error as error:
            for one in statements:
                self._forget(one.queue)
            raise self._failure(error, alone) from error
        except UnicodeError as error:
            raise not_text() from error
        return [one.parse(reply) for one, reply in zip(statements, replies, strict=True)]

    async def _run_by_name(self, statement: Statement[T]) -> T:
        try:
            return statement.parse(await self._reply(statement.sql, statement.params, ()))
        except NoSuchQueue:
            self._forget(statement.queue)  # once made, it may have compiled functions
            raise

    def _look_again(self, error: PgqueueError, *compiled: str) -> None:
        """Raises the error, unless it says that queues taken for compiled are so no more, and a retry may do."""
        if error.sqlstate != UNDEFINED_FUNCTION:
            raise error
        for queue in compiled:
            self._forget(queue)
        if self.conn.pgconn.transaction_status != IDLE:
            names = " or ".join(f'"{queue}"' for queue in sorted(compiled))
            said = f"queue {names} was dropped, or is not compiled any more: run the transaction again"
            raise Conflict(said, sqlstate=error.sqlstate) from error

    def _forget(self, queue: str | None) -> None:
        """Look again at the next call whether the queue has compiled functions."""
        if queue is not None:
            self._ways.pop(queue, None)

    async def _is_compiled(self, queue: str) -> bool:
        until = self._ways.get(queue)
        if until is None or until < monotonic():
            question = probe(queue)
            compiled = question.parse(await self._reply(question.sql, question.params, ()))
            until = self._ways[queue] = ALWAYS if compiled else monotonic() + BY_NAME_SECONDS
        return until == ALWAYS

    async def _reply(self, sql: bytes, params: tuple[Any, ...], shape: tuple[str, ...]) -> Reply:
        """What the server answers. A text with a star is not prepared: its columns may change.

        Binary, since psycopg reads an instant as text in the DateStyle ISO alone: in another, what a pop gave
        would be lost.
        """
        cursor = self.cursor
        star = b"*" in sql and not shape
        alone = self.commits
        try:
            await cursor.execute(sql, params, prepare=not star, binary=True)
            rows = await self._rows()
        except psycopg.Error as error:
            raise self._failure(error, alone) from error
        except UnicodeError as error:
            raise not_text() from error
        return Reply(_names(cursor.pgresult) if star else shape, rows)

    async def _rows(self) -> list[Any]:
        cursor = self.cursor
        try:
            return await cursor.fetchall()
        except psycopg.DataError:  # an instant that Python has no datetime for
            if (result := cursor.pgresult) is None:
                raise
            far = Line(self.conn).cursor
            far.adapters.register_loader("timestamptz", FarInstants)
            transformer = Transformer(far)
            transformer.set_pgresult(result)
            return transformer.load_rows(0, result.ntuples, tuple)

    def _failure(self, error: psycopg.Error, alone: bool) -> PgqueueError:
        """alone: the call was to commit by itself."""
        if not self.conn.closed:
            return from_server(error)
        return (InDoubt if alone else ConnectionLost)(sqlstate=error.sqlstate)


class FarInstants(TimestamptzBinaryLoader):
    """Instants after the year 9999, infinity too, are datetime.max; those before the year 1 datetime.min."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            before_2000 = bytes(data)[0] & 0x80
            return (datetime.min if before_2000 else datetime.max).replace(tzinfo=timezone.utc)


class Utf8Loader(TextBinaryLoader):
    """A text, also where the client's encoding is SQL_ASCII, for which psycopg gives bytes."""

    def load(self, data: Buffer) -> str:
        return str(data, self._encoding or "utf-8")


class JsonbLoader(Utf8Loader):
    """jsonb as the text that it is behind its first byte, the number of its format."""

    def load(self, data: Buffer) -> str:
        return super().load(data[1:])


def not_text() -> BadValue:
    """The error for what psycopg cannot encode."""
    return BadValue("a text is not UTF-8, or holds what the database cannot")


ALWAYS = float("inf")
_WAYS: dict[tuple[bytes, bytes, bytes], dict[str, float]] = {}
"""By server and database: until when a queue is called by its name; ALWAYS means by its compiled functions.

Of the process and not of a client: a client made for one request need not ask again.
"""


def _names(result: PGresult | None) -> list[str]:
    if result is None:
        return []
    return [(result.fname(at) or b"").decode() for at in range(result.nfields)]


async def is_lost(conn: AsyncConnection[Any]) -> bool:
    """Whether the server has ended an idle connection. Sends nothing unless the server spoke unasked."""
    if conn.closed:
        return True
    spoke = False
    try:
        while _readable(conn.pgconn.socket):
            conn.pgconn.consume_input()
            spoke = True
        if spoke:  # a farewell, perhaps, whose end is not here yet
            await conn.execute("")
    except psycopg.Error:
        return True
    return False


def _readable(socket: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
