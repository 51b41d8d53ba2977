# Made of tests/_async/test_client.py by tools/unasync.py: change that file, not this one.
"""The client against a real server: connections, transactions, and what concerns all queues."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgqueue import Client
from pgqueue.errors import (
    BadDsn,
    CannotConnect,
    Conflict,
    NoSuchQueue,
    TimedOut,
)
from tests.databases import Database


def count(db: Database, queue: str = "orders") -> int:
    """Messages in the queue that everybody can see."""
    row = db.connect().execute(f'select count(*) from pgmq."q_{queue}"').fetchone()
    assert row is not None
    return int(row[0])


# --- queues, topics, notifications -----------------------------------------------------------------


def test_queues_are_made_listed_counted_emptied_and_dropped(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    client.create("orders")
    client.create_unlogged("quick")
    client.create_partitioned("parted", "100", "1000")
    queues = {q.queue_name: (q.is_partitioned, q.is_unlogged) for q in client.list_queues()}
    assert queues == {"orders": (False, False), "quick": (False, True), "parted": (True, False)}
    orders.send_many([1, 2, 3])
    orders.read()
    metrics = orders.metrics()
    assert (metrics.queue_name, metrics.queue_length, metrics.total_messages) == ("orders", 3, 3)
    assert metrics.queue_visible_length == 2
    assert {m.queue_name for m in client.metrics_all()} == set(queues)
    assert orders.purge() == 3
    assert client.drop_queue("orders") is True
    assert client.drop_queue("orders") is False, "case 35"


def test_topics_route(client: Client) -> None:
    client.create("errors")
    client.bind_topic("logs.*.error", "errors")
    (binding,) = client.list_topic_bindings()
    assert (binding.pattern, binding.queue_name) == ("logs.*.error", "errors")
    assert client.list_topic_bindings("errors") == [binding]
    assert [b.queue_name for b in client.test_routing("logs.api.error")] == ["errors"]
    assert client.send_topic("logs.api.error", {"n": 1}, headers={"a": 1}) == 1
    assert client.send_topic("elsewhere", {"n": 1}) == 0
    routed = client.send_batch_topic("logs.api.error", [1, 2], headers=[None, {}], delay=1)
    assert [(one.queue_name, one.msg_id) for one in routed] == [("errors", 2), ("errors", 3)]
    assert client.unbind_topic("logs.*.error", "errors") is True
    assert client.unbind_topic("logs.*.error", "errors") is False


def test_notifications_are_switched_and_listed(client: Client) -> None:
    """Case 43."""
    client.create("orders")
    client.enable_notify_insert("orders", throttle_interval_ms=500)
    client.update_notify_insert("orders", throttle_interval_ms=100)
    (throttle,) = client.list_notify_insert_throttles()
    assert (throttle.queue_name, throttle.throttle_interval_ms) == ("orders", 100)
    client.disable_notify_insert("orders")
    assert client.list_notify_insert_throttles() == []


def test_the_version_of_the_schema(client: Client) -> None:
    version = client.version()
    assert version.schema_version >= 1
    assert version.pgmq_version == "1.13.1"


# --- whose transaction -----------------------------------------------------------------------------


def test_a_callers_transaction_stays_the_callers(
    client: Client, owned: psycopg.Connection[Any], db: Database
) -> None:
    """Case 89: lost on rollback, there after commit; the client commits and closes nothing."""
    client.create("orders")
    with Client(owned) as guest:
        guest.queue("orders").send(1)
        assert count(db) == 0
        owned.rollback()
        assert count(db) == 0
        guest.queue("orders").send(1)
        owned.commit()
        assert count(db) == 1
        guest.queue("orders").send(2)
    assert not owned.closed
    assert count(db) == 1
    owned.rollback()
    assert count(db) == 1


def test_calls_of_a_transaction_stand_or_fall_together(client: Client, db: Database) -> None:
    def send_both() -> None:
        with client.transaction():
            client.queue("orders").send(1)
            client.queue("nope").send(1)

    client.create("orders")
    orders = client.queue("orders")
    with pytest.raises(NoSuchQueue):
        send_both()
    assert count(db) == 0
    with client.transaction():
        orders.send(1)
        assert count(db) == 0
    assert count(db) == 1


def test_a_transaction_inside_the_callers_commits_nothing(
    client: Client, owned: psycopg.Connection[Any], db: Database
) -> None:
    client.create("orders")
    guest = Client(owned)
    guest.queue("orders").send(1)
    with guest.transaction():
        guest.queue("orders").send(2)
    assert count(db) == 0
    owned.rollback()
    assert count(db) == 0


def test_making_a_client_asks_nothing_of_a_server(db: Database) -> None:
    """Cases 85 and 94: no connection, no DDL, no rights needed."""
    Client("postgresql://nobody@nowhere.invalid/x")
    Client("postgresql://nobody@nowhere.invalid/x").close()
    role = db.create_role()
    with Client(db.dsn_for(role)):
        pass


def test_a_closed_client_opens_again(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    client.close()
    client.close()
    assert orders.send(1) == 1


# --- servers that are away, slow or gone -----------------------------------------------------------


def test_a_server_that_is_not_there(db: Database) -> None:
    dsn = "postgresql://somebody:hush%40hush@127.0.0.1:1/x"
    with pytest.raises(CannotConnect, match="Connection refused") as caught:
        Client.connect(dsn)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CannotConnect, match="no_such"):
        Client.connect(db.dsn.replace(db.name, "no_such"))


def test_a_dsn_that_is_none(db: Database) -> None:
    for dsn in ("nonsense", "mysql://u:hush@h/x", "postgresql://u:hu@sh@h/x", "postgresql//u:hush@h"):
        with pytest.raises(BadDsn) as caught:
            Client.connect(dsn)
        assert "hu" not in str(caught.value)


def test_a_statement_timeout_is_told(client: Client, db: Database) -> None:
    client.create("orders")
    orders = client.queue("orders")
    holder = db.connect(autocommit=False)
    holder.execute('lock table pgmq."q_orders" in access exclusive mode')
    with client.transaction() as conn:
        conn.execute("set statement_timeout = '50ms'")
    with pytest.raises(TimedOut, match="statement timeout"):
        orders.send(1)
    with client.transaction() as conn:
        conn.execute("set statement_timeout = 0; set lock_timeout = '50ms'")
    with pytest.raises(TimedOut, match="lock timeout"):
        orders.send(1)


def test_a_serialization_failure_is_a_conflict(
    client: Client, owned: psycopg.Connection[Any]
) -> None:
    """Case 139."""
    client.create("orders")
    orders = client.queue("orders")
    orders.send(1)
    owned.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
    owned.execute("select 1 from pgmq.q_orders")
    orders.set_vt(1, 0)
    with pytest.raises(Conflict):
        Client(owned).queue("orders").set_vt(1, 5)


def test_without_prepared_statements(db: Database) -> None:
    with Client(db.dsn, transaction_pooling=True) as client:
        client.create("orders")
        orders = client.queue("orders")
        for n in range(10):
            orders.send(n)
        with client.transaction() as conn:
            cursor = conn.execute("select count(*) from pg_prepared_statements")
            row = cursor.fetchone()
    assert row == (0,)
