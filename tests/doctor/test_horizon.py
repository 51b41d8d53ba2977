"""Who holds back the horizon, each for real on a server of its own: session, prepared transaction, slot, standby."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from psycopg import pq

from pgqueue.doctor import Severity
from tests.conftest import CHOICE
from tests.databases import Cluster, our_sql, uri
from tests.doctor.conftest import QUEUE, Patient
from tests.servers import Server
from tests.sql.asking import column


@pytest.fixture(scope="module")
def own_server() -> Iterator[Cluster]:
    """One that knows prepared transactions, and whose settings may be changed."""
    server = Server(CHOICE, {"max_prepared_transactions": "2"})
    server.start()
    cluster = Cluster(server.conninfo)
    yield cluster
    cluster.close()
    server.stop()


@pytest.fixture
def patient(own_server: Cluster) -> Iterator[Patient]:
    one = Patient(own_server.create_database(own_server.template(our_sql())))
    one.do(*(step.format(x="x") for step in QUEUE))
    yield one
    one.database.drop()


def wait_for(holds: Callable[[], bool]) -> None:
    """Raises AssertionError if it never does."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError("it never came")


_OPEN = "select count(*) from pg_stat_activity where pid = %s and backend_xid is not null"
_VACUUMED = """
select count(*) from pg_stat_activity
where backend_type = 'autovacuum worker' and query like '%public.slow%' and backend_xmin is not null"""


def test_a_session_that_is_open_for_long(patient: Patient) -> None:
    other = patient.database.connect(autocommit=False, application_name="report \x1b[2J")
    other.execute("set transaction isolation level repeatable read")
    other.execute("select 'secret'")
    assert patient.findings("horizon_session") == []
    found = patient.finding("horizon_session", pinned_seconds=0)
    assert found.severity == Severity.WARNING
    assert found.what.startswith(f"process {other.info.backend_pid} of app_owner,")
    assert "secret" not in found.what + found.remedy
    patient.mend(found)
    wait_for(lambda: patient.findings("horizon_session", pinned_seconds=0) == [])


def test_a_session_of_somebody_else_is_not_guessed_at(patient: Patient) -> None:
    other = patient.database.connect(autocommit=False, user=patient.database.superuser)
    other.execute("select pg_current_xact_id()")
    reader = patient.database.create_role()
    found = patient.finding("horizon_hidden", user=reader)
    assert found.severity == Severity.UNSEEN
    assert str(other.info.backend_pid) in found.what
    patient.mend(found, user=patient.database.superuser)
    assert patient.findings("horizon_hidden", user=reader) == []
    assert patient.finding("horizon_session", user=reader, pinned_seconds=0).severity == Severity.WARNING
    other.rollback()


def test_transactions_of_somebody_else_that_end_are_nothing(patient: Patient) -> None:
    """Each is open when it is looked at first; another one follows at once."""
    reader = patient.database.create_role()
    busy = patient.database.connect(user=patient.database.superuser)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            busy.execute("select pg_current_xact_id(), pg_sleep(0.1)")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        wait_for(lambda: column(patient.conn, _OPEN, busy.info.backend_pid) == [1])
        assert patient.findings("horizon_hidden", user=reader) == []
    finally:
        over.set()
        worker.join()


def test_autovacuum_holds_nothing_back(patient: Patient) -> None:
    """One that takes its time, which who may not see the activity of others cannot tell from a session."""
    reader = patient.database.create_role()
    superuser = patient.database.connect(user=patient.database.superuser)
    superuser.execute("alter system set autovacuum_naptime = 1")
    superuser.execute("select pg_reload_conf()")
    superuser.execute(
        "create table slow with (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)"
        " as select repeat('x', 4000) as x from generate_series(1, 2000)"
    )
    try:
        superuser.execute("delete from slow")
        wait_for(lambda: column(superuser, _VACUUMED) == [1])
        assert patient.findings("horizon_hidden", user=reader) == []
        assert column(superuser, _VACUUMED) == [1]
    finally:
        superuser.execute("drop table slow")
        superuser.execute("alter system reset autovacuum_naptime")
        superuser.execute("select pg_reload_conf()")


