# The source of tests/_sync/test_client.py: after a change here run tools/unasync.py.
"""The client against a real server: connections, transactions, and what concerns all queues."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgqueue import AsyncClient
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


async def test_queues_are_made_listed_counted_emptied_and_dropped(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await client.create("orders")
    await client.create_unlogged("quick")
    await client.create_partitioned("parted", "100", "1000")
    queues = {q.queue_name: (q.is_partitioned, q.is_unlogged) for q in await client.list_queues()}
    assert queues == {"orders": (False, False), "quick": (False, True), "parted": (True, False)}
    await orders.send_many([1, 2, 3])
    await orders.read()
    metrics = await orders.metrics()
    assert (metrics.queue_name, metrics.queue_length, metrics.total_messages) == ("orders", 3, 3)
    assert metrics.queue_visible_length == 2
    assert {m.queue_name for m in await client.metrics_all()} == set(queues)
    assert await orders.purge() == 3
    assert await client.drop_queue("orders") is True
    assert await client.drop_queue("orders") is False, "case 35"


async def test_topics_route(client: AsyncClient) -> None:
    await client.create("errors")
    await client.bind_topic("logs.*.error", "errors")
    (binding,) = await client.list_topic_bindings()
    assert (binding.pattern, binding.queue_name) == ("logs.*.error", "errors")
    assert await client.list_topic_bindings("errors") == [binding]
    assert [b.queue_name for b in await client.test_routing("logs.api.error")] == ["errors"]
    assert await client.send_topic("logs.api.error", {"n": 1}, headers={"a": 1}) == 1
    assert await client.send_topic("elsewhere", {"n": 1}) == 0
    routed = await client.send_batch_topic("logs.api.error", [1, 2], headers=[None, {}], delay=1)
    assert [(one.queue_name, one.msg_id) for one in routed] == [("errors", 2), ("errors", 3)]
    assert await client.unbind_topic("logs.*.error", "errors") is True
    assert await client.unbind_topic("logs.*.error", "errors") is False


async def test_notifications_are_switched_and_listed(client: AsyncClient) -> None:
    """Case 43."""
    await client.create("orders")
    await client.enable_notify_insert("orders", throttle_interval_ms=500)
    await client.update_notify_insert("orders", throttle_interval_ms=100)
    (throttle,) = await client.list_notify_insert_throttles()
    assert (throttle.queue_name, throttle.throttle_interval_ms) == ("orders", 100)
    await client.disable_notify_insert("orders")
    assert await client.list_notify_insert_throttles() == []


async def test_the_version_of_the_schema(client: AsyncClient) -> None:
    version = await client.version()
    assert version.schema_version >= 1
    assert version.pgmq_version == "1.13.1"


# --- whose transaction -----------------------------------------------------------------------------


async def test_a_callers_transaction_stays_the_callers(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    """Case 89: lost on rollback, there after commit; the client commits and closes nothing."""
    await client.create("orders")
    async with AsyncClient(owned) as guest:
        await guest.queue("orders").send(1)
        assert count(db) == 0
        await owned.rollback()
        assert count(db) == 0
        await guest.queue("orders").send(1)
        await owned.commit()
        assert count(db) == 1
        await guest.queue("orders").send(2)
    assert not owned.closed
    assert count(db) == 1
    await owned.rollback()
    assert count(db) == 1


async def test_calls_of_a_transaction_stand_or_fall_together(client: AsyncClient, db: Database) -> None:
    async def send_both() -> None:
        async with client.transaction():
            await client.queue("orders").send(1)
            await client.queue("nope").send(1)

    await client.create("orders")
    orders = client.queue("orders")
    with pytest.raises(NoSuchQueue):
        await send_both()
    assert count(db) == 0
    async with client.transaction():
        await orders.send(1)
        assert count(db) == 0
    assert count(db) == 1


async def test_a_transaction_inside_the_callers_commits_nothing(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    await client.create("orders")
    guest = AsyncClient(owned)
    await guest.queue("orders").send(1)
    async with guest.transaction():
        await guest.queue("orders").send(2)
    assert count(db) == 0
    await owned.rollback()
    assert count(db) == 0


async def test_making_a_client_asks_nothing_of_a_server(db: Database) -> None:
    """Cases 85 and 94: no connection, no DDL, no rights needed."""
    AsyncClient("postgresql://nobody@nowhere.invalid/x")
    await AsyncClient("postgresql://nobody@nowhere.invalid/x").close()
    role = db.create_role()
    async with AsyncClient(db.dsn_for(role)):
        pass


async def test_a_closed_client_opens_again(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await client.close()
    await client.close()
    assert await orders.send(1) == 1


# --- servers that are away, slow or gone -----------------------------------------------------------


async def test_a_server_that_is_not_there(db: Database) -> None:
    dsn = "postgresql://somebody:hush%40hush@127.0.0.1:1/x"
    with pytest.raises(CannotConnect, match="Connection refused") as caught:
        await AsyncClient.connect(dsn)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CannotConnect, match="no_such"):
        await AsyncClient.connect(db.dsn.replace(db.name, "no_such"))


async def test_a_dsn_that_is_none(db: Database) -> None:
    for dsn in ("nonsense", "mysql://u:hush@h/x", "postgresql://u:hu@sh@h/x", "postgresql//u:hush@h"):
        with pytest.raises(BadDsn) as caught:
            await AsyncClient.connect(dsn)
        assert "hu" not in str(caught.value)


async def test_a_statement_timeout_is_told(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    holder = db.connect(autocommit=False)
    holder.execute('lock table pgmq."q_orders" in access exclusive mode')
    async with client.transaction() as conn:
        await conn.execute("set statement_timeout = '50ms'")
    with pytest.raises(TimedOut, match="statement timeout"):
        await orders.send(1)
    async with client.transaction() as conn:
        await conn.execute("set statement_timeout = 0; set lock_timeout = '50ms'")
    with pytest.raises(TimedOut, match="lock timeout"):
        await orders.send(1)


async def test_a_serialization_failure_is_a_conflict(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any]
) -> None:
    """Case 139."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(1)
    await owned.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
    await owned.execute("select 1 from pgmq.q_orders")
    await orders.set_vt(1, 0)
    with pytest.raises(Conflict):
        await AsyncClient(owned).queue("orders").set_vt(1, 5)


async def test_without_prepared_statements(db: Database) -> None:
    async with AsyncClient(db.dsn, transaction_pooling=True) as client:
        await client.create("orders")
        orders = client.queue("orders")
        for n in range(10):
            await orders.send(n)
        async with client.transaction() as conn:
            cursor = await conn.execute("select count(*) from pg_prepared_statements")
            row = await cursor.fetchone()
    assert row == (0,)
