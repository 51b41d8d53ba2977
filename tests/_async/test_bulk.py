# The source of tests/_sync/test_bulk.py: after a change here run tools/unasync.py.
"""Many messages at once by COPY."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncClient, AsyncQueue, JsonText
from pgqueue.errors import BadMessage, BadValue, NoSuchQueue, NotAllowed
from tests._async._compat import Background, sleep
from tests.databases import Database

ODD = [None, "a\tb\nc\\d\re", {"quote": '"', "n": [1, None]}, "\\N", "\\.", "ü", True, 0, "%s {} $1", ""]


@pytest.fixture
async def orders(client: AsyncClient) -> AsyncQueue[Any]:
    await client.create("orders")
    return client.queue("orders")


def count(db: Database, where: str = "true") -> int:
    row = db.connect().execute(f"select count(*) from pgmq.q_orders where {where}".encode()).fetchone()
    assert row is not None
    return int(row[0])


async def test_any_body_comes_back_as_it_went(orders: AsyncQueue[Any]) -> None:
    headers: list[Any] = [{"h": one} for one in ODD[:-1]] + [None]
    assert await orders.send_bulk(ODD, headers=headers) == len(ODD)
    found = await orders.read(qty=99)
    assert [one.message for one in found] == ODD
    assert [one.headers for one in found] == headers
    assert await orders.send_bulk([JsonText('{"a":\n\t1}')]) == 1
    assert [one.message for one in await orders.read()] == [{"a": 1}]


async def test_any_iterable_will_do(orders: AsyncQueue[Any], db: Database) -> None:
    assert await orders.send_bulk({"n": n} for n in range(20_000)) == 20_000
    assert count(db) == 20_000
    assert count(db, "vt - enqueued_at = interval '0'") == 20_000, "ready from the start, in the ready index"
    assert [one.message["n"] for one in await orders.read(qty=3)] == [0, 1, 2]
    assert await orders.send_bulk([]) == 0


@pytest.mark.parametrize("delay", [30, 30.0, -30, datetime(2040, 1, 2, tzinfo=timezone.utc)])
async def test_a_delay_holds_for_all(orders: AsyncQueue[Any], db: Database, delay: Any) -> None:
    assert await orders.send_bulk([1, 2], delay=delay) == 2
    if isinstance(delay, datetime):
        assert count(db, "vt = '2040-01-02 00:00+00'") == 2
    else:
        assert count(db, f"abs(extract(epoch from vt - enqueued_at) - ({delay})) < 1") == 2


async def test_all_or_none(orders: AsyncQueue[Any], client: AsyncClient, db: Database) -> None:
    def failing() -> Iterator[Any]:
        yield from range(50_000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await orders.send_bulk(failing())
    with pytest.raises(BadMessage):
        await orders.send_bulk([1, 2, object()])
    with pytest.raises(BadMessage):
        await orders.send_bulk([1, JsonText("{nonsense")])
    with pytest.raises(BadValue, match="fewer headers"):
        await orders.send_bulk([1, 2], headers=[None])
    with pytest.raises(BadValue, match="more headers"):
        await orders.send_bulk([1], headers=[None, None])
    with pytest.raises(NoSuchQueue, match='"nope" does not exist'):
        await client.queue("nope").send_bulk([1])
    assert count(db) == 0
    assert await orders.send_bulk([1]) == 1, "the connection is as good as before"


async def test_it_goes_with_the_callers_transaction(
    orders: AsyncQueue[Any], owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    guest = AsyncClient(owned)
    await guest.queue("orders").send_bulk([1, 2, 3])
    assert count(db) == 0
    await owned.rollback()
    assert count(db) == 0
    await guest.queue("orders").send_bulk([1, 2, 3])
    await owned.commit()
    assert count(db) == 3
    await owned.set_autocommit(True)
    with pytest.raises(BadMessage):
        await guest.queue("orders").send_bulk([1, object()])
    assert count(db) == 3


async def test_it_is_part_of_the_clients_transaction(
    orders: AsyncQueue[Any], client: AsyncClient, db: Database
) -> None:
    async with client.transaction():
        await orders.send_bulk([1, 2])
        await orders.send(3)
        assert count(db) == 0
    assert count(db) == 3


async def test_listeners_are_notified(client: AsyncClient, orders: AsyncQueue[Any]) -> None:
    await client.enable_notify_insert("orders", throttle_interval_ms=0)
    found = []

    async def consume() -> None:
        async with orders.messages(poll=600) as stream:
            async for message in stream:
                found.append(message.message)
                return

    consuming = Background(consume)
    await sleep(0.5)
    await orders.send_bulk(["late"])
    await consuming.join()
    assert found == ["late"]


class Refuses:
    """Makes a queue's send_batch fail, to see whether it is called."""

    def __init__(self, db: Database) -> None:
        db.connect().execute("""\
create or replace function pgqueue."orders$send_batch"(
    msgs jsonb[], headers jsonb[] default null, delay timestamptz default null
) returns setof bigint language plpgsql as $$ begin raise exception 'by send_batch'; end $$""")


