# The source of tests/_sync/test_sqlalchemy.py: after a change here run tools/unasync.py.
"""Messages in the transaction of an SQLAlchemy session or connection (cases 89 and 91)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from pgqueue import AsyncClient
from pgqueue.errors import BadValue, CannotConnect, ConnectionLost, LostLease, NoSuchQueue
from tests._async.conftest import DRIVERS, AlchemyEngine, AlchemySession, engine_of
from tests.databases import Database


def count(db: Database, table: str = "q_orders") -> int:
    row = db.connect().execute(f'select count(*) from pgmq."{table}"').fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(params=DRIVERS)
async def engine(request: pytest.FixtureRequest, db: Database) -> AsyncIterator[AlchemyEngine]:
    """An engine with one connection and no further: a second one would never come."""
    db.connect().execute("select pgmq.create('orders')")
    engine = engine_of(request.param, db.dsn)
    yield engine
    await engine.dispose()


async def test_a_message_goes_with_the_sessions_transaction(engine: AlchemyEngine, db: Database) -> None:
    async with AlchemySession(engine) as session:
        orders = AsyncClient(session).queue("orders")
        await orders.send({"n": 1})
        assert count(db) == 0
        await session.rollback()
        assert count(db) == 0
        await orders.send({"n": 2}, headers={"a": 1}, delay=0.5)
        await session.commit()
        assert count(db) == 1
        await orders.send({"n": 3})
    assert count(db) == 1, "a session that is closed without a commit rolls back"


async def test_no_second_connection_is_opened(engine: AlchemyEngine, db: Database) -> None:
    """Case 91."""
    admin = db.connect()

    def others() -> list[Any]:
        sql = (
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        return sorted(admin.execute(sql).fetchall())

    async with AlchemySession(engine) as session:
        await session.connection()
        before = others()
        orders = AsyncClient(session).queue("orders")
        await orders.send(1)
        await orders.send_bulk([2, 3])
        assert len(await orders.read(qty=9)) == 3
        assert others() == before
        await session.rollback()


async def test_a_message_goes_with_the_connections_transaction(engine: AlchemyEngine, db: Database) -> None:
    async with engine.connect() as conn:
        orders = AsyncClient(conn).queue("orders")
        await orders.send(1)
        await conn.rollback()
        assert count(db) == 0
        await orders.send(2)
        await conn.commit()
        assert count(db) == 1
        await orders.send(3)
    assert count(db) == 1
    async with engine.begin() as conn:
        await AsyncClient(conn).queue("orders").send(4)
    assert count(db) == 2


async def test_all_that_can_be_done_with_a_queue(engine: AlchemyEngine, db: Database) -> None:
    async with AlchemySession(engine) as session:
        client = AsyncClient(session)
        await client.create('odd "%" name')
        odd = client.queue('odd "%" name')
        body = {"quote": '"\\', "percent": "%s %(x)s", "null": None, "text": "ü{},"}
        assert await odd.send_many([body, None, 'a"b\\', [1]], headers=[None, {"h": 1}, None, None]) == [
            1,
            2,
            3,
            4,
        ]
        (first,) = await odd.read(vt=30)
        assert (first.message, first.headers, first.read_ct) == (body, None, 1)
        assert first.last_read_at is not None and first.vt > first.enqueued_at
        await first.extend(60)
        done = await odd.fetch(qty=9, done=[first])
        assert [one.message for one in done] == [None, 'a"b\\', [1]]
        assert [one.headers for one in done] == [{"h": 1}, None, None]
        assert await odd.archive_many([2, 99]) == [2]
        await done[1].give_back()
        assert [one.message for one in await odd.pop()] == ['a"b\\']
        assert [one.message for one in await odd.peek()] == [[1]]
        assert (await odd.metrics()).queue_length == 1
        assert await odd.purge() == 1
        assert [one.queue_name for one in await client.list_queues() if one.queue_name != "orders"] == [
            odd.name
        ]
        await session.commit()


async def test_errors_are_ours(engine: AlchemyEngine) -> None:
    async with AlchemySession(engine) as session:
        client = AsyncClient(session)
        with pytest.raises(NoSuchQueue, match=r'^queue "nope" does not exist$'):
            await client.queue("nope").send(1)
        await session.rollback()
        await client.queue("orders").send(1)
        (message,) = await client.queue("orders").read(vt=0)
        await client.queue("orders").read(vt=0)
        with pytest.raises(LostLease) as caught:
            await message.complete()
        assert caught.value.sqlstate == "PQ001"
        await session.rollback()


async def test_a_transaction_in_the_sessions_is_a_savepoint(engine: AlchemyEngine, db: Database) -> None:
    async with AlchemySession(engine) as session:
        client = AsyncClient(session)
        orders = client.queue("orders")
        async with client.transaction():
            await orders.send(1)
        with pytest.raises(NoSuchQueue):
            await send_two_ways(client)
        assert count(db) == 0
        await session.commit()
    assert count(db) == 1


async def send_two_ways(client: AsyncClient) -> None:
    async with client.transaction():
        await client.queue("orders").send(2)
        await client.queue("nope").send(2)


async def test_waiting_in_a_session_is_refused(engine: AlchemyEngine) -> None:
    async with AlchemySession(engine) as session:
        with pytest.raises(BadValue, match="transaction"):
            AsyncClient(session).queue("orders").messages()


async def test_what_is_no_server_is_refused(engine: AlchemyEngine) -> None:
    for other in (engine, 5):
        with pytest.raises(BadValue, match="not"):
            AsyncClient(other)  # type: ignore[arg-type]


async def test_no_style_of_dates_is_in_the_way(engine: AlchemyEngine, db: Database) -> None:
    db.connect().execute(f"alter database {db.name} set datestyle = 'German, DMY'".encode())
    async with AlchemySession(engine) as session:
        orders = AsyncClient(session).queue("orders")
        await orders.send({"n": 1})
        (message,) = await orders.read()
        assert message.vt > message.enqueued_at
        await session.execute(text("update pgmq.q_orders set last_read_at = 'infinity', vt = now()"))
        (message,) = await orders.pop()
        assert message.last_read_at is not None and message.last_read_at.year == 9999
        await session.rollback()


async def test_a_savepoint_that_cannot_be_made_is_our_error(engine: AlchemyEngine, db: Database) -> None:
    admin = db.connect(user=db.superuser)
    async with AlchemySession(engine) as session:
        client = AsyncClient(session)
        await client.queue("orders").send(1)
        admin.execute(CUT.encode())
        with pytest.raises(ConnectionLost):
            await send_in_a_savepoint(client)
        await session.rollback()


async def send_in_a_savepoint(client: AsyncClient) -> None:
    async with client.transaction():
        await client.queue("orders").send(2)


CUT = """\
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in%'"""


async def test_a_server_that_is_away_cannot_be_connected(db: Database) -> None:
    for driver in DRIVERS:
        away = engine_of(driver, db.dsn.replace(db.name, "nowhere"))
        async with AlchemySession(away) as session:
            with pytest.raises(CannotConnect):
                await AsyncClient(session).queue("orders").send(1)
        await away.dispose()
