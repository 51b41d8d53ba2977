"""A worker that writes down what it does: queue `plain` in a connection of its own, `exact` in the handler's."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import psycopg

from pgqueue import AsyncDelivery, Worker

CONCURRENCY = 4
INSERT = "insert into ledger (queue, msg_id, read_ct, pid) values (%s, %s, %s, %s)"

worker = Worker(os.environ["PGQUEUE_DSN"], poll=0.2)
notebook: psycopg.AsyncConnection[Any] | None = None
lock = asyncio.Lock()


@worker.handler("plain", concurrency=CONCURRENCY, vt=4, max_deliveries=1000)
async def plain(message: AsyncDelivery[Any]) -> None:
    global notebook
    async with lock:
        if notebook is None:
            notebook = await psycopg.AsyncConnection.connect(os.environ["PGQUEUE_DSN"], autocommit=True)
        await notebook.execute(INSERT, ["plain", message.msg_id, message.read_ct, os.getpid()])
    await asyncio.sleep(random.uniform(0, 0.02))


@worker.handler("exact", concurrency=CONCURRENCY, vt=4, max_deliveries=1000, transactional=True)
async def exact(message: AsyncDelivery[Any], conn: psycopg.AsyncConnection[Any]) -> None:
    await conn.execute(INSERT, ["exact", message.msg_id, message.read_ct, os.getpid()])
    await asyncio.sleep(random.uniform(0, 0.02))
