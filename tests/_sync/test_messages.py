# Made of tests/_async/test_messages.py by tools/unasync.py: change that file, not this one.
"""Waiting for messages: wake-ups, polling, lost connections, stopping (cases 44 to 51)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgqueue import Client, Queue
from pgqueue._sync.listen import channel_of
from pgqueue.errors import BadValue, CannotConnect, InDoubt, NoSuchQueue
from tests._sync._compat import Background, on_signal, pool_of, sleep
from tests.databases import Database

NEVER = 600.0
"""Seconds between polls in tests that nothing but a notification may wake."""
HEARING = """\
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'pgqueue' and query ilike 'listen%'"""


@pytest.fixture
def orders(client: Client) -> Queue[Any]:
    """A queue that notifies without a pause."""
    client.create("orders")
    client.enable_notify_insert("orders", throttle_interval_ms=0)
    return client.queue("orders")


def ask(db: Database, sql: str) -> Any:
    row = db.connect(user=db.superuser).execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]


def until(db: Database, sql: str, wanted: Any) -> None:
    """Wait until the server answers so."""
    admin = db.connect(user=db.superuser)
    while (row := admin.execute(sql.encode()).fetchone()) is None or row[0] != wanted:
        sleep(0.01)


class Consumer:
    """Takes messages from a queue beside the test, and deletes them."""

    def __init__(self, orders: Queue[Any], count: int, **how: Any) -> None:
        self.bodies: list[Any] = []
        self.times: list[float] = []
        self.stream = orders.messages(**how)
        if how.get("poll") == NEVER:
            self.tire()
        self._count = count
        self._work = Background(self._consume)

    def tire(self) -> None:
        """As after a long time without a message: the next pause is the longest."""
        self.stream._idle = 20

    def _consume(self) -> None:
        with self.stream:
            for message in self.stream:
                self.bodies.append(message.message)
                self.times.append(time.monotonic())
                with suppress(InDoubt):  # it comes again, if it was not deleted
                    message.delete()
                if len(set(self.bodies)) == self._count:
                    return

    def join(self) -> None:
        self._work.join()


def test_what_is_there_comes_at_once_in_order(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    orders.send_many(range(5))
    found = []
    with orders.messages(qty=2) as stream:
        for message in stream:
            found.append(message.message)
            assert message.delete()
            if len(found) == 5:
                stream.stop()
    assert found == [0, 1, 2, 3, 4]


def test_a_notification_wakes_who_waits(orders: Queue[Any], db: Database) -> None:
    consumer = Consumer(orders, 2, poll=NEVER)
    until(db, HEARING, 1)
    sent = []
    for n in range(2):
        sleep(0.2)
        sent.append(time.monotonic())
        orders.send(n)
    consumer.join()
    assert consumer.bodies == [0, 1]
    assert all(came - went < 5 for came, went in zip(consumer.times, sent, strict=True))


def test_a_delayed_message_is_found_by_polling(orders: Queue[Any]) -> None:
    """Case 44: nothing notifies when its time has come."""
    consumer = Consumer(orders, 1, poll=0.2)
    began = time.monotonic()
    orders.send(1, delay=timedelta(seconds=1))
    consumer.join()
    assert 0.9 < consumer.times[0] - began < 10


def test_a_queue_that_does_not_notify_is_polled(client: Client) -> None:
    client.create("orders")
    consumer = Consumer(client.queue("orders"), 1, poll=0.1)
    sleep(0.3)
    client.queue("orders").send(1)
    consumer.join()


def test_waiting_grows_rarer(db: Database, client: Client) -> None:
    """Case 47: an idle stream asks seldom."""
    client.create("orders")
    asked: list[float] = []

    class Counted(Queue[Any]):
        def read(self, **how: Any) -> Any:
            asked.append(time.monotonic())
            return super().read(**how)

    plain = client.queue("orders")
    counted = Counted(client, "orders", plain._codec, plain._headers)
    consumer = Consumer(counted, 1, poll=NEVER + 1)
    while len(asked) < 5:
        sleep(0.01)
    consumer.stream.stop()
    consumer.join()
    assert asked[4] - asked[0] > 1, "0.1, 0.2, 0.4 and 0.8 seconds, a quarter less at most"


def test_a_listener_that_was_cut_hears_again_and_nothing_is_stuck(
    orders: Queue[Any], db: Database
) -> None:
    """Cases 49 and 50: what is sent while nobody hears is found right after the next LISTEN."""
    consumer = Consumer(orders, 3, poll=NEVER)
    for n in range(3):
        until(db, HEARING, 1)
        cut = f"select count(pg_terminate_backend(pid, 10000)) {HEARING.removeprefix('select count(*)')}"
        assert ask(db, cut) == 1
        db.connect().execute("select pgmq.send('orders', %s::jsonb)", [str(n)])
        while len(consumer.bodies) <= n:
            sleep(0.01)
        consumer.tire()
        sleep(0.3)
    consumer.join()
    assert consumer.bodies == [0, 1, 2]


def test_every_connection_that_is_lost_is_replaced(orders: Queue[Any], db: Database) -> None:
    consumer = Consumer(orders, 5, poll=0.2)
    for n in range(5):
        db.connect().execute("select pgmq.send('orders', %s::jsonb)", [str(n)])
        ask(
            db,
            "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgqueue'",
        )
        sleep(0.1)
    consumer.join()
    assert sorted(set(consumer.bodies)) == [0, 1, 2, 3, 4]


def test_stop_ends_a_stream_that_waits(orders: Queue[Any], db: Database) -> None:
    consumer = Consumer(orders, 1, poll=NEVER)
    until(db, HEARING, 1)
    consumer.stream.stop()
    consumer.join()
    assert consumer.bodies == []
    until(db, HEARING, 0)


def test_stop_works_in_a_signal_handler(orders: Queue[Any], db: Database) -> None:
    stream = orders.messages(poll=NEVER)
    stream._idle = 20

    def kill() -> None:
        until(db, HEARING, 1)
        sleep(0.1)
        os.kill(os.getpid(), signal.SIGUSR1)

    with on_signal(signal.SIGUSR1, stream.stop):
        killing = Background(kill)
        assert [message for message in stream] == []
        killing.join()


def test_a_stream_that_ends_gives_back_what_it_did_not_hand_out(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    orders.send_many(range(4))
    with orders.messages(qty=4, vt=300) as stream:
        for message in stream:
            assert message.message == 0
            break
    assert [(one.message, one.read_ct) for one in orders.read(qty=9)] == [(1, 2), (2, 2), (3, 2)]


def test_streams_share_one_listening_connection(
    client: Client, orders: Queue[Any], db: Database
) -> None:
    client.create("mails")
    client.enable_notify_insert("mails")
    consumers = [Consumer(queue, 1, poll=NEVER) for queue in (orders, orders, client.queue("mails"))]
    until(db, HEARING, 1)
    sleep(0.2)
    orders.send_many([1, 2])
    client.queue("mails").send(3)
    for consumer in consumers:
        consumer.join()
    assert sorted(body for one in consumers for body in one.bodies) == [1, 2, 3]
    assert ask(db, HEARING) <= 1


def test_waiters_do_not_starve_a_sender(db: Database, orders: Queue[Any]) -> None:
    """Case 45: 20 that wait on a pool of 5 hold none of its connections, and one beside it."""
    with pool_of(db.dsn, 5) as pool:
        client = Client(pool)
        waiting = client.queue("orders")
        consumers = [Consumer(waiting, 1, poll=NEVER) for _ in range(20)]
        until(db, HEARING.replace("'pgqueue'", "'pool'"), 1)
        sleep(0.5)
        busy = "select count(*) from pg_stat_activity where application_name = 'pool' and state <> 'idle'"
        assert ask(db, busy) == 0
        assert ask(db, busy.replace("state <> 'idle'", "true")) == 6
        began = time.monotonic()
        for n in range(20):
            waiting.send(n)
        assert time.monotonic() - began < 20
        for consumer in consumers:
            consumer.join()
        assert sorted(body for one in consumers for body in one.bodies) == list(range(20))
        client.close()


def test_no_transaction_is_open_while_waiting(orders: Queue[Any], db: Database) -> None:
    """Case 51: the listener too."""
    consumer = Consumer(orders, 1, poll=NEVER)
    until(db, HEARING, 1)
    ours = "select count(*) from pg_stat_activity where application_name = 'pgqueue' and {}"
    assert ask(db, ours.format("true")) == 2
    assert ask(db, ours.format("(state <> 'idle' or backend_xmin is not null)")) == 0
    orders.send(1)
    consumer.join()


def test_waiting_in_a_transaction_is_refused(
    client: Client, orders: Queue[Any], owned: psycopg.Connection[Any]
) -> None:
    with client.transaction():
        with pytest.raises(BadValue, match="transaction"):
            orders.messages()
    with pytest.raises(BadValue, match="transaction"):
        Client(owned).queue("orders").messages()
    owned.set_autocommit(True)
    orders.send(1)
    with Client(owned).queue("orders").messages() as stream:
        for message in stream:
            assert message.message == 1
            break


def test_what_cannot_work_is_told_at_once(client: Client, db: Database) -> None:
    with pytest.raises(NoSuchQueue):
        first(client.queue("nope"))
    with pytest.raises(CannotConnect):
        first(Client(db.dsn.replace(db.name, "no_such")).queue("orders"))


def first(orders: Queue[Any]) -> Any:
    with orders.messages() as stream:
        for message in stream:
            return message.message
    return None


@pytest.mark.parametrize("name", ["Größe", "x" * 47, "é" * 30])
def test_odd_names_are_heard_or_polled(client: Client, name: str) -> None:
    client.create(name)
    queue = client.queue(name)
    if channel_of(name):
        client.enable_notify_insert(name, throttle_interval_ms=0)
    consumer = Consumer(queue, 1, poll=1)
    sleep(0.2)
    queue.send(1)
    consumer.join()


def test_how_full_the_servers_notification_queue_is(client: Client) -> None:
    """Case 51."""
    assert client.notification_queue_usage() == 0
