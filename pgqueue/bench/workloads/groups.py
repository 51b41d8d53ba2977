"""Grouped reads over 600,000 messages: few long groups, many short ones, one long group that is blocked."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import psycopg

from pgqueue.bench import rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.databases import Database
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import Loop, Step
from pgqueue.bench.model import COMPILED, PGMQ

MESSAGES = 600_000
FUNCTIONS = ("read_grouped", "read_grouped_rr", "grouped_head")
LONG, SHORT, BLOCKED = "30 groups of 20,000", "120,000 groups of 5", "1 blocked of 100,000, 10 free"
SHAPES = (LONG, SHORT, BLOCKED)
READERS = 8
TOO_LONG = 5000
"""Milliseconds after which pgmq's call is given up."""


def groups(lab: Lab) -> None:
    """The time of each grouped read, and eight readers at once in open transactions."""
    for place, shape in enumerate(SHAPES):
        queue = f"groups_{place}"
        for database in lab.databases:
            lab.say(f"groups, filling: {shape}")
            _fill(lab, database, queue, shape)
        for caller in lab.callers(PGMQ, COMPILED):
            for function in FUNCTIONS:
                lab.say(f"groups, {function}: {shape}")
                _time(lab, caller, queue, shape, function)
        for caller in lab.callers(COMPILED):
            for function in FUNCTIONS:
                _side_by_side(lab, caller, queue, shape, function)


def _fill(lab: Lab, database: Database, queue: str, shape: str) -> None:
    """A message's group goes by its number; in the third shape those of the blocked group come first."""
    count = lab.count(MESSAGES, least=600)
    database.run(f"select pgmq.create('{queue}')")
    if shape == LONG:
        _load(lab, database, queue, "g % 30", count)
    elif shape == SHORT:
        _load(lab, database, queue, f"g % {count // 5}", count)
    else:
        blocked = count // 6
        _load(lab, database, queue, "'blocked'::text", 1, rows.IN_FLIGHT)
        _load(lab, database, queue, "'blocked'::text", blocked)
        _load(lab, database, queue, "g % 10", count - blocked)
    database.run(f"select pgmq.create_fifo_index('{queue}')")
    database.run(f"vacuum (analyze) pgmq.q_{queue}")


def _load(
    lab: Lab, database: Database, queue: str, group: str, count: int, kind: rows.Rows = rows.READY
) -> None:
    headers = f"jsonb_build_object('x-pgmq-group', ({group})::text)"
    rows.load(database, queue, replace(kind, headers=headers), count, lab.message)


def _time(lab: Lab, caller: Caller, queue: str, shape: str, function: str) -> None:
    """Calls that are rolled back, so that the groups stay free."""
    conn = caller.connect()
    conn.execute(f"set statement_timeout = {TOO_LONG}")
    call = caller.call(function, queue, "30", "10")
    case = f"{shape}, {function}"
    if caller.side == PGMQ:
        _time_pgmq(lab, conn, call, case)
        return
    step = Step("read", f"select array_agg(m.msg_id) into v_ids from {call} m")
    loop = Loop(conn, [step], lab.message, ending="rollback")
    loop.run(7)
    for _ in lab.turns([caller], most=3):
        lab.record(case, caller.side, "call", "ms", median(loop.run(20, most_seconds=3)["read"]) / 1000)


def _time_pgmq(lab: Lab, conn: psycopg.Connection[Any], call: str, case: str) -> None:
    """Three calls, each given up when it takes too long: pgmq's can take minutes."""
    for _ in range(3):
        try:
            with conn.transaction(force_rollback=True):
                row = conn.execute(f"explain (analyze, format json) select * from {call}".encode()).fetchone()
        except psycopg.errors.QueryCanceled:
            lab.record(case, PGMQ, "call", "ms", TOO_LONG)
            lab.leave_out(f"{case}: pgmq was given up after {TOO_LONG / 1000:g} s")
            return
        except psycopg.errors.OutOfMemory as error:  # it locks every group that it looks at
            lab.leave_out(f"{case}: pgmq failed: {error.diag.message_primary}")
            return
        assert row is not None
        lab.record(case, PGMQ, "call", "ms", row[0][0]["Execution Time"])


def _side_by_side(lab: Lab, caller: Caller, queue: str, shape: str, function: str) -> None:
    """Eight transactions, one after the other, all open: do two share a group, does one get nothing?"""
    call = caller.call(function, queue, "30", "1")
    readers = [caller.connect() for _ in range(READERS)]
    seen: list[set[str]] = []
    for conn in readers:
        conn.execute("begin")
        found = conn.execute(f"select headers ->> 'x-pgmq-group' from {call}".encode()).fetchall()
        seen.append({group for (group,) in found})
    for conn in readers:
        conn.execute("rollback")
        conn.close()
    everyone = [group for groups in seen for group in groups]
    case = f"{shape}, {function}"
    lab.record(case, caller.side, "groups shared by readers", "", len(everyone) - len(set(everyone)))
    lab.record(case, caller.side, "readers that got nothing", "", sum(not groups for groups in seen))
