# The source of tests/_sync/test_messages.py: after a change here run tools/unasync.py.
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

from pgqueue import AsyncClient, AsyncQueue
from pgqueue._async.listen import channel_of
from pgqueue.errors import BadValue, CannotConnect, InDoubt, NoSuchQueue
from tests._async._compat import Background, on_signal, pool_of, sleep
from tests.databases import Database

NEVER = 600.0
"""Seconds between polls in tests that nothing but a notification may wake."""
HEARING = """\
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'pgqueue' and query ilike 'listen%'"""


@pytest.fixture
async def orders(client: AsyncClient) -> AsyncQueue[Any]:
    """A queue that notifies without a pause."""
    await client.create("orders")
    await client.enable_notify_insert("orders", throttle_interval_ms=0)
    return client.queue("orders")


def ask(db: Database, sql: str) -> Any:
    row = db.connect(user=db.superuser).execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]


async def until(db: Database, sql: str, wanted: Any) -> None:
    """Wait until the server answers so."""
    admin = db.connect(user=db.superuser)
    while (row := admin.execute(sql.encode()).fetchone()) is None or row[0] != wanted:
        await sleep(0.01)


class Consumer:
    """Takes messages from a queue beside the test, and deletes them."""

    def __init__(self, orders: AsyncQueue[Any], count: int, **how: Any) -> None:
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

    async def _consume(self) -> None:
        async with self.stream:
            async for message in self.stream:
                self.bodies.append(message.message)
                self.times.append(time.monotonic())
                with suppress(InDoubt):  # it comes again, if it was not deleted
                    await message.delete()
                if len(set(self.bodies)) == self._count:
                    return

    async def join(self) -> None:
        await self._work.join()


