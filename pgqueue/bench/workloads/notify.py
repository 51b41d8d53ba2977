"""A sender beside another's open transaction, on a queue that notifies."""

from __future__ import annotations

import time

import psycopg
from psycopg import sql

from pgqueue.bench.calls import Caller
from pgqueue.bench.databases import Connection
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import BY_NAME, PGMQ

THROTTLES = {"not throttled": 0, "throttled": 250}
"""Milliseconds between notifications."""
TOO_LONG = 1000
"""Milliseconds that the second sender waits at most."""


def notify(lab: Lab) -> None:
    """How long the second sender takes, and how soon its commit wakes a listener."""
    for case, throttle in THROTTLES.items():
        for caller in lab.callers(PGMQ, BY_NAME):
            queue = caller.make_queue(case.replace(" ", "_"))
            caller.database.run(f"select pgmq.enable_notify_insert('{queue}', {throttle})")
            listener, first, second = caller.connect(), caller.connect(), caller.connect()
            listener.execute(sql.SQL("listen {}").format(sql.Identifier(f"pgmq.q_{queue}.INSERT")))
            second.execute(f"set lock_timeout = {TOO_LONG}")
            for conn in (first, second, second):
                conn.execute(_send(lab, caller, queue))
            # pgmq's sender waits for as long as it is let: a few times show it
            for _ in range(2 if caller.side == PGMQ else lab.count(10, least=2)):
                lab.say(f"notify, {case}, {caller.side}")
                list(listener.notifies(timeout=throttle / 1000 + 0.05))  # until the throttle is over
                _measure(lab, caller, case, _send(lab, caller, queue), listener, first, second)


def _send(lab: Lab, caller: Caller, queue: str) -> bytes:
    return f"select {caller.call('send', queue, f'{lab.message!r}::jsonb')}".encode()


def _measure(
    lab: Lab,
    caller: Caller,
    case: str,
    send: bytes,
    listener: Connection,
    first: Connection,
    second: Connection,
) -> None:
    with first.transaction():
        first.execute(send)
        start = time.perf_counter()
        try:
            second.execute(send)
        except psycopg.errors.LockNotAvailable:
            lab.leave_out(f"{case}: {caller.side}'s second sender was given up after {TOO_LONG / 1000:g} s")
        sent = time.perf_counter()
        woken = any(True for _ in listener.notifies(timeout=TOO_LONG / 1000, stop_after=1))
        heard = time.perf_counter()
    lab.record(case, caller.side, "second send and its commit", "ms", 1000 * (sent - start))
    lab.record(
        case, caller.side, "until the listener wakes", "ms", 1000 * (heard - sent) if woken else TOO_LONG
    )
