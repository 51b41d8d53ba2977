"""What a message costs beside time: WAL, and the memory of the sessions that send and read it."""

from __future__ import annotations

import psycopg

from pgqueue.bench.calls import Caller, message
from pgqueue.bench.databases import Connection
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import Loop, cycle_steps
from pgqueue.bench.model import BY_NAME, COMPILED, NOT_COMPILED, PGMQ

KILOBYTE = "1 kB"
QUEUE = "a queue"
QUEUES = 20
ROUNDS = 8
"""Cycles on each queue: from the sixth on plans are general ones, and kept."""


def wal(lab: Lab) -> None:
    """WAL bytes of a send, read and delete of a message of 1 kB, commits included."""
    queues = {caller: caller.make_queue("wal") for caller in lab.callers()}
    loops = {
        caller: Loop(caller.connect(), cycle_steps(caller, queue), message(1000))
        for caller, queue in queues.items()
    }
    for caller in lab.turns(list(queues)):
        caller.vacuum(queues[caller])
        loops[caller].run(
            lab.count(500, least=10)
        )  # pages are written whole when first touched after a checkpoint
        cycles = lab.count(3000, least=20)
        start = caller.database.value("select pg_current_wal_insert_lsn()")
        loops[caller].run(cycles)
        used = caller.database.value(f"select pg_current_wal_insert_lsn() - '{start}'::pg_lsn")
        lab.record(KILOBYTE, caller.side, "WAL a message", "bytes", float(used) / cycles)


def memory(lab: Lab) -> None:
    """What a session holds on to for each queue on which it has sent, read and deleted."""
    sides = lab.callers(PGMQ, BY_NAME, COMPILED, NOT_COMPILED)
    queues = {
        caller: [caller.make_queue(f"memory_{number}") for number in range(lab.count(QUEUES, least=4))]
        for caller in sides
    }
    for caller in lab.turns(sides, most=3):
        conn = caller.connect()
        conn.prepare_threshold = None  # what the client prepares is not the queue's
        first, *others = queues[caller]
        try:
            _cycle(lab, conn, caller, first)
            before = _held(conn)
        except psycopg.errors.InsufficientPrivilege:
            lab.leave_out("memory: this role may not read pg_backend_memory_contexts (pg_read_all_stats may)")
            return
        for queue in others:
            _cycle(lab, conn, caller, queue)
        lab.record(QUEUE, caller.side, "memory", "kB", (_held(conn) - before) / len(others) / 1000)


def _cycle(lab: Lab, conn: Connection, caller: Caller, queue: str) -> None:
    for _ in range(ROUNDS):
        conn.execute(f"select {caller.call('send', queue, f'{lab.message!r}::jsonb')}".encode())
        row = conn.execute(
            f"select min(msg_id) from {caller.call('read', queue, '30', '1')}".encode()
        ).fetchone()
        assert row is not None
        conn.execute(f"select {caller.call('delete', queue, f'{row[0]}::bigint')}".encode())


_HELD = """
select sum(case when name in ('TopMemoryContext', 'CacheMemoryContext') then used_bytes else total_bytes end)
from pg_backend_memory_contexts
where name <> all(array[
    'MessageContext', 'PortalContext', 'ExecutorState', 'ExprContext', 'tuplestore tuples', 'Table function arguments',
    'pg_get_backend_memory_contexts'
])"""
"""Bytes that a session holds on to: of the two contexts that grow by large blocks, what is in use; without those of the
question itself, which take the more the more there are to list."""


def _held(conn: Connection) -> float:
    row = conn.execute(_HELD).fetchone()
    assert row is not None
    return float(row[0])
