"""Where the two worlds differ: waiting, waking, locking, work beside. Twin: pgqueue/_async/_compat.py."""

from __future__ import annotations

import inspect
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

T = TypeVar("T")

Lock = threading.Lock


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def blocking(function: Callable[..., T], *args: object) -> T:
    """The result of a function that blocks."""
    return function(*args)


class Bell:
    """Wakes the one who waits for it; may be rung from any thread and from a signal handler."""

    def __init__(self) -> None:
        # An Event's lock may be held by the very thread that a signal handler interrupts; this queue has none.
        self._rung: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        if self._rung.empty():
            self._rung.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether it was rung, now or since the last wait, before so many seconds were over."""
        try:
            self._rung.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        return True


class SocketBell:
    """A bell that also rings when a socket has something to read."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)

    def ring(self) -> None:
        try:
            self._there.send(b"!")
        except OSError:  # full, and so rung already; or closed
            return

    def wait(self, seconds: float, socket: int | None = None) -> bool:
        sockets = [self._here.fileno()] if socket is None else [self._here.fileno(), socket]
        woken = _readable(sockets, seconds)
        if self._here.fileno() in woken:
            self._here.recv(4096)
        return bool(woken)

    def close(self) -> None:
        self._here.close()
        self._there.close()


def _readable(sockets: list[int], seconds: float) -> list[int]:
    if not hasattr(select, "poll"):  # Windows
        return select.select(sockets, [], [], seconds)[0]
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLIN)
    return [one for one, _ in poll.poll(seconds * 1000)]


class Background:
    """Work that goes on beside, in a thread that does not keep the process alive."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="pgqueue listener", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def end(self, seconds: float = 5.0) -> None:
        """Wait until it has ended, as it is about to; leave it alone after so many seconds."""
        self._thread.join(seconds)


# --- what a client can be given ---------------------------------------------------------------------

OF_THIS_WORLD = "a sync"


def is_of_other_world(method: object) -> bool:
    """Whether it is to be awaited here and not there, or the other way round."""
    return inspect.iscoroutinefunction(method)


# --- SQLAlchemy -----------------------------------------------------------------------------------

Alchemical: TypeAlias = "Connection | Session | scoped_session[Session]"
"""A session or connection of SQLAlchemy."""


def is_sqlalchemy(server: object) -> bool:
    """Whether that is a session or a connection of SQLAlchemy."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

    return isinstance(server, (Connection, Session, scoped_session))


def begun(server: Alchemical) -> Connection:
    """The connection of a session, or itself; SQLAlchemy knows that it has a transaction from now on."""
    from sqlalchemy import Connection

    if not isinstance(server, Connection):
        return server.connection()
    if not server.in_transaction():
        server.begin()
    return server


def driver_connection(conn: Connection) -> object:
    """The connection of psycopg, or of another driver, below one of SQLAlchemy."""
    return conn.connection.driver_connection
