"""Handlers, settings and circumstances that nobody should have, and somebody will."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncDelivery, Backoff, Client, Defer, Delivery, Queue, Retry, Worker
from pgqueue.errors import BadValue
from tests.databases import Database, our_sql, uri
from tests.servers import Server
from tests.sql.asking import Connection, column, do, rows, value
from tests.worker.running import Process, Running, until

# --- handlers that are none ---------------------------------------------------------------------------


async def handle(message: Any) -> None: ...


def wrapped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decorator that forgets to say what it wraps."""
    return lambda message: function(message)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_coroutine_that_nobody_awaits_is_a_failure(
    worker: Worker, orders: Queue[Any], conn: Connection, transactional: bool
) -> None:
    """A wrapper hides that the handler is one: it must not count as done."""
    hidden = (lambda message, conn: handle(message)) if transactional else wrapped(handle)
    worker.handler("orders", transactional=transactional, max_deliveries=1)(hidden)
    orders.send(1)
    worker.run(until_empty=True)
    (error,) = column(conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders")
    assert error.startswith("TypeError: the handler gave a coroutine back")


def yields(message: Any) -> Iterator[None]:
    yield


async def yields_later(message: Any) -> AsyncIterator[None]:
    yield


class Callable_:
    def __call__(self, message: Any) -> Iterator[None]:
        yield


@pytest.mark.parametrize("function", [yields, yields_later, Callable_()])
def test_a_generator_is_no_handler(worker: Worker, function: Any) -> None:
    with pytest.raises(BadValue, match="generator"):
        worker.handler("orders")(function)


@pytest.mark.parametrize(
    ("function", "transactional", "fits"),
    [
        (lambda: None, False, False),
        (lambda message: None, False, True),
        (lambda message, more=1: None, False, True),
        (lambda message, conn: None, False, False),
        (lambda message: None, True, False),
        (lambda message, conn: None, True, True),
        (functools.partial(lambda extra, message: None, 1), False, True),
        (print, True, True),
        ("no function", False, False),
    ],
)
def test_what_a_handler_is_given_must_fit(
    worker: Worker, function: Any, transactional: bool, fits: bool
) -> None:
    register = worker.handler("orders", transactional=transactional)
    if fits:
        assert register(function) is function
    else:
        with pytest.raises(BadValue, match="handler of orders"):
            register(function)


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["soon", float("nan"), float("inf"), datetime(2030, 1, 1), True])
def test_when_must_be_a_time(value: Any) -> None:
    """Where it is raised, in the handler: so it fails like any mistake there, and says what it is."""
    with pytest.raises(BadValue):
        Defer(value)
    with pytest.raises(BadValue):
        Retry(after=value)
    assert Retry(after=timedelta(seconds=1)).after == timedelta(seconds=1)


class Broken(Backoff):
    def seconds(self, failures: int) -> float:
        raise ZeroDivisionError


def test_a_backoff_that_fails_is_told_and_the_worker_goes_on(
    worker: Worker, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @worker.handler("orders", vt=1, backoff=Broken())
    async def fail(message: AsyncDelivery[Any]) -> None:
        if message.message == "bad" and message.read_ct == 1:
            raise ValueError

    orders.send_many(["bad", "good"])
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 2, "both, the bad one later")
    told = [one.exc_info[0] for one in caplog.records if one.name == "pgqueue.worker" and one.exc_info]
    assert ZeroDivisionError in told


@pytest.mark.parametrize("options", [{"poll": 0}, {"poll": -1}, {"grace": -1}, {"poll": float("nan")}])
def test_a_worker_that_would_never_rest_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(BadValue):
        Worker("", **options)


def test_a_worker_is_made_of_a_client_or_a_dsn() -> None:
    with pytest.raises(BadValue, match="a client or a DSN, not int"):
        Worker(5)  # type: ignore[arg-type]


def test_a_handler_without_a_queue_is_told_how(worker: Worker) -> None:
    with pytest.raises(BadValue, match=r'@worker\.handler\("orders"\)'):
        worker.handler(handle)  # type: ignore[arg-type]


def test_capitals_make_no_other_queue(worker: Worker) -> None:
    worker.handler("orders")(print)
    with pytest.raises(BadValue, match="already"):
        worker.handler("Orders")(print)
    with pytest.raises(BadValue, match="own dead-letter"):
        worker.handler("mail", dead_letter="Mail")(print)


# --- messages that are made to harm -------------------------------------------------------------------------

DEEP = '{"x-pgqueue-uncounted": 0, "a": ' + "[" * 3000 + "]" * 3000 + "}"


@pytest.mark.parametrize(
    ("headers", "tries"),
    [
        ('{"x-pgqueue-uncounted": 1000000}', 3),
        ('{"x-pgqueue-uncounted": 2}', 5),  # as one that was sent on with the headers of another
        ('{"x-pgqueue-uncounted": -1000000}', 3),
        ('{"x-pgqueue-uncounted": "many"}', 3),
        ('{"x-pgqueue-uncounted": true}', 3),
        ("[1]", 3),
        ("5", 3),
        ("null", 3),
        (DEEP, 3),
    ],
    ids=["many", "two", "negative", "text", "true", "array", "number", "null", "deep"],
)
def test_no_header_lets_a_message_be_tried_for_ever(
    worker: Worker, orders: Queue[Any], conn: Connection, headers: str, tries: int
) -> None:
    """Nor keeps it from being tried at all."""
    seen: list[int] = []

    @worker.handler("orders", max_deliveries=3, backoff=Backoff(first=0.01, factor=1), vt=2)
    async def fail(message: AsyncDelivery[Any]) -> None:
        seen.append(message.read_ct)
        raise ValueError

    do(conn, "select pgmq.send('orders', '1', %s::jsonb)", headers)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "it to be set aside")
    assert seen == list(range(1, tries + 1))


