"""A worker behind pgbouncer in transaction mode: it polls, since it cannot listen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncClient, AsyncDelivery, Client, Delivery, Worker
from tests.databases import Database
from tests.pgbouncer.test_pgbouncer import bouncer
from tests.sql.asking import Connection, column, do, value
from tests.worker.running import Running, until

__all__ = ["bouncer"]


@pytest.fixture
def client(db: Database) -> Iterator[Client]:
    with Client(db.dsn) as client:
        yield client


def test_messages_are_handled_leases_kept_and_transactions_committed(
    db: Database, bouncer: str, client: Client, conn: Connection
) -> None:
    worker = Worker(AsyncClient(bouncer, transaction_pooling=True), poll=0.1)
    seen: list[Any] = []
    do(conn, "create table work (msg_id bigint)")
    for queue in ("plain", "exact", "ticks"):
        client.create(queue)

    @worker.handler("plain", concurrency=4, vt=1)
    def plain(message: Delivery[Any]) -> None:
        if message.message == 0:
            until(lambda: value(conn, "select vt > last_read_at + interval '1.1 seconds' from pgmq.q_plain"))
        seen.append(message.message)

    @worker.handler("exact", concurrency=4, transactional=True)
    async def exact(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute("insert into work values (%s)", [message.msg_id])

    @worker.every("* * * * * *", queue="ticks")
    def tick(at: Any) -> int:
        return 1

    client.queue("exact").send_many(list(range(40)))
    client.queue("plain").send(0)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.a_exact") == 40, "those in transactions")
        until(lambda: value(conn, "select count(*) from pgmq.a_plain") == 1, "the long one")
        client.queue("plain").send_many([1, 2, 3])
        until(
            lambda: value(conn, "select count(*) from pgmq.a_plain") == 4, "those that came while it was idle"
        )
        until(lambda: value(conn, "select count(*) from pgmq.q_ticks") > 0, "a tick")
    assert sorted(seen) == [0, 1, 2, 3]
    assert sorted(column(conn, "select msg_id from work")) == list(range(1, 41))
    assert value(conn, "select max(read_ct) from (table pgmq.a_plain union all table pgmq.a_exact) a") == 1
