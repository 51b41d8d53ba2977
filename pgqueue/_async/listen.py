# The source of pgqueue/_sync/listen.py: after a change here run tools/unasync.py.
"""One connection that hears of new messages, for all of a client's streams."""

from __future__ import annotations

import logging
import random
from typing import Any, Protocol
from weakref import ref

import psycopg
from psycopg import AsyncConnection, sql

from pgqueue._async._compat import Background, Bell, Lock, SocketBell
from pgqueue.errors import PgqueueError
from pgqueue.names import lower

log = logging.getLogger("pgqueue")

KEEPALIVE = 30.0
"""After so many silent seconds the server is asked whether it is there."""
LONGEST_PAUSE = 10.0
"""Seconds between two attempts to reach a server that is away, at most."""


def channel_of(queue_name: str) -> str | None:
    """Where pgmq announces the messages of a queue; None for names that are too long for a channel."""
    channel = f"pgmq.q_{lower(queue_name)}.INSERT"
    return channel if len(channel.encode()) <= 63 else None


class Opens(Protocol):
    """Can open a further connection."""

    async def open(self) -> AsyncConnection[Any]: ...


class Listener:
    """Rings the bells of those who wait for a channel. Nothing depends on it: whoever waits polls too.

    Its connection is opened with the first bell, again whenever it is lost, and closed after the last. After
    each LISTEN the bells are rung once, since nobody heard what came before.
    """

    def __init__(self, lender: Opens) -> None:
        self._lender = lender
        self._bells: dict[str, tuple[ref[Bell], ...]] = {}  # replaced, never changed: others may be reading
        self._changed: SocketBell | None = None
        self._ear: Background | None = None
        self._lock = Lock()

    async def add(self, channel: str, bell: Bell) -> None:
        """Ring this bell, as long as somebody holds it, when the channel is notified."""
        async with self._lock:
            self._bells[channel] = (*self._held(channel), ref(bell))
            if self._changed is None or self._ear is None or not self._ear.runs:
                if self._changed is not None and self._ear is not None:  # it ended by an error
                    self._changed.close()
                self._changed = SocketBell()
                self._ear = Background(self._run)
            else:
                self._changed.ring()

    async def remove(self, channel: str, bell: Bell) -> None:
        """Ring it no more."""
        async with self._lock:
            self._bells[channel] = tuple(one for one in self._held(channel) if one() is not bell)
            if self._changed is not None:
                self._changed.ring()

    async def close(self) -> None:
        """Ring none of them any more, and close the connection."""
        async with self._lock:
            self._bells.clear()
            if self._changed is not None:
                self._changed.ring()
            ear, self._ear = self._ear, None
        if ear is not None:
            await ear.end()

    def _held(self, channel: str) -> tuple[ref[Bell], ...]:
        return tuple(one for one in self._bells.get(channel, ()) if one() is not None)

    def _wanted(self) -> set[str]:
        return {channel for channel in list(self._bells) if self._held(channel)}

    def _ring(self, channel: str) -> None:
        for one in self._bells.get(channel, ()):
            if bell := one():
                bell.ring()

    async def _run(self) -> None:
        failures, changed = 0, self._changed
        while changed is not None:
            try:
                async with await self._lender.open() as conn:
                    failures = 0
                    await self._hear(conn, changed)
            except (PgqueueError, psycopg.Error, OSError) as error:
                failures += 1
                log.warning("notifications are not heard, polling goes on: %s", one_line(error))
                await changed.wait(pause(failures, LONGEST_PAUSE))
            async with self._lock:
                if not self._wanted():
                    changed.close()
                    self._changed = changed = None

    async def _hear(self, conn: AsyncConnection[Any], changed: SocketBell) -> None:
        """Listen until nobody waits any more. Raises psycopg.Error when the connection is lost."""
        heard: set[str] = set()
        conn.add_notify_handler(lambda note: self._ring(note.channel))
        while wanted := self._wanted():
            for words, channels in (("listen {}", wanted - heard), ("unlisten {}", heard - wanted)):
                for channel in sorted(channels):
                    await conn.execute(sql.SQL(words).format(sql.Identifier(channel)))
            for channel in wanted - heard:
                self._ring(channel)
            heard = wanted
            if await changed.wait(KEEPALIVE, conn.pgconn.socket):
                conn.pgconn.consume_input()
                while note := conn.pgconn.notifies():
                    self._ring(note.relname.decode())
            else:
                await conn.execute("")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def pause(tries: int, longest: float) -> float:
    """Seconds to wait after so many tries in vain: doubling, each time another, so that no two keep step."""
    return random.uniform(0.75, 1.25) * min(longest, 0.05 * 2.0 ** min(tries, 20))
