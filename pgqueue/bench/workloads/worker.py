"""Workers: how many messages a second go through handlers that do nothing, wake-ups, and what idling costs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from pgqueue._sync.client import Client
from pgqueue.bench.databases import Database
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import WORKER
from pgqueue.bench.python_workers import RIVALS, Drains, Ours
from pgqueue.errors import BenchError
from pgqueue.worker.worker import Worker

#: Handlers at once, and messages that are taken at a time for each of them.
ONE_BY_ONE = {"1 concurrent": (1, 1), "16 concurrent": (16, 1)}
BATCHES = {"1 concurrent, batches": (1, 100), "16 concurrent, batches": (16, 10)}
MESSAGES = {"1 concurrent": 2000}
MANY = 8000
FEW = 600
"""Messages for a worker that takes one at a time whatever it is told."""
IDLE = "idle"
RUNS = 3
BEST_WAKE_UP = f"wake-up p50, best of {RUNS}"


def worker(lab: Lab) -> None:
    """Drain queues, then wait at an empty one."""
    body = json.loads(lab.message)
    sides: list[Drains] = [Ours(lab.ours, body)]
    for name in lab.options.against:
        if name in RIVALS:
            sides.append(RIVALS[name](lab.make_database(name), body))
    cases = [(case, side) for case in (*ONE_BY_ONE, *BATCHES) for side in sides]
    for case, side in lab.turns([one for one in cases if one[0] in ONE_BY_ONE or one[1].batches]):
        _drain(lab, case, side)
    lab.record(IDLE, WORKER, BEST_WAKE_UP, "ms", min(_wake_up(lab, run) for run in range(RUNS)))
    lab.record(IDLE, WORKER, "statements", "/s", _idle(lab))


def _drain(lab: Lab, case: str, side: Drains) -> None:
    concurrency, batch = {**ONE_BY_ONE, **BATCHES}[case]
    count = lab.count(MESSAGES.get(case, MANY) if side.batches else FEW, least=20)
    side.fill(count)
    moments = side.drain(concurrency, batch)
    if len(moments) != count or side.left():
        raise BenchError(f"{side.side}: {len(moments)} of {count} handled, {side.left()} left")
    lab.record(case, side.side, "messages", "/s", _steady_rate(moments), more_is_better=True)


def _steady_rate(moments: list[float]) -> float:
    """Messages a second between the first tenth and the last, while it neither starts nor ends."""
    first, last = len(moments) // 10, len(moments) * 9 // 10
    return (last - first) / (moments[last] - moments[first])


def _wake_up(lab: Lab, run: int) -> float:
    """Milliseconds from a send to its handler on an idle queue that notifies: the median."""
    name, found, done = f"wake_{run}", list[float](), threading.Semaphore(0)
    with Client(lab.ours.address) as client:
        client.create(name)
        client.enable_notify_insert(name)
        waiting = Worker(lab.ours.address, poll=60)

        @waiting.handler(name)
        async def handle(message: Any) -> None:
            found.append((time.perf_counter() - message.message) * 1000)
            done.release()

        with _running(waiting):
            for _ in range(lab.count(20, least=3)):
                time.sleep(0.3)  # longer than the throttle
                client.queue(name).send(time.perf_counter())
                done.acquire(timeout=10)
    return median(found)


def _idle(lab: Lab) -> float:
    """Statements a second of a worker that has had nothing to do for a while."""
    name = "idle"
    with Client(lab.ours.address) as client:
        client.create(name)
        client.enable_notify_insert(name)
        idler = Worker(lab.ours.address)
        idler.handler(name)(print)
        with _running(idler):
            time.sleep(lab.seconds(10))  # looks grow rarer
            seconds = lab.seconds(20)
            return _statements(lab.ours, seconds) / seconds


def _statements(database: Database, seconds: float) -> int:
    """Statements that our other sessions begin in so many seconds, by when the last of each began."""
    query = b"""
        select pid, query_start from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and application_name = 'pgqueue'"""
    conn = database.connect()
    before = set(conn.execute(query).fetchall())
    seen = set(before)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        seen |= set(conn.execute(query).fetchall())
    return len(seen - before)


@contextmanager
def _running(worker: Worker) -> Iterator[None]:
    """Run a worker in a thread."""
    thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()
