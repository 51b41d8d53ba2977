"""A worker whose handlers take as long as their message says. GRACE: its grace period in seconds."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from pgqueue import AsyncDelivery, Delivery, Worker

worker = Worker(os.environ["PGQUEUE_DSN"], grace=float(os.environ.get("GRACE", "30")), poll=0.05)


@worker.handler("loop", concurrency=2, batch=2)
async def in_loop(message: AsyncDelivery[float]) -> None:
    print(f"begun {message.msg_id}", flush=True)
    await asyncio.sleep(message.message)
    print(f"ended {message.msg_id}", flush=True)


@worker.handler("threads", concurrency=2, batch=2)
def in_thread(message: Delivery[float]) -> None:
    print(f"begun {message.msg_id}", flush=True)
    time.sleep(message.message)
    print(f"ended {message.msg_id}", flush=True)


@worker.handler("transactions", concurrency=2, transactional=True)
def in_transaction(message: Delivery[float], conn: Any) -> None:
    conn.execute("insert into made values (%s)", [message.msg_id])
    print(f"begun {message.msg_id}", flush=True)
    conn.execute("select pg_sleep(%s)", [message.message])
    print(f"ended {message.msg_id}", flush=True)
