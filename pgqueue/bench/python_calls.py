"""How a Python program calls a queue: by psycopg, by our client, by pgmq's own. One connection each.

Raw psycopg makes the calls that our client makes, of the compiled functions and with prepared statements, and
nothing around them. All of them decode what they read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import psycopg

from pgqueue._async.client import AsyncClient
from pgqueue._sync.client import Client
from pgqueue.bench.databases import Database
from pgqueue.bench.loops import BATCH
from pgqueue.bench.model import ASYNC_CLIENT, ASYNC_PSYCOPG, CLIENT, PGMQ_CLIENT, PSYCOPG
from pgqueue.model import COLUMNS

Times = Callable[[int], None]
"""Does a thing so many times."""
THOUSAND = 1000
VT = 300


@dataclass(frozen=True)
class Calls:
    """What a side does, each so many times.

    cycle: send, read and delete a message
    send_fetch: send one, then fetch: finish the previous and read this in one call; a plain cycle where there is no
        fetch
    fill: send BATCH messages
    drain: read and delete BATCH messages
    bulk: send so many messages, in the quickest way that there is
    """

    side: str
    database: Database
    queue: str
    cycle: Times
    send_fetch: Times
    fill: Times
    drain: Times
    bulk: Times | None
    close: Callable[[], None]


def psycopg_calls(database: Database, body: Any) -> Calls:
    """Raw psycopg."""
    conn = database.connect()
    calls = _Texts("psycopg")
    text = json.dumps(body)
    done: list[tuple[int, int]] = []

    def ask(sql: str, *params: Any) -> list[Any]:
        return conn.execute(sql.encode(), params, prepare=True).fetchall()

    def cycle(times: int) -> None:
        for _ in range(times):
            ask(calls.send, text, None)
            ((msg_id, *_),) = ask(calls.read, VT, 1)
            ask(calls.delete, msg_id)

    def send_fetch(times: int) -> None:
        for _ in range(times):
            ask(calls.send, text, None)
            rows = ask(calls.fetch, VT, 1, [one for one, _ in done], [count for _, count in done])
            done[:] = [row[:2] for row in rows]

    def fill(times: int) -> None:
        for _ in range(times):
            ask(calls.send_batch, [text] * BATCH, None)

    def drain(times: int) -> None:
        for _ in range(times):
            ask(calls.delete_batch, [row[0] for row in ask(calls.read, VT, BATCH)])

    return Calls(PSYCOPG, database, "psycopg", cycle, send_fetch, fill, drain, None, conn.close)


def client_calls(database: Database, body: Any) -> Calls:
    """Our client."""
    client = Client(database.address)
    queue = client.queue("client")
    done: list[Any] = []

    def cycle(times: int) -> None:
        for _ in range(times):
            queue.send(body)
            (message,) = queue.read(vt=VT)
            assert message.message == body
            message.delete()

    def send_fetch(times: int) -> None:
        for _ in range(times):
            queue.send(body)
            done[:] = queue.fetch(vt=VT, done=done)
            assert done[0].message == body

    def fill(times: int) -> None:
        for _ in range(times):
            queue.send_many([body] * BATCH)

    def drain(times: int) -> None:
        for _ in range(times):
            messages = queue.read(vt=VT, qty=BATCH)
            assert all(one.message == body for one in messages)
            queue.delete_many(one.msg_id for one in messages)

    def bulk(count: int) -> None:
        queue.send_bulk(repeat(body, count))

    return Calls(CLIENT, database, "client", cycle, send_fetch, fill, drain, bulk, client.close)


def pgmq_client_calls(database: Database, body: Any) -> Calls:
    """pgmq's own client, on a pool of one connection."""
    from pgmq import PGMQueue
    from psycopg_pool import ConnectionPool

    pool = ConnectionPool(database.address, min_size=1, max_size=1, open=True)
    client = PGMQueue(pool=pool, init_extension=False)
    queue = "official"

    def cycle(times: int) -> None:
        for _ in range(times):
            client.send(queue, body)
            message: Any = client.read(queue, vt=VT)
            assert message.message == body
            client.delete(queue, message.msg_id)

    def fill(times: int) -> None:
        for _ in range(times):
            client.send_batch(queue, [body] * BATCH)

    def drain(times: int) -> None:
        for _ in range(times):
            messages = client.read_batch(queue, vt=VT, batch_size=BATCH)
            assert all(one.message == body for one in messages)
            client.delete_batch(queue, [one.msg_id for one in messages])

    def bulk(count: int) -> None:
        for start in range(0, count, THOUSAND):
            client.send_batch(queue, [body] * min(THOUSAND, count - start))

    return Calls(PGMQ_CLIENT, database, queue, cycle, cycle, fill, drain, bulk, pool.close)


