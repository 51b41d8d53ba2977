"""Where all is well the doctor finds nothing: every kind of queue, every pgmq."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pgqueue.doctor import Severity
from tests.adopt import layouts
from tests.adopt.offering import offering
from tests.conftest import CHOICE, FOREIGN_DSN
from tests.databases import Cluster, Database
from tests.doctor.conftest import Make, Patient

KINDS = [
    "select pgmq.create('Orders')",
    "select pgmq.create_unlogged('fast')",
    "select pgmq.create_partitioned('by_id', '100', '1000')",
    "select pgmq.create_partitioned('by_time', '1 hour', '1 day')",
    "select pgmq.convert_archive_partitioned('fast')",
    "select pgmq.create('grouped')",
    "select pgmq.create_fifo_index('grouped')",
    "select pgmq.create('told')",
    "select pgmq.enable_notify_insert('told', 100)",
    "select pgmq.enable_notify_insert('by_id')",
    "select pgmq.enable_notify_insert('Orders')",
    "select pgmq.create('by name')",
    "select pgqueue.decompile('by name')",
    f"select pgmq.create('{'ü' * 30}')",
    f"select pgmq.create('{'n' * 47}')",
    "select pgmq.create('select')",
    "select pgmq.create('o\"dd \\ one')",
    "select pgmq.create(E'two\\nlines')",
    "select pgmq.bind_topic('a.*', 'Orders')",
]
TRAFFIC = [
    "select pgmq.send_batch('{0}', array_fill('1'::jsonb, array[40]))",
    "select pgmq.send('{0}', '1', 60)",
    "select pgmq.read('{0}', 30, 10)",
    "select pgmq.pop('{0}', 10)",
    "select pgmq.archive('{0}', 1)",
    "select pgmq.read_grouped('{0}', 30, 2)",
]


@pytest.fixture
def every_kind(ours: Patient) -> Patient:
    """With every kind of queue, empty but for x."""
    ours.do(*KINDS)
    return ours


def test_every_kind_of_queue_is_well(every_kind: Patient) -> None:
    report = every_kind.report()
    assert report.findings == ()
    assert report.queues == len(report.readings) == 13
    assert {one.rows for one in report.readings if one.queue != "x"} == {0}


def test_settings_of_the_session_do_not_matter(every_kind: Patient) -> None:
    """Of the database or the role, as a rule: how the server writes names, instants and bytes."""
    every_kind.do(
        "set quote_all_identifiers = on",
        "set datestyle = 'German'",
        "set intervalstyle = 'iso_8601'",
        "set bytea_output = 'escape'",
        "set extra_float_digits = -3",
    )
    assert every_kind.report().findings == ()


def test_queues_in_use_are_well(every_kind: Patient) -> None:
    for reading in every_kind.report().readings:
        if not re.search('["\n\\\\]', reading.queue):
            every_kind.do(*(step.format(reading.queue) for step in TRAFFIC))
    report = every_kind.report()
    assert report.findings == ()
    assert max(one.rows or 0 for one in report.readings) <= 12


def test_what_upkeep_leaves_is_well(ours: Patient) -> None:
    ours.do(*KINDS[2:4], "select pgmq.send_batch('by_id', array_fill('1'::jsonb, array[700]))")
    assert {one.check for one in ours.report().findings} == {"rows_spilled", "upkeep_overdue"}
    ours.do("select pgqueue.maintain()")
    assert ours.report().findings == ()


QUICK = ("1.3.3", "1.8.1")
ALL = [
    pytest.param(version, id=version, marks=() if version in QUICK else pytest.mark.scale)
    for version in layouts.versions()
]


@pytest.mark.parametrize("version", ALL)
def test_a_pgmq_from_sql_is_well(empty_db: Database, version: str) -> None:
    conn = empty_db.connect()
    layouts.build(conn, version, queues=["orders", "mail"], unlogged=["fast"])
    conn.execute("select pgmq.send('orders', '1')")
    report = Patient(empty_db).report()
    assert report.findings == ()
    assert (report.kind, report.queues) == ("sql", 3)
    assert report.version is not None
    assert version.rpartition(".")[0] in report.version
    assert {one.queue: one.rows for one in report.readings} == {"orders": 1, "mail": 0, "fast": 0}


@pytest.fixture(scope="module")
def offered() -> Iterator[Cluster]:
    """A server that offers pgmq as an extension."""
    if FOREIGN_DSN:
        pytest.skip("PGQUEUE_TEST_DSN: pgmq's files cannot be put into that server's extension folder")
    with offering(CHOICE) as server:
        cluster = Cluster(server.conninfo)
        yield cluster
        cluster.close()


@pytest.mark.scale
@pytest.mark.parametrize(
    ("version", "upgraded"),
    [
        pytest.param(version, upgraded, id=f"{version}-{'upgraded' if upgraded else 'made'}")
        for version in layouts.versions()
        for upgraded in (False, True)
        if not upgraded or layouts.number(version) < layouts.number(layouts.UPGRADED_TO)
    ],
)
def test_the_extension_is_well(offered: Cluster, version: str, upgraded: bool) -> None:
    database = offered.create_database()
    patient = Patient(database)
    layouts.build(patient.conn, version, "extension", upgraded=upgraded, queues=["orders"], unlogged=["fast"])
    report = patient.report()
    database.drop()
    assert report.findings == ()
    assert (report.kind, report.version) == ("extension", layouts.UPGRADED_TO if upgraded else version)


def test_an_empty_list_of_queues_is_well(empty_db: Database, make: Make) -> None:
    for kind in ("pgqueue", "pgmq"):
        patient = make(kind)
        patient.do("select pgmq.drop_queue('x')")
        assert (patient.report().findings, patient.report().worst) == ((), None)


def test_severities_have_an_order() -> None:
    assert sorted(Severity) == [Severity.INFO, Severity.UNSEEN, Severity.WARNING, Severity.ERROR]
