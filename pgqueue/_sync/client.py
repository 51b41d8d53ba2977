# Made of pgqueue/_async/client.py by tools/unasync.py: change that file, not this one.
"""The client: where its connections come from, transactions, and what concerns more than one queue."""

from __future__ import annotations

import os
from collections.abc import Iterator, Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from psycopg import Connection

from pgqueue import trace
from pgqueue._sync._compat import OF_THIS_WORLD, is_of_other_world, is_sqlalchemy
from pgqueue._sync.adapt import Alchemy
from pgqueue._sync.lenders import Callers, Lender, Lent, Own, Pool
from pgqueue._sync.listen import Listener
from pgqueue._sync.queue import Queue
from pgqueue.codec import JSON, Codec, codec_of
from pgqueue.dsn import find
from pgqueue.errors import BadValue, Conflict, ConnectionLost
from pgqueue.model import Metrics, NotifyThrottle, QueueInfo, RoutedId, TopicBinding, Upkeep, Version
from pgqueue.statements import installation as statements
from pgqueue.statements.moment import When
from pgqueue.statements.statement import Statement

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from pgqueue._sync._compat import Alchemical

T = TypeVar("T")
C = TypeVar("C")


class Client:
    """Calls a queue's SQL functions, in pgqueue's schema or in pgmq's own.

    server: where the calls go.
        A DSN: one connection, opened at the first call and again when it was lost; calls made at once wait
        for each other. `embedded:` is a private Postgres. Without any, PGQUEUE_DSN, DATABASE_URL or libpq's
        own variables say where.
        A psycopg_pool: one of its connections for each call or transaction.
        With either, each call commits by itself; `transaction()` joins several.
        A psycopg connection, which stays its owner's: the client neither begins, commits nor closes anything
        on it, so that a message is sent in the transaction that the caller has open, and lost with it.
        A session or connection of SQLAlchemy 2, in whose transaction the calls are made in the same way.
    codec: how messages and headers become JSON and back.
    transaction_pooling: True behind a pooler in transaction mode (pgbouncer), where neither prepared
        statements nor LISTEN can live.

    Nothing is created in the database unless a call says so. Every call raises a PgqueueError.
    """

    def __init__(
        self,
        server: str | Connection[Any] | ConnectionPool[Any] | Alchemical | None = None,
        *,
        codec: Codec[Any] = JSON,
        transaction_pooling: bool = False,
    ) -> None:
        self._lender, self._listener = _lender(server, prepare=not transaction_pooling)
        self._transaction_pooling = transaction_pooling
        self.codec = codec

    @classmethod
    def connect(
        cls, dsn: str, *, codec: Codec[Any] = JSON, transaction_pooling: bool = False
    ) -> Client:
        """A client that is connected already. Raises BadDsn, CannotConnect, EmbeddedError."""
        client = cls(dsn, codec=codec, transaction_pooling=transaction_pooling)
        return client.__enter__()

    def another(self, kind: Callable[..., C]) -> C:
        """A client with a connection of its own, of the same server and with the same settings.

        kind: Client or AsyncClient.

        Raises BadValue where a connection or a session was given: that says nothing of how to open another.
        """
        dsn = self._lender.dsn()
        return kind(dsn, codec=self.codec, transaction_pooling=self._transaction_pooling)

    def close(self) -> None:
        """Close the connections that the client opened. A later call opens another."""
        if self._listener is not None:
            self._listener.close()
        self._lender.close()

    def __enter__(self) -> Client:
        self._lender.take_back(self._lender.lend())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the calls ------------------------------------------------------------------------------------

    @overload
    def queue(self, name: str) -> Queue[Any]: ...

    @overload
    def queue(self, name: str, body: Codec[T] | type[T] | Callable[[Any], T]) -> Queue[T]: ...

    def queue(self, name: str, body: Any = None) -> Queue[Any]:
        """The handle of a queue. Asks nothing of the server: it need not be there yet.

        body: what its messages are: a pydantic model, a msgspec Struct, a dataclass, a function of the JSON
        value, or a Codec (BYTES: bytes as they are). Without, a message is any JSON value.
        """
        codec = self.codec if body is None else codec_of(body, self.codec)
        return Queue(self, name, codec, self.codec)

    def run(self, statement: Statement[T]) -> T:
        """The result of a statement, in the transaction that is open, if one is. Raises a PgqueueError.

        A connection that was lost before the call is replaced where it can be. One that is lost during it
        is InDoubt, and the call is not repeated, unless that does no harm. A call that is a transaction of
        its own is tried three times before it raises Conflict.
        """
        line = self._held()
        if line is not None:
            return line.run(statement)
        lender = self._lender
        for left in (2, 1, 0) if lender.replaces else (0,):
            line = lender.lend()
            try:
                return line.run(statement)
            except (Conflict, ConnectionLost) as error:
                if not left or not (statement.repeatable or isinstance(error, Conflict)):
                    raise
            finally:
                lender.take_back(line)
        raise AssertionError("unreachable")

    def send_all(self, messages: Sequence[Statement[int]]) -> list[int]:
        """Send messages to several queues, all or none, and give their ids.

        messages: made by `queue.outgoing(body)`. They go on one way to the server and back, in a transaction
        of their own or in the one that is open.
        """
        with self._lent() as line:
            return line.run_all(messages)

    @contextmanager
    def joined(self) -> Iterator[Lent]:
        """A connection on which several statements stand or fall together.

        In the transaction that is open or, on a caller's connection, that the first of them begins.
        """
        with self._lent() as line:
            if line.commits and self._held() is None:
                with self._lender.block(line):
                    yield line
            else:
                yield line

    def _held(self) -> Lent | None:
        """The connection of the transaction that is open in this thread or task."""
        held = _HELD.get().get(self)
        return None if held is None else held.line

    @contextmanager
    def _lent(self) -> Iterator[Lent]:
        line = self._held()
        if line is not None:
            yield line
            return
        line = self._lender.lend()
        try:
            yield line
        finally:
            self._lender.take_back(line)

    def may_wait(self) -> tuple[Listener | None, bool]:
        """What rings when messages come, and whether a lost connection can be replaced. Raises BadValue."""
        if self._held() is not None or not self._lender.waits:
            raise BadValue("waiting for messages would hold a transaction open: use a client without one")
        return self._listener, self._lender.replaces

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        """Calls inside are committed together at the end, or rolled back if an error leaves the block.

        Gives psycopg's connection, for work of your own in the same transaction. Inside a transaction that
        is open already it is a savepoint, and commits nothing. Calls by the same client count as inside if
        this thread or task, or a task that it starts, makes them while it is open. Raises InDoubt when
        the connection is lost at the commit.
        """
        with self._lent() as line, self._lender.block(line):
            if self._held() is not None:
                yield line.conn
                return
            held = _Held(line)
            token = _HELD.set({**_HELD.get(), self: held})
            try:
                yield line.conn
            finally:
                held.line = None
                _HELD.reset(token)

    # --- queues -----------------------------------------------------------------------------------

    def create(self, queue_name: str) -> None:
        """Make a queue. One that is there already stays as it is. Raises BadName."""
        self.run(statements.create(queue_name))

    def create_non_partitioned(self, queue_name: str) -> None:
        """The same as create."""
        self.run(statements.create_non_partitioned(queue_name))

    def create_unlogged(self, queue_name: str) -> None:
        """Make a queue that is faster and is emptied by a crash of the server. Raises BadName."""
        self.run(statements.create_unlogged(queue_name))

    def create_partitioned(
        self, queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
    ) -> None:
        """Make a queue in partitions of so many messages ("10000") or of a time ("1 day").

        retention_interval: in the same unit, what is kept, counted back from the newest message. maintain()
            drops the partitions past it with all messages in them, read or not; those of the archive too.

        How many are made ahead, premake, can be given in SQL only. Raises BadName; BadValue for what is
        neither a number nor a time, or if the two differ in kind.
        """
        self.run(statements.create_partitioned(queue_name, partition_interval, retention_interval))

    def convert_archive_partitioned(
        self, queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
    ) -> None:
        """Cut the archive of a queue into partitions; the old one stays beside it as a_NAME_old.

        retention_interval: in the unit of partition_interval, what is kept, counted back from the newest
            message; maintain() drops the partitions past it with all messages in them.

        Nothing is done where there is no such archive, or it is partitioned already. How many are made ahead,
        leading_partition, can be given in SQL only. Raises BadValue as create_partitioned does.
        """
        call = statements.convert_archive_partitioned(queue_name, partition_interval, retention_interval)
        self.run(call)

    def create_fifo_index(self, queue_name: str) -> None:
        """Make the index that grouped reads are fast by. One that is there already stays."""
        self.run(statements.create_fifo_index(queue_name))

    def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages and its archive. False if there was none."""
        return self.run(statements.drop_queue(queue_name))

    def list_queues(self) -> list[QueueInfo]:
        """All queues."""
        return self.run(statements.list_queues())

    def metrics_all(self) -> list[Metrics]:
        """Counts and ages of all queues."""
        return self.run(statements.metrics_all())

    def version(self) -> Version:
        """What is installed in the database. Raises NotInstalled."""
        return self.run(statements.version())

    def maintain(self) -> list[Upkeep]:
        """Do the upkeep of partitioned queues, and say what was done, table by table."""
        return self.run(statements.maintain())

    # --- topics -----------------------------------------------------------------------------------

    def bind_topic(self, pattern: str, queue_name: str) -> None:
        """Let a queue have every message whose routing key matches: * is one word, # any number."""
        self.run(statements.bind_topic(pattern, queue_name))

    def unbind_topic(self, pattern: str, queue_name: str) -> bool:
        """Undo a binding. False if there was none."""
        return self.run(statements.unbind_topic(pattern, queue_name))

    def list_topic_bindings(self, queue_name: str | None = None) -> list[TopicBinding]:
        """The bindings of one queue, or all."""
        return self.run(statements.list_topic_bindings(queue_name))

    def test_routing(self, routing_key: str) -> list[TopicBinding]:
        """The bindings that a routing key matches; nothing is sent."""
        return self.run(statements.test_routing(routing_key))

    def send_topic(self, routing_key: str, message: Any, *, headers: Any = None, delay: int = 0) -> int:
        """Send to every queue that the routing key matches, and say how many there were. delay: seconds."""
        if not trace.active():
            return self.run(statements.send_topic(routing_key, message, headers, delay, self.codec))
        with trace.sending(routing_key) as context:
            headers = trace.with_carrier(headers, context)
            return self.run(statements.send_topic(routing_key, message, headers, delay, self.codec))

    def send_batch_topic(
        self,
        routing_key: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: When | None = None,
    ) -> list[RoutedId]:
        """Send several messages to every queue that the routing key matches; gives where each one went.

        headers: one for each message
        delay: seconds, a timedelta or a datetime with a time zone; none can be read before
        """
        if not trace.active():
            call = statements.send_batch_topic(routing_key, messages, headers, delay, self.codec)
            return self.run(call)
        with trace.sending(routing_key, len(messages)) as context:
            given = [None] * len(messages) if headers is None else headers
            traced = [trace.with_carrier(one, context) for one in given]
            call = statements.send_batch_topic(routing_key, messages, traced, delay, self.codec)
            return self.run(call)

    # --- notifications ----------------------------------------------------------------------------

    def enable_notify_insert(self, queue_name: str, *, throttle_interval_ms: int = 250) -> None:
        """Let the queue notify its listeners when messages come, at most once in so many milliseconds."""
        self.run(statements.enable_notify_insert(queue_name, throttle_interval_ms))

    def disable_notify_insert(self, queue_name: str) -> None:
        """Let the queue notify nobody."""
        self.run(statements.disable_notify_insert(queue_name))

    def update_notify_insert(self, queue_name: str, *, throttle_interval_ms: int) -> None:
        """Change how often a queue may notify."""
        self.run(statements.update_notify_insert(queue_name, throttle_interval_ms))

    def notification_queue_usage(self) -> float:
        """How full the server's queue of notifications is, 0 to 1; at 1 commits that notify fail.

        It fills while any session that listens has a transaction open; pgqueue's own listeners never have.
        """
        return self.run(statements.notification_queue_usage())

    def list_notify_insert_throttles(self) -> list[NotifyThrottle]:
        """The queues that notify, and how often they may."""
        return self.run(statements.list_notify_insert_throttles())


def _lender(server: Any, prepare: bool) -> tuple[Lender, Listener | None]:
    """Who lends the connections, and what listens beside them."""
    if server is None:
        server, _ = find(None, os.environ)
    if isinstance(server, Connection):
        return Callers(server), None
    if is_sqlalchemy(server):
        return Alchemy(server), None
    lender: Own | Pool
    if isinstance(server, str):
        lender = Own(server, prepare)
    elif hasattr(server, "getconn") and not is_of_other_world(server.getconn):
        lender = Pool(server, prepare)
    else:
        given = f"{type(server).__module__}.{type(server).__qualname__}"
        raise BadValue(
            f"a DSN, or {OF_THIS_WORLD} connection, pool or session of psycopg or SQLAlchemy, not {given}"
        )
    return lender, Listener(lender) if prepare else None


class _Held:
    """The connection of a transaction, as long as it is open: tasks that it started may outlive it."""

    __slots__ = ("line",)

    def __init__(self, line: Lent) -> None:
        self.line: Lent | None = line


_HELD: ContextVar[Mapping[Client, _Held]] = ContextVar("pgqueue", default=MappingProxyType({}))
"""The transactions that this thread or task has begun, or the task that started it."""
