"""Leases: extended while the handler runs, lost to others, ended by a limit."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from pgqueue import AsyncDelivery, Backoff, Client, Delivery, Queue, Worker
from tests.databases import Database
from tests.sql.asking import Connection, column, do, row, value
from tests.worker.running import Running, until

both = pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "thread"])


@pytest.mark.parametrize(("coroutine", "batch"), [(True, 1), (False, 3)])
def test_a_handler_longer_than_its_lease_runs_once(
    db: Database, orders: Queue[Any], conn: Connection, coroutine: bool, batch: int
) -> None:
    """case 101: three times the vt; another worker looks all the time and never gets it"""
    seen: list[tuple[str, int]] = []
    workers = [Worker(db.dsn, poll=0.05) for _ in range(2)]
    for name, worker in zip("ab", workers, strict=True):

        async def in_loop(message: AsyncDelivery[Any], name: str = name) -> None:
            await asyncio.sleep(3 if message.message == 1 else 0)
            seen.append((name, message.message))

        def in_thread(message: Delivery[Any], name: str = name) -> None:
            time.sleep(3 if message.message == 1 else 0)
            seen.append((name, message.message))

        worker.handler("orders", vt=1, batch=batch)(in_loop if coroutine else in_thread)
    orders.send_many([1, 2, 3])
    with Running(workers[0]), Running(workers[1]):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 3, "all three")
    assert sorted(number for _, number in seen) == [1, 2, 3]
    assert column(conn, "select read_ct from pgmq.a_orders") == [1, 1, 1]


def steal(conn: Connection) -> None:
    """Another consumer's delivery of every message, for a minute."""
    do(conn, "select pgmq.set_vt('orders', msg_id, 0) from pgmq.q_orders")
    assert value(conn, "select count(*) from pgmq.read('orders', 60, 10)") == 1


def test_a_lost_lease_cancels_a_coroutine(
    worker: Worker, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """case 102"""
    seen: list[str] = []

    @worker.handler("orders", vt=1)
    async def handle(message: AsyncDelivery[Any]) -> None:
        seen.append("begun")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(f"cancelled, lost: {message.lost}")
            raise

    orders.send("x")
    with Running(worker):
        until(lambda: seen, "the handler")
        steal(conn)
        until(lambda: len(seen) == 2, "the cancellation")
    assert seen == ["begun", "cancelled, lost: True"]
    assert row(conn, "select read_ct, vt > now() + interval '50 seconds' from pgmq.q_orders") == (2, True)
    assert "the lease of message 1 was lost" in caplog.text


@both
def test_a_late_return_does_not_touch_the_next_owner(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    """case 102"""
    begun, go, told = threading.Event(), threading.Event(), []

    def in_thread(message: Delivery[Any]) -> None:
        begun.set()
        go.wait(30)
        told.append(message.lost)

    async def in_loop(message: AsyncDelivery[Any]) -> None:
        begun.set()
        while not go.is_set():
            await asyncio.sleep(0.01)
        told.append(message.lost)

    worker.handler("orders", vt=30)(in_loop if coroutine else in_thread)
    orders.send("x")
    with Running(worker):
        begun.wait(30)
        steal(conn)
        go.set()
        until(lambda: told, "the return")
    assert row(conn, "select read_ct, vt > now() + interval '50 seconds' from pgmq.q_orders") == (2, True)
    assert value(conn, "select count(*) from pgmq.a_orders") == 0


@both
def test_a_late_failure_does_not_touch_the_next_owner(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    begun, go = threading.Event(), threading.Event()

    def in_thread(message: Delivery[Any]) -> None:
        begun.set()
        go.wait(30)
        raise ValueError

    async def in_loop(message: AsyncDelivery[Any]) -> None:
        begun.set()
        while not go.is_set():
            await asyncio.sleep(0.01)
        raise ValueError

    worker.handler("orders", vt=30, max_deliveries=1)(in_loop if coroutine else in_thread)
    orders.send("x")
    with Running(worker):
        begun.wait(30)
        steal(conn)
        go.set()
    assert row(conn, "select read_ct, vt > now() + interval '50 seconds', headers from pgmq.q_orders") == (
        2,
        True,
        None,
    )
    assert value(conn, "select count(*) from pgmq.a_orders") == 0


def test_a_thread_is_told_that_its_lease_is_lost(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    begun, told = threading.Event(), threading.Event()

    @worker.handler("orders", vt=1)
    def handle(message: Delivery[Any]) -> None:
        begun.set()
        until(lambda: message.lost, "the loss")
        told.set()

    orders.send("x")
    with Running(worker):
        begun.wait(30)
        steal(conn)
        assert told.wait(30)


def test_a_coroutine_over_its_time_is_cancelled_and_fails(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    seen: list[bool] = []

    @worker.handler("orders", time_limit=0.3, max_deliveries=2, backoff=Backoff(0.01))
    async def handle(message: AsyncDelivery[Any]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(message.lost)

    orders.send("x")
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the end")
    assert seen == [True, True]
    error = value(conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders")
    assert error == "pgqueue.errors.TimeLimitPassed: over its time limit of 0.3 s"


def test_the_lease_of_a_thread_over_its_time_is_not_extended(
    db: Database, orders: Queue[Any], conn: Connection
) -> None:
    first, second, go, seen = Worker(db.dsn), Worker(db.dsn, poll=0.05), threading.Event(), []

    @first.handler("orders", vt=1, time_limit=0.5)
    def stuck(message: Delivery[Any]) -> None:
        seen.append("stuck")
        go.wait(30)
        seen.append(f"lost: {message.lost}")

    @second.handler("orders")
    async def handle(message: AsyncDelivery[Any]) -> None:
        seen.append("handled")

    orders.send("x")
    with Running(first):
        until(lambda: seen, "the first")
        with Running(second):
            until(lambda: len(seen) == 2, "the second")
            go.set()
    assert seen == ["stuck", "handled", "lost: True"]
    assert row(conn, "select read_ct, headers from pgmq.a_orders") == (2, None)


def test_a_swallowed_cancellation_does_not_bring_the_message_back(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    """It went on and returned: the work is done, and the lease still held."""

    @worker.handler("orders", time_limit=0.2)
    async def handle(message: AsyncDelivery[Any]) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(0)

    orders.send("x")
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the end")
    assert value(conn, "select read_ct from pgmq.a_orders") == 1


def test_heartbeats_go_on_while_one_message_is_locked(
    db: Database, client: Client, orders: Queue[Any], conn: Connection
) -> None:
    """A transaction that has locked its message for long must not cost others their leases."""
    worker, begun = Worker(db.dsn), []

    @worker.handler("orders", vt=1, concurrency=2)
    async def handle(message: AsyncDelivery[Any]) -> None:
        begun.append(message)
        await asyncio.sleep(60)

    orders.send_many(["locked", "free"])
    other = db.connect(autocommit=False)
    worker._grace = 0
    with Running(worker):
        until(lambda: len(begun) == 2, "both")
        do(other, "select from pgmq.q_orders where msg_id = 1 for update")
        for _ in range(2):
            ends = value(conn, "select vt from pgmq.q_orders where msg_id = 2")
            longer = partial(value, conn, "select vt > %s from pgmq.q_orders where msg_id = 2", ends)
            until(longer, "the next extension")
        assert not any(message.lost for message in begun), "a locked message is not a lost one"
        other.rollback()
    assert column(conn, "select read_ct from pgmq.q_orders") == [1, 1]
