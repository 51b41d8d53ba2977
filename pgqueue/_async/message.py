# The source of pgqueue/_sync/message.py: after a change here run tools/unasync.py.
"""A message that knows its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqueue.model import MessageRecord, T
from pgqueue.statements.moment import Seconds, When

if TYPE_CHECKING:
    from pgqueue._async.queue import AsyncQueue


class AsyncMessage(MessageRecord[T]):
    """A message, and what can be done with it. It holds its queue's handle, no connection.

    archive() and delete() act on the message whoever has it; complete(), extend() and give_back() act for
    the holder of the lease alone, which is this delivery: they raise LostLease once it was delivered again.
    """

    __slots__ = ()

    queue: AsyncQueue[T]

    async def archive(self) -> bool:
        """Move it to the queue's archive. False if it is not in the queue any more."""
        return await self.queue.archive(self.msg_id)

    async def delete(self) -> bool:
        """Delete it. False if it is not in the queue any more."""
        return await self.queue.delete(self.msg_id)

    async def complete(self, *, archive: bool = True) -> None:
        """Archive it, or delete it with archive=False, if this delivery still holds its lease.

        Raises LostLease: in a transaction with the work that was done for it, that rolls the work back.
        """
        await self.queue.complete(self, archive=archive)

    async def extend(self, vt: When) -> None:
        """Keep it for so many seconds from now, or until an instant; sets `vt`. Raises LostLease."""
        self.vt = (await self.queue.set_lease(self, vt)).vt

    async def give_back(self, delay: Seconds = 0) -> None:
        """Let others read it, now or in so many seconds; sets `vt`. Raises LostLease."""
        self.vt = (await self.queue.set_lease(self, delay)).vt
