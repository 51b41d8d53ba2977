"""A pgmq whose partitioned queues pg_partman keeps up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adopt import layouts
from tests.adopt.matrix import has_partman
from tests.databases import Cluster
from tests.doctor.conftest import Patient
from tests.servers import Server, ServerError


@pytest.fixture(scope="module")
def partman() -> Iterator[Cluster]:
    """Debian's server, which has pg_partman 4.7."""
    try:
        server = Server("debian15")
    except ServerError as error:
        pytest.skip(f"pg_partman is tested on Debian's Postgres: {error}")
    server.start()
    cluster = Cluster(server.conninfo)
    if not has_partman(cluster):
        server.stop()
        pytest.skip("pg_partman is not there: apt-get install postgresql-15-partman")
    yield cluster
    cluster.close()
    server.stop()


def test_rows_that_outran_their_partitions(partman: Cluster) -> None:
    database = partman.create_database()
    patient = Patient(database)
    patient.conn = database.connect(user=database.superuser)
    patient.do("create schema partman", "create extension pg_partman schema partman")
    layouts.build(patient.conn, "1.11.2", "sql", queues=[], partitioned=["p"])
    assert patient.report().findings == ()
    patient.do("select pgmq.create('plain')", "select setval('pgmq.q_p_msg_id_seq', 1000000)")
    patient.do("select pgmq.send('p', '1')")
    found = patient.finding("rows_spilled")
    assert found.remedy.startswith("call partman.partition_data_proc('pgmq.q_p');")
    patient.mend(found)
    assert patient.report().findings == ()
    patient.do("delete from partman.part_config where parent_table = 'pgmq.a_p'")
    assert patient.finding("partitions_of_nobody").what.startswith("pgmq.a_p is partitioned")
    database.drop()
