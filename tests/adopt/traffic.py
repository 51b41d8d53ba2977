"""Clients that live on a queue while something is done to its database.

    with Traffic(dsn, "x") as traffic:
        traffic.go_on()                 # until some hundred more messages are handled
        ...                             # adopt
        traffic.go_on()
    print(traffic.report)               # what ledger.py says of it

One producer and three consumers, each a thread with a connection of its own, all by pgmq's official client: the
producer sends one by one, in batches, later, in transactions, and takes some back; of the consumers one deletes,
one polls and archives, one lets leases run out.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

import psycopg
from pgmq import PGMQueue
from pgmq.messages import Message
from psycopg_pool import ConnectionPool

from tests.adopt.ledger import Delivery, Handled, Ledger, Report

T = TypeVar("T")
Body = dict[str, Any]

PAUSE = 0.003  # seconds between two steps of one client
LEASE, SHORT_LEASE, DELAY, POLL = 30, 1, 1, 1  # seconds


class OldClient(PGMQueue):
    """The official client as it was before pgmq 1.10: it knows the columns that every version has, by name."""

    def read_batch(self, queue: str, vt: int, batch_size: int) -> list[Message]:  # type: ignore[override]
        return self._messages("read(%s, %s, %s)", queue, vt, batch_size)

    def read_with_poll(self, *given: object) -> list[Message]:  # type: ignore[override]
        return self._messages("read_with_poll(%s, %s, %s, %s, %s)", *given)

    def pop(self, queue: str) -> Message | None:  # type: ignore[override]
        return next(iter(self._messages("pop(%s)", queue)), None)

    def set_vt(self, queue: str, msg_id: int, vt: int) -> Message | None:  # type: ignore[override]
        return next(iter(self._messages("set_vt(%s, %s, %s)", queue, msg_id, vt)), None)

    def _messages(self, call: str, *given: object) -> list[Message]:
        query = f"select msg_id, read_ct, enqueued_at, vt, message from pgmq.{call}"
        rows = self._execute_with_result(query, given)
        return [Message(row[0], row[1], row[2], None, row[3], row[4], None) for row in rows]


class Traffic:
    """See the module.

    dsn: a DSN of a role that may send to and read from the queue
    topic: a routing key that is bound to the queue and to no other
    backlog: how many messages lie there that `preload` made; then the queue is not emptied at the end
    hold: seconds for which a consumer keeps what it was given before it handles it
    patience: seconds without a handled message, after which a run is given up
    """

    def __init__(
        self,
        dsn: str,
        queue: str,
        *,
        topic: str | None = None,
        backlog: int = 0,
        hold: float = 0.0,
        patience: float = 20.0,
    ) -> None:
        self.dsn, self.queue, self.topic, self.backlog = dsn, queue, topic, backlog
        self.hold, self.patience = hold, patience
        self.ledger = Ledger()
        self.report: Report | None = None
        self._keys = (f"k{n}" for n in itertools.count())
        self._sent_all, self._over = threading.Event(), threading.Event()
        with psycopg.connect(dsn) as conn:
            query = "select attname from pg_attribute where attrelid = 'pgmq.message_record'::regclass"
            columns = {name for (name,) in conn.execute(query)}
        self._headers = {"h": 1} if "headers" in columns else None
        self._kind = PGMQueue if "last_read_at" in columns else OldClient
        self._producer = threading.Thread(target=self._produce)
        steps = (self._delete, self._archive, self._let_run_out)
        self._consumers = [threading.Thread(target=self._consume, args=[step]) for step in steps]

    def __enter__(self) -> Traffic:
        for thread in (self._producer, *self._consumers):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sent_all.set()
        self._producer.join()
        if not self.backlog:
            self._wait_until(lambda: not self.ledger.missing())
        self._over.set()
        for thread in self._consumers:
            thread.join()
        self.report = self._account()

    def go_on(self, handled: int = 100) -> None:
        """Waits until so many more messages were handled; it is an error in the report if nothing moves."""
        goal = len(self.ledger.handled) + handled
        if not self._wait_until(lambda: len(self.ledger.handled) >= goal):
            self.ledger.errors.append(f"no message was handled for {self.patience:.0f} s")

    def _wait_until(self, reached: Callable[[], bool]) -> bool:
        seen, since = -1, time.monotonic()
        while not reached():
            if len(self.ledger.handled) != seen:
                seen, since = len(self.ledger.handled), time.monotonic()
            elif time.monotonic() - since > self.patience:
                return False
            time.sleep(0.01)
        return True

    def _account(self) -> Report:
        with psycopg.connect(self.dsn) as conn:
            key = f"select coalesce(message ->> 'key', 'b' || msg_id) from pgmq.{{}}_{self.queue}"
            left = {name for (name,) in conn.execute(f"{key.format('q')} where message ? 'key'".encode())}
            archived = Counter(name for (name,) in conn.execute(key.format("a").encode()))
            rest = f"select count(*) from pgmq.q_{self.queue} where not message ? 'key'"
            ((untouched,),) = conn.execute(rest.encode())
        handled = len({done.key for done in self.ledger.handled if done.key.startswith("b")})
        self.ledger.backlog_lost = self.backlog - untouched - handled
        return self.ledger.report(left, archived, drained=not self.backlog)

    def _timed(self, what: str, call: Callable[[], T], told_to_wait: float = 0) -> T | None:
        """Makes a call; notes how long it took, and what it failed with."""
        began = time.monotonic()
        try:
            return call()
        except Exception as error:  # whatever a client would see
            self.ledger.errors.append(f"{what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            return None
        finally:
            self.ledger.waits.append((time.monotonic() - began - told_to_wait, what))

    @contextlib.contextmanager
    def _client(self) -> Iterator[PGMQueue]:
        with ConnectionPool(self.dsn, min_size=1, max_size=1, num_workers=1, open=True) as pool:
            yield self._kind(pool=pool, init_extension=False)

    # --- the producer -----------------------------------------------------------------------------

    def _produce(self) -> None:
        headers = self._headers
        with self._client() as client:
            ways: list[Callable[[], None]] = [
                lambda: self._send("send", 1, lambda m: client.send(self.queue, m[0])),
                lambda: self._send("send_batch", 5, lambda m: client.send_batch(self.queue, m)),
                lambda: self._take_back(client),
                lambda: self._send("sends in a transaction", 3, lambda m: self._send_slowly(client, m)),
                lambda: self._send("send", 1, lambda m: client.send(self.queue, m[0], headers=headers)),
                lambda: self._send(
                    "send later", 1, lambda m: client.send(self.queue, m[0], delay=DELAY), DELAY
                ),
            ]
            if self.topic:
                ways.append(
                    lambda: self._send("send_topic", 1, lambda m: client.send_topic(self.topic, m[0]))
                )
            for send in itertools.cycle(ways):
                if self._sent_all.wait(PAUSE):
                    return
                send()

    def _send(self, what: str, count: int, call: Callable[[list[Body]], Any], delay: int = 0) -> None:
        bodies = [_body(key) for key in itertools.islice(self._keys, count)]
        keys = [str(body["key"]) for body in bodies]
        self.ledger.tried.update(keys)
        due = _now() + timedelta(seconds=delay)
        if self._timed(what, lambda: call(bodies)):
            self.ledger.committed.update(dict.fromkeys(keys, due))

    def _send_slowly(self, client: PGMQueue, bodies: list[Body]) -> bool:
        with client.pool.connection() as conn, conn.transaction():
            for body in bodies:
                client.send(self.queue, body, conn=conn)
            time.sleep(5 * PAUSE)
        return True

    def _take_back(self, client: PGMQueue) -> None:
        body = _body(next(self._keys))
        self.ledger.taken_back.add(body["key"])

        def call() -> None:
            with client.pool.connection() as conn, conn.transaction(force_rollback=True):
                client.send(self.queue, body, conn=conn)

        self._timed("send taken back", call)

    # --- the consumers ----------------------------------------------------------------------------

    def _consume(self, step: Callable[[PGMQueue, int], None]) -> None:
        with self._client() as client:
            for turn in itertools.count():
                if self._over.wait(PAUSE):
                    return
                step(client, turn)

    def _delete(self, client: PGMQueue, turn: int) -> None:
        if turn % 5 == 4:
            self._pop(client)
        messages = self._read(client, LEASE, qty=1 + turn % 4)
        if turn % 2:
            self._handle_all("deleted", messages, lambda ids: client.delete_batch(self.queue, ids))
        else:
            self._handle_each("deleted", messages, lambda msg_id: client.delete(self.queue, msg_id))

    def _archive(self, client: PGMQueue, turn: int) -> None:
        messages = self._read(client, LEASE, qty=1 + turn % 3, poll=True)
        if turn % 2:
            self._handle_all("archived", messages, lambda ids: client.archive_batch(self.queue, ids))
        else:
            self._handle_each("archived", messages, lambda msg_id: client.archive(self.queue, msg_id))

    def _let_run_out(self, client: PGMQueue, turn: int) -> None:
        """Every other first delivery's lease runs out; what comes again is deleted, and what comes at the end."""
        messages = self._read(client, SHORT_LEASE, qty=2)
        last = turn % 2 or self._sent_all.is_set()
        kept = [message for message in messages if last or message.read_ct > 1]
        for m in kept[:1]:
            self._timed("set_vt", lambda: client.set_vt(self.queue, m.msg_id, LEASE))  # noqa: B023  # called at once
        self._handle_each("deleted", kept, lambda msg_id: client.delete(self.queue, msg_id))

    def _pop(self, client: PGMQueue) -> None:
        m = self._timed("pop", lambda: client.pop(self.queue))
        if m is not None:
            key, now = _key(m), _now()
            if m.vt > now or not _whole(m) or not (self.backlog or key in self.ledger.tried):
                self.ledger.errors.append(f"{key} was popped while leased, or not as it was sent")
            self.ledger.handled.append(Handled(key, now, "deleted"))

    def _read(self, client: PGMQueue, lease: int, qty: int, poll: bool = False) -> list[Message]:
        asked = _now()
        if poll:
            call = lambda: client.read_with_poll(self.queue, lease, qty, POLL, 50)  # noqa: E731
            found = self._timed("read_with_poll", call, told_to_wait=POLL)
        else:
            found = self._timed("read", lambda: client.read_batch(self.queue, lease, qty))
        for m in found or ():
            began = m.vt - timedelta(seconds=lease)
            delivery = Delivery(_key(m), m.read_ct, began, m.vt, asked, _whole(m))
            self.ledger.deliveries.append(delivery)
            if m.message == {} and self.backlog:
                self.ledger.tried.add(_key(m))
        if found and self.hold:
            time.sleep(self.hold)
        return found or []

    def _handle_all(self, how: str, messages: list[Message], call: Callable[[list[int]], list[int]]) -> None:
        ids = [m.msg_id for m in messages]
        done = (self._timed(f"{how} in a batch", lambda: call(ids)) if ids else None) or []
        self.ledger.handled += [Handled(_key(m), _now(), how) for m in messages if m.msg_id in done]

    def _handle_each(self, how: str, messages: list[Message], call: Callable[[int], bool]) -> None:
        for m in messages:
            if self._timed(how, lambda: call(m.msg_id)):  # noqa: B023  # called at once
                self.ledger.handled.append(Handled(_key(m), _now(), how))


def preload(conn: psycopg.Connection[Any], queue: str, count: int) -> None:
    """Puts a backlog of empty messages into a new queue, as its owner."""
    conn.execute(
        f"insert into pgmq.q_{queue} (vt, message) select clock_timestamp(), '{{}}'"
        f" from generate_series(1, {count})".encode()
    )
    conn.execute(f"analyze pgmq.q_{queue}".encode())


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _body(key: str) -> Body:
    return {"key": key, "text": key * 8}


def _whole(message: Message) -> bool:
    """Whether it is as it was sent."""
    return message.message in ({}, _body(_key(message)))


def _key(message: Message) -> str:
    """What names a message in the ledger: the producer's key; one of the backlog by its id."""
    return str(message.message.get("key", f"b{message.msg_id}"))
