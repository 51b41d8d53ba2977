"""Messages sent by the clock: one for each tick."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqueue import Client, Queue, Worker
from pgqueue.errors import BadValue, NoSuchQueue
from pgqueue.worker.periodic import Schedule
from tests.databases import Database
from tests.sql.asking import Connection, column, do, outcome, row, rows, value
from tests.worker.running import Running, until

EACH_SECOND = "* * * * * *"


def ticks(conn: Connection) -> list[datetime]:
    """The ticks whose messages were sent, in the order of sending."""
    found = column(conn, "select headers ->> 'x-pgqueue-tick' from pgmq.q_orders order by msg_id")
    return [datetime.fromisoformat(one) for one in found]


def test_of_several_workers_one_sends_the_message_of_a_tick(
    db: Database, orders: Queue[Any], conn: Connection
) -> None:
    workers = [Worker(db.dsn) for _ in range(3)]
    for worker in workers:

        @worker.every(EACH_SECOND, queue="orders", name="clock", headers={"kind": "tick"})
        def clock(at: datetime) -> Any:
            return {"at": at.isoformat()}

    with Running(workers[0]), Running(workers[1]), Running(workers[2]):
        until(lambda: len(ticks(conn)) >= 3, "three ticks")
    found = ticks(conn)
    assert found == [found[0] + timedelta(seconds=n) for n in range(len(found))]
    assert {at.microsecond for at in found} == {0}
    late = value(
        conn, "select max(enqueued_at - (headers ->> 'x-pgqueue-tick')::timestamptz) from pgmq.q_orders"
    )
    assert timedelta(0) <= late < timedelta(seconds=10)
    body, headers = row(conn, "select message, headers from pgmq.q_orders order by msg_id limit 1")
    assert body == {"at": headers["x-pgqueue-tick"]} and headers["kind"] == "tick"
    assert rows(conn, "select queue_name, name, at from pgqueue.tick") == [("orders", "clock", found[-1])]


def test_nothing_is_sent_for_the_time_before_the_first_worker(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    worker.every("0 0 1 1 *", queue="orders")(lambda at: at.year)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgqueue.tick") == 1, "its beginning")
    assert ticks(conn) == []


def test_of_the_ticks_that_were_missed_the_last_is_sent(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    @worker.every("0 0 * * *", queue="orders", zone="Asia/Tokyo")
    async def midnight(at: datetime) -> Any:
        return [at.hour, str(at.tzinfo)]

    name = midnight.__qualname__
    do(conn, "insert into pgqueue.tick values ('orders', %s, now() - interval '3 days')", name)
    for _ in range(2):
        with Running(worker):
            until(lambda: ticks(conn), "the tick")
    (tick,) = ticks(conn)
    assert tick.hour == 15 and timedelta(0) < datetime.now(timezone.utc) - tick < timedelta(days=1)
    assert value(conn, "select message from pgmq.q_orders") == [0, "Asia/Tokyo"]
    assert value(conn, "select at from pgqueue.tick") == tick


def test_a_tick_without_a_message_does_not_end_the_worker(
    worker: Worker, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[datetime] = []

    @worker.every(EACH_SECOND, queue="orders")
    def fails(at: datetime) -> Any:
        calls.append(at)
        return 1 / 0 if len(calls) == 1 else object() if len(calls) == 2 else len(calls)

    with Running(worker):
        until(lambda: ticks(conn), "the third tick")
    assert value(conn, "select message from pgmq.q_orders order by 1 limit 1") == 3
    assert caplog.text.count("has no message") == 2


def test_without_messages_to_handle_periodic_ones_are_work_enough(
    worker: Worker, orders: Queue[Any], conn: Connection
) -> None:
    worker.every(EACH_SECOND, queue="orders")(lambda at: None)
    worker.run(until_empty=True)
    assert ticks(conn) == [], "which until_empty does not send"


def test_whoever_may_send_may_tick_and_nobody_else(
    db: Database, client: Client, orders: Queue[Any], conn: Connection
) -> None:
    client.create("secret")
    do(conn, "insert into pgqueue.tick values ('secret', 'clock', now()), ('orders', 'clock', now())")
    role = db.create_role()
    do(conn, f"grant usage on schema pgmq to {role}; grant select, insert on pgmq.q_orders to {role}")
    other = db.connect(user=role)
    do(other, "update pgqueue.tick set at = 'infinity'")
    do(other, "delete from pgqueue.tick")
    assert rows(conn, "select queue_name, at < now() from pgqueue.tick") == [("secret", True)]
    insert = "insert into pgqueue.tick values (%s, 'mine', now())"
    assert outcome(other, insert, "secret")[0] == "42501"
    assert outcome(other, insert, "nope")[0] == "42501"
    theft = " on conflict (queue_name, name) do update set queue_name = 'orders'"
    assert outcome(other, insert.replace("mine", "clock") + theft, "secret")[0] == "42501"
    assert outcome(other, insert, "orders")[0] == ""
    worker = Worker(db.dsn_for(role))
    worker.every(EACH_SECOND, queue="orders", name="clock")(lambda at: 1)
    with Running(worker):
        until(lambda: ticks(conn), "a tick")


def test_a_dropped_queue_leaves_no_ticks(client: Client, orders: Queue[Any], conn: Connection) -> None:
    do(conn, "insert into pgqueue.tick values ('orders', 'clock', now())")
    client.drop_queue("orders")
    assert value(conn, "select count(*) from pgqueue.tick") == 0


def test_a_queue_that_is_not_there_ends_the_start(worker: Worker, client: Client) -> None:
    worker.every(EACH_SECOND, queue="nowhere")(lambda at: 1)
    with pytest.raises(NoSuchQueue):
        worker.run()


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "61 * * * *", "* * 31 2 *", "@daily", "a b c d e", "0 0 30 2 *"]
)
def test_what_is_no_cron_expression_is_refused(worker: Worker, cron: str) -> None:
    with pytest.raises(BadValue, match="cron"):
        worker.every(cron, queue="orders")(lambda at: 1)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc", "Europe"])
def test_what_is_no_time_zone_is_refused(worker: Worker, zone: str) -> None:
    with pytest.raises(BadValue, match="time zone"):
        worker.every("* * * * *", queue="orders", zone=zone)(lambda at: 1)


def test_two_schedules_of_one_name_are_refused(worker: Worker) -> None:
    def report(at: datetime) -> int:
        return 1

    worker.every("* * * * *", queue="orders")(report)
    worker.every("* * * * *", queue="mail")(report)
    worker.every("* * * * *", queue="orders", name="another")(report)
    with pytest.raises(BadValue, match="already"):
        worker.every("0 * * * *", queue="orders")(report)


@pytest.mark.parametrize(
    ("cron", "zone", "at", "before", "after"),
    [
        ("*/5 * * * *", "UTC", "2026-03-01T10:02:30.500+00:00", "2026-03-01T10:00", "2026-03-01T10:05"),
        ("*/5 * * * *", "UTC", "2026-03-01T10:05:00+00:00", "2026-03-01T10:00", "2026-03-01T10:10"),
        ("0 3 * * mon", "Europe/Berlin", "2026-03-03T00:00:00+00:00", "2026-03-02T02:00", "2026-03-09T02:00"),
        # The clock goes forward on 29 March at 1:00 UTC, back on 25 October.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00+00:00", "2026-03-28T01:30", "2026-03-29T01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T03:00:00+00:00", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_ticks_before_and_after_an_instant(cron: str, zone: str, at: str, before: str, after: str) -> None:
    schedule = Schedule(cron, "orders", "x", lambda at: 1, zone, {})
    moment = datetime.fromisoformat(at)
    assert schedule.before(moment) == datetime.fromisoformat(f"{before}+00:00")
    assert schedule.after(moment) == datetime.fromisoformat(f"{after}+00:00")


SECOND = "2026-03-01T10:00:{:06.3f}+00:00"


@pytest.mark.parametrize(
    ("cron", "sent", "now", "due"),
    [
        (EACH_SECOND, 10, 10.9, []),
        (EACH_SECOND, 10, 11, [11]),
        (EACH_SECOND, 10, 13.5, [11, 12, 13]),
        ("*/5 * * * * *", 10, 21, [15, 20]),
        ("0 * * * * *", 0, 59, []),
    ],
)
def test_a_worker_that_is_late_leaves_no_tick_out(
    cron: str, sent: float, now: float, due: list[float]
) -> None:
    schedule = Schedule(cron, "orders", "x", lambda at: 1, "UTC", {})
    sent_at, now_at = (datetime.fromisoformat(SECOND.format(one)) for one in (sent, now))
    assert schedule.due(sent_at, now_at) == [datetime.fromisoformat(SECOND.format(one)) for one in due]


def test_one_that_stood_still_for_long_sends_the_last_ones() -> None:
    now = datetime.fromisoformat("2026-03-01T10:00:30+00:00")
    each_second = Schedule(EACH_SECOND, "orders", "x", lambda at: 1, "UTC", {})
    assert each_second.due(now - timedelta(days=1), now)[-1] == now
    assert len(each_second.due(now - timedelta(days=1), now)) == 60
    daily = Schedule("0 6 * * *", "orders", "x", lambda at: 1, "UTC", {})
    assert daily.due(now - timedelta(days=3), now) == [now.replace(hour=6, minute=0, second=0)]
    assert daily.due(now - timedelta(hours=1), now) == []
