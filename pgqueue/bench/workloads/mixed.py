"""A steady load: as many sends, reads and deletes a second on each side, and how long each call takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from pgqueue.bench import pgbench, rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.lab import Lab
from pgqueue.bench.pgbench import Load, ask

RATE = 300
"""Calls of each kind a second."""
CLIENTS = 4
LAG = 300
"""How many messages are in flight: a message is deleted about a second after its read."""
TURNS = 2
PERCENTILES = (50, 95, 99)
STEADY = f"{RATE} messages a second"


def mixed(lab: Lab) -> None:
    """Three pgbenches at once, one a call, so that each call has percentiles of its own."""
    queues = {caller: caller.make_queue("mixed") for caller in lab.callers()}
    turns = min(TURNS, lab.options.turns)
    seconds = max(1.0, lab.seconds(20) / turns)
    for caller, queue in queues.items():
        rows.load(caller.database, queue, rows.READY, 2 * LAG, lab.message)
        caller.database.run(f"select pgmq.read('{queue}', 30, {LAG})")
        caller.vacuum(queue)
    for caller in lab.turns(list(queues), most=turns):
        queue = queues[caller]
        start = caller.database.value("select pg_current_wal_insert_lsn()")
        sends, reads, deletes = pgbench.run_together(
            caller.database.address, _loads(lab, caller, queue, seconds)
        )
        used = caller.database.value(f"select pg_current_wal_insert_lsn() - '{start}'::pg_lsn")
        for call, done in (("send", sends), ("read", reads), ("delete", deletes)):
            _record(lab, caller, call, [one.milliseconds for one in done.transactions])
        lab.record(STEADY, caller.side, "WAL a message", "bytes", float(used) / len(sends.transactions))
        lab.record(STEADY, caller.side, "dead rows", "", _dead_rows(caller, queue))


def _loads(lab: Lab, caller: Caller, queue: str, seconds: float) -> list[Load]:
    """Clients that send, that read, and that delete by number, each every fourth message, as the ids rise."""
    scripts = (
        ask(caller.call("send", queue, ":message")),
        f"select msg_id from {caller.call('read', queue, '30', '1')};\n",
        f"\\set next :next + {CLIENTS}\n\\set msg_id :next + :client_id\n"
        + ask(caller.call("delete", queue, ":msg_id::bigint")),
    )
    oldest = caller.database.value(f"select min(msg_id) from pgmq.q_{queue}")
    variables = {"message": lab.message, "next": str(oldest - CLIENTS)}
    return [Load(one, CLIENTS, seconds, rate=RATE, variables=variables, log=True) for one in scripts]


def _record(lab: Lab, caller: Caller, call: str, times: Sequence[float]) -> None:
    cuts = quantiles(times, n=100)
    for percentile in PERCENTILES:
        lab.record(STEADY, caller.side, f"{call} p{percentile}", "ms", cuts[percentile - 1])


def _dead_rows(caller: Caller, queue: str) -> float:
    """Dead rows by the server's own count, which is exact enough and costs no scan."""
    return float(
        caller.database.value(
            f"select n_dead_tup from pg_stat_user_tables where relid = 'pgmq.q_{queue}'::regclass"
        )
    )
