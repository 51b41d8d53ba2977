"""Partitions that somebody detached or dropped: what is said of them, and what the remedy brings back."""

from __future__ import annotations

import pytest

from pgqueue.names import object_name
from tests.doctor.conftest import Patient


@pytest.mark.parametrize("queue", ["p", "Much longer than a partition's name can be, 47"])
def test_a_detached_partition_is_no_queue(ours: Patient, queue: str) -> None:
    """Its messages can be read again once it is mended; where the queue's name is too long its MD5 stands for it."""
    queue = queue.replace("'", "").ljust(47, "é") if len(queue) > 9 else queue
    name = object_name("q_", queue.lower(), "$p0")
    ours.do(
        f"select pgmq.create_partitioned('{queue}', '10', '1000')",
        f"select pgmq.send('{queue}', '1') from generate_series(1, 12)",
        f'alter table pgmq."q_{queue.lower()}" detach partition pgmq."{name}"',
    )
    report = ours.report()
    (found,) = report.findings
    assert (found.check, found.queue) == ("partition_detached", queue)
    assert f'pgmq."{name}" is a partition of ' in found.what
    assert report.queues == 2
    ours.mend(found)
    ours.do("select pgqueue.maintain()")
    assert ours.report().findings == ()
    assert len(ours.conn.execute("select pgmq.pop(%s, 100)", [queue]).fetchall()) == 12


def test_one_whose_queue_is_gone_is_told_too(ours: Patient) -> None:
    ours.do(
        "select pgmq.create_partitioned('p', '10', '1000')",
        'alter table pgmq.q_p detach partition pgmq."q_p$p0"',
        "select pgmq.drop_queue('p')",
    )
    (found,) = ours.report().findings
    assert found.check == "partition_detached"
    assert found.what == 'pgmq."q_p$p0" was a partition of a table that is gone'
    assert found.remedy.endswith('drop table pgmq."q_p$p0";')


def test_a_table_without_a_default_partition(ours: Patient) -> None:
    ours.do(
        "select pgmq.create_partitioned('p', '10', '1000')",
        "select pgmq.send('p', '1')",
        'alter table pgmq.q_p detach partition pgmq."q_p$default"',
    )
    found = ours.finding("default_missing")
    assert found.what == "pgmq.q_p has no default partition"
    assert found.remedy == 'alter table pgmq.q_p attach partition pgmq."q_p$default" default;'
    ours.do('drop table pgmq."q_p$default"')
    found = ours.finding("default_missing")
    assert found.remedy == "select * from pgqueue.maintain();"
    ours.mend(found)
    assert ours.report().findings == ()


def test_a_renamed_archive_is_named(ours: Patient) -> None:
    """A new one could not be made: its index's name is taken."""
    ours.do("alter table pgmq.a_x rename to old_x")
    found = ours.finding("archive_missing")
    assert "pgmq.old_x bears its indexes" in found.remedy
    ours.mend(found)
    assert ours.conn.execute("select count(*) from pgmq.a_x").fetchone() == (1,)
