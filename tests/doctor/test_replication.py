"""A standby, which is mended on its primary, and tables that are published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from pgqueue.doctor import examine
from pgqueue.doctor.findings import Report
from tests.conftest import CHOICE
from tests.databases import our_sql, uri
from tests.doctor.conftest import QUIET, Patient
from tests.servers import Server

ILL = [
    "select pgmq.create_partitioned('p', '10', '1000')",
    "select pgmq.send('p', '1') from generate_series(1, 70)",
    "select pgmq.create('x')",
    "drop table pgmq.a_x",
    "create table public.long (n int)",
]


@pytest.fixture(scope="module")
def standby() -> Iterator[Report]:
    """What the doctor says on a standby. It follows nobody, which is all the same here."""
    server = Server(CHOICE)
    server.start()
    dsn = uri(server.conninfo)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for step in (our_sql(), *ILL):
            conn.execute(step.encode())
    server.shut_down()
    (server.data / "standby.signal").touch()
    server.start()
    with psycopg.connect(dsn, autocommit=True) as conn, psycopg.connect(dsn) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("table public.long")
        yield examine(conn, limits=replace(QUIET, pinned_seconds=0))
    server.stop()


def test_on_a_standby_remedies_are_for_the_primary(standby: Report) -> None:
    """But for those of its own sessions. How far its sequences have got it does not know."""
    found = {one.check: one.remedy for one in standby.findings}
    assert set(found) == {"archive_missing", "rows_spilled", "horizon_session"}
    assert found.pop("horizon_session").startswith("-- ask postgres first")
    for remedy in found.values():
        assert remedy.startswith("-- on the primary: this server is a standby\n")


def test_what_is_published_can_be_read_once_it_is_mended(ours: Patient) -> None:
    """Partitions that are made later, too."""
    ours.do(
        "select pgmq.create_partitioned('p', '10', '1000')",
        "select pgmq.send('p', '1') from generate_series(1, 5)",
        "create publication all_of_it for table pgmq.q_p, pgmq.q_x, pgmq.a_x",
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
        ours.do("select pgmq.pop('p')")
    (found,) = ours.report().findings
    assert (found.check, found.queue) == ("queue_without_identity", "p")
    assert found.what == "the publication all_of_it has pgmq.q_p, which has no replica identity"
    ours.mend(found)
    ours.do(
        "select pgmq.pop('p', 5)",
        "select pgmq.send('p', '1') from generate_series(1, 90)",
        "select pgqueue.maintain()",
    )
    assert len(ours.conn.execute("select pgmq.pop('p', 100)").fetchall()) == 90
    assert ours.report().findings == ()
    ours.do(
        "drop publication all_of_it",
        "create publication inserts for table pgmq.q_p with (publish = 'insert')",
    )
    assert ours.report().findings == ()
