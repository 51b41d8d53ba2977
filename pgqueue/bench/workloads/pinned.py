"""Cycles while a snapshot is held open elsewhere, so that no dead row can go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from statistics import median

from pgqueue.bench import pgbench, rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import Loop, cycle_steps, totals
from pgqueue.bench.model import COMPILED, PGMQ
from pgqueue.bench.pgbench import Load
from pgqueue.bench.workloads.throughput import cycle_script

FEW = 30_000
MANY = 100_000
RECONNECTING = 6_000
PGMQ_CYCLES = 4_000
EDGE = 1000
"""How many cycles at the start are compared with as many at the end."""
WARM_UP = 2
"""Cycles of a client in which its plans are made."""
NORMAL = 1.3
PATIENCE = 60.0
RELEASED = "after the release"


def pinned(lab: Lab) -> None:
    """By one session in the server, by 32 and 128 clients, by clients that connect anew for each cycle."""
    for caller in lab.callers(PGMQ, COMPILED):
        _one_session(lab, caller)
    for caller in lab.callers(COMPILED):
        for clients in (32, 128):
            if lab.has_room(clients):
                _by_clients(lab, caller, clients, MANY, marks=(FEW, MANY))
        _by_clients(lab, caller, 8, RECONNECTING, marks=(RECONNECTING,), reconnect=True)


@contextmanager
def old_snapshot(caller: Caller) -> Iterator[None]:
    """Within it a transaction elsewhere still sees the rows of its beginning."""
    conn = caller.connect()
    conn.execute("begin isolation level repeatable read")
    conn.execute("select count(*) from pgmq.meta")
    try:
        yield
    finally:
        conn.close()


def _one_session(lab: Lab, caller: Caller) -> None:
    lab.say(f"pinned, 1 connection, {caller.side}")
    queue = caller.make_queue("one")
    loop = Loop(caller.connect(), cycle_steps(caller, queue), lab.message)
    loop.run(lab.count(500, least=10))
    caller.vacuum(queue)
    # pgmq slows down with every cycle: it shows early on
    marks = (PGMQ_CYCLES,) if caller.side == PGMQ else (FEW, MANY)
    with old_snapshot(caller):
        times = totals(loop.run(lab.count(marks[-1], least=2), most_seconds=40))
        _record(lab, "1 connection", caller, times, marks)
        _record_pause(lab, "1 connection", caller, loop)
    if caller.side == COMPILED:
        _record_recovery(lab, caller, loop, median(times[: _edge(times)]))


def _by_clients(
    lab: Lab, caller: Caller, clients: int, cycles: int, marks: Sequence[int], reconnect: bool = False
) -> None:
    case = "short connections" if reconnect else f"{clients} connections"
    lab.say(f"pinned, {case}")
    queue = caller.make_queue(f"short_{clients}" if reconnect else f"many_{clients}")
    rows.load(caller.database, queue, rows.READY, 2 * clients, lab.message)
    caller.vacuum(queue)
    # a tenth more than is looked at: at the very end some clients are done and the others have it easier
    each = WARM_UP + ceil(1.1 * lab.count(cycles) / clients)
    load = Load(
        cycle_script(caller, queue),
        clients,
        transactions=each,
        variables={"message": lab.message},
        reconnect=reconnect,
        log=True,
    )
    with old_snapshot(caller):
        done = pgbench.run(caller.database.address, load)
    times = [1000 * one.milliseconds for one in done.transactions[WARM_UP * clients :]]
    _record(lab, case, caller, times, marks)


def cycles_before(mark: int) -> str:
    """What the last cycles before a number of them are called."""
    return f"cycles before {mark:,}"


def _edge(times: Sequence[float]) -> int:
    return min(EDGE, max(1, len(times) // 4))


def _record(lab: Lab, case: str, caller: Caller, times: Sequence[float], marks: Sequence[int]) -> None:
    """The first cycles, and at each mark those before it. A median hides the one cycle with the full walk."""
    edge = _edge(times)
    lab.record(case, caller.side, "first cycles", "µs", median(times[:edge]))
    for mark in marks:
        end = lab.count(mark, least=2)
        if end > len(times):
            lab.leave_out(f"{case}, {caller.side}: {len(times):,} cycles were done in time, not {end:,}")
        else:
            lab.record(case, caller.side, cycles_before(mark), "µs", median(times[max(0, end - edge) : end]))


def _record_pause(lab: Lab, case: str, caller: Caller, loop: Loop) -> None:
    """The read that makes the one full walk a second: the first after a pause."""
    for _ in range(3):
        time.sleep(1.1)
        lab.record(case, caller.side, "read with the full walk", "µs", *loop.run(1)["read"])


def _record_recovery(lab: Lab, caller: Caller, loop: Loop, normal: float) -> None:
    """Seconds from the release of the snapshot until cycles are as they were."""
    lab.say("pinned, after the release")
    released = time.monotonic()
    while True:
        cycle = median(totals(loop.run(lab.count(500, least=10))))
        took = time.monotonic() - released
        if cycle <= NORMAL * normal or took > 2 * PATIENCE:
            break
    lab.record(RELEASED, caller.side, "until normal", "s", took)
    lab.record(RELEASED, caller.side, "cycle", "µs", cycle)
    _record_pause(lab, RELEASED, caller, loop)
