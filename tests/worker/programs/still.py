"""A worker that takes three messages at a time and handles them one after the other."""

from __future__ import annotations

import asyncio
import os

from pgqueue import AsyncDelivery, Worker

worker = Worker(os.environ["PGQUEUE_DSN"], poll=0.05)


@worker.handler("still", vt=1, batch=3)
async def handle(message: AsyncDelivery[float]) -> None:
    print(f"begun {message.msg_id}", flush=True)
    await asyncio.sleep(message.message)
