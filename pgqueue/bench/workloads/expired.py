"""A hundred thousand leases that end at once, in random order, beside as many messages that are ready."""

from __future__ import annotations

from statistics import median

from pgqueue.bench import rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import Loop, Step
from pgqueue.bench.model import COMPILED, PGMQ

LEASES = 100_000
KINDS = {"ready": rows.READY, "expired": rows.EXPIRED}
QUANTITIES = (1, 100)


def expired(lab: Lab) -> None:
    """Drain the queue, by ones and by hundreds: the time of a read, at the start, at the end, and the WAL."""
    for caller in lab.callers(PGMQ, COMPILED):
        for qty in QUANTITIES:
            for kind in KINDS:
                queue = caller.make_queue(f"{kind}_{qty}")
                lab.say(f"expired, {kind} by {qty}, {caller.side}")
                # pgmq's figures are for information: a tenth shows them
                count = lab.count(LEASES // (10 if caller.side == PGMQ else 1), least=4 * qty)
                rows.load(caller.database, queue, KINDS[kind], count, lab.message)
                caller.vacuum(queue)
                _drain(lab, caller, queue, f"{kind} by {qty}", qty, count)


def _drain(lab: Lab, caller: Caller, queue: str, case: str, qty: int, count: int) -> None:
    steps = (
        Step(
            "read",
            "select array_agg(m.msg_id), count(*) into v_ids, v_id"
            f" from {caller.call('read', queue, '3600', str(qty))} m",
        ),
        Step("delete", f"perform f.id from {caller.call('delete_batch', queue, 'v_ids')} as f (id)"),
    )
    loop = Loop(caller.connect(), steps, lab.message, until="v_id = 0")
    start = caller.database.value("select pg_current_wal_insert_lsn()")
    reads = loop.run(count, most_seconds=45)["read"]
    wal = caller.database.value(f"select pg_current_wal_insert_lsn() - '{start}'::pg_lsn")
    some = min(1000, max(1, len(reads) // 10))
    lab.record(case, caller.side, "read", "µs", median(reads))
    lab.record(case, caller.side, "first reads", "µs", median(reads[:some]))
    lab.record(case, caller.side, "last reads", "µs", median(reads[-some:]))
    lab.record(case, caller.side, "WAL a message", "bytes", float(wal) / (len(reads) * qty))
    if len(reads) * qty < count:
        lab.leave_out(f"{case}, {caller.side}: only {len(reads) * qty} of {count} were drained in time")
