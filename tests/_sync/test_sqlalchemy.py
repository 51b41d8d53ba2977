# Made of tests/_async/test_sqlalchemy.py by tools/unasync.py: change that file, not this one.
"""Messages in the transaction of an SQLAlchemy session or connection (cases 89 and 91)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from pgqueue import Client
from pgqueue.errors import BadValue, CannotConnect, ConnectionLost, LostLease, NoSuchQueue
from tests._sync.conftest import DRIVERS, AlchemyEngine, AlchemySession, engine_of
from tests.databases import Database


def count(db: Database, table: str = "q_orders") -> int:
    row = db.connect().execute(f'select count(*) from pgmq."{table}"').fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(params=DRIVERS)
def engine(request: pytest.FixtureRequest, db: Database) -> Iterator[AlchemyEngine]:
    """An engine with one connection and no further: a second one would never come."""
    db.connect().execute("select pgmq.create('orders')")
    engine = engine_of(request.param, db.dsn)
    yield engine
    engine.dispose()


def test_a_message_goes_with_the_sessions_transaction(engine: AlchemyEngine, db: Database) -> None:
    with AlchemySession(engine) as session:
        orders = Client(session).queue("orders")
        orders.send({"n": 1})
        assert count(db) == 0
        session.rollback()
        assert count(db) == 0
        orders.send({"n": 2}, headers={"a": 1}, delay=0.5)
        session.commit()
        assert count(db) == 1
        orders.send({"n": 3})
    assert count(db) == 1, "a session that is closed without a commit rolls back"


def test_no_second_connection_is_opened(engine: AlchemyEngine, db: Database) -> None:
    """Case 91."""
    admin = db.connect()

    def others() -> list[Any]:
        sql = (
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        return sorted(admin.execute(sql).fetchall())

    with AlchemySession(engine) as session:
        session.connection()
        before = others()
        orders = Client(session).queue("orders")
        orders.send(1)
        orders.send_bulk([2, 3])
        assert len(orders.read(qty=9)) == 3
        assert others() == before
        session.rollback()


def test_a_message_goes_with_the_connections_transaction(engine: AlchemyEngine, db: Database) -> None:
    with engine.connect() as conn:
        orders = Client(conn).queue("orders")
        orders.send(1)
        conn.rollback()
        assert count(db) == 0
        orders.send(2)
        conn.commit()
        assert count(db) == 1
        orders.send(3)
    assert count(db) == 1
    with engine.begin() as conn:
        Client(conn).queue("orders").send(4)
    assert count(db) == 2


def test_all_that_can_be_done_with_a_queue(engine: AlchemyEngine, db: Database) -> None:
    with AlchemySession(engine) as session:
        client = Client(session)
        client.create('odd "%" name')
        odd = client.queue('odd "%" name')
        body = {"quote": '"\\', "percent": "%s %(x)s", "null": None, "text": "ü{},"}
        assert odd.send_many([body, None, 'a"b\\', [1]], headers=[None, {"h": 1}, None, None]) == [
            1,
            2,
            3,
            4,
        ]
        (first,) = odd.read(vt=30)
        assert (first.message, first.headers, first.read_ct) == (body, None, 1)
        assert first.last_read_at is not None and first.vt > first.enqueued_at
        first.extend(60)
        done = odd.fetch(qty=9, done=[first])
        assert [one.message for one in done] == [None, 'a"b\\', [1]]
        assert [one.headers for one in done] == [{"h": 1}, None, None]
        assert odd.archive_many([2, 99]) == [2]
        done[1].give_back()
        assert [one.message for one in odd.pop()] == ['a"b\\']
        assert [one.message for one in odd.peek()] == [[1]]
        assert (odd.metrics()).queue_length == 1
        assert odd.purge() == 1
        assert [one.queue_name for one in client.list_queues() if one.queue_name != "orders"] == [
            odd.name
        ]
        session.commit()


def test_errors_are_ours(engine: AlchemyEngine) -> None:
    with AlchemySession(engine) as session:
        client = Client(session)
        with pytest.raises(NoSuchQueue, match=r'^queue "nope" does not exist$'):
            client.queue("nope").send(1)
        session.rollback()
        client.queue("orders").send(1)
        (message,) = client.queue("orders").read(vt=0)
        client.queue("orders").read(vt=0)
        with pytest.raises(LostLease) as caught:
            message.complete()
        assert caught.value.sqlstate == "PQ001"
        session.rollback()


def test_a_transaction_in_the_sessions_is_a_savepoint(engine: AlchemyEngine, db: Database) -> None:
    with AlchemySession(engine) as session:
        client = Client(session)
        orders = client.queue("orders")
        with client.transaction():
            orders.send(1)
        with pytest.raises(NoSuchQueue):
            send_two_ways(client)
        assert count(db) == 0
        session.commit()
    assert count(db) == 1


def send_two_ways(client: Client) -> None:
    with client.transaction():
        client.queue("orders").send(2)
        client.queue("nope").send(2)


def test_waiting_in_a_session_is_refused(engine: AlchemyEngine) -> None:
    with AlchemySession(engine) as session:
        with pytest.raises(BadValue, match="transaction"):
            Client(session).queue("orders").messages()


def test_what_is_no_server_is_refused(engine: AlchemyEngine) -> None:
    for other in (engine, 5):
        with pytest.raises(BadValue, match="not"):
            Client(other)  # type: ignore[arg-type]


def test_no_style_of_dates_is_in_the_way(engine: AlchemyEngine, db: Database) -> None:
    db.connect().execute(f"alter database {db.name} set datestyle = 'German, DMY'".encode())
    with AlchemySession(engine) as session:
        orders = Client(session).queue("orders")
        orders.send({"n": 1})
        (message,) = orders.read()
        assert message.vt > message.enqueued_at
        session.execute(text("update pgmq.q_orders set last_read_at = 'infinity', vt = now()"))
        (message,) = orders.pop()
        assert message.last_read_at is not None and message.last_read_at.year == 9999
        session.rollback()


def test_a_savepoint_that_cannot_be_made_is_our_error(engine: AlchemyEngine, db: Database) -> None:
    admin = db.connect(user=db.superuser)
    with AlchemySession(engine) as session:
        client = Client(session)
        client.queue("orders").send(1)
        admin.execute(CUT.encode())
        with pytest.raises(ConnectionLost):
            send_in_a_savepoint(client)
        session.rollback()


def send_in_a_savepoint(client: Client) -> None:
    with client.transaction():
        client.queue("orders").send(2)


CUT = """\
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in%'"""


def test_a_server_that_is_away_cannot_be_connected(db: Database) -> None:
    for driver in DRIVERS:
        away = engine_of(driver, db.dsn.replace(db.name, "nowhere"))
        with AlchemySession(away) as session:
            with pytest.raises(CannotConnect):
                Client(session).queue("orders").send(1)
        away.dispose()
