"""What a read walks: the figures are those of a real read, and of the real indexes."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from pgqueue.doctor import Limits, Reading, Severity
from pgqueue.doctor.installation import survey
from pgqueue.doctor.look import Look
from pgqueue.doctor.reading import MOST_DUE, _walk_of_ours, read_of
from pgqueue.doctor.survey import Survey
from tests.doctor.conftest import Make, Patient

#: Rows that this session fetched from the table.
REAL = """
select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
from pg_stat_xact_all_tables where relid = 'pgmq.q_x'::regclass
"""

#: What is in the queue, as statements after x with its two messages; what a read of pgqueue's looks at.
CONTENTS = {
    "two": ([], 1),
    "none": (["delete from pgmq.q_x"], 0),
    "in-flight": (["select pgmq.send('x', '1') from generate_series(1, 300)", "select pgmq.read('x', 60, 250)"], 1),
    "all-in-flight": (["select pgmq.read('x', 60, 10)"], 0),
    "delayed": (["delete from pgmq.q_x", "select pgmq.send('x', '1', 60) from generate_series(1, 300)"], 0),
    "due": (
        [
            "select pgmq.send('x', '1') from generate_series(1, 300)",
            "select pgmq.read('x', 60, 250)",
            "update pgmq.q_x set vt = now() - interval '1 s', enqueued_at = now() - interval '1 h' where msg_id <= 9",
        ],
        9,
    ),
    "many-due": (
        [
            "select pgmq.send('x', '1') from generate_series(1, 300)",
            "update pgmq.q_x set vt = now() - interval '1 s', enqueued_at = now() - interval '1 h' where msg_id < 200",
        ],
        MOST_DUE + 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("contents", CONTENTS)
def test_what_adopting_would_bring_is_what_the_indexes_bring(theirs: Patient, contents: str) -> None:
    """The count on pgmq's own table, against the scans of pgqueue once its indexes are there."""
    statements, expected = CONTENTS[contents]
    theirs.do(*statements)
    counted = reading(theirs)
    theirs.do(
        "create index on pgmq.q_x (msg_id) where isfinite(vt) and vt - enqueued_at < interval '1 second'",
        "create index on pgmq.q_x (vt) where (not isfinite(vt) or vt - enqueued_at >= interval '1 second')",
        "analyze pgmq.q_x",
    )
    seen = surveyed(theirs)
    (queue,) = seen.queues
    assert queue.table is not None
    indexed = _walk_of_ours(seen, queue, queue.table).rows
    assert (counted.adopted_rows, counted.at_most) == (indexed, False) == (expected, False)


@pytest.mark.parametrize("kind", ["pgqueue", "pgmq"])
@pytest.mark.parametrize("contents", CONTENTS)
def test_a_read_walks_what_is_told(make: Make, kind: str, contents: str) -> None:
    """Against the server's own count of rows in a read that is rolled back."""
    patient = make(kind)
    patient.do(*CONTENTS[contents][0], "analyze pgmq.q_x")
    told = reading(patient).rows
    assert told is not None
    conn = patient.database.connect(autocommit=False)
    got = conn.execute("select * from pgmq.read('x', 30, 1)").fetchall()
    (real,) = conn.execute(REAL).fetchone() or (0,)
    conn.rollback()
    # Once more to lock it, and once more to update it; ours also looks for the first live row, before it merges
    # what is due. A queue of two rows pgmq walks a second time, to update one.
    assert told <= real <= told + (6 if got or len(CONTENTS[contents][0]) < 2 else 3)


def reading(patient: Patient) -> Reading:
    """The one of x."""
    (one,) = patient.report().readings
    return one


def surveyed(patient: Patient, limits: Limits | None = None) -> Survey:
    limits = limits or Limits()
    return survey(Look(patient.conn, limits), limits)


def test_a_long_read_is_a_finding_with_the_way_out(theirs: Patient) -> None:
    theirs.do("select pgmq.send('x', '1') from generate_series(1, 1200)", "select pgmq.read('x', 60, 1150)")
    found = theirs.finding("long_read")
    assert found.severity == Severity.WARNING
    assert "walks 1,151 rows" in found.what and found.what.endswith("; adopted by pgqueue, 1 row")
    assert "pgqueue adopt" in found.remedy
    assert reading(theirs).gains


def test_dead_rows_behind_an_old_snapshot_are_told_by_their_pages(theirs: Patient) -> None:
    theirs.do("alter table pgmq.q_x set (autovacuum_enabled = off)")
    theirs.do("select pgmq.send('x', '1') from generate_series(1, 1500)", "analyze pgmq.q_x")
    old = theirs.database.connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    theirs.do("delete from pgmq.q_x where msg_id < 1500")
    one = reading(theirs)
    assert one.rows is not None and one.rows <= 5 and one.pages is not None and one.pages > 15
    assert "dead rows" in theirs.finding("long_read", read_pages=10).why
    old.rollback()
    theirs.do("vacuum pgmq.q_x")
    assert theirs.findings("long_read", read_pages=10) == []


def test_ours_with_an_index_lost_says_to_look_further(ours: Patient) -> None:
    ours.do("select pgmq.send('x', '1') from generate_series(1, 1500)", "select pgmq.read('x', 60, 1400)")
    assert ours.findings("long_read") == []
    ours.do("drop index pgmq.q_x_ready_idx, pgmq.q_x_waiting_idx")
    assert "see the other findings" in ours.finding("long_read").remedy


def test_a_function_that_is_not_pgmqs_is_not_taken_for_it(theirs: Patient) -> None:
    theirs.do(
        "create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')"
        " returns setof pgmq.message_record language sql as 'select null::pgmq.message_record'"
    )
    assert reading(theirs).rows is None
    assert theirs.finding("long_read").severity == Severity.UNSEEN


def test_messages_of_the_future_are_counted_too(theirs: Patient) -> None:
    theirs.do(
        "update pgmq.q_x set enqueued_at = now() + interval '1 h', vt = now() + interval '1 h' where msg_id = 2"
    )
    assert (reading(theirs).adopted_rows, reading(theirs).at_most) == (2, True)
    theirs.do("insert into pgmq.q_x (enqueued_at, vt) select now() + interval '1 h', now() + interval '1 h'"
              " from generate_series(1, 1000)")  # fmt: skip
    assert reading(theirs).adopted_rows is None


def test_the_doctor_gives_up_in_time(theirs: Patient) -> None:
    """A walk that is longer than the doctor may take is stopped, and a bound stands for the count."""
    theirs.do("insert into pgmq.q_x (vt) select now() + interval '1 h' from generate_series(1, 30000)")
    patient = Limits(lock_ms=0, statement_ms=100)
    seen = surveyed(theirs, patient)
    (queue,) = seen.queues
    assert queue.table is not None
    other = theirs.database.connect(autocommit=False)
    other.execute("lock table pgmq.q_x in access exclusive mode")
    assert read_of(seen, queue, queue.table).problem == "a read took longer than 100 ms, and was stopped"
    other.rollback()
    seen = surveyed(theirs)
    quick = replace(seen, limits=Limits(count_ms=1))
    theirs.do("update pgmq.q_x set vt = enqueued_at")
    bounded = read_of(quick, queue, queue.table)
    assert (bounded.adopted_rows, bounded.at_most, bounded.adopted) == (35, True, "at most 35 rows")


def test_time_limits_hold_for_every_question(theirs: Patient) -> None:
    look = Look(theirs.conn, Limits(statement_ms=20))
    with pytest.raises(psycopg.errors.QueryCanceled), look.transaction():
        look.rows("select pg_sleep(20)")
