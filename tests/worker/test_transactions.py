"""Transactional handlers: their work and the end of their message are one commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncDelivery, Backoff, Client, Defer, Delivery, Discard, Queue, Retry, Worker
from tests.databases import Database
from tests.sql.asking import Connection, column, do, row, rows, value
from tests.worker.running import Running, until

both = pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "thread"])
INSERT = "insert into work (msg_id) values (%s)"


@pytest.fixture(autouse=True)
def _work(conn: Connection) -> None:
    do(conn, "create table work (msg_id bigint, backend int default pg_backend_pid())")


def handle(
    worker: Worker, then: Callable[[Any], Any] = lambda message: None, *, coroutine: bool, **settings: Any
) -> None:
    """Register a transactional handler that notes its message in the table `work`, then calls `then`."""

    async def in_loop(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute(INSERT, [message.msg_id])
        result = then(message)
        if asyncio.iscoroutine(result):
            await result

    def in_thread(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
        conn.execute(INSERT, [message.msg_id])
        then(message)

    worker.handler("orders", transactional=True, **settings)(in_loop if coroutine else in_thread)


@both
@pytest.mark.parametrize("archive", [True, False])
def test_work_and_message_end_together(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, archive: bool
) -> None:
    def look(message: Any) -> None:
        counts = "select (select count(*) from work), (select count(*) from pgmq.q_orders where read_ct = 1)"
        seen.append(row(conn, counts))

    seen: list[Any] = []
    handle(worker, look, coroutine=coroutine, archive=archive, concurrency=3)
    orders.send_many([1, 2, 3])
    worker.run(until_empty=True)
    assert seen[0] == (0, 3), "the leases are committed, the work is not"
    assert sorted(column(conn, "select msg_id from work")) == [1, 2, 3]
    assert value(conn, "select count(*) from pgmq.q_orders") == 0
    assert value(conn, "select count(*) from pgmq.a_orders") == (3 if archive else 0)


@both
def test_messages_sent_by_the_handler_are_in_the_transaction(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    def send(message: Any) -> Any:
        if message.message == "bad":
            return refuse(message)
        return message.queue.send("follow-up") if message.message == "good" else None

    def refuse(message: Any) -> Any:
        sent = message.queue.send("never")
        if coroutine:
            return refused(sent)
        raise ValueError

    async def refused(sent: Any) -> None:
        await sent
        raise ValueError

    handle(worker, send, coroutine=coroutine, max_deliveries=1)
    orders.send_many(["good", "bad"])
    worker.run(until_empty=True)
    bodies = column(conn, "select message #>> '{}' from pgmq.a_orders order by msg_id")
    assert bodies == ["good", "bad", "follow-up"]


@both
@pytest.mark.parametrize("end", ["kept", "rolled back"])
def test_many_messages_sent_by_the_handler_are_in_the_transaction(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, end: str
) -> None:
    """By COPY, which looks for the connection in its own way."""

    async def in_loop(message: AsyncDelivery[Any], own: psycopg.AsyncConnection[Any]) -> None:
        assert await message.queue.send_bulk(range(1500), delay=60) == 1500
        await own.execute(NOTE_IF_SEEN, [message.msg_id])
        if end != "kept":
            raise ValueError

    def in_thread(message: Delivery[Any], own: psycopg.Connection[Any]) -> None:
        assert message.queue.send_bulk(range(1500), delay=60) == 1500
        own.execute(NOTE_IF_SEEN, [message.msg_id])
        if end != "kept":
            raise ValueError

    settings: dict[str, Any] = {"transactional": True, "max_deliveries": 1}
    worker.handler("orders", **settings)(in_loop if coroutine else in_thread)
    orders.send("go")
    worker.run(until_empty=True)
    copied = {"kept": 1500, "rolled back": 0}[end]
    assert value(conn, "select count(*) from pgmq.q_orders") == copied
    assert value(conn, "select count(*) from work") == bool(copied)
    assert value(conn, "select count(*) from pgmq.a_orders") == 1


NOTE_IF_SEEN = "insert into work (msg_id) select %s from pgmq.q_orders having count(*) = 1501"


@both
@pytest.mark.parametrize(
    ("error", "left"),
    [
        (ValueError("no"), {"read_ct": 1, "soon": True}),
        (Retry(after=3600), {"read_ct": 1, "soon": False}),
        (Defer(3600), {"read_ct": 1, "soon": False}),
        (Discard("never"), None),
    ],
    ids=["failure", "retry", "defer", "discard"],
)
def test_an_exception_rolls_the_work_back(
    worker: Worker,
    orders: Queue[Any],
    conn: Connection,
    coroutine: bool,
    error: Exception,
    left: dict[str, Any] | None,
) -> None:
    def fail(message: Any) -> None:
        raise error

    handle(worker, fail, coroutine=coroutine, backoff=Backoff(first=30))
    orders.send(1)
    worker.run(until_empty=True)
    assert column(conn, "select msg_id from work") == []
    found = rows(conn, "select read_ct, vt < now() + interval '30 seconds' from pgmq.q_orders")
    assert found == ([] if left is None else [(left["read_ct"], left["soon"])])
    assert value(conn, "select count(*) from pgmq.a_orders") == (1 if left is None else 0)


@both
def test_a_failed_statement_fails_the_message_alone(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    async def in_loop(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute(INSERT if message.message == "good" else "select 1 / 0 -- %s", [message.msg_id])

    def in_thread(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
        conn.execute(INSERT if message.message == "good" else "select 1 / 0 -- %s", [message.msg_id])

    settings: dict[str, Any] = {"transactional": True, "max_deliveries": 1}
    worker.handler("orders", **settings)(in_loop if coroutine else in_thread)
    orders.send_many(["bad", "good"])
    worker.run(until_empty=True)
    assert column(conn, "select msg_id from work") == [2]
    found = rows(conn, "select msg_id, headers ->> 'x-pgqueue-error' from pgmq.a_orders order by 1")
    assert found == [(1, "psycopg.errors.DivisionByZero: division by zero"), (2, None)]


@both
def test_a_lease_that_has_moved_on_rolls_the_work_back(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(message: Any) -> None:
        if message.read_ct == 1:
            do(conn, "select pgmq.set_vt('orders', 1, 0)")
            assert value(conn, "select count(*) from pgmq.read('orders', 60, 10)") == 1

    handle(worker, lose, coroutine=coroutine)
    orders.send(1)
    worker.run(until_empty=True)
    assert column(conn, "select msg_id from work") == []
    assert row(conn, "select read_ct, vt > now() + interval '50 seconds' from pgmq.q_orders") == (2, True)
    assert "the lease of message 1 was lost" in caplog.text


@both
def test_a_handler_may_complete_its_message_itself(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    handle(worker, lambda message: message.complete(archive=False), coroutine=coroutine)
    orders.send_many([1, 2])
    worker.run(until_empty=True)
    assert column(conn, "select msg_id from work order by 1") == [1, 2]
    assert (
        value(conn, "select (select count(*) from pgmq.q_orders) + (select count(*) from pgmq.a_orders)") == 0
    )


@both
def test_one_connection_serves_one_message_after_another(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    handle(worker, coroutine=coroutine)
    orders.send_many(list(range(5)))
    worker.run(until_empty=True)
    assert row(conn, "select count(*), count(distinct backend) from work") == (5, 1)


# --- the time limit --------------------------------------------------------------------------------


def test_a_coroutine_over_its_time_is_rolled_back(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    @worker.handler("orders", transactional=True, time_limit=0.4, max_deliveries=2, backoff=Backoff(0.01))
    async def slow(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute(INSERT, [message.msg_id])
        await (asyncio.sleep(60) if message.deliveries == 1 else conn.execute("select pg_sleep(60)"))

    began = time.monotonic()
    orders.send(1)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the end")
    assert time.monotonic() - began < 20
    assert column(conn, "select msg_id from work") == []
    assert "TimeLimitPassed" in value(conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders")


@pytest.mark.parametrize("how", ["in the server", "in Python", "swallowed"])
def test_a_thread_over_its_time_is_rolled_back_at_once(
    worker: Worker, orders: Queue[Any], conn: Connection, how: str
) -> None:
    """Nothing pins the horizon, even while the thread goes on."""
    go, returned = threading.Event(), threading.Event()

    @worker.handler("orders", transactional=True, time_limit=0.4, max_deliveries=1)
    def slow(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
        conn.execute(INSERT, [message.msg_id])
        try:
            if how == "in Python":
                go.wait(30)
            else:
                conn.execute("select pg_sleep(60)")
        except psycopg.Error:
            if how != "swallowed":
                raise
        returned.set()

    orders.send(1)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from work") == 0 and returned_or_cut(conn), "the rollback")
        go.set()
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the end")
    assert column(conn, "select msg_id from work") == []
    assert "TimeLimitPassed" in value(conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders")


def returned_or_cut(conn: Connection) -> bool:
    """Whether a transaction with work was open, and none is any more."""
    sql = """
        select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_xid is not null
            and (query like 'insert into work%' or query like 'select pg_sleep%')"""
    until(lambda: value(conn, sql) == 1, "an open transaction")
    until(lambda: value(conn, sql) == 0, "its end")
    return True


def test_the_server_ends_the_transaction_of_a_process_that_stands_still(
    worker: Worker, orders: Queue[Any]
) -> None:
    found: list[str] = []

    @worker.handler("orders", transactional=True, time_limit=7)
    def look(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
        shown = conn.execute("show idle_in_transaction_session_timeout").fetchone()
        found.append(shown[0] if shown else "")

    orders.send(1)
    worker.run(until_empty=True)
    assert found == ["7s"]


# --- connections -----------------------------------------------------------------------------------


@both
def test_a_connection_killed_in_the_handler_is_a_failure_and_the_next_is_new(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    def kill(message: Any) -> None:
        if message.read_ct == 1:
            sql = "select pg_terminate_backend(pid) from pg_stat_activity where backend_xid is not null"
            do(conn, f"{sql} and pid <> pg_backend_pid() and datname = current_database()")

    handle(worker, kill, coroutine=coroutine, backoff=Backoff(0.01))
    orders.send(1)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the second delivery")
    assert column(conn, "select msg_id from work") == [1]
    assert value(conn, "select read_ct from pgmq.a_orders") == 2


@both
def test_no_connection_for_the_transaction_is_no_failure(
    db: Database, client: Client, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    """The role may hold three connections: the worker's, its ear's, and one more, which is taken."""
    role = db.create_role()
    do(conn, f"grant usage on schema pgmq to {role}; grant all on pgmq.q_orders, pgmq.a_orders to {role}")
    do(conn, f"grant all on work to {role}")
    admin = db.connect(user=db.superuser)
    do(admin, f"alter role {role} connection limit 3")
    worker = Worker(db.dsn_for(role), poll=0.05)
    handle(worker, coroutine=coroutine, max_deliveries=1)
    with psycopg.connect(db.dsn_for(role)), Running(worker):
        until(lambda: value(conn, "select count(*) from pg_stat_activity where usename = %s", role) == 3)
        orders.send(1)
        until(lambda: value(conn, "select headers is not null from pgmq.q_orders"), "a delivery in vain")
        do(admin, f"alter role {role} connection limit 4")
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the end")
    headers = value(conn, "select headers from pgmq.a_orders")
    assert list(headers) == ["x-pgqueue-uncounted"] and column(conn, "select msg_id from work") == [1]
