"""One delivery of one message in the hands of a worker, and how its handler is interrupted."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from pgqueue.worker.delivery import AsyncDelivery, Delivery


class Stopped(Exception):
    """The worker stops, and the grace period is over."""


class Attempt:
    """A message in the hands of this worker.

    message: as the handler has it
    renew_at: when its lease is to be extended; over_at: when that ends at the soonest; ends_at: when its
    handler's time is over (all by the clock of monotonic())
    reason: why the handler was interrupted, if it was
    """

    __slots__ = ("_task", "cut", "ends_at", "message", "over_at", "reason", "renew_at")

    def __init__(self, message: Delivery[Any] | AsyncDelivery[Any], leased_at: float, vt: float) -> None:
        self.message = message
        self.leased(leased_at, vt)
        self.ends_at = float("inf")
        self.reason: BaseException | None = None
        self.cut: Callable[[], None] | None = None
        self._task: asyncio.Task[Any] | None = None

    def leased(self, at: float, vt: float) -> None:
        """Note a lease of so many seconds, asked for at a moment."""
        self.renew_at = at + vt / 2
        self.over_at = at + vt

    @property
    def lease(self) -> tuple[int, int]:
        return self.message.msg_id, self.message.read_ct

    def interrupt(self, reason: BaseException) -> None:
        """End the handler: cancel a coroutine, cut a transaction's connection, tell a thread by `lost`."""
        if self.reason is not None:
            return
        self.reason = reason
        self.message.lost = True
        if self.cut is not None:
            self.cut()
        if self._task is not None:
            self._task.cancel()

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """Where interrupt() cancels the task that is running now. Raises its reason then."""
        task = self._task = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError as error:
            if self.reason is None:
                raise
            if task is not None and hasattr(task, "uncancel"):  # Python 3.11
                task.uncancel()
            raise self.reason from error
        finally:
            self._task = None


class Scissors:
    """Ends the transaction of a connection that another thread uses: its work is rolled back."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        # A handle of our own: the connection's may be closed, and its number be another's, at any time.
        self._socket = socket.fromfd(conn.fileno(), socket.AF_INET, socket.SOCK_STREAM)

    def cut(self) -> None:
        """Cancel what the server does for it, then shut the connection. Does not wait."""
        threading.Thread(target=self._cut, daemon=True).start()

    def close(self) -> None:
        """Nothing is left to cut."""
        self._socket.close()

    def _cut(self) -> None:
        with suppress(psycopg.Error):
            self._conn.cancel_safe(timeout=5.0)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
