# The source of pgqueue/_sync/stream.py: after a change here run tools/unasync.py.
"""The messages of a queue, one after the other, for ever."""

from __future__ import annotations

import logging
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Generic

from pgqueue._async._compat import Bell
from pgqueue._async.listen import Listener, channel_of, pause
from pgqueue._async.message import AsyncMessage
from pgqueue.errors import CannotConnect, Conflict, ConnectionLost, PgqueueError
from pgqueue.model import T

if TYPE_CHECKING:
    from pgqueue._async.queue import AsyncQueue

log = logging.getLogger("pgqueue")


class AsyncMessages(Generic[T]):
    """Iterates over messages as they come; waits while there is none. Made by `queue.messages()`.

    Used in a `with` block, or run to its end after stop(), it gives back what it has read and not handed
    out. One consumer each: as many streams as there are threads or tasks that want messages.
    """

    def __init__(
        self,
        queue: AsyncQueue[T],
        vt: int,
        qty: int,
        listener: Listener | None,
        poll: float,
        patient: bool,
    ) -> None:
        self._queue = queue
        self._vt = vt
        self._qty = qty
        self._listener = listener
        self._channel = channel_of(queue.name)
        self._poll = poll
        self._patient = patient  # the connection can be had anew
        self._bell: Bell | None = None
        self._ready: deque[AsyncMessage[T]] = deque()
        self._idle = 0
        self._worked = False
        self._stopped = False

    def stop(self) -> None:
        """End before the next message, also while waiting. From any thread, and from a signal handler."""
        self._stopped = True
        if self._bell is not None:
            self._bell.ring()

    async def close(self) -> None:
        """stop(), and give back at once what was read and not handed out."""
        self.stop()
        if self._bell is not None and self._listener is not None and self._channel is not None:
            await self._listener.remove(self._channel, self._bell)
        while self._ready:
            try:
                await self._ready.popleft().give_back()
            except PgqueueError as error:  # its lease ends by itself
                log.warning("queue %s: a message was not given back: %s", self._queue.name, error)

    def __aiter__(self) -> AsyncMessages[T]:
        return self

    async def __anext__(self) -> AsyncMessage[T]:
        if self._bell is None:
            self._bell = Bell()
            if self._listener is not None and self._channel is not None:
                await self._listener.add(self._channel, self._bell)
        while not self._stopped:
            if self._ready:
                return self._ready.popleft()
            self._ready.extend(await self._next())
            if self._ready:
                self._idle = 0
                continue
            self._idle += 1
            await self._bell.wait(pause(self._idle, self._poll))
        await self.close()
        raise StopAsyncIteration

    async def __aenter__(self) -> AsyncMessages[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _next(self) -> list[AsyncMessage[T]]:
        """What there is to read now; nothing while the server is away, once it has answered before."""
        try:
            found = await self._queue.read(vt=self._vt, qty=self._qty)
        except (ConnectionLost, CannotConnect, Conflict) as error:
            if not (self._worked and self._patient):
                raise
            log.warning("queue %s: %s", self._queue.name, error)
            return []
        self._worked = True
        return found
