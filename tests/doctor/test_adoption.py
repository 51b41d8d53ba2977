"""Before and after `pgqueue adopt`: well both times, and what was told of reads has come true."""

from __future__ import annotations

from tests.adopt import layouts
from tests.cli.conftest import Run
from tests.databases import Database
from tests.doctor.conftest import Patient


def test_what_was_told_comes_true(offline: Run, empty_db: Database) -> None:
    patient = Patient(empty_db)
    layouts.build(patient.conn, "1.5.1", queues=["orders", "Mail"], unlogged=["fast"])
    patient.do(
        "select pgmq.send('orders', '1') from generate_series(1, 600)",
        "select pgmq.read('orders', 3600, 500)",
        "select pgmq.send('Mail', '1', 3600) from generate_series(1, 200)",
        "select pgmq.send('fast', '1') from generate_series(1, 60)",
        "update pgmq.q_fast set vt = now() - interval '1 s', enqueued_at = now() - interval '1 h' where msg_id < 20",
    )
    told = {one.queue: one.adopted_rows for one in patient.report().readings}
    assert told == {"orders": 1, "Mail": 0, "fast": 20}
    offline("adopt", "--yes", "--dsn", empty_db.dsn)
    report = patient.report()
    assert (report.kind, report.findings) == ("pgqueue", ())
    assert {one.queue: one.rows for one in report.readings} == told
    offline("adopt", "--back", "--yes", "--dsn", empty_db.dsn)
    report = patient.report()
    assert (report.kind, report.findings) == ("sql", ())
    assert {one.queue: one.adopted_rows for one in report.readings} == told
