"""What a handler is given: a message that knows how its delivery fares."""

from __future__ import annotations

from typing import Any

from pgqueue._async.message import AsyncMessage
from pgqueue._sync.message import Message
from pgqueue.codec import json_loads
from pgqueue.model import MessageRecord, T
from pgqueue.statements.leases import UNCOUNTED
from pgqueue.statements.moment import Seconds


def deliveries(message: MessageRecord[Any]) -> int:
    """How often a message was delivered, this time included, without those that count as no attempt."""
    if message.headers_text is None or UNCOUNTED not in message.headers_text:
        return message.read_ct
    try:
        headers = json_loads(message.headers_text)  # whatever the client's codec makes of it
    except (ValueError, RecursionError):
        return message.read_ct
    uncounted = headers.get(UNCOUNTED) if isinstance(headers, dict) else None
    # Whoever sends can write that header too: it never stands for more deliveries than there were.
    if isinstance(uncounted, bool) or not isinstance(uncounted, int):
        return message.read_ct
    return message.read_ct - uncounted if 0 <= uncounted < message.read_ct else message.read_ct


class Delivery(Message[T]):
    """A message as a handler gets it that is no coroutine.

    lost: the lease is lost, the time limit has passed or the worker is stopping: what the handler does from
        now on may be done by another too, so it should end. A coroutine is cancelled instead.
    settled: the handler has completed it, given it back, archived or deleted it: the worker leaves it alone
    """

    __slots__ = ("lost", "settled")

    def __init__(self, *columns: Any) -> None:
        super().__init__(*columns)
        self.lost = False
        self.settled = False

    @property
    def deliveries(self) -> int:
        """How often it was delivered, this time included; those that ended without a failure do not count."""
        return deliveries(self)

    def complete(self, *, archive: bool = True) -> None:
        super().complete(archive=archive)
        self.settled = True

    def give_back(self, delay: Seconds = 0) -> None:
        super().give_back(delay)
        self.settled = True

    def archive(self) -> bool:
        found = super().archive()
        self.settled = True
        return found

    def delete(self) -> bool:
        found = super().delete()
        self.settled = True
        return found


class AsyncDelivery(AsyncMessage[T]):
    """A message as a coroutine gets it. See Delivery."""

    __slots__ = ("lost", "settled")

    def __init__(self, *columns: Any) -> None:
        super().__init__(*columns)
        self.lost = False
        self.settled = False

    @property
    def deliveries(self) -> int:
        """How often it was delivered, this time included; those that ended without a failure do not count."""
        return deliveries(self)

    async def complete(self, *, archive: bool = True) -> None:
        await super().complete(archive=archive)
        self.settled = True

    async def give_back(self, delay: Seconds = 0) -> None:
        await super().give_back(delay)
        self.settled = True

    async def archive(self) -> bool:
        found = await super().archive()
        self.settled = True
        return found

    async def delete(self) -> bool:
        found = await super().delete()
        self.settled = True
        return found
