"""Loads in the server: what a loop does and what it gives."""

from __future__ import annotations

import pytest

from pgqueue.bench import rows
from pgqueue.bench.calls import Caller, message
from pgqueue.bench.databases import Databases
from pgqueue.bench.loops import Loop, Step, batch_steps, cycle_steps, reading, totals
from pgqueue.bench.model import BY_NAME, COMPILED, NOT_COMPILED, PGMQ
from pgqueue.bench.workloads.crowds import buffers

SIDES = [(PGMQ, "pgmq"), (BY_NAME, "pgqueue"), (COMPILED, "pgqueue"), (NOT_COMPILED, "pgqueue")]


@pytest.mark.parametrize(("side", "what"), SIDES, ids=[side for side, _ in SIDES])
def test_each_side_is_called_in_its_own_way(databases: Databases, side: str, what: str) -> None:
    caller = Caller(side, databases.make(what))
    queue = caller.make_queue("bench")
    calls = [step.statement for step in (*cycle_steps(caller, queue), *batch_steps(caller, queue))]
    assert all(('pgqueue."bench_' in call) == (side == COMPILED) for call in calls)
    compiled = caller.database.value(f"select to_regproc('pgqueue.\"{queue}$read\"') is not null")
    assert compiled == (side in (BY_NAME, COMPILED))
    for steps in (cycle_steps(caller, queue), batch_steps(caller, queue)):
        times = Loop(caller.connect(), steps, message(30)).run(12)
        assert list(times) == ["send", "read", "delete"]
        assert [len(values) for values in times.values()] == [12, 12, 12]
        assert all(time > 0 for time in totals(times))
    assert caller.database.value(f"select count(*) from pgmq.q_{queue}") == 0
    assert caller.database.value(f"select last_value from pgmq.q_{queue}_msg_id_seq") == 12 + 12 * 100
    assert buffers(caller.connect(), caller.call("read", queue, "30", "1")) > 0


def test_a_loop_ends_when_told(databases: Databases) -> None:
    caller = Caller(COMPILED, databases.make("pgqueue"))
    queue = caller.make_queue("bench")
    rows.load(caller.database, queue, rows.READY, 7, message(30))
    drain = Loop(caller.connect(), [reading(caller, queue)], message(30), until="v_id is null")
    assert len(drain.run(100)["read"]) == 7
    slow = Loop(caller.connect(), [Step("nap", "perform pg_sleep(0.05)")], message(30))
    assert len(slow.run(1000, most_seconds=0.02)["nap"]) == 1
    assert 50_000 < slow.run(1)["nap"][0] < 5_000_000, "microseconds"


def test_a_session_can_have_many_loops(databases: Databases) -> None:
    conn = databases.make("pgqueue").connect()
    for number in range(20):
        steps = [Step("look", f"v_id := {number}")]
        assert len(Loop(conn, steps, message(30), until=f"v_id <> {number}").run(1)["look"]) == 1


def test_a_loop_can_leave_the_queue_as_it_was(databases: Databases) -> None:
    caller = Caller(COMPILED, databases.make("pgqueue"))
    queue = caller.make_queue("bench")
    rows.load(caller.database, queue, rows.READY, 1, message(30))
    loop = Loop(
        caller.connect(), [reading(caller, queue)], message(30), ending="rollback", until="v_id is null"
    )
    assert len(loop.run(5)["read"]) == 5
    assert caller.database.value(f"select max(read_ct) from pgmq.q_{queue}") == 0


@pytest.mark.parametrize(
    ("kind", "ready", "waiting"),
    [
        (rows.READY, 5, 0),
        (rows.AS_PGMQ, 5, 0),
        (rows.IN_FLIGHT, 0, 0),
        (rows.DELAYED, 0, 0),
        (rows.EXPIRED, 0, 5),
    ],
    ids=["ready", "as pgmq", "in flight", "delayed", "expired"],
)
def test_rows_are_in_the_state_they_are_named_after(
    databases: Databases, kind: rows.Rows, ready: int, waiting: int
) -> None:
    """Visible in which index: the predicates are those of the queue's own two indexes."""
    database = databases.make("pgqueue")
    database.run("select pgmq.create('bench')")
    rows.load(database, "bench", kind, 5, message(30))
    for index, count in (("ready", ready), ("waiting", waiting)):
        predicate = database.value(
            "select pg_get_expr(indpred, indrelid) from pg_index"
            f" where indexrelid = 'pgmq.q_bench_{index}_idx'::regclass"
        )
        found = database.value(
            f"select count(*) from pgmq.q_bench where {predicate} and vt <= clock_timestamp()"
        )
        assert found == count, index


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_messages_have_the_size_asked_for(size: int) -> None:
    assert len(message(size)) == size
    assert message(size) == message(size)
