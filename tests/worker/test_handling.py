"""What becomes of messages that a handler returns for, or raises for."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from pgqueue import (
    AsyncClient,
    AsyncDelivery,
    Backoff,
    Client,
    Codec,
    Defer,
    Delivery,
    Discard,
    JsonText,
    Queue,
    Retry,
    Worker,
)
from pgqueue.errors import BadMessage, BadValue, NoSuchQueue, NotInstalled
from tests.databases import Database
from tests.sql.asking import Connection, column, row, rows, value
from tests.worker.running import Running, until

SOON = Backoff(first=0.01, factor=1)
Body = Callable[[Any], Any]


def handle(worker: Worker, body: Body, *, coroutine: bool, **settings: Any) -> None:
    """Register a handler that calls `body`, as a coroutine or as a plain function."""

    async def handled(message: AsyncDelivery[Any]) -> None:
        result = body(message)
        if asyncio.iscoroutine(result):
            await result

    worker.handler("orders", **settings)(handled if coroutine else body)


both = pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "thread"])


@both
def test_no_style_of_dates_is_in_the_way(
    db: Database, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    worker = Worker(f"{db.dsn}&options=-c%20datestyle%3DGerman", poll=0.1)
    orders.send_many([1, 2, 3])
    seen: list[int] = []
    handle(worker, lambda message: seen.append(message.message), coroutine=coroutine)
    worker.run(until_empty=True)
    assert sorted(seen) == [1, 2, 3]
    assert value(conn, "select count(*) from pgmq.a_orders where read_ct = 1") == 3


# --- a handler that returns ------------------------------------------------------------------------


@both
@pytest.mark.parametrize("archive", [True, False])
def test_a_return_completes(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, archive: bool
) -> None:
    seen: list[Any] = []
    handle(worker, lambda m: seen.append(m.message), coroutine=coroutine, archive=archive)
    ids = orders.send_many([1, None, {"a": "b"}])
    worker.run(until_empty=True)
    assert seen == [1, None, {"a": "b"}]
    assert column(conn, "select msg_id from pgmq.q_orders") == []
    assert column(conn, "select msg_id from pgmq.a_orders order by 1") == (ids if archive else [])


@both
@pytest.mark.parametrize(("concurrency", "batch"), [(1, 1), (4, 1), (1, 10), (3, 5)])
def test_no_more_than_so_many_run_at_once(
    worker: Worker, orders: Queue[Any], coroutine: bool, concurrency: int, batch: int
) -> None:
    count, most, seen, lock = 0, 0, [], threading.Lock()

    def enter(message: Any) -> None:
        nonlocal count, most
        with lock:
            count += 1
            most = max(most, count)
            seen.append(message.message)

    def leave() -> None:
        nonlocal count
        with lock:
            count -= 1

    async def in_loop(message: AsyncDelivery[Any]) -> None:
        enter(message)
        await asyncio.sleep(0.002)
        leave()

    def in_thread(message: Delivery[Any]) -> None:
        enter(message)
        time.sleep(0.002)
        leave()

    worker.handler("orders", concurrency=concurrency, batch=batch)(in_loop if coroutine else in_thread)
    orders.send_many(list(range(60)))
    worker.run(until_empty=True)
    assert sorted(seen) == list(range(60))
    assert most == concurrency


def test_acknowledgements_go_with_the_next_read(worker: Worker, orders: Queue[Any], conn: Connection) -> None:
    statements: list[bytes] = []

    @worker.handler("orders", concurrency=20)
    async def nothing(message: AsyncDelivery[Any]) -> None:
        statements.append(b"")

    orders.send_many(list(range(200)))
    before = transactions(conn)
    worker.run(until_empty=True)
    assert len(statements) == 200
    assert transactions(conn) - before <= 30, "200 messages in reads of 20"


def transactions(conn: Connection) -> int:
    """Transactions of this database that have ended, all sessions' included."""
    sql = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    return int(value(conn, sql))


