"""The doctor only reads, locks nothing that others want, waits for nobody, and needs few rights."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgqueue.doctor import Limits, Severity, examine
from pgqueue.doctor.look import Look
from pgqueue.errors import NoSuchQueue, NotInstalled
from tests.databases import Database
from tests.doctor.conftest import Make, Patient

KINDS = ["pgqueue", "pgmq"]
#: All that is in the catalogue, with who wrote it last; and every message, with who wrote or locked it.
STATE = """
select array(select (c.oid, c.xmin, c.xmax, c.relname, c.relacl::text) from pg_class c order by c.oid),
    array(select (p.oid, p.xmin) from pg_proc p order by p.oid),
    array(select (m.ctid, m.xmin, m.xmax, m.msg_id, m.vt, m.read_ct) from pgmq.q_x m order by m.msg_id),
    array(select (m.xmin, m.xmax, m.queue_name) from pgmq.meta m)
"""


def state(patient: Patient) -> tuple[Any, ...]:
    found = patient.conn.execute(f"select t::text from ({STATE}) t").fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_changed_made_or_locked(make: Make, kind: str) -> None:
    patient = make(kind)
    patient.do("select pgmq.read('x', 30, 1)")
    before = state(patient)
    patient.report()
    assert state(patient) == before
    left = patient.conn.execute(
        "select count(*) from pg_locks where pid = pg_backend_pid() and locktype <> 'virtualxid'"
        " and relation is distinct from 'pg_locks'::regclass"
    )
    assert left.fetchone() == (0,)


def test_its_transactions_cannot_write(ours: Patient) -> None:
    look = Look(ours.conn, Limits())
    for statement in ("create table t ()", "select pgmq.send('x', '1')", "select 1 from pgmq.q_x for update"):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), look.transaction():
            look.rows(statement)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_others_hold_are_in_nobodys_way(make: Make, kind: str) -> None:
    """A consumer in the middle of its transaction, and a sender."""
    patient = make(kind)
    consumer, sender = (patient.database.connect(autocommit=False) for _ in range(2))
    consumer.execute("select * from pgmq.read('x', 30, 1)")
    sender.execute("select pgmq.send('x', '2')")
    report = patient.report(lock_ms=50)
    assert report.findings == ()
    assert [one.rows for one in report.readings] == [1]
    consumer.commit()
    sender.commit()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("locked", ["table pgmq.q_x", "table pgmq.a_x", "table pgmq.meta"])
def test_a_locked_table_is_told_not_waited_for(make: Make, kind: str, locked: str) -> None:
    patient = make(kind)
    patient.do("select pgmq.create('y')")
    holder = patient.database.connect(autocommit=False)
    holder.execute(f"lock {locked} in access exclusive mode".encode())
    report = patient.report(lock_ms=20)
    assert {one.severity for one in report.findings} == {Severity.UNSEEN}
    assert "y" in {one.queue for one in report.readings if one.rows is not None}
    if locked == "table pgmq.q_x":
        (found,) = report.findings
        assert found.what == f"pgmq.q_x, which process {holder.info.backend_pid} has locked against everybody"
        patient.mend(found)  # it shows who that is
    holder.rollback()
    assert patient.report().findings == ()


def test_a_lock_that_comes_meanwhile_is_told_too(theirs: Patient) -> None:
    """One whose holder was not seen in pg_locks beforehand: the wait is short, and the next question goes on."""
    look = Look(theirs.conn, Limits(lock_ms=20))
    holder = theirs.database.connect(autocommit=False)
    holder.execute("lock table pgmq.q_x in access exclusive mode")
    with pytest.raises(psycopg.errors.LockNotAvailable), look.transaction():
        look.rows("select from pgmq.q_x")
    with look.transaction():
        assert look.rows("select 1 as one")[0].one == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_role_without_rights_is_told_what_it_cannot_see(make: Make, kind: str) -> None:
    patient = make(kind)
    patient.do("select pgmq.enable_notify_insert('x')", "select pgmq.bind_topic('a', 'x')")
    patient.do("alter table pgmq.notify_insert_throttle set logged")
    stranger = patient.database.create_role()
    report = patient.report(user=stranger)
    assert {one.severity for one in report.findings} == {Severity.UNSEEN}
    assert {"the list of queues", "what a read walks"} <= {one.what for one in report.findings}
    assert [(one.queue, one.rows) for one in report.readings] == [("x", None)]
    grants = "\n".join(one.remedy for one in report.findings).splitlines()
    patient.do(*{line for line in grants if line.startswith("grant")})
    report = patient.report(user=stranger)
    assert [(one.queue, one.rows) for one in report.readings] == [("x", 1)]
    assert "the list of queues" not in {one.what for one in report.findings}


def test_a_sequence_and_a_partition_that_a_role_may_not_read(ours: Patient) -> None:
    ours.do("select pgmq.create_partitioned('p')")
    reader = ours.database.create_role()
    ours.do(
        f"grant usage on schema pgmq to {reader}",
        f"grant select on pgmq.meta, pgmq.q_x, pgmq.a_x, pgmq.q_p, pgmq.a_p to {reader}",
    )
    hidden = [*ours.findings("sequence_hidden", user=reader), *ours.findings("rows_spilled", user=reader)]
    assert [(one.queue, one.severity) for one in hidden] == [(queue, Severity.UNSEEN) for queue in "pxpp"]
    for finding in hidden:
        ours.mend(finding)
    assert ours.findings("sequence_hidden", user=reader) == ours.findings("rows_spilled", user=reader) == []


def test_rows_that_a_policy_hides_are_not_taken_for_none(theirs: Patient) -> None:
    """Nor does the policy's code run in the doctor's session."""
    reader = theirs.database.create_role()
    theirs.do(
        "create function public.trap() returns boolean language plpgsql as $$begin raise 'sprung'; end$$",
        "alter table pgmq.q_x enable row level security",
        "create policy trap on pgmq.q_x using (public.trap())",
        f"grant usage on schema pgmq to {reader}",
        f"grant select on all tables in schema pgmq to {reader}",
    )
    (found,) = (one for one in theirs.report(user=reader).findings if one.check == "long_read")
    assert "row-level security" in found.why
    assert [one.rows for one in theirs.report().readings] == [1]


def test_the_code_behind_a_view_is_not_run(theirs: Patient) -> None:
    theirs.do(
        "create function public.trap() returns bigint language plpgsql as $$begin raise 'sprung'; end$$",
        "drop table pgmq.q_x",
        "create view pgmq.q_x as select public.trap() as msg_id, now() as vt, 0 as read_ct, now() as enqueued_at",
    )
    report = theirs.report()
    assert [one.check for one in report.findings] == ["not_a_table"]
    assert report.readings == ()


def test_one_queue_alone(theirs: Patient) -> None:
    theirs.do("select pgmq.create('Other')", "drop table pgmq.a_x", "grant usage on schema pgmq to public")
    assert {one.check for one in theirs.report().findings} == {"archive_missing", "schema_open"}
    assert theirs.report("Other").findings == theirs.report("other").findings == ()
    assert [one.check for one in theirs.report("x").findings] == ["archive_missing"]
    with pytest.raises(NoSuchQueue, match='queue "nope" does not exist'):
        theirs.report("nope")


def test_where_nothing_is_installed_it_says_so(empty_db: Database) -> None:
    with pytest.raises(NotInstalled, match="neither pgqueue nor pgmq"):
        examine(empty_db.connect())


def test_a_connection_that_is_lost_is_no_finding(theirs: Patient) -> None:
    conn = theirs.database.connect()
    theirs.conn.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        examine(conn)
