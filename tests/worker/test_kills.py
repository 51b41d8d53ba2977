"""Workers that are killed: nothing is lost, little is repeated, nothing in a transaction."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncDelivery, Client, Worker
from tests.databases import Database
from tests.sql.asking import Connection, column, do, row, rows, value
from tests.worker.running import Process, until

DYING = "tests.worker.programs.dying"
LEDGER = "tests.worker.programs.ledger"
POISONED = "tests.worker.programs.poisoned"
MESSAGES = 3
STEPS = 36
"""What a worker has to do for so many messages: requests to the server before and after, at least."""
CONCURRENCY = 4
"""That of programs/ledger.py."""


@pytest.fixture(autouse=True)
def _ledger(conn: Connection) -> None:
    do(
        conn,
        "create table ledger (id int generated always as identity, queue text, msg_id bigint, read_ct int, pid int)",
    )


# --- at every step ---------------------------------------------------------------------------------


def killed_at(db: Database, client: Client, conn: Connection, handler: str, step: int) -> str:
    """Let a worker die at a step and another finish; the line of the ledger. Fails where work was doubled or lost."""
    orders = client.queue("orders")
    first = orders.send_many(list(range(MESSAGES)))[0]
    with Process(DYING, db.dsn, "--until-empty", STEP=str(step), HANDLER=handler) as process:
        code, printed = process.wait()
    assert code in (0, -signal.SIGKILL), printed
    done_before = value(conn, "select count(*) from ledger where msg_id >= %s", first)
    until(lambda: alone(conn), "the end of the killed worker's transactions")
    orders.set_vt_many(
        column(conn, "select msg_id from pgmq.q_orders"), 0
    )  # instead of waiting for the leases
    survivor(db).run(until_empty=True)
    ids = list(range(first, first + MESSAGES))
    worked = column(conn, "select msg_id from ledger where msg_id >= %s order by 1", first)
    archived = column(conn, "select msg_id from pgmq.a_orders where msg_id >= %s order by 1", first)
    counts = column(conn, "select read_ct from pgmq.a_orders where msg_id >= %s order by msg_id", first)
    assert worked == archived == ids, f"killed at step {step} of {handler}"
    assert value(conn, "select count(*) from pgmq.q_orders") == 0
    end = "killed" if code else "survived"
    return f"{handler:6} step {step:3}: {end}, {done_before} done before, deliveries {counts}, each done once"


def survivor(db: Database) -> Worker:
    """A worker that does what the dying one should have done."""
    worker = Worker(db.dsn)

    @worker.handler("orders", transactional=True)
    async def handle(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
        sql = "insert into ledger (msg_id, read_ct, pid) values (%s, %s, 0)"
        await conn.execute(sql, [message.msg_id, message.read_ct])

    return worker


def alone(conn: Connection) -> bool:
    sql = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgqueue'"
    return bool(value(conn, sql) <= 1)  # the test's own client


@pytest.mark.parametrize("runs", [5, pytest.param(100, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])])
def test_work_in_a_transaction_is_done_once_wherever_the_worker_dies(
    db: Database, client: Client, conn: Connection, runs: int
) -> None:
    client.create("orders")
    ledger = []
    for run in range(runs):
        handler = ("loop", "thread")[run % 2]
        step = 1 + run // 2 % STEPS if runs > STEPS else 3 + 7 * run
        ledger.append(killed_at(db, client, conn, handler, step))
        print(ledger[-1])
    assert sum("killed" in line for line in ledger) >= runs * 0.9, "the steps are more than the worker has"


# --- poison ----------------------------------------------------------------------------------------


def test_a_message_that_kills_its_worker_each_time_is_set_aside(
    db: Database, client: Client, conn: Connection
) -> None:
    for queue in ("plain", "exact", "dead"):
        client.create(queue)
    for queue in ("plain", "exact"):
        client.queue(queue).send_many(["poison", "good"])
    left = "select (select count(*) from pgmq.q_plain) + (select count(*) from pgmq.q_exact)"
    deaths = 0
    while value(conn, left):
        with Process(POISONED, db.dsn) as process:
            until(lambda: process.ended or not value(conn, left), "a death, or the end")
            deaths += process.ended
    assert 2 <= deaths <= 4
    error = "delivered 2 times and never finished"
    archived = rows(
        conn, "select message #>> '{}', headers ->> 'x-pgqueue-error' from pgmq.a_plain order by 1"
    )
    assert archived[0] == ("good", None) and archived[1][0] == "poison" and error in archived[1][1]
    body, said = row(conn, "select message #>> '{}', headers ->> 'x-pgqueue-error' from pgmq.q_dead")
    assert body == "poison" and error in said
    assert column(conn, "select message #>> '{}' from pgmq.a_exact") == ["good"]
    assert column(conn, "select msg_id from ledger") == [2], "the poison's work was rolled back"


# --- under load ------------------------------------------------------------------------------------


class Herd:
    """Workers of which one is killed now and then, and replaced."""

    def __init__(self, dsn: str, size: int) -> None:
        self._dsn = dsn
        self.killed: list[int] = []
        self.alive = [Process(LEDGER, dsn) for _ in range(size)]

    def kill_one(self) -> None:
        victim = self.alive.pop(random.randrange(len(self.alive)))
        assert not victim.ended, victim.printed()
        victim.kill()
        victim.__exit__(None, None, None)
        self.killed.append(victim.pid)
        self.alive.append(Process(LEDGER, self._dsn))

    def stop(self) -> None:
        for process in self.alive:
            until(lambda process=process: "takes messages" in process.printed(), "its start")
            process.send(signal.SIGTERM)
        for process in self.alive:
            assert process.wait()[0] == 0, process.printed()

    def __enter__(self) -> Herd:
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.alive:
            process.__exit__(None, None, None)


@pytest.mark.parametrize(
    "seconds", [3, pytest.param(60, marks=[pytest.mark.chaos, pytest.mark.timeout(300)])]
)
def test_nothing_is_lost_and_only_what_was_in_hand_is_repeated(
    db: Database, client: Client, conn: Connection, seconds: int
) -> None:
    for queue in ("plain", "exact"):
        client.create(queue)
        client.enable_notify_insert(queue)
    end, sent, next_kill = time.monotonic() + seconds, 0, 0.0
    with Herd(db.dsn, 3) as herd:
        while time.monotonic() < end or not herd.killed:
            for queue in ("plain", "exact"):
                client.queue(queue).send_many(list(range(20)))
            sent += 20
            if time.monotonic() > next_kill and value(conn, "select count(*) from ledger"):
                herd.kill_one()
                next_kill = time.monotonic() + random.uniform(0.5, 1.5)
            time.sleep(0.1)  # the load, not a wait
        left = "select (select count(*) from pgmq.q_plain) + (select count(*) from pgmq.q_exact)"
        until(lambda: value(conn, left) == 0, "the end of the queues")
        herd.stop()
    check_ledger(conn, sent, herd.killed)


def check_ledger(conn: Connection, sent: int, killed: list[int]) -> None:
    """Print what was done, and hold it against what may be."""
    ids = list(range(1, sent + 1))
    for queue in ("plain", "exact"):
        assert column(conn, f"select msg_id from pgmq.a_{queue} order by 1") == ids, (
            f"{queue}: archived once each"
        )
    assert column(conn, "select msg_id from ledger where queue = 'exact' order by 1") == ids, "done once each"
    done = rows(conn, "select msg_id, pid from ledger where queue = 'plain' order by msg_id, read_ct")
    assert sorted({msg_id for msg_id, _ in done}) == ids, "none lost"
    earlier = [one for one, later in pairwise(done) if one[0] == later[0]]
    by_worker = Counter(pid for _, pid in earlier)
    print(
        f"{sent} messages in each queue, {len(killed)} workers killed: {len(earlier)} of plain repeated "
        f"(at most {max(by_worker.values(), default=0)} by one death), none of exact, none lost"
    )
    assert killed
    assert set(by_worker) <= set(killed), "only what a killed worker had is repeated"
    assert max(by_worker.values(), default=0) <= CONCURRENCY + 1