async def test_policies_are_not_passed_over(orders: AsyncQueue[Any], db: Database) -> None:
    """What the server must apply to a send cannot be told to COPY."""
    Refuses(db)
    assert await orders.send_bulk([1]) == 1
    db.connect().execute("alter table pgqueue.policy add column max_length integer")
    with pytest.raises(Exception, match="by send_batch"):
        await orders.send_bulk([1])


async def test_row_security_is_not_passed_over(orders: AsyncQueue[Any], db: Database) -> None:
    owner = db.connect()
    role = db.create_role()
    owner.execute("alter table pgmq.q_orders enable row level security")
    owner.execute("create policy small on pgmq.q_orders with check (message < '3')")
    owner.execute("create policy seen on pgmq.q_orders for select using (true)")
    owner.execute(f"grant usage on schema pgmq to {role}; grant select, insert on pgmq.q_orders to {role}")
    async with AsyncClient(db.dsn_for(role)) as guest:
        assert await guest.queue("orders").send_bulk([1, 2]) == 2
        with pytest.raises(NotAllowed):
            await guest.queue("orders").send_bulk([1, 5])
    assert count(db) == 2


async def test_batches_of_a_thousand_where_copy_may_not(orders: AsyncQueue[Any], db: Database) -> None:
    db.connect().execute("alter table pgqueue.policy add column max_length integer")
    assert (
        await orders.send_bulk(range(2500), headers=({"n": n} if n % 2 else None for n in range(2500)))
        == 2500
    )
    assert count(db) == 2500
    assert count(db, "headers is null") == 1250
    assert await orders.send_bulk([1, 2], headers=[{}, None]) == 2
    assert count(db, "headers = '{}'") == 1


async def test_other_kinds_of_queues(client: AsyncClient) -> None:
    await client.create_partitioned("parted", "10", "1000")
    await client.create_unlogged('un"logged')
    for name in ("parted", 'un"logged'):
        assert await client.queue(name).send_bulk(range(100)) == 100
        assert (await client.queue(name).metrics()).queue_length == 100


async def test_what_the_connections_encoding_does_not_have_is_refused(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any]
) -> None:
    """A caller's connection may have another than UTF-8."""
    await client.create("orders")
    await owned.execute("set client_encoding to latin1")
    guest = AsyncClient(owned)
    orders = guest.queue("orders")
    for call in (
        lambda: orders.send({"to": "☃"}),
        lambda: orders.send_bulk([{"to": "☃"}]),
        lambda: guest.send_all([orders.outgoing({"to": "☃"})]),
    ):
        with pytest.raises(BadValue, match="what the database cannot"):
            await call()
        await owned.rollback()
        await owned.execute("set client_encoding to latin1")
    await owned.execute("set client_encoding to sql_ascii")
    assert await orders.send_bulk([{"to": "ann"}]) == 1
    assert await orders.send({"to": "☃"}) > 0
    assert [(one.text, one.message) for one in await orders.read(qty=2)] == [
        ('{"to": "ann"}', {"to": "ann"}),
        ('{"to": "☃"}', {"to": "☃"}),
    ]
