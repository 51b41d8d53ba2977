"""Queues themselves: what they hold, making one, having a thousand."""

from __future__ import annotations

import time
from functools import partial

import psycopg

from pgqueue import migrate
from pgqueue.bench import rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.databases import Connection
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import BY_NAME, PGMQ
from pgqueue.bench.workloads.crowds import CROWD
from pgqueue.script import Migration, migrations

QUEUES = 1000
THOUSAND = "1,000 queues"
MILLION = "1,000,000 messages"


# --- metrics ---------------------------------------------------------------------------------------


def metrics(lab: Lab) -> None:
    """pgmq.metrics on a million messages, half of them in flight, and our estimate of their number."""
    count = lab.count(CROWD)
    for database in lab.databases:
        lab.say("metrics, filling")
        database.run("select pgmq.create('metrics')")
        rows.load(database, "metrics", rows.READY, count - count // 2, lab.message)
        rows.load(database, "metrics", rows.IN_FLIGHT, count // 2, lab.message)
        database.run("vacuum (analyze) pgmq.q_metrics")
    callers = {caller: caller.connect() for caller in lab.callers(PGMQ, BY_NAME)}
    for caller in lab.turns(list(callers)):
        record = partial(lab.record, MILLION, caller.side)
        conn = callers[caller]
        took, row = _timed(conn, "select queue_length, queue_visible_length from pgmq.metrics('metrics')")
        record("metrics", "ms", took)
        record("messages miscounted", "", abs(row[0] - count) + abs(row[1] - (count - count // 2)))
        if caller.side == BY_NAME:
            took, row = _timed(conn, "select total from pgqueue.counts('metrics', approximate => true)")
            record("estimate", "ms", took)
            record("estimate off by", "%", 100 * abs(row[0] - count) / count)


def _timed(conn: Connection, query: str) -> tuple[float, tuple[int, ...]]:
    """The milliseconds that a query took its client, and its first row."""
    start = time.perf_counter()
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return 1000 * (time.perf_counter() - start), row


# --- create, many queues ---------------------------------------------------------------------------


def create(lab: Lab) -> None:
    """Make queues, a transaction each."""
    callers = {caller: caller.connect() for caller in lab.callers(PGMQ, BY_NAME)}
    for conn in callers.values():
        _make_queues(conn, "first", 2)
    for turn, caller in enumerate(lab.turns(list(callers))):
        took = _make_queues(callers[caller], f"turn_{turn}", lab.count(20, least=2))
        lab.record("one queue", caller.side, "create", "ms", took)


def _make_queues(conn: Connection, prefix: str, count: int) -> float:
    """Make queues; gives the milliseconds of one."""
    start = time.perf_counter()
    for number in range(count):
        conn.execute(f"select pgmq.create('{prefix}_{number}')".encode())
    return 1000 * (time.perf_counter() - start) / count


def many_queues(lab: Lab) -> None:
    """metrics_all over a thousand queues, and an upgrade that compiles them all."""
    callers: dict[Caller, Connection] = {caller: caller.connect() for caller in lab.callers(PGMQ, BY_NAME)}
    for caller, conn in callers.items():
        lab.say(f"many-queues, making them, {caller.side}")
        _make_queues(conn, "many", lab.count(QUEUES, least=5))
        _timed(conn, "select count(*) from pgmq.metrics_all()")
    for caller in lab.turns(list(callers)):
        took, _ = _timed(callers[caller], "select count(*) from pgmq.metrics_all()")
        lab.record(THOUSAND, caller.side, "metrics_all", "ms", took)
    lab.say("many-queues, upgrade")
    with psycopg.connect(lab.ours.address) as conn:
        start = time.perf_counter()
        known = migrations()
        migrate.upgrade(conn, steps=[*known, Migration(known[-1].id + 1, "bench", "select 1")])
        lab.record(THOUSAND, BY_NAME, "upgrade", "s", time.perf_counter() - start)
