"""Calls from Python: what a client adds to the calls themselves, and how soon a waiting one has a message."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from pgqueue._sync.client import Client
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import BATCH
from pgqueue.bench.model import CLIENT, PGMQ_CLIENT
from pgqueue.bench.python_calls import (
    Calls,
    Times,
    async_client_calls,
    async_psycopg_calls,
    client_calls,
    pgmq_client_calls,
    psycopg_calls,
)

ONE_CONNECTION = "one connection"
BULK = 10_000
"""Messages sent at once."""
WAKE_UP = "waiting, idle server"
RUNS = 3
"""Times that wake-ups are measured, for the best of them."""
BEST_WAKE_UP = f"wake-up p50, best of {RUNS}"


def python(lab: Lab) -> None:
    """The cycle, one by one and in batches, many messages at once; then wake-ups."""
    with _sides(lab) as sides:
        _fill_up(sides)
        for calls in lab.turns(sides):
            _turn(lab, calls)
    lab.record(WAKE_UP, CLIENT, BEST_WAKE_UP, "ms", min(_wake_up(lab, run) for run in range(RUNS)))


@contextmanager
def _sides(lab: Lab) -> Iterator[list[Calls]]:
    body = json.loads(lab.message)
    makers = [psycopg_calls, async_psycopg_calls, client_calls, async_client_calls]
    with ExitStack() as stack:
        sides = [make(lab.ours, body) for make in makers]
        if PGMQ_CLIENT in lab.options.against and lab.pgmq:
            sides.append(pgmq_client_calls(lab.pgmq, body))
        for calls in sides:
            stack.callback(calls.close)
            calls.database.run(f"select pgmq.create('{calls.queue}')")
        yield sides


def _fill_up(sides: list[Calls]) -> None:
    """Every statement once, so that all are prepared."""
    for calls in sides:
        calls.cycle(10)
        calls.send_fetch(10)
        calls.fill(1)
        calls.drain(1)


def _turn(lab: Lab, calls: Calls) -> None:
    record = partial(lab.record, ONE_CONNECTION, calls.side)
    calls.database.run(f"truncate pgmq.q_{calls.queue}")
    calls.database.run(f"vacuum (analyze) pgmq.q_{calls.queue}")
    record("send, read, delete", "µs", _each(calls.cycle, lab.count(600, least=5)))
    record("send, fetch", "µs", _each(calls.send_fetch, lab.count(600, least=5)))
    batches = lab.count(30, least=2)
    record(f"send {BATCH}", "µs", _each(calls.fill, batches))
    record(f"read and delete {BATCH}", "µs", _each(calls.drain, batches))
    if calls.bulk is not None:
        count = lab.count(BULK, least=10)
        record(f"send {BULK:,}", "ms", _each(calls.bulk, count) * count / 1000)


def _each(thing: Times, times: int) -> float:
    """Microseconds for one of so many."""
    start = time.perf_counter()
    thing(times)
    return (time.perf_counter() - start) / times * 1e6


def _wake_up(lab: Lab, run: int) -> float:
    """Milliseconds from a send to the message in the hands of one who waits: the median."""
    name, found = f"wake_{run}", list[float]()
    with Client(lab.ours.address) as waiting, Client(lab.ours.address) as sending:
        sending.create(name)
        sending.enable_notify_insert(name)
        stream = waiting.queue(name).messages(poll=60)

        def send() -> None:
            for _ in range(lab.count(20, least=3)):
                time.sleep(0.3)  # longer than the throttle
                sending.queue(name).send(time.perf_counter())
            stream.stop()

        sender = threading.Thread(target=send)
        sender.start()
        for message in stream:
            found.append((time.perf_counter() - message.message) * 1000)
        sender.join()
    return median(found)
