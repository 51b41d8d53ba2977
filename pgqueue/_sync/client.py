# Made of pgqueue/_async/client.py by tools/unasync.py: change that file, not this one.
"""The client: pgmq's calls by their names, on one psycopg connection."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, RawCursor
from psycopg.rows import tuple_row
from psycopg.types.string import TextLoader

from pgqueue import statements
from pgqueue._sync._compat import Lock, blocking, sleep
from pgqueue.dsn import cannot_connect, parameters
from pgqueue.errors import BadValue, ConnectionLost, PgqueueError
from pgqueue.model import (
    Message,
    Metrics,
    NotifyThrottle,
    QueueInfo,
    RoutedId,
    TopicBinding,
    Upkeep,
    Version,
)
from pgqueue.sqlstate import from_server
from pgqueue.statements import PLAIN, Codec, Reply, Statement, When

T = TypeVar("T")


class Client:
    """Calls a queue's SQL functions, in pgqueue's schema or in pgmq's own.

    server: a DSN (`embedded:` for a private Postgres, "" for libpq's own variables), or a psycopg connection.
    With a DSN the client connects at its first call, and each call commits by itself; `transaction()` joins
    several. A connection stays its owner's: the client neither begins, commits nor closes anything on it, so
    a message is sent in the transaction that the caller has open, and lost with it.

    codec: how messages and headers become JSON and back.
    prepare: False behind a pooler in transaction mode, where prepared statements cannot live.

    Nothing is created in the database unless a call says so. Every call raises a PgqueueError: NotInstalled,
    NoSuchQueue, BadName, BadValue, BadMessage, NotAllowed, Refused, Conflict, TimedOut, CannotConnect or
    ConnectionLost.
    """

    def __init__(
        self, server: str | Connection[Any], *, codec: Codec = PLAIN, prepare: bool = True
    ) -> None:
        self._dsn = server if isinstance(server, str) else None
        self._conn = None if isinstance(server, str) else server
        self._codec = codec
        self._prepare = prepare
        self._connecting = Lock()

    @classmethod
    def connect(cls, dsn: str, *, codec: Codec = PLAIN, prepare: bool = True) -> Client:
        """A client that is connected already. Raises BadDsn, CannotConnect, EmbeddedError."""
        client = cls(dsn, codec=codec, prepare=prepare)
        client.connection()
        return client

    def connection(self) -> Connection[Any]:
        """The psycopg connection that the calls use. Raises BadDsn, CannotConnect.

        It is opened if need be, and again if it was lost; a connection of the caller's is taken as it is.
        """
        if self._conn is not None and (self._dsn is None or not self._conn.closed):
            return self._conn
        with self._connecting:
            if self._conn is None or self._conn.closed:
                self._conn = self._open(self._dsn or "")
            return self._conn

    def close(self) -> None:
        """Close the connection, if the client opened it. A later call opens another."""
        if self._dsn is not None and self._conn is not None:
            self._conn.close()
            self._conn = None

    def __enter__(self) -> Client:
        self.connection()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Calls inside are committed together at the end, or rolled back if an error leaves the block.

        Inside a transaction that is open already it is a savepoint, and commits nothing.
        """
        conn = self.connection()
        try:
            with conn.transaction():
                yield
        except psycopg.Error as error:
            raise from_server(error) from error

    # --- queues -----------------------------------------------------------------------------------

    def create(self, queue_name: str) -> None:
        """Make a queue. One that is there already stays as it is. Raises BadName."""
        self._run(statements.create(queue_name))

    def create_unlogged(self, queue_name: str) -> None:
        """Make a queue that is faster and is emptied by a crash of the server. Raises BadName."""
        self._run(statements.create_unlogged(queue_name))

    def create_partitioned(
        self, queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
    ) -> None:
        """Make a queue in partitions of so many messages ("10000") or of a time ("1 day"). Raises BadName."""
        self._run(statements.create_partitioned(queue_name, partition_interval, retention_interval))

    def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages and its archive. False if there was none."""
        return self._run(statements.drop_queue(queue_name))

    def purge_queue(self, queue_name: str) -> int:
        """Delete all messages of a queue, and say how many there were. The archive stays."""
        return self._run(statements.purge_queue(queue_name))

    def list_queues(self) -> list[QueueInfo]:
        """All queues."""
        return self._run(statements.list_queues())

    def metrics(self, queue_name: str) -> Metrics:
        """Counts and ages of one queue."""
        return self._run(statements.metrics(queue_name))

    def metrics_all(self) -> list[Metrics]:
        """Counts and ages of all queues."""
        return self._run(statements.metrics_all())

    def version(self) -> Version:
        """What is installed in the database. Raises NotInstalled."""
        return self._run(statements.version())

    def maintain(self) -> list[Upkeep]:
        """Do the upkeep of partitioned queues, and say what was done, table by table."""
        return self._run(statements.maintain())

    # --- messages ---------------------------------------------------------------------------------

    def send(
        self, queue_name: str, message: Any, *, headers: Any = None, delay: When | None = None
    ) -> int:
        """Send a message, any JSON value, and give its id.

        delay: seconds, a timedelta or a datetime with a time zone; the message cannot be read before. Raises
        BadMessage for what is not JSON.
        """
        return self._run(statements.send(queue_name, message, headers, delay, self._codec))

    def send_batch(
        self,
        queue_name: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: When | None = None,
    ) -> list[int]:
        """Send several messages at once, all or none, and give their ids. headers: one for each message."""
        return self._run(statements.send_batch(queue_name, messages, headers, delay, self._codec))

    def read(
        self, queue_name: str, *, vt: int = 30, qty: int = 1, conditional: Any = None
    ) -> list[Message]:
        """Take up to qty messages that nobody else gets for vt seconds. They stay in the queue.

        conditional: only messages that contain this JSON value.
        """
        return self._run(statements.read(queue_name, vt, qty, conditional, self._codec))

    def read_with_poll(
        self,
        queue_name: str,
        *,
        vt: int = 30,
        qty: int = 1,
        max_poll_seconds: float = 5,
        poll_interval_ms: int = 100,
        conditional: Any = None,
    ) -> list[Message]:
        """Read, and while there is nothing read again for so long. The queue is asked at least once.

        The wait is here and not in the server: between two looks no snapshot is held (unless the caller's
        connection has a transaction open).
        """
        end = time.monotonic() + max_poll_seconds
        while True:
            found = self.read(queue_name, vt=vt, qty=qty, conditional=conditional)
            left = end - time.monotonic()
            if found or left <= 0:
                return found
            sleep(min(left, poll_interval_ms / 1000))

    def read_grouped(self, queue_name: str, *, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read in order within each group (header x-pgmq-group), the oldest group as far as it goes first."""
        return self._run(statements.read_grouped(queue_name, vt, qty, self._codec))

    def read_grouped_rr(self, queue_name: str, *, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read in order within each group, one message of each group in turn."""
        return self._run(statements.read_grouped_rr(queue_name, vt, qty, self._codec))

    def read_grouped_head(self, queue_name: str, *, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read the first message of each group, of at most qty groups."""
        return self._run(statements.read_grouped_head(queue_name, vt, qty, self._codec))

    def pop(self, queue_name: str, *, qty: int = 1) -> list[Message]:
        """Read and delete in one go: a message whose reader fails is lost."""
        return self._run(statements.pop(queue_name, qty, self._codec))

    def peek(self, queue_name: str, *, qty: int = 10, after_msg_id: int = 0) -> list[Message]:
        """Look at messages without taking them, by rising id; also those that are delayed or taken."""
        return self._run(statements.peek(queue_name, qty, after_msg_id, self._codec))

    def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move a message to the queue's archive. False if it is not in the queue."""
        return self._run(statements.archive(queue_name, msg_id))

    def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages to the archive, and give the ids of those that were in the queue."""
        return self._run(statements.archive_batch(queue_name, msg_ids))

    def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete a message. False if it is not in the queue."""
        return self._run(statements.delete(queue_name, msg_id))

    def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages, and give the ids of those that were in the queue."""
        return self._run(statements.delete_batch(queue_name, msg_ids))

    def set_vt(self, queue_name: str, msg_id: int, vt: When) -> Message | None:
        """Say when a message can be read again: in so many seconds (0: now), or at an instant.

        None if it is not in the queue.
        """
        return self._run(statements.set_vt(queue_name, msg_id, vt, self._codec))

    def set_vt_batch(self, queue_name: str, msg_ids: Sequence[int], vt: When) -> list[Message]:
        """The same for several messages; gives those that are in the queue."""
        return self._run(statements.set_vt_batch(queue_name, msg_ids, vt, self._codec))

    # --- topics -----------------------------------------------------------------------------------

    def bind_topic(self, pattern: str, queue_name: str) -> None:
        """Let a queue have every message whose routing key matches: * is one word, # any number."""
        self._run(statements.bind_topic(pattern, queue_name))

    def unbind_topic(self, pattern: str, queue_name: str) -> bool:
        """Undo a binding. False if there was none."""
        return self._run(statements.unbind_topic(pattern, queue_name))

    def list_topic_bindings(self, queue_name: str | None = None) -> list[TopicBinding]:
        """The bindings of one queue, or all."""
        return self._run(statements.list_topic_bindings(queue_name))

    def test_routing(self, routing_key: str) -> list[TopicBinding]:
        """The bindings that a routing key matches; nothing is sent."""
        return self._run(statements.test_routing(routing_key))

    def send_topic(self, routing_key: str, message: Any, *, headers: Any = None, delay: int = 0) -> int:
        """Send to every queue that the routing key matches, and say how many there were. delay: seconds."""
        return self._run(statements.send_topic(routing_key, message, headers, delay, self._codec))

    def send_batch_topic(
        self,
        routing_key: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: When | None = None,
    ) -> list[RoutedId]:
        """Send several messages to every queue that the routing key matches; gives where each one went."""
        call = statements.send_batch_topic(routing_key, messages, headers, delay, self._codec)
        return self._run(call)

    # --- notifications ----------------------------------------------------------------------------

    def enable_notify_insert(self, queue_name: str, *, throttle_interval_ms: int = 250) -> None:
        """Let the queue notify its listeners when messages come, at most once in so many milliseconds."""
        self._run(statements.enable_notify_insert(queue_name, throttle_interval_ms))

    def disable_notify_insert(self, queue_name: str) -> None:
        """Let the queue notify nobody."""
        self._run(statements.disable_notify_insert(queue_name))

    def update_notify_insert(self, queue_name: str, *, throttle_interval_ms: int) -> None:
        """Change how often a queue may notify."""
        self._run(statements.update_notify_insert(queue_name, throttle_interval_ms))

    def list_notify_insert_throttles(self) -> list[NotifyThrottle]:
        """The queues that notify, and how often they may."""
        return self._run(statements.list_notify_insert_throttles())

    # --- the wire -------------------------------------------------------------------------------------

    def _open(self, dsn: str) -> Connection[Any]:
        if dsn.startswith("embedded:"):
            from pgqueue.embedded import resolve  # only those who ask for it load the launcher

            dsn = blocking(resolve, dsn)
        options = {"fallback_application_name": "pgqueue", "client_encoding": "utf8", **parameters(dsn)}
        try:
            conn = Connection.connect(**options, autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise cannot_connect(error, dsn, os.environ) from None  # its traceback may show the password
        if not self._prepare:
            conn.prepare_threshold = None
        return conn

    def _run(self, statement: Statement[T]) -> T:
        conn = self.connection()
        try:
            cursor = RawCursor(conn, row_factory=tuple_row)
            for name in ("json", "jsonb"):
                cursor.adapters.register_loader(name, TextLoader)
            with cursor:
                cursor.execute(statement.sql.encode(), statement.params, binary=False)
                columns = [column.name for column in cursor.description or ()]
                reply = Reply(columns, cursor.fetchall())
        except psycopg.Error as error:
            raise self._failure(error, conn) from error
        except UnicodeError as error:
            raise BadValue("a text is not UTF-8, or holds what the database cannot") from error
        return statement.parse(reply)

    def _failure(self, error: psycopg.Error, conn: Connection[Any]) -> PgqueueError:
        ours = from_server(error)
        return ConnectionLost() if conn.closed and not isinstance(ours, ConnectionLost) else ours
