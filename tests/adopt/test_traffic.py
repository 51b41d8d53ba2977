"""The traffic comes out even on every kind of old pgmq, and is seen to fail when something is done to it."""

from __future__ import annotations

import time

import pytest

from tests.adopt import layouts
from tests.adopt.ledger import Report
from tests.adopt.matrix import client_role
from tests.adopt.traffic import LEASE, Traffic, preload
from tests.databases import Database
from tests.sql.asking import column, do, value


def built(db: Database, version: str) -> str:
    """An old pgmq with a queue x; the DSN of a role that has the rights on its tables and no more."""
    conn = db.connect()
    layouts.build(conn, version, "extension")
    return db.dsn_for(client_role(db))


def report(traffic: Traffic) -> Report:
    assert traffic.report is not None
    return traffic.report


def test_without_a_fault_it_comes_out_even(old_db: Database) -> None:
    with Traffic(built(old_db, "1.4.4"), "x") as traffic:
        traffic.go_on()
    done = report(traffic)
    assert done.faults() == []
    assert done.sent >= 100 and done.handled == done.sent
    ways = {what for _, what in traffic.ledger.waits}
    assert ways >= {"send", "send_batch", "send later", "send taken back", "sends in a transaction"}
    assert ways >= {"read", "read_with_poll", "pop", "set_vt", "deleted", "archived"}
    assert any(delivery.read_ct > 1 for delivery in traffic.ledger.deliveries), "leases ran out"


@pytest.mark.chaos
def test_a_backlog_stays(old_db: Database) -> None:
    dsn = built(old_db, "1.13.0")
    preload(old_db.connect(), "x", 1000)
    with Traffic(dsn, "x", backlog=1000) as traffic:
        traffic.go_on()
    assert report(traffic).faults() == []
    assert value(old_db.connect(), "select count(*) from pgmq.q_x") > 500


GIVE_AGAIN = """
    update pgmq.q_x set vt = clock_timestamp()
    where msg_id = (
        select msg_id from pgmq.q_x
        where vt > clock_timestamp() + %s * interval '1 second' limit 1 for update skip locked)
    returning message ->> 'key'"""


@pytest.mark.chaos
def test_faults_are_seen(old_db: Database) -> None:
    """A lost message, one delivered twice, a lock that is held."""
    conn = old_db.connect()
    with Traffic(built(old_db, "1.13.0"), "x", hold=0.05, patience=3) as traffic:
        traffic.go_on(20)
        gone = column(
            conn,
            "delete from pgmq.q_x where msg_id = (select min(msg_id) from pgmq.q_x where vt > clock_timestamp())"
            " returning message ->> 'key'",
        )
        given_twice: set[str] = set()
        while not any(d.key in given_twice and d.read_ct > 1 for d in traffic.ledger.deliveries):
            given_twice |= set(column(conn, GIVE_AGAIN, LEASE / 2))
        traffic.go_on(20)
        with conn.transaction():
            do(conn, "lock table pgmq.q_x in access exclusive mode")
            time.sleep(1.2)  # what is measured is that it was seen
        traffic.go_on(20)
    done = report(traffic)
    assert done.errors == []
    assert done.lost == [f"{key} was committed, and is gone" for key in gone]
    assert done.doubled and {fault.split()[0] for fault in done.doubled} <= given_twice
    assert done.wait > 1 and not done.even()


@pytest.mark.chaos
def test_errors_are_seen(old_db: Database) -> None:
    dsn, conn = built(old_db, "1.13.0"), old_db.connect()
    with Traffic(dsn, "x") as traffic:
        traffic.go_on(20)
        do(conn, "alter function pgmq.send_batch(text, jsonb[]) rename to send_together")
        while not traffic.ledger.errors:
            traffic.go_on(1)
    done = report(traffic)
    assert done.errors and all(fault.startswith("send_batch: UndefinedFunction: ") for fault in done.errors)
    assert (done.lost, done.doubled) == ([], [])
