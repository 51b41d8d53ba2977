"""Where the tests of the two worlds differ. Twin: tests/_sync/_compat.py."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg_pool import AsyncConnectionPool

sleep = asyncio.sleep


class Background:
    """Work beside the test; join() raises what it raised. own_context: outside the test's transactions."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]], own_context: bool = False) -> None:
        run = contextvars.Context().run if own_context else lambda call, *args: call(*args)
        self._task = run(asyncio.create_task, work())

    async def join(self) -> None:
        await asyncio.wait_for(self._task, 30)


def pool_of(dsn: str, size: int, autocommit: bool = False, timeout: float = 10) -> AsyncConnectionPool[Any]:
    """A pool of so many connections, to be opened by `async with`."""
    options = {"autocommit": autocommit, "application_name": "pool"}
    return AsyncConnectionPool(dsn, min_size=size, max_size=size, kwargs=options, timeout=timeout, open=False)


@contextmanager
def on_signal(number: int, handler: Callable[[], None]) -> Iterator[None]:
    """Call the handler when the signal comes."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


async def is_broken_off(call: Callable[..., Any], *args: Any, when: Callable[[], bool]) -> bool:
    """Make a call and break it off when it waits: by cancelling its task."""
    task = asyncio.create_task(call(*args))
    while not when():
        await sleep(0.01)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False
