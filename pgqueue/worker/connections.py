"""Where the worker's connections come from: its client, and further clients of the same server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from pgqueue._async.client import AsyncClient
from pgqueue._sync.client import Client

C = TypeVar("C", AsyncClient, Client)


class Connections:
    """The worker's own client, and further ones, each with a connection of its own.

    server: a DSN, a client that was made of a DSN or of a pool, or None for what the environment says
    """

    def __init__(self, server: AsyncClient | Client | str | None) -> None:
        self._given = server
        self.main = server if isinstance(server, AsyncClient) else self._another(AsyncClient)
        self.asynchronous: Spare[AsyncClient] = Spare(partial(self._another, AsyncClient))
        self.synchronous: Spare[Client] = Spare(partial(self._another, Client))
        self._in_threads: Client | None = None

    @property
    def in_threads(self) -> Client:
        """The client of all plain handlers in threads; it connects when one of them asks it for something."""
        if self._in_threads is None:
            self._in_threads = self._another(Client)
        return self._in_threads

    async def close(self) -> None:
        """Close the connections that were opened here; a client that was given stays its owner's."""
        if self.main is not self._given:
            await self.main.close()
        for client in self.asynchronous.clear():
            await client.close()
        threaded = [*self.synchronous.clear(), *([self._in_threads] if self._in_threads else [])]
        for one in threaded:
            await asyncio.to_thread(one.close)

    def _another(self, kind: type[C]) -> C:
        """A client with a connection of its own."""
        given = self._given
        return kind(given) if given is None or isinstance(given, str) else given.another(kind)


class Spare(Generic[C]):
    """Clients that are lent one at a time and kept for the next. From any thread."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make: Callable[[], C] = make
        self._idle: list[C] = []
        self._lock = threading.Lock()

    @contextmanager
    def lent(self) -> Iterator[C]:
        """A client for the borrower alone."""
        with self._lock:
            client = self._idle.pop() if self._idle else self._make()
        try:
            yield client
        finally:
            with self._lock:
                self._idle.append(client)

    def clear(self) -> list[C]:
        """Those that are not lent; they are kept no more."""
        with self._lock:
            idle, self._idle = self._idle, []
        return idle
