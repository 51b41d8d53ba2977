"""Where the two worlds differ: waiting, waking, locking, work beside. Twin: pgqueue/_sync/_compat.py."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

T = TypeVar("T")

Lock = asyncio.Lock


async def sleep(seconds: float) -> None:
    """Wait without holding up the event loop."""
    await asyncio.sleep(seconds)


async def blocking(function: Callable[..., T], *args: object) -> T:
    """The result of a function that blocks, run in a thread."""
    return await asyncio.to_thread(function, *args)


class Bell:
    """Wakes the one who waits for it; may be rung from any thread and from a signal handler."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> bool:
        """Whether it was rung, now or since the last wait, before so many seconds were over."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        self._rung.clear()
        return True


class SocketBell(Bell):
    """A bell that also rings when a socket has something to read."""

    async def wait(self, seconds: float, socket: int | None = None) -> bool:
        if socket is None:
            return await super().wait(seconds)
        self._loop.add_reader(socket, self._rung.set)
        try:
            return await super().wait(seconds)
        finally:
            self._loop.remove_reader(socket)

    def close(self) -> None:
        """Nothing is held."""


class Background:
    """Work that goes on beside."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.create_task(work())

    @property
    def runs(self) -> bool:
        return not self._task.done()

    async def end(self, seconds: float = 5.0) -> None:
        """Wait until it has ended, as it is about to; break it off after so many seconds."""
        await asyncio.wait({self._task}, timeout=seconds)
        self._task.cancel()


# --- what a client can be given ---------------------------------------------------------------------

OF_THIS_WORLD = "an asyncio"


def is_of_other_world(method: object) -> bool:
    """Whether it is to be awaited here and not there, or the other way round."""
    return not inspect.iscoroutinefunction(method)


# --- SQLAlchemy -----------------------------------------------------------------------------------

Alchemical: TypeAlias = "AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]"
"""A session or connection of SQLAlchemy's asyncio side."""


def is_sqlalchemy(server: object) -> bool:
    """Whether that is a session or a connection of SQLAlchemy's asyncio side."""
    if "sqlalchemy.ext.asyncio" not in sys.modules:
        return False
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    return isinstance(server, (AsyncConnection, AsyncSession, async_scoped_session))


async def begun(server: Alchemical) -> AsyncConnection:
    """The connection of a session, or itself; SQLAlchemy knows that it has a transaction from now on."""
    from sqlalchemy.ext.asyncio import AsyncConnection

    if not isinstance(server, AsyncConnection):
        return await server.connection()
    if not server.in_transaction():
        await server.begin()
    return server


async def driver_connection(conn: AsyncConnection) -> object:
    """The connection of psycopg, or of another driver, below one of SQLAlchemy."""
    return (await conn.get_raw_connection()).driver_connection
