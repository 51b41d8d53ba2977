"""The driver behind pgbouncer in transaction mode, by its one switch."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgqueue import AsyncClient, Client
from pgqueue.errors import PgqueueError
from tests.databases import Database
from tests.pgbouncer.test_pgbouncer import CLIENTS, bouncer

__all__ = ["bouncer"]  # a fixture
ROUNDS = 10
PREPARED = "select count(*) from pg_prepared_statements"


def test_many_clients_share_few_sessions(bouncer: str, db: Database) -> None:
    """Sending, reading, finishing, transactions and COPY; nothing is left behind in a session."""
    with Client(db.dsn) as owner:
        owner.create("shop")
    together = threading.Barrier(CLIENTS)

    def use(number: int) -> list[int]:
        taken = []
        with Client(bouncer, transaction_pooling=True) as client:
            shop = client.queue("shop")
            together.wait(30)
            for turn in range(ROUNDS):
                with client.transaction():
                    shop.send([number, turn])
                    shop.send_bulk([[number, turn]])
                for message in shop.messages(qty=2, vt=60):
                    taken.append(message.msg_id)
                    message.complete()
                    if len(taken) == 2 * turn + 2:
                        break
            with client.transaction() as conn:
                assert conn.execute(PREPARED).fetchone() == (0,)
        return taken

    with ThreadPoolExecutor(CLIENTS) as pool:
        taken = [msg_id for one in pool.map(use, range(CLIENTS)) for msg_id in one]
    assert len(set(taken)) == len(taken) == 2 * CLIENTS * ROUNDS
    assert db.connect().execute("select queue_length from pgmq.metrics('shop')").fetchone() == (0,)


def test_no_style_of_dates_is_in_the_way(bouncer: str, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """pgbouncer gives each client the one that it asked for."""
    monkeypatch.setenv("PGDATESTYLE", "German, DMY")
    with Client(db.dsn) as owner:
        owner.create("shop")
    with Client(bouncer, transaction_pooling=True) as client:
        client.queue("shop").send_many([1, 2])
        (popped,) = client.queue("shop").pop()
        (read,) = client.queue("shop").read()
    assert (popped.message, read.message) == (1, 2)
    assert read.vt > popped.enqueued_at


async def test_asynchronous_clients_do_too(bouncer: str, db: Database) -> None:
    async def use(number: int) -> int:
        async with AsyncClient(bouncer, transaction_pooling=True) as client:
            shop = client.queue("shop")
            done = []
            for turn in range(ROUNDS):
                assert len(await client.send_all([shop.outgoing(number), shop.outgoing(turn)])) == 2
                done = await shop.fetch(qty=2, done=done)
            return len(await shop.fetch(qty=0, done=done))

    async with AsyncClient(db.dsn) as client:
        await client.create("shop")
        assert set(await asyncio.gather(*map(use, range(CLIENTS)))) == {0}
        left = await client.queue("shop").metrics()
    assert left.total_messages == 2 * CLIENTS * ROUNDS


def test_without_the_switch_sessions_get_into_each_others_way(bouncer: str, db: Database) -> None:
    """What the switch is for: should a pgbouncer come that needs it no more, this test says so."""
    with Client(db.dsn) as owner:
        owner.create("shop")

    def use(_: int) -> None:
        with Client(bouncer) as client:
            for _ in range(ROUNDS):
                with client.transaction():
                    client.queue("shop").send(1)

    with ThreadPoolExecutor(CLIENTS) as pool, pytest.raises(PgqueueError, match="prepared statement"):
        list(pool.map(use, range(CLIENTS)))
