"""Reads on a queue that holds a million messages, most of which are not to be had."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from pgqueue.bench import rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.databases import Connection
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import Loop, reading
from pgqueue.bench.model import PGMQ
from pgqueue.bench.rows import Rows

CROWD = 1_000_000
EMPTY = "empty"
CROWDED = "crowded"
_SAMPLES = 21


def behind(crowd: Rows, lab: Lab) -> None:
    """Read a message that lies behind a crowd, and one from a queue that holds little else."""
    for database in lab.databases:
        for queue, count in ((EMPTY, 0), (CROWDED, lab.count(CROWD))):
            lab.say(f"{lab.workload}, filling")
            database.run(f"select pgmq.create('{queue}')")
            rows.load(database, queue, crowd, count, lab.message)
            rows.load(database, queue, rows.READY, 1000, lab.message)
            database.run(f"vacuum (analyze) pgmq.q_{queue}")
    for caller in lab.callers():
        conn = caller.connect()
        for queue in (EMPTY, CROWDED):
            lab.say(f"{lab.workload}, reading")
            _read(lab, caller, conn, queue)


def _read(lab: Lab, caller: Caller, conn: Connection, queue: str) -> None:
    """Buffers and time of reads. pgmq walks the whole crowd on each: a few of its reads are enough."""
    samples = 5 if caller.side == PGMQ else _SAMPLES
    loop = Loop(conn, [reading(caller, queue, vt=3600)], lab.message)
    loop.run(20, most_seconds=2)  # plans are made, those of the generic kind too
    call = caller.call("read", queue, "3600", "1")
    lab.record(queue, caller.side, "buffers", "", *(buffers(conn, call) for _ in range(samples)))
    lab.record(queue, caller.side, "read", "µs", median(loop.run(100, most_seconds=3)["read"]))


def buffers(conn: Connection, call: str) -> int:
    """Blocks that a call looked at, found in memory or not, all statements inside it together."""
    row = conn.execute(
        f"explain (analyze, buffers, timing off, format json) select * from {call}".encode()
    ).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


in_flight = partial(behind, rows.IN_FLIGHT)
delayed = partial(behind, rows.DELAYED)
backlog = partial(behind, rows.READY)
adopted = partial(behind, rows.AS_PGMQ)
