# Made of pgqueue/_async/queue.py by tools/unasync.py: change that file, not this one.
"""The handle of a queue: its messages are sent, read and finished here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from pgqueue import trace
from pgqueue._sync._compat import sleep
from pgqueue._sync.bulk import send_bulk
from pgqueue._sync.lenders import Lent
from pgqueue._sync.listen import Listener
from pgqueue._sync.message import Message
from pgqueue._sync.stream import Messages
from pgqueue.codec import Codec
from pgqueue.errors import BadValue
from pgqueue.model import MessageRecord, Metrics, T
from pgqueue.statements.moment import When
from pgqueue.statements.queue import QueueCalls, several
from pgqueue.statements.statement import Statement

R = TypeVar("R")


class Runs(Protocol):
    """What a queue needs of a client."""

    def run(self, statement: Statement[R]) -> R: ...

    def joined(self) -> AbstractContextManager[Lent]: ...

    def may_wait(self) -> tuple[Listener | None, bool]: ...


class Queue(Generic[T]):
    """One queue, by its name. Made by `client.queue(name)`, which asks nothing of the server.

    Every call raises a PgqueueError: NoSuchQueue, BadName, BadValue, BadMessage, NotInstalled, TooOld,
    NotAllowed, Refused, Conflict, TimedOut, CannotConnect, ConnectionLost, or InDoubt when the connection
    was lost while the server worked and nobody knows whether the call took effect.
    """

    def __init__(self, client: Runs, name: str, codec: Codec[T], headers: Codec[Any]) -> None:
        self.name = name
        self._client = client
        self._codec = codec
        self._headers = headers
        make: partial[Message[T]] = partial(Message, self)
        self._calls = QueueCalls(name, make, codec, headers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def decode(self, text: str | None) -> T:
        """A body of this queue out of its JSON text. Raises BadMessage."""
        return self._codec.decode(text)

    def decode_headers(self, text: str | None) -> Any:
        """Headers out of their JSON text."""
        return None if text is None else self._headers.decode(text)

    # --- sending ----------------------------------------------------------------------------------

    def send(self, message: T, *, headers: Any = None, delay: When | None = None) -> int:
        """Send a message and give its id.

        message: any JSON value, or what the queue's codec takes. headers: a JSON object.
        delay: seconds, a timedelta or a datetime with a time zone; the message cannot be read before.
        Raises BadMessage for what is not JSON.
        """
        if not trace.active():
            return self._client.run(self._calls.send(message, headers, delay))
        with trace.sending(self.name) as context:
            call = self._calls.send(message, trace.with_carrier(headers, context), delay)
            return self._client.run(call)

    def send_many(
        self,
        messages: Iterable[T],
        *,
        headers: Sequence[Any] | None = None,
        delay: When | None = None,
    ) -> list[int]:
        """Send several messages in one call, all or none, and give their ids in their order.

        headers: one for each message. None is sent for no messages.
        """
        bodies = list(several(messages))
        if not bodies:
            return []
        if not trace.active():
            return self._client.run(self._calls.send_batch(bodies, headers, delay))
        with trace.sending(self.name, len(bodies)) as context:
            given = [None] * len(bodies) if headers is None else headers
            traced = [trace.with_carrier(one, context) for one in given]
            return self._client.run(self._calls.send_batch(bodies, traced, delay))

    def send_bulk(
        self,
        messages: Iterable[T],
        *,
        headers: Iterable[Any] | None = None,
        delay: When | None = None,
    ) -> int:
        """Send many messages, of any iterable, all or none, and say how many there were.

        They are copied straight into the queue's table, many times faster than send_many for 1,000 and more,
        as long as no policy or row security has a say in what is sent, and through send_many where one has.
        Their ids are not given: COPY tells none. headers: one for each message.
        """
        with trace.sending(self.name) as context:
            return send_bulk(self._client, self._calls, several(messages), headers, delay, context)

    def outgoing(self, message: T, *, headers: Any = None, delay: When | None = None) -> Statement[int]:
        """A message to be sent with others by `client.send_all`. Raises BadMessage, BadValue."""
        if trace.active():
            headers = trace.with_carrier(headers, trace.carrier())
        return self._calls.send(message, headers, delay)

    # --- reading ----------------------------------------------------------------------------------

    def read(self, *, vt: int = 30, qty: int = 1, conditional: Any = None) -> list[Message[T]]:
        """Take up to qty messages that nobody else gets for vt seconds. They stay in the queue.

        conditional: only messages that contain this JSON value.
        """
        return self._read(self._calls.read(vt, qty, conditional))

    def read_one(self, *, vt: int = 30) -> Message[T] | None:
        """Take one message for vt seconds. None if there is none."""
        found = self._read(self._calls.read(vt, 1))
        return found[0] if found else None

    def fetch(
        self,
        *,
        vt: int = 30,
        qty: int = 1,
        done: Iterable[MessageRecord[Any] | int] = (),
        archive: bool = False,
    ) -> list[Message[T]]:
        """Finish messages, deleting them unless told to archive, and take the next: one call and one commit.

        done: messages, which are finished where this delivery still holds the lease, and left alone where
        not; or ids, which are finished whoever has them. Not both.
        """
        finished = list(done)
        leases = [one for one in finished if isinstance(one, MessageRecord)]
        ids = [one for one in finished if not isinstance(one, MessageRecord)]
        if leases and ids:
            raise BadValue("done takes messages or ids, not both")
        if leases:
            ids = [one.msg_id for one in leases]
        counts = [one.read_ct for one in leases] if leases else None
        return self._read(self._calls.fetch(vt, qty, ids, counts, archive))

    def read_with_poll(
        self,
        *,
        vt: int = 30,
        qty: int = 1,
        max_poll_seconds: float = 5,
        poll_interval_ms: int = 100,
        conditional: Any = None,
    ) -> list[Message[T]]:
        """Read, and while there is nothing read again for so long. The queue is asked at least once.

        The wait is here and not in the server: between two looks no snapshot is held (unless the caller's
        connection has a transaction open).
        """
        end = time.monotonic() + max_poll_seconds
        while True:
            found = self.read(vt=vt, qty=qty, conditional=conditional)
            left = end - time.monotonic()
            if found or left <= 0:
                return found
            sleep(min(left, poll_interval_ms / 1000))

    def messages(self, *, vt: int = 30, qty: int = 1, poll: float | None = None) -> Messages[T]:
        """Iterate over messages for ever, each taken for vt seconds; its stop() ends the iteration.

        qty: how many are read at once; their leases begin together, so the last of them has the less time.
        poll: seconds between two looks at a queue that stays empty, at most; looks begin 100 ms apart and
        grow rarer. A queue that notifies (`client.enable_notify_insert`) is looked at as soon as a message
        comes, heard on one further connection for all streams of the client; poll is then 5, and 1 where
        there can be no such connection (a caller's own, a pooler in transaction mode).

        No connection of a pool is held while waiting, and no transaction. A connection that is lost is
        opened again for as long as it takes; the first must succeed. Raises BadValue inside a transaction.
        """
        listener, patient = self._client.may_wait()
        longest = poll if poll is not None else 1.0 if listener is None else 5.0
        return Messages(self, vt, qty, listener, longest, patient)

    def read_grouped(self, *, vt: int = 30, qty: int = 1) -> list[Message[T]]:
        """Read in order within each group (header x-pgmq-group), the oldest group as far as it goes first."""
        return self._read(self._calls.read_grouped(vt, qty))

    def read_grouped_rr(self, *, vt: int = 30, qty: int = 1) -> list[Message[T]]:
        """Read in order within each group, one message of each group in turn."""
        return self._read(self._calls.read_grouped_rr(vt, qty))

    def read_grouped_head(self, *, vt: int = 30, qty: int = 1) -> list[Message[T]]:
        """Read the first message of each group, of at most qty groups."""
        return self._read(self._calls.read_grouped_head(vt, qty))

    def pop(self, *, qty: int = 1) -> list[Message[T]]:
        """Read and delete in one go: a message whose reader fails is lost."""
        return self._read(self._calls.pop(qty))

    def peek(self, *, qty: int = 10, after_msg_id: int = 0) -> list[Message[T]]:
        """Look at messages without taking them, by rising id; also those that are delayed or taken."""
        return self._client.run(self._calls.peek(qty, after_msg_id))

    def _read(self, call: Statement[list[Message[T]]]) -> list[Message[T]]:
        if not trace.active():
            return self._client.run(call)
        began = time.time_ns()
        found = self._client.run(call)
        trace.received(self.name, found, began)
        return found

    # --- what becomes of a message ----------------------------------------------------------------

    def archive(self, msg_id: int) -> bool:
        """Move a message to the queue's archive. False if it is not in the queue."""
        return self._client.run(self._calls.archive(msg_id))

    def archive_many(self, msg_ids: Iterable[int]) -> list[int]:
        """Move messages to the archive, and give the ids of those that were in the queue."""
        return self._client.run(self._calls.archive_batch(msg_ids))

    def delete(self, msg_id: int) -> bool:
        """Delete a message. False if it is not in the queue."""
        return self._client.run(self._calls.delete(msg_id))

    def delete_many(self, msg_ids: Iterable[int]) -> list[int]:
        """Delete messages, and give the ids of those that were in the queue."""
        return self._client.run(self._calls.delete_batch(msg_ids))

    def complete(self, message: MessageRecord[Any], *, archive: bool = True) -> None:
        """Archive a message, or delete it with archive=False, if that delivery still holds its lease.

        Raises LostLease.
        """
        self._client.run(self._calls.complete(message.msg_id, message.read_ct, archive))

    def set_vt(self, msg_id: int, vt: When) -> Message[T] | None:
        """Say when a message can be read again: in so many seconds (0: now), or at an instant.

        None if it is not in the queue.
        """
        return self._client.run(self._calls.set_vt(msg_id, vt))

    def set_vt_many(self, msg_ids: Iterable[int], vt: When) -> list[Message[T]]:
        """The same for several messages; gives those that are in the queue."""
        return self._client.run(self._calls.set_vt_batch(msg_ids, vt))

    def set_lease(self, message: MessageRecord[Any], vt: When) -> Message[T]:
        """set_vt, if that delivery still holds its lease. Raises LostLease."""
        return self._client.run(self._calls.set_lease(message.msg_id, message.read_ct, vt))

    # --- the whole queue --------------------------------------------------------------------------

    def metrics(self) -> Metrics:
        """Counts and ages of the queue."""
        return self._client.run(self._calls.metrics())

    def purge(self) -> int:
        """Delete all messages, and say how many there were. The archive stays."""
        return self._client.run(self._calls.purge())