def test_a_prepared_transaction(patient: Patient) -> None:
    patient.do("begin", "select pgmq.send('x', '1')", "prepare transaction 'it''s mine'")
    assert patient.findings("horizon_prepared") == []
    found = patient.finding("horizon_prepared", pinned_seconds=0)
    assert "app_owner left a prepared transaction 'it''s mine' since" in found.what
    patient.mend(found)
    assert patient.findings("horizon_prepared", pinned_seconds=0) == []


def test_a_table_that_a_prepared_transaction_locks(patient: Patient) -> None:
    patient.do("begin", "lock table pgmq.q_x in access exclusive mode", "prepare transaction 'mine'")
    assert "which a prepared transaction has locked" in patient.finding("table_locked").what
    patient.do("rollback prepared 'mine'")
    assert patient.findings("table_locked") == []


class Standby:
    """As much of a standby as the server needs to see: it streams, and says by feedback what rows it needs."""

    def __init__(self, patient: Patient, slot: str = "") -> None:
        admin = patient.database.connect(user=patient.database.superuser)
        (xid, lsn) = admin.execute("select txid_current(), pg_current_wal_flush_lsn()").fetchone() or (0, "")
        dsn = uri(
            {**patient.database.cluster.conninfo, "replication": "true", "application_name": "far_away"}
        )
        self.conn = pq.PGconn.connect(dsn.encode())
        started = self.conn.exec_(f"START_REPLICATION {slot and f'SLOT {slot}'} PHYSICAL {lsn}".encode())
        assert started.status == pq.ExecStatus.COPY_BOTH, started.error_message
        self._feedback = b"h" + struct.pack("!qIIII", 0, xid % 2**32, xid >> 32, 0, 0)

    def asks(self) -> bool:
        """Says again what it needs, as standbys do; True, so that it can be part of a condition."""
        self.conn.put_copy_data(self._feedback)
        self.conn.flush()
        return True

    def leave(self) -> None:
        self.conn.finish()


def test_a_slot_whose_standby_is_away(patient: Patient) -> None:
    superuser = patient.database.connect(user=patient.database.superuser)
    superuser.execute("select pg_create_physical_replication_slot('far')")
    assert patient.findings("horizon_slot", pinned_xids=0) == []
    standby = Standby(patient, "far")
    wait_for(lambda: standby.asks() and len(patient.findings("horizon_slot", pinned_xids=0)) == 1)
    assert patient.findings("horizon_slot") == []
    standby.leave()
    wait_for(lambda: len(patient.findings("horizon_slot")) == 1)
    found = patient.finding("horizon_slot")
    assert found.what.startswith("the replication slot far is not in use")
    patient.mend(found, user=patient.database.superuser)
    assert patient.findings("horizon_slot") == []


def test_a_standby_that_asks_for_old_rows(patient: Patient) -> None:
    standby = Standby(patient)
    wait_for(lambda: standby.asks() and len(patient.findings("horizon_standby", pinned_xids=0)) == 1)
    found = patient.finding("horizon_standby", pinned_xids=0)
    assert found.what.startswith("the standby far_away keeps rows of")
    assert "hot_standby_feedback = off" in found.remedy
    assert patient.findings("horizon_standby") == []
    standby.leave()
    wait_for(lambda: patient.findings("horizon_standby", pinned_xids=0) == [])


def test_a_server_without_autovacuum(patient: Patient) -> None:
    superuser = patient.database.connect(user=patient.database.superuser)
    superuser.execute("alter system set autovacuum = off")
    superuser.execute("select pg_reload_conf()")
    wait_for(lambda: len(patient.findings("autovacuum_off_everywhere")) == 1)
    patient.mend(patient.finding("autovacuum_off_everywhere"), user=patient.database.superuser)
    wait_for(lambda: patient.findings("autovacuum_off_everywhere") == [])
