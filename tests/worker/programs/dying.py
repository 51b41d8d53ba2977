"""A worker of transactional handlers that kills itself at a step.

STEP: the number of the step, counted from the first request that takes messages. Each request to the server
has two steps, before it is sent and after its answer has come; a handler has two as well, before and after
its statement. HANDLER: loop or thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import psycopg

from pgqueue import Worker

STEP = int(os.environ["STEP"])
done = 0


def step() -> None:
    global done
    done += 1
    if done == STEP:
        os.kill(os.getpid(), signal.SIGKILL)


def stepping(call: Callable[..., Any], begun: Callable[[Any], bool]) -> Callable[..., Any]:
    """A connection's way to wait for the server, with a step before and one after."""

    def counted(*args: Any) -> bool:
        return done > 0 or begun(args[1])

    if call.__qualname__.startswith("Async"):

        async def waits(*args: Any, **options: Any) -> Any:
            counts = counted(*args)
            if counts:
                step()
            result = await call(*args, **options)
            if counts:
                step()
            return result

        return waits

    def waits_in_thread(*args: Any, **options: Any) -> Any:
        step()
        result = call(*args, **options)
        step()
        return result

    return waits_in_thread


def takes_messages(generator: Any) -> bool:
    """Whether a request is the first that takes messages: its cursor runs `fetch`."""
    query = generator.gi_frame.f_locals.get("query")
    return b"$fetch" in (query if isinstance(query, bytes) else b"")


psycopg.AsyncConnection.wait = stepping(psycopg.AsyncConnection.wait, takes_messages)  # type: ignore
psycopg.Connection.wait = stepping(psycopg.Connection.wait, takes_messages)  # type: ignore

worker = Worker(os.environ["PGQUEUE_DSN"], poll=0.05)
INSERT = "insert into ledger (msg_id, read_ct, pid) values (%s, %s, %s)"


async def in_loop(message: Any, conn: psycopg.AsyncConnection[Any]) -> None:
    await conn.execute(INSERT, [message.msg_id, message.read_ct, os.getpid()])


def in_thread(message: Any, conn: psycopg.Connection[Any]) -> None:
    conn.execute(INSERT, [message.msg_id, message.read_ct, os.getpid()])


handler = in_loop if os.environ["HANDLER"] == "loop" else in_thread
worker.handler("orders", transactional=True, concurrency=2, max_deliveries=100)(handler)