# --- time that is lost ------------------------------------------------------------------------------------


def test_a_message_that_waited_too_long_for_its_turn_is_not_handled_twice(
    db: Database, worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    """The first of a batch blocks the loop for longer than the leases; others get the rest meanwhile."""
    seen: list[int] = []

    @worker.handler("orders", vt=1, batch=3)
    async def block(message: AsyncDelivery[int]) -> None:
        seen.append(message.message)
        if message.message == 1:
            until(lambda: value(conn, "select count(*) from pgmq.q_orders where vt < clock_timestamp()") == 3)
            do(conn, "select pgmq.set_vt('orders', array[1, 3], 60)")
            assert column(conn, "select msg_id from pgmq.read('orders', 60, 10)") == [2]
            do(conn, "select pgmq.set_vt('orders', array[1, 3], -1)")

    orders.send_many([1, 2, 3])
    with Running(worker):
        until(lambda: 3 in seen, "the third")
    assert sorted(seen) == [1, 3]
    assert rows(conn, "select msg_id, read_ct from pgmq.q_orders") == [(2, 2)]


def test_a_process_that_stood_still_does_not_begin_what_it_has_lost(
    db: Database, client: Client, conn: Connection
) -> None:
    """Stopped by a signal with messages that wait for their turn, until their leases are over."""
    client.create("still")
    client.queue("still").send_many([0.5, 0, 0])
    with Process("tests.worker.programs.still", db.dsn) as process:
        until(lambda: "begun 1" in process.printed(), "the first")
        process.send(signal.SIGSTOP)
        until(
            lambda: value(conn, "select count(*) from pgmq.q_still where vt < clock_timestamp()") == 3,
            "the end",
        )
        assert len(rows(conn, "select msg_id from pgmq.read('still', 60, 10)")) == 3
        process.send(signal.SIGCONT)
        client.queue("still").send(0)
        until(lambda: "begun 4" in process.printed(), "the fourth")
        assert "begun 2" not in process.printed()
        assert "begun 3" not in process.printed()


def test_a_thread_that_never_ends_is_told(
    worker: Worker, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    @worker.handler("orders", time_limit=0.2, concurrency=2)
    def hang(message: Delivery[Any]) -> None:
        if message.message == "hang":
            ended.wait(30)

    orders.send("hang")
    with Running(worker):
        until(lambda: "over its time limit" in caplog.text, "the warning")
        orders.send("next")
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the next")
        ended.set()
    assert "message 1" in caplog.text


# --- signals before there is anything to stop ---------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that lets everybody in and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"postgresql://nobody@127.0.0.1:{listener.getsockname()[1]}/x"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_its_first_connection_ends(silent: str, number: signal.Signals) -> None:
    with Process("tests.worker.programs.slow", silent) as process:
        until(lambda: connected(process.pid), "its connection")
        process.send(number)
        assert process.wait(10)[0] == 0


def connected(pid: int) -> bool:
    """Whether a process has a TCP connection."""
    sockets = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{number}"))
        except OSError:
            continue
    with open("/proc/net/tcp") as lines:
        inodes = {f"socket:[{line.split()[9]}]" for line in list(lines)[1:] if line.split()[3] == "01"}
    return bool(sockets & inodes)


async def test_stop_before_there_is_a_connection(silent: str) -> None:
    worker = Worker(silent)
    worker.handler("orders")(handle)
    serving = asyncio.create_task(worker.serve())
    began = time.monotonic()
    while worker._stop is None:
        await asyncio.sleep(0.01)
    worker.stop()
    await asyncio.wait_for(serving, 10)
    assert time.monotonic() - began < 10


async def test_a_start_that_is_cancelled_leaves_nothing_behind(silent: str) -> None:
    worker = Worker(silent)
    worker.handler("orders")(handle)
    before = asyncio.all_tasks()
    serving = asyncio.create_task(worker.serve())
    while worker._stop is None:
        await asyncio.sleep(0.01)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving, 10)
    assert asyncio.all_tasks() == before
    assert worker._stop is None


@pytest.mark.chaos
@pytest.mark.parametrize("queue", ["loop", "threads", "transactions"])
def test_a_signal_ends_it_where_the_server_stands_still(
    new_server: Callable[..., Server], queue: str
) -> None:
    """All backends are stopped in what they do, so that no call of the worker ever comes back."""
    server = new_server()
    dsn = uri(server.conninfo)
    with psycopg.connect(dsn, autocommit=True) as conn, Client(dsn) as client:
        conn.execute(our_sql().encode())
        conn.execute("create table made (msg_id bigint)")
        for name in ("loop", "threads", "transactions"):
            client.create(name)
        client.queue(queue).send_many([60, 60, 60])
        with Process("tests.worker.programs.slow", dsn, "--queues", queue, GRACE="0.5") as process:
            until(lambda: process.printed().count("begun") == 2, "the handlers")
            ours = column(conn, "select pid from pg_stat_activity where application_name = 'pgqueue'")
            others = [pid for pid in ours if pid != client_pid(client)]
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            try:
                process.send(signal.SIGTERM)
                code, printed = process.wait(35)
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGCONT)
        assert (code, "ended" in printed) == (0, False)
        assert "not given back, the leases end by themselves: the server does not answer" in printed


def client_pid(client: Client) -> int:
    """The backend of a client's connection."""
    with client.transaction() as conn:
        return conn.info.backend_pid