# --- on asyncio --------------------------------------------------------------------------------------


def async_psycopg_calls(database: Database, body: Any) -> Calls:
    """Raw psycopg, asynchronously."""
    loop = asyncio.new_event_loop()
    connecting = psycopg.AsyncConnection.connect(database.address, autocommit=True)
    conn: psycopg.AsyncConnection[Any] = loop.run_until_complete(connecting)
    calls = _Texts("async_psycopg")
    text = json.dumps(body)
    done: list[tuple[int, int]] = []

    async def ask(sql: str, *params: Any) -> list[Any]:
        return await (await conn.execute(sql.encode(), params, prepare=True)).fetchall()

    async def cycle() -> None:
        await ask(calls.send, text, None)
        ((msg_id, *_),) = await ask(calls.read, VT, 1)
        await ask(calls.delete, msg_id)

    async def send_fetch() -> None:
        await ask(calls.send, text, None)
        rows = await ask(calls.fetch, VT, 1, [one for one, _ in done], [count for _, count in done])
        done[:] = [row[:2] for row in rows]

    async def fill() -> None:
        await ask(calls.send_batch, [text] * BATCH, None)

    async def drain() -> None:
        await ask(calls.delete_batch, [row[0] for row in await ask(calls.read, VT, BATCH)])

    return _in_loop(
        loop, ASYNC_PSYCOPG, database, "async_psycopg", cycle, send_fetch, fill, drain, conn.close
    )


def async_client_calls(database: Database, body: Any) -> Calls:
    """Our asynchronous client."""
    client = AsyncClient(database.address)
    queue = client.queue("async_client")
    done: list[Any] = []

    async def cycle() -> None:
        await queue.send(body)
        (message,) = await queue.read(vt=VT)
        assert message.message == body
        await message.delete()

    async def send_fetch() -> None:
        await queue.send(body)
        done[:] = await queue.fetch(vt=VT, done=done)
        assert done[0].message == body

    async def fill() -> None:
        await queue.send_many([body] * BATCH)

    async def drain() -> None:
        messages = await queue.read(vt=VT, qty=BATCH)
        assert all(one.message == body for one in messages)
        await queue.delete_many(one.msg_id for one in messages)

    loop = asyncio.new_event_loop()
    return _in_loop(
        loop, ASYNC_CLIENT, database, "async_client", cycle, send_fetch, fill, drain, client.close
    )


Step = Callable[[], Coroutine[Any, Any, None]]


def _in_loop(
    loop: asyncio.AbstractEventLoop,
    side: str,
    database: Database,
    queue: str,
    cycle: Step,
    send_fetch: Step,
    fill: Step,
    drain: Step,
    end: Step,
) -> Calls:
    def repeated(step: Step) -> Times:
        async def run(times: int) -> None:
            for _ in range(times):
                await step()

        return lambda times: loop.run_until_complete(run(times))

    def close() -> None:
        loop.run_until_complete(end())
        loop.close()

    return Calls(
        side,
        database,
        queue,
        repeated(cycle),
        repeated(send_fetch),
        repeated(fill),
        repeated(drain),
        None,
        close,
    )


class _Texts:
    """The calls of a queue's compiled functions, as our client makes them."""

    def __init__(self, queue: str) -> None:
        def function(name: str) -> str:
            return f'pgqueue."{queue}${name}"'

        columns = ", ".join(f"m.{column}" for column in COLUMNS)
        fetched = "(%s, %s, %s::bigint[], %s::integer[], false)"
        self.send = f"select {function('send')}(%s::jsonb, %s::jsonb)"
        self.send_batch = f"select {function('send_batch')}(%s::jsonb[], %s::jsonb[])"
        self.read = f"select {columns} from {function('read')}(%s, %s) m"
        self.fetch = f"select {columns} from {function('fetch')}{fetched} m"
        self.delete = f"select {function('delete')}(%s::bigint)"
        self.delete_batch = f"select {function('delete_batch')}(%s::bigint[])"