async def test_what_is_there_comes_at_once_in_order(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many(range(5))
    found = []
    async with orders.messages(qty=2) as stream:
        async for message in stream:
            found.append(message.message)
            assert await message.delete()
            if len(found) == 5:
                stream.stop()
    assert found == [0, 1, 2, 3, 4]


async def test_a_notification_wakes_who_waits(orders: AsyncQueue[Any], db: Database) -> None:
    consumer = Consumer(orders, 2, poll=NEVER)
    await until(db, HEARING, 1)
    sent = []
    for n in range(2):
        await sleep(0.2)
        sent.append(time.monotonic())
        await orders.send(n)
    await consumer.join()
    assert consumer.bodies == [0, 1]
    assert all(came - went < 5 for came, went in zip(consumer.times, sent, strict=True))


async def test_a_delayed_message_is_found_by_polling(orders: AsyncQueue[Any]) -> None:
    """Case 44: nothing notifies when its time has come."""
    consumer = Consumer(orders, 1, poll=0.2)
    began = time.monotonic()
    await orders.send(1, delay=timedelta(seconds=1))
    await consumer.join()
    assert 0.9 < consumer.times[0] - began < 10


async def test_a_queue_that_does_not_notify_is_polled(client: AsyncClient) -> None:
    await client.create("orders")
    consumer = Consumer(client.queue("orders"), 1, poll=0.1)
    await sleep(0.3)
    await client.queue("orders").send(1)
    await consumer.join()


async def test_waiting_grows_rarer(db: Database, client: AsyncClient) -> None:
    """Case 47: an idle stream asks seldom."""
    await client.create("orders")
    asked: list[float] = []

    class Counted(AsyncQueue[Any]):
        async def read(self, **how: Any) -> Any:
            asked.append(time.monotonic())
            return await super().read(**how)

    plain = client.queue("orders")
    counted = Counted(client, "orders", plain._codec, plain._headers)
    consumer = Consumer(counted, 1, poll=NEVER + 1)
    while len(asked) < 5:
        await sleep(0.01)
    consumer.stream.stop()
    await consumer.join()
    assert asked[4] - asked[0] > 1, "0.1, 0.2, 0.4 and 0.8 seconds, a quarter less at most"


async def test_a_listener_that_was_cut_hears_again_and_nothing_is_stuck(
    orders: AsyncQueue[Any], db: Database
) -> None:
    """Cases 49 and 50: what is sent while nobody hears is found right after the next LISTEN."""
    consumer = Consumer(orders, 3, poll=NEVER)
    for n in range(3):
        await until(db, HEARING, 1)
        cut = f"select count(pg_terminate_backend(pid, 10000)) {HEARING.removeprefix('select count(*)')}"
        assert ask(db, cut) == 1
        db.connect().execute("select pgmq.send('orders', %s::jsonb)", [str(n)])
        while len(consumer.bodies) <= n:
            await sleep(0.01)
        consumer.tire()
        await sleep(0.3)
    await consumer.join()
    assert consumer.bodies == [0, 1, 2]


async def test_every_connection_that_is_lost_is_replaced(orders: AsyncQueue[Any], db: Database) -> None:
    consumer = Consumer(orders, 5, poll=0.2)
    for n in range(5):
        db.connect().execute("select pgmq.send('orders', %s::jsonb)", [str(n)])
        ask(
            db,
            "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgqueue'",
        )
        await sleep(0.1)
    await consumer.join()
    assert sorted(set(consumer.bodies)) == [0, 1, 2, 3, 4]


async def test_stop_ends_a_stream_that_waits(orders: AsyncQueue[Any], db: Database) -> None:
    consumer = Consumer(orders, 1, poll=NEVER)
    await until(db, HEARING, 1)
    consumer.stream.stop()
    await consumer.join()
    assert consumer.bodies == []
    await until(db, HEARING, 0)


async def test_stop_works_in_a_signal_handler(orders: AsyncQueue[Any], db: Database) -> None:
    stream = orders.messages(poll=NEVER)
    stream._idle = 20

    async def kill() -> None:
        await until(db, HEARING, 1)
        await sleep(0.1)
        os.kill(os.getpid(), signal.SIGUSR1)

    with on_signal(signal.SIGUSR1, stream.stop):
        killing = Background(kill)
        assert [message async for message in stream] == []
        await killing.join()


async def test_a_stream_that_ends_gives_back_what_it_did_not_hand_out(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many(range(4))
    async with orders.messages(qty=4, vt=300) as stream:
        async for message in stream:
            assert message.message == 0
            break
    assert [(one.message, one.read_ct) for one in await orders.read(qty=9)] == [(1, 2), (2, 2), (3, 2)]


async def test_streams_share_one_listening_connection(
    client: AsyncClient, orders: AsyncQueue[Any], db: Database
) -> None:
    await client.create("mails")
    await client.enable_notify_insert("mails")
    consumers = [Consumer(queue, 1, poll=NEVER) for queue in (orders, orders, client.queue("mails"))]
    await until(db, HEARING, 1)
    await sleep(0.2)
    await orders.send_many([1, 2])
    await client.queue("mails").send(3)
    for consumer in consumers:
        await consumer.join()
    assert sorted(body for one in consumers for body in one.bodies) == [1, 2, 3]
    assert ask(db, HEARING) <= 1


async def test_waiters_do_not_starve_a_sender(db: Database, orders: AsyncQueue[Any]) -> None:
    """Case 45: 20 that wait on a pool of 5 hold none of its connections, and one beside it."""
    async with pool_of(db.dsn, 5) as pool:
        client = AsyncClient(pool)
        waiting = client.queue("orders")
        consumers = [Consumer(waiting, 1, poll=NEVER) for _ in range(20)]
        await until(db, HEARING.replace("'pgqueue'", "'pool'"), 1)
        await sleep(0.5)
        busy = "select count(*) from pg_stat_activity where application_name = 'pool' and state <> 'idle'"
        assert ask(db, busy) == 0
        assert ask(db, busy.replace("state <> 'idle'", "true")) == 6
        began = time.monotonic()
        for n in range(20):
            await waiting.send(n)
        assert time.monotonic() - began < 20
        for consumer in consumers:
            await consumer.join()
        assert sorted(body for one in consumers for body in one.bodies) == list(range(20))
        await client.close()


async def test_no_transaction_is_open_while_waiting(orders: AsyncQueue[Any], db: Database) -> None:
    """Case 51: the listener too."""
    consumer = Consumer(orders, 1, poll=NEVER)
    await until(db, HEARING, 1)
    ours = "select count(*) from pg_stat_activity where application_name = 'pgqueue' and {}"
    assert ask(db, ours.format("true")) == 2
    assert ask(db, ours.format("(state <> 'idle' or backend_xmin is not null)")) == 0
    await orders.send(1)
    await consumer.join()


async def test_waiting_in_a_transaction_is_refused(
    client: AsyncClient, orders: AsyncQueue[Any], owned: psycopg.AsyncConnection[Any]
) -> None:
    async with client.transaction():
        with pytest.raises(BadValue, match="transaction"):
            orders.messages()
    with pytest.raises(BadValue, match="transaction"):
        AsyncClient(owned).queue("orders").messages()
    await owned.set_autocommit(True)
    await orders.send(1)
    async with AsyncClient(owned).queue("orders").messages() as stream:
        async for message in stream:
            assert message.message == 1
            break


async def test_what_cannot_work_is_told_at_once(client: AsyncClient, db: Database) -> None:
    with pytest.raises(NoSuchQueue):
        await first(client.queue("nope"))
    with pytest.raises(CannotConnect):
        await first(AsyncClient(db.dsn.replace(db.name, "no_such")).queue("orders"))


async def first(orders: AsyncQueue[Any]) -> Any:
    async with orders.messages() as stream:
        async for message in stream:
            return message.message
    return None


@pytest.mark.parametrize("name", ["Größe", "x" * 47, "é" * 30])
async def test_odd_names_are_heard_or_polled(client: AsyncClient, name: str) -> None:
    await client.create(name)
    queue = client.queue(name)
    if channel_of(name):
        await client.enable_notify_insert(name, throttle_interval_ms=0)
    consumer = Consumer(queue, 1, poll=1)
    await sleep(0.2)
    await queue.send(1)
    await consumer.join()


async def test_how_full_the_servers_notification_queue_is(client: AsyncClient) -> None:
    """Case 51."""
    assert await client.notification_queue_usage() == 0
