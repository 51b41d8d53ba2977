"""What becomes of a message that was not handled: given back, moved to the dead-letter queue, archived."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from pgqueue._async.client import AsyncClient
from pgqueue._async.listen import LONGEST_PAUSE, pause
from pgqueue.errors import CannotConnect, Conflict, ConnectionLost, LostLease, PgqueueError, TimedOut
from pgqueue.model import MessageRecord
from pgqueue.statements import leases
from pgqueue.statements.moment import When
from pgqueue.worker.delivery import deliveries
from pgqueue.worker.settings import Handler

log = logging.getLogger("pgqueue.worker")
T = TypeVar("T")

LONGEST_ERROR = 1000
LONGEST_TRACEBACK = 8000
"""Characters of an error that are kept in headers."""

_PASSING = ("08", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE for troubles of the server that pass: too many connections, disk full, shutdown …"""
READ_ONLY = "25006"
"""The server has become a standby: the next connection finds the one that writes."""


def passes(error: PgqueueError) -> bool:
    """Whether a call may succeed later without anybody changing the program."""
    if isinstance(error, (ConnectionLost, CannotConnect, Conflict, TimedOut)):
        return True
    return error.sqlstate is not None and (error.sqlstate[:2] in _PASSING or error.sqlstate == READ_ONLY)


async def patiently(client: AsyncClient, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call that may be repeated, made until the server answers. Raises what does not pass."""
    tries = 0
    while True:
        try:
            return await call()
        except PgqueueError as error:
            if not passes(error):
                raise
            tries += 1
            log.warning("the server is tried again: %s", error)
            if error.sqlstate == READ_ONLY:
                await client.close()
        await asyncio.sleep(pause(tries, LONGEST_PAUSE))


class Settlement:
    """What happens to a message that was not completed: give back, retry, set aside, discard. Fenced by the lease."""

    def __init__(self, client: AsyncClient, handler: Handler) -> None:
        self._client = client
        self._handler = handler
        self._queue = client.queue(handler.queue)

    async def give_back(self, messages: Sequence[MessageRecord[Any]], when: When) -> None:
        """Let others read messages at `when`; this delivery was no attempt."""

        async def call() -> None:
            async with self._client.transaction():
                given = [(one.msg_id, one.read_ct) for one in messages]
                held = await self._client.run(leases.uncount(self._queue.name, given))
                await self._queue.set_vt_many([msg_id for msg_id, _ in held], when)

        await self._held(call)

    async def retry(self, message: MessageRecord[Any], when: When) -> None:
        """Let others read a message at `when`, for the next attempt."""

        async def call() -> None:
            await self._queue.set_lease(message, when)

        await self._held(call)

    async def set_aside(self, message: MessageRecord[Any], error: BaseException) -> None:
        """Move a message to the dead-letter queue, or archive it, with the error in its headers."""
        headers = self._headers(message, error)
        target = self._handler.dead_letter
        words, trace = "queue %s: message %s is set aside: %s", error if error.__traceback__ else None
        log.error(words, self._queue.name, message.msg_id, _line(error), exc_info=trace)

        async def call() -> None:
            lease = (message.msg_id, message.read_ct)
            async with self._client.transaction():
                if target is None:
                    await self._client.run(leases.mark(self._queue.name, lease, headers))
                else:
                    await self._client.run(leases.copy(self._queue.name, lease, target, headers))
                await self._queue.complete(message, archive=target is None)

        await self._held(call)

    async def discard(self, message: MessageRecord[Any], reason: str) -> None:
        """Archive a message with the reason in its headers."""

        async def call() -> None:
            headers = {"x-pgqueue-discarded": _text(reason, LONGEST_ERROR)}
            async with self._client.transaction():
                await self._client.run(
                    leases.mark(self._queue.name, (message.msg_id, message.read_ct), headers)
                )
                await self._queue.complete(message, archive=True)

        await self._held(call)

    async def _held(self, call: Callable[[], Awaitable[None]]) -> None:
        """Make the call until the server answers. A lost lease is somebody else's message: no error."""
        try:
            await patiently(self._client, call)
        except LostLease:
            log.debug("queue %s: a lease was lost before the message was settled", self._queue.name)

    def _headers(self, message: MessageRecord[Any], error: BaseException) -> dict[str, Any]:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {
            "x-pgqueue-error": _text(_line(error), LONGEST_ERROR),
            "x-pgqueue-traceback": _text(trace, LONGEST_TRACEBACK, end=True),
            "x-pgqueue-deliveries": deliveries(message),
            "x-pgqueue-queue": self._queue.name,
            "x-pgqueue-msg-id": message.msg_id,
            "x-pgqueue-failed-at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }


def _line(error: BaseException) -> str:
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())


def _text(text: str, longest: int, *, end: bool = False) -> str:
    """Text that JSON in the database can hold: no NUL, no half of a surrogate pair, not too long."""
    clean = text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
    if len(clean) <= longest:
        return clean
    return f"…{clean[1 - longest :]}" if end else f"{clean[: longest - 1]}…"