@both
@pytest.mark.parametrize(
    ("concurrency", "batch", "bodies", "done"),
    [(2, 3, ["slow", "a", "b", "c"], 3), (1, 4, ["a", "slow", "b", "c"], 1)],
    ids=["beside it", "before it"],
)
def test_a_finished_message_is_acknowledged_while_another_runs(
    worker: Worker,
    orders: Queue[Any],
    conn: Connection,
    coroutine: bool,
    concurrency: int,
    batch: int,
    bodies: list[str],
    done: int,
) -> None:
    go = threading.Event()

    async def in_loop(message: AsyncDelivery[Any]) -> None:
        while message.message == "slow" and not go.is_set():
            await asyncio.sleep(0.01)

    def in_thread(message: Delivery[Any]) -> None:
        if message.message == "slow":
            go.wait(30)

    worker.handler("orders", concurrency=concurrency, batch=batch)(in_loop if coroutine else in_thread)
    orders.send_many(bodies)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == done, "those in the archive")
        assert value(conn, "select count(*) from pgmq.q_orders") == 4 - done
        go.set()


@both
def test_a_handler_may_settle_its_message_itself(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    def settle(message: Any) -> Any:
        match message.message:
            case "deleted":
                return message.delete()
            case "archived":
                return message.archive()
            case "completed":
                return message.complete(archive=False)
            case "given back":
                return message.give_back(60)
            case "extended":
                return message.extend(60)

    handle(worker, settle, coroutine=coroutine)
    bodies = ["deleted", "archived", "completed", "given back", "extended"]
    orders.send_many(bodies)
    worker.run(until_empty=True)
    assert column(conn, "select message #>> '{}' from pgmq.a_orders order by msg_id") == [
        "archived",
        "extended",
    ]
    assert column(conn, "select message #>> '{}' from pgmq.q_orders") == ["given back"]
    assert value(conn, "select vt > now() + interval '55 seconds' from pgmq.q_orders")


# --- a handler that raises -------------------------------------------------------------------------


@both
def test_a_failure_comes_again_after_a_pause_and_others_do_not_wait(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(message: Any) -> None:
        if message.message == "bad":
            raise ValueError("out of paper")

    handle(worker, fail, coroutine=coroutine, backoff=Backoff(first=60))
    orders.send_many(["bad", "good"])
    worker.run(until_empty=True)
    assert column(conn, "select message #>> '{}' from pgmq.a_orders") == ["good"]
    body, read_ct, seconds = row(
        conn, "select message #>> '{}', read_ct, extract(epoch from vt - now()) from pgmq.q_orders"
    )
    assert (body, read_ct) == ("bad", 1)
    assert 25 < seconds < 61
    assert "out of paper" in caplog.text and "message 1 failed (delivery 1)" in caplog.text


def test_the_pause_grows_up_to_a_limit_and_is_never_the_same() -> None:
    backoff = Backoff(first=2, factor=3, longest=100)
    for failures, whole in [(1, 2), (2, 6), (3, 18), (4, 54), (5, 100), (6, 100), (10_000, 100)]:
        found = [backoff.seconds(failures) for _ in range(200)]
        assert whole / 2 <= min(found) < max(found) <= whole
        assert len(set(found)) > 100


@both
@pytest.mark.parametrize("after", [90, timedelta(seconds=90)])
def test_retry_says_when(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, after: Any
) -> None:
    def fail(message: Any) -> None:
        raise Retry("the printer warms up", after=after)

    handle(worker, fail, coroutine=coroutine)
    orders.send(1)
    worker.run(until_empty=True)
    assert 85 < value(conn, "select extract(epoch from vt - now()) from pgmq.q_orders") < 91
    assert value(conn, "select headers from pgmq.q_orders") is None, "it counts as a failure"


@both
def test_a_retry_counts_and_is_set_aside_in_the_end(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    calls: list[int] = []

    def fail(message: Any) -> None:
        calls.append(message.deliveries)
        raise Retry("not yet", after=0)

    handle(worker, fail, coroutine=coroutine, max_deliveries=3)
    orders.send(1)
    with Running(worker):
        headers = until(lambda: column(conn, "select headers from pgmq.a_orders"), "the archive")[0]
    assert calls == [1, 2, 3]
    assert headers["x-pgqueue-error"].endswith("Retry: not yet")
    assert headers["x-pgqueue-deliveries"] == 3


@both
@pytest.mark.parametrize("form", ["seconds", "timedelta", "datetime"])
def test_a_deferred_message_comes_later_and_that_is_no_attempt(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, form: str
) -> None:
    counts: list[int] = []
    forms: dict[str, Any] = {
        "seconds": 3600,
        "timedelta": timedelta(hours=1),
        "datetime": datetime.now(timezone.utc) + timedelta(hours=1),
    }

    def later(message: Any) -> None:
        counts.append(message.deliveries)
        raise Defer(forms[form])

    handle(worker, later, coroutine=coroutine, max_deliveries=2)
    orders.send("x", headers={"kind": "a"})
    for _ in range(4):
        worker.run(once=True)
        assert 3500 < value(conn, "select extract(epoch from vt - now()) from pgmq.q_orders") < 3601
        orders.set_vt(1, 0)
    assert counts == [1, 1, 1, 1]
    assert row(conn, "select read_ct, headers from pgmq.q_orders") == (
        4,
        {"kind": "a", "x-pgqueue-uncounted": 4},
    )


@both
def test_a_discarded_message_is_archived_with_the_reason(
    worker: Worker, client: Client, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    def never(message: Any) -> None:
        raise Discard("no such customer\0")

    client.create("dead")
    handle(worker, never, coroutine=coroutine, dead_letter="dead")
    orders.send("x", headers={"kind": "a"})
    worker.run(until_empty=True)
    assert rows(conn, "select message #>> '{}', headers from pgmq.a_orders") == [
        ("x", {"kind": "a", "x-pgqueue-discarded": "no such customer\\0"})
    ]
    assert value(conn, "select count(*) from pgmq.q_dead") == 0


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@both
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(),
        Unspeakable(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_the_worker_goes_on(
    worker: Worker, orders: Queue[Any], conn: Connection, coroutine: bool, error: BaseException
) -> None:
    def fail(message: Any) -> None:
        if message.message == 1:
            raise error

    handle(worker, fail, coroutine=coroutine, backoff=SOON, max_deliveries=1)
    orders.send_many([1, 2])
    worker.run(until_empty=True)
    found = dict(rows(conn, "select msg_id, headers ->> 'x-pgqueue-error' from pgmq.a_orders"))
    assert found.keys() == {1, 2}
    if not isinstance(error, StopIteration):  # which turns into a RuntimeError in a coroutine
        assert type(error).__name__ in found[1]
    assert found[2] is None


FAILING = """
import logging, sys
from pgqueue import Backoff, Worker

worker = Worker(sys.argv[1])

@worker.handler("orders", backoff=Backoff(first=0.0123456, factor=1), max_deliveries=2)
def fail(message):
    raise ValueError("no such order")

if sys.argv[2:]:
    logging.basicConfig(format="app %(levelname)s %(message)s", level=sys.argv[2])
worker.run(once=True)
"""


def run_failing(db: Database, *level: str) -> str:
    """What a program of a user's, whose handler raises, writes to stderr."""
    command = [sys.executable, "-c", FAILING, db.dsn, *level]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


def test_failures_reach_stderr_where_no_logging_is_configured(db: Database, orders: Queue[Any]) -> None:
    """Each with its traceback; and only as the application says, once it does."""
    orders.send(1)
    said = run_failing(db)
    assert re.search(
        r"queue orders: message 1 failed \(delivery 1\), again in 0\.01 s\nTraceback \(most", said
    )
    assert "ValueError: no such order\n" in said
    until(lambda: orders.metrics().queue_visible_length == 1)
    assert "message 1 is set aside: ValueError: no such order\nTraceback (most" in run_failing(db)
    orders.purge()
    orders.send(1)
    said = run_failing(db, "WARNING")
    assert said.count("app WARNING queue orders: message 2 failed (delivery 1)") == 1
    assert said.count("message 2 failed") == 1
    orders.purge()
    orders.send(1)
    assert run_failing(db, "CRITICAL") == ""


# --- set aside -------------------------------------------------------------------------------------


@both
def test_a_message_that_fails_too_often_goes_to_the_dead_letter_queue(
    worker: Worker,
    client: Client,
    orders: Queue[Any],
    conn: Connection,
    coroutine: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """cases 97, 98"""
    caplog.set_level(
        logging.CRITICAL + 1, "pgqueue"
    )  # a lone surrogate in a captured log breaks pytest-xdist
    calls: list[int] = []

    def fail(message: Any) -> None:
        calls.append(message.read_ct)
        raise ValueError(f"no \0 and no \ud800 in {message.message}")

    client.create("dead")
    handle(worker, fail, coroutine=coroutine, max_deliveries=3, backoff=SOON, dead_letter="dead")
    body = '{"digits": 12345678901234567890.1234567890123456789}'
    orders.send(JsonText(body), headers={"kind": "a"})
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.q_dead") == 1, "the dead letter")
    assert calls == [1, 2, 3]
    assert value(conn, "select count(*) from pgmq.q_orders") == 0
    assert value(conn, "select count(*) from pgmq.a_orders") == 0
    found, headers = row(conn, "select message::text, headers from pgmq.q_dead")
    assert found == body, "digit for digit"
    assert headers.pop("x-pgqueue-error").startswith("ValueError: no \\0 and no \\ud800 in {")
    assert "in fail\n    raise ValueError(" in headers.pop("x-pgqueue-traceback")
    assert datetime.fromisoformat(headers.pop("x-pgqueue-failed-at")) <= datetime.now(timezone.utc)
    assert headers == {
        "kind": "a",
        "x-pgqueue-deliveries": 3,
        "x-pgqueue-queue": "orders",
        "x-pgqueue-msg-id": 1,
    }


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ([1, 2], {"x-pgqueue-headers": [1, 2]}),
        ("text", {"x-pgqueue-headers": "text"}),
        (JsonText("null"), {}),
    ],
)
@pytest.mark.parametrize("dead_letter", [None, "dead"])
def test_the_headers_it_had_are_kept(
    worker: Worker,
    client: Client,
    orders: Queue[Any],
    conn: Connection,
    headers: Any,
    kept: dict[str, Any],
    dead_letter: str | None,
) -> None:
    @worker.handler("orders", max_deliveries=1, dead_letter=dead_letter)
    async def fail(message: AsyncDelivery[Any]) -> None:
        raise ValueError

    client.create("dead")
    orders.send(None, headers=headers)
    worker.run(until_empty=True)
    (found,) = column(conn, "select headers from pgmq.q_dead union all select headers from pgmq.a_orders")
    assert {name: one for name, one in found.items() if name in kept or name == "x-pgqueue-headers"} == kept


def test_a_long_error_keeps_its_beginning_and_its_traceback_its_end(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    @worker.handler("orders", max_deliveries=1)
    async def fail(message: AsyncDelivery[Any]) -> None:
        raise ValueError("x" * 100_000)

    orders.send(1)
    worker.run(until_empty=True)
    headers = value(conn, "select headers from pgmq.a_orders")
    assert len(headers["x-pgqueue-error"]) == 1000 and headers["x-pgqueue-error"].startswith("ValueError: x")
    assert len(headers["x-pgqueue-traceback"]) == 8000 and headers["x-pgqueue-traceback"].endswith("x\n")


def test_a_message_that_was_delivered_too_often_is_not_handled_again(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    """What a message does that kills its worker each time."""
    called = False

    @worker.handler("orders", max_deliveries=2)
    async def note(message: AsyncDelivery[Any]) -> None:
        nonlocal called
        called = True

    orders.send(1)
    for _ in range(2):
        orders.read(vt=0)
    worker.run(until_empty=True)
    assert not called
    assert "delivered 2 times and never finished" in value(
        conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders"
    )


def test_one_that_does_not_decode_stops_no_other(db: Database, client: Client, conn: Connection) -> None:
    """case 96"""
    worker, seen = Worker(AsyncClient(db.dsn)), []

    @worker.handler("orders", max_deliveries=1, body=Codec(str, int))
    async def note(message: AsyncDelivery[int]) -> None:
        seen.append(message.message)

    client.create("orders")
    client.queue("orders").send_many([1, "no number", 3])
    worker.run(until_empty=True)
    assert seen == [1, 3]
    (error,) = column(
        conn, "select headers ->> 'x-pgqueue-error' from pgmq.a_orders where headers is not null"
    )
    assert BadMessage.__name__ in error and 'message 2 of queue "orders"' in error


# --- groups ----------------------------------------------------------------------------------------


@both
def test_groups_keep_their_order_and_run_beside_one_another(
    db: Database, orders: Queue[Any], conn: Connection, coroutine: bool
) -> None:
    """case 53: per group the order of handling is that of sending, with two workers of two places"""
    seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    workers = [Worker(db.dsn, poll=0.05) for _ in range(2)]
    for one in workers:
        body = lambda m: seen[m.message["group"]].append(m.message["n"])  # noqa: E731
        handle(one, body, coroutine=coroutine, concurrency=2, grouped=True)
    for n in range(10):
        for group in seen:
            orders.send({"group": group, "n": n}, headers={"x-pgmq-group": group})
    with Running(workers[0]), Running(workers[1]):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 30, "all thirty")
    assert seen == {group: list(range(10)) for group in seen}


def test_a_failure_holds_its_group_up_and_no_other(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    @worker.handler("orders", grouped=True, concurrency=4, backoff=Backoff(first=600))
    async def fail(message: AsyncDelivery[Any]) -> None:
        if message.message == "a1":
            raise ValueError

    for body in ("a1", "b1", "a2", "b2"):
        orders.send(body, headers={"x-pgmq-group": body[0]})
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 2, "the other group")
    assert column(conn, "select message #>> '{}' from pgmq.a_orders order by 1") == ["b1", "b2"]
    assert column(conn, "select read_ct from pgmq.q_orders order by msg_id") == [1, 0]


# --- traces ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("transactional", [False, True])
def test_the_handler_runs_in_a_span_linked_with_the_send(
    worker: Worker, orders: Queue[Any], monkeypatch: pytest.MonkeyPatch, coroutine: bool, transactional: bool
) -> None:
    from opentelemetry import trace as otel
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    inside: list[int] = []

    async def in_loop(message: Any, *_: Any) -> None:
        inside.append(otel.get_current_span().get_span_context().span_id)

    def in_thread(message: Any, *_: Any) -> None:
        inside.append(otel.get_current_span().get_span_context().span_id)

    worker.handler("orders", transactional=transactional)(in_loop if coroutine else in_thread)
    orders.send(1)
    worker.run(until_empty=True)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    sent, processed = spans["send orders"], spans["process orders"]
    assert inside == [processed.context.span_id]
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]
    provider.shutdown()


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"batch": 0},
        {"vt": 0},
        {"max_deliveries": 0},
        {"time_limit": 0},
        {"dead_letter": "orders"},
    ],
)
def test_settings_that_make_no_sense_are_refused(worker: Worker, settings: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        worker.handler("orders", **settings)(print)


def test_a_queue_that_is_not_there_ends_the_start(worker: Worker, client: Client) -> None:
    worker.handler("orders")(print)
    with pytest.raises(NoSuchQueue, match='"orders"'):
        worker.run()
    client.create("orders")
    client.create("mail")
    worker.handler("mail", dead_letter="dead")(print)
    with pytest.raises(NoSuchQueue, match='"dead"'):
        worker.run()


def test_a_queue_has_one_handler(worker: Worker) -> None:
    worker.handler("orders")(print)
    with pytest.raises(BadValue, match="already"):
        worker.handler("orders")(print)


def test_a_queue_that_is_dropped_ends_the_worker(worker: Worker, client: Client, orders: Queue[Any]) -> None:
    worker.handler("orders")(print)
    with Running(worker) as running:
        client.drop_queue("orders")
        with pytest.raises(NoSuchQueue):
            running.join()


def test_a_database_without_us_ends_the_start(empty_db: Database) -> None:
    worker = Worker(empty_db.dsn)
    worker.handler("orders")(print)
    with pytest.raises(NotInstalled):
        worker.run()


def test_a_worker_without_work_says_so(worker: Worker) -> None:
    with pytest.raises(BadValue, match="nothing to do"):
        worker.run()
    worker.handler("orders")(print)
    with pytest.raises(BadValue, match="no handler for mail"):
        worker.run(queues=["orders", "mail"])


def test_a_callers_connection_is_no_base_for_a_worker(conn: Connection) -> None:
    worker = Worker(Client(conn))
    worker.handler("orders")(print)
    with pytest.raises(BadValue, match="DSN or a pool"):
        worker.run()


# --- once, and what it may be made of --------------------------------------------------------------


def test_once_handles_one_message(
    worker: Worker, client: Client, orders: Queue[Any], conn: Connection
) -> None:
    client.create("mail")
    seen: list[Any] = []
    for queue in ("mail", "orders"):
        worker.handler(queue, concurrency=5)(lambda m: seen.append(m.message))
    orders.send_many([1, 2, 3])
    worker.run(once=True)
    assert seen == [1]
    client.queue("mail").send("letter")
    worker.run(once=True)
    assert seen == [1, "letter"]
    worker.run(once=True, queues=["mail"])
    assert seen == [1, "letter"]
    assert value(conn, "select count(*) from pgmq.q_orders where read_ct = 0") == 2


@pytest.mark.parametrize("kind", ["dsn", "client", "async client", "pool", "async pool"])
def test_it_runs_on_whatever_can_open_connections(db: Database, orders: Queue[Any], kind: str) -> None:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    seen: list[Any] = []

    async def work() -> None:
        servers: dict[str, Callable[[], Any]] = {
            "dsn": lambda: db.dsn,
            "client": lambda: Client(db.dsn),
            "async client": lambda: AsyncClient(db.dsn),
            "pool": lambda: Client(ConnectionPool(db.dsn, open=False, kwargs={"autocommit": True})),
            "async pool": lambda: AsyncClient(
                AsyncConnectionPool(db.dsn, open=False, min_size=1, max_size=2)
            ),
        }
        server = servers[kind]()
        pool = server._lender._pool if kind == "async pool" else None
        if pool is not None:
            await pool.open()
        worker = Worker(server)
        worker.handler("orders", transactional=True)(lambda m, conn: seen.append(m.message))
        await worker.serve(until_empty=True)
        if isinstance(server, AsyncClient):
            await server.close()
        if pool is not None:
            await pool.close()

    orders.send_many([1, 2])
    asyncio.run(work())
    assert seen == [1, 2]


def test_the_worker_can_run_again(worker: Worker, orders: Queue[Any]) -> None:
    seen: list[Any] = []
    worker.handler("orders")(lambda m: seen.append(m.message))
    for n in range(3):
        orders.send(n)
        worker.run(until_empty=True)
    assert seen == [0, 1, 2]


# --- cost ------------------------------------------------------------------------------------------


def test_an_idle_worker_says_little(db: Database, orders: Queue[Any], conn: Connection) -> None:
    """case 47: a statement each `poll` seconds, once it has been idle for a while"""
    worker = Worker(db.dsn, poll=0.4)
    worker.handler("orders", concurrency=8)(print)
    statements: list[float] = []

    def three_long_pauses() -> bool:
        sql = """
            select extract(epoch from query_start)::float from pg_stat_activity
            where datname = current_database() and application_name = 'pgqueue' and query like '%%fetch%%'"""
        statements.extend(at for at in column(conn, sql) if at not in statements)
        pauses = [later - at for at, later in pairwise(statements)]
        return len(pauses) >= 3 and min(pauses[-3:]) > 0.75 * 0.4 * 0.99

    with Running(worker):
        until(three_long_pauses, "three long pauses")
        assert len(statements) <= 9, "50, 100, 200 ms at first"


def test_a_queue_that_notifies_wakes_it_at_once(
    db: Database, client: Client, orders: Queue[Any], conn: Connection
) -> None:
    worker, took = Worker(db.dsn, poll=60), []

    @worker.handler("orders")
    async def note(message: AsyncDelivery[Any]) -> None:
        took.append(time.time() - message.message)

    client.enable_notify_insert("orders", throttle_interval_ms=0)
    with Running(worker):
        until(
            lambda: value(conn, "select count(*) from pg_stat_activity where query ilike 'listen%'"),
            "its ear",
        )
        for n in range(5):
            orders.send(time.time())
            until(lambda: len(took) == n + 1, "the message")  # noqa: B023
    assert sorted(took)[2] < 1, took
