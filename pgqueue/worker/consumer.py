"""Takes the messages of one queue for one handler, keeps their leases, and finishes them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from pgqueue._async._compat import Bell
from pgqueue._async.listen import LONGEST_PAUSE, channel_of, pause
from pgqueue.errors import LostLease, PgqueueError, TimeLimitPassed
from pgqueue.statements import leases
from pgqueue.statements.queue import QueueCalls
from pgqueue.trace import processing
from pgqueue.worker.attempt import Attempt, Stopped
from pgqueue.worker.calling import NotBegun, call_of
from pgqueue.worker.connections import Connections
from pgqueue.worker.delivery import AsyncDelivery, Delivery, deliveries
from pgqueue.worker.settings import Defer, Discard, Handler, Retry
from pgqueue.worker.settle import READ_ONLY, Settlement, passes
from pgqueue.worker.threads import Threads

log = logging.getLogger("pgqueue.worker")

ACK_SECONDS = 0.05
"""An acknowledgement waits at most so long for the next read."""
CANCEL_SECONDS = 5.0
"""What a cancelled coroutine may take to end."""
FOREVER = 3600.0


class Alarm(Bell):
    """Wakes the feeding of a consumer: rung for new messages, nudged when one is done."""

    def __init__(self) -> None:
        super().__init__()
        self.rung = True
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self.rung = True
        self.nudge()

    def nudge(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Whether it was rung or nudged before so many seconds were over."""
        self._waiting = self._loop.create_future()
        timer = self._loop.call_later(seconds, self.nudge)
        try:
            await self._waiting
            return timer.when() > self._loop.time()
        finally:
            timer.cancel()
            self._waiting = None


class Consumer:
    """One handler at work.

    The places are handler.capacity. A message holds one from when it is asked for until its end is
    committed, so a worker that is killed repeats no more than that.
    """

    def __init__(self, handler: Handler, connections: Connections, poll: float) -> None:
        self.handler = handler
        self._connections = connections
        self._client = connections.main
        self._poll = poll
        self._settlement = Settlement(self._client, handler)
        self._threads = Threads(handler.concurrency, f"pgqueue-{handler.queue}")
        self._call = call_of(handler, connections, self._threads)
        self._calls = self._queue_calls()
        self._alarm = Alarm()
        self._waiting: deque[Attempt] = deque()
        self._running: dict[Attempt, asyncio.Task[None]] = {}
        self._done: list[leases.Lease] = []
        self._done_at = 0.0
        self._look_at = 0.0
        self._idle = 0
        self._dry = False
        self._left: int | None = None
        self._until_empty = False
        self._stopping = False
        self.taken = 0

    def _queue_calls(self) -> QueueCalls[Any, Any]:
        """The queue's statements, with messages as the handler gets them."""
        name, codec = self.handler.queue, self.handler.codec
        if self.handler.is_async:
            return QueueCalls(name, partial(AsyncDelivery, self._client.queue(name, codec)))
        return QueueCalls(name, partial(Delivery, self._connections.in_threads.queue(name, codec)))

    # --- from outside -----------------------------------------------------------------------------

    async def run(self, *, until_empty: bool = False, at_most: int | None = None) -> None:
        """Work until stop(), or until nothing can be read (until_empty), or at_most messages were taken.

        Raises a PgqueueError that does not pass by itself: no such queue, not allowed.
        """
        self._until_empty, self._left = until_empty or at_most is not None, at_most
        listener, _ = self._client.may_wait()
        channel = channel_of(self.handler.queue)
        if listener is not None and channel is not None and not self._until_empty:
            await listener.add(channel, self._alarm)
        heart = asyncio.create_task(self._beat())
        heart.add_done_callback(lambda _: self._alarm.nudge())
        try:
            await self._feed(heart)
        finally:
            heart.cancel()
            if listener is not None and channel is not None:
                await listener.remove(channel, self._alarm)
            self._threads.close()

    def stop(self) -> None:
        """Take no more. run() returns when what is running has ended."""
        self._stopping = True
        self._alarm.nudge()

    @property
    def running(self) -> int:
        """Handlers at work."""
        return len(self._running)

    async def give_up(self) -> None:
        """Interrupt what is running and give it back, for others to have at once."""
        for attempt in self._running:
            attempt.interrupt(Stopped())
        if self._running and (self.handler.is_async or self.handler.transactional):
            await asyncio.wait(self._running.values(), timeout=CANCEL_SECONDS)
        stuck, self._running = self._running, {}
        await self._give_back(stuck)
        for task in stuck.values():
            task.cancel()
        self._alarm.nudge()

    # --- taking and acknowledging -----------------------------------------------------------------

    async def _feed(self, heart: asyncio.Task[None]) -> None:
        failures = 0
        while not self._over():
            if heart.done():  # never without an error
                heart.result()
            wait = self._seconds_to_next(monotonic())
            if wait > 0:
                await self._alarm.wait(wait)
                continue
            try:
                await self._fetch()
                failures = 0
            except PgqueueError as error:
                if not passes(error):
                    raise
                failures += 1
                log.warning("queue %s: %s", self.handler.queue, error)
                if error.sqlstate == READ_ONLY:
                    await self._client.close()
                await self._alarm.wait(pause(failures, LONGEST_PAUSE))
            if self._stopping and self._waiting:
                waiting = list(self._waiting)
                self._waiting.clear()
                await self._give_back(waiting)

    def _over(self) -> bool:
        if self._running or self._waiting or self._done:
            return False
        return self._stopping or self._left == 0 or (self._until_empty and self._dry)

    @property
    def _room(self) -> int:
        if self._stopping:
            return 0
        room = self.handler.capacity - len(self._running) - len(self._waiting)
        return room if self._left is None else min(room, self._left)

    def _seconds_to_next(self, now: float) -> float:
        """How long the next statement can wait: for something to say, or for more to be said at once."""
        if self._stopping and (self._waiting or self._done):
            return 0
        if self._alarm.rung:
            self._alarm.rung = False
            self._look_at = now
        to_ack = self._done_at + ACK_SECONDS - now if self._done else FOREVER
        to_look = self._look_at - now if self._room else FOREVER
        if self._waiting and len(self._done) * 2 < self.handler.capacity:
            return to_ack  # there is work at hand
        if self._until_empty and self._done and not self._running:
            return 0
        return min(to_ack, to_look)

    async def _fetch(self) -> None:
        """Acknowledge what is done and read as many as there is room for, in one statement."""
        room, done, alone = self._room, self._done, not self._running and not self._waiting
        self._done = []
        asked_at = monotonic()
        try:
            found = await self._read(room, done)
        except BaseException:
            self._done = done + self._done  # fenced: saying it twice does no harm
            raise
        if room:
            self._dry = alone and not found
            self._idle = 0 if found else self._idle + 1
            self._look_at = 0 if len(found) == room else monotonic() + pause(self._idle, self._poll)
        if self._left is not None:
            self._left -= len(found)
        self.taken += len(found)
        for message in found:
            self._waiting.append(Attempt(message, asked_at, self.handler.vt))
        self._start()

    async def _read(self, room: int, done: Sequence[leases.Lease]) -> list[Any]:
        vt, archive = self.handler.vt, self.handler.archive
        ids, counts = [one[0] for one in done], [one[1] for one in done]
        if not self.handler.grouped:
            return await self._client.run(self._calls.fetch(vt, room, ids, counts or None, archive))
        if done:
            await self._client.run(self._calls.fetch(vt, 0, ids, counts, archive))
        return await self._client.run(self._calls.read_grouped_head(vt, room)) if room else []

    # --- handling ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Let waiting messages have the places that are free."""
        while self._waiting and len(self._running) < self.handler.concurrency and not self._stopping:
            attempt = self._waiting.popleft()
            attempt.ends_at = monotonic() + self.handler.time_limit
            self._running[attempt] = asyncio.create_task(self._attempt(attempt))

    async def _attempt(self, attempt: Attempt) -> None:
        """Handle one message and settle it."""
        try:
            error = await self._outcome(attempt)
            if error is None and not attempt.message.settled:
                if not self._done:
                    self._done_at = monotonic()
                self._done.append(attempt.lease)
            elif error is not None:
                await self._settle(attempt, error)
        except PgqueueError as error:  # its lease ends by itself
            log.error("queue %s: message %s: %s", self.handler.queue, attempt.message.msg_id, error)
        except Exception:  # a Backoff of somebody's own
            log.exception("queue %s: message %s", self.handler.queue, attempt.message.msg_id)
        finally:
            self._running.pop(attempt, None)
            self._start()
            self._alarm.nudge()

    async def _outcome(self, attempt: Attempt) -> BaseException | None:
        """What the handler raised; None where it returned. Its message is finished then, if transactional."""
        if deliveries(attempt.message) > self.handler.max_deliveries:
            return Unfinished(self.handler.max_deliveries)
        if attempt.over_at <= monotonic():  # the loop was held up, or the process stood still
            await self._extend([attempt])
            if attempt.reason is not None:
                return attempt.reason
        try:
            with processing(self.handler.queue, attempt.message):
                await self._call(attempt)
        except asyncio.CancelledError as error:
            if attempt not in self._running:  # given up
                raise
            return error
        except BaseException as error:  # SystemExit too: a handler must not end the worker
            return error
        if self.handler.transactional:
            attempt.message.settled = True
        return None

    async def _settle(self, attempt: Attempt, error: BaseException) -> None:
        """Do with a message what the error asks for."""
        message, handler = attempt.message, self.handler
        if isinstance(attempt.reason, LostLease):
            log.warning("queue %s: the lease of message %s was lost", handler.queue, message.msg_id)
        elif isinstance(error, (Stopped, NotBegun)):
            later = 0 if isinstance(error, Stopped) else pause(4, LONGEST_PAUSE)
            await self._settlement.give_back([message], later)
        elif isinstance(error, Defer):
            await self._settlement.give_back([message], error.until)
        elif isinstance(error, Discard):
            await self._settlement.discard(message, error.reason)
        elif message.settled and not handler.transactional:
            log.error("queue %s: message %s, settled", handler.queue, message.msg_id, exc_info=error)
        else:
            await self._failed(attempt, error)

    async def _failed(self, attempt: Attempt, error: BaseException) -> None:
        message, handler = attempt.message, self.handler
        number = deliveries(message)
        if number >= handler.max_deliveries:
            await self._settlement.set_aside(message, error)
            return
        after = error.after if isinstance(error, Retry) else None
        if after is None:
            after = handler.backoff.seconds(number)
        words = "queue %s: message %s failed (delivery %s), again in %.2f s"
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        known = isinstance(error, (Retry, TimeLimitPassed))
        log.warning(words, handler.queue, message.msg_id, number, seconds, exc_info=None if known else error)
        await self._settlement.retry(message, after)

    async def _give_back(self, attempts: Iterable[Attempt]) -> None:
        messages = [attempt.message for attempt in attempts]
        try:
            if messages:
                await asyncio.wait_for(self._settlement.give_back(messages, 0), CANCEL_SECONDS)
        except (PgqueueError, asyncio.TimeoutError) as error:
            why = str(error) or "the server does not answer"
            log.warning("queue %s: not given back, the leases end by themselves: %s", self.handler.queue, why)

    # --- leases -----------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Extend leases that are half over, and interrupt handlers whose time is."""
        handler = self.handler
        every = min(handler.vt / 8, handler.time_limit / 8, 1.0)
        while True:
            await asyncio.sleep(every)
            now = monotonic()
            for attempt in list(self._running):
                if attempt.ends_at <= now and attempt.reason is None:
                    self._time_is_over(attempt)
            due = [
                one for one in (*self._running, *self._waiting) if one.renew_at <= now and one.reason is None
            ]
            if due:
                await self._extend(due)

    def _time_is_over(self, attempt: Attempt) -> None:
        handler = self.handler
        attempt.interrupt(TimeLimitPassed(f"over its time limit of {handler.time_limit:g} s"))
        if not handler.is_async and not handler.transactional:
            words = (
                "queue %s: message %s is over its time limit of %g s: its thread cannot be ended, and goes on"
            )
            log.warning(words, handler.queue, attempt.message.msg_id, handler.time_limit)

    async def _extend(self, due: Sequence[Attempt]) -> None:
        asked_at = monotonic()
        call = leases.extend(self.handler.queue, [one.lease for one in due], self.handler.vt)
        try:
            held = await self._client.run(call)
        except PgqueueError as error:
            log.warning("queue %s: leases were not extended: %s", self.handler.queue, error)
            for attempt in due:
                attempt.renew_at = monotonic() + self.handler.vt / 8
            return
        for attempt in due:
            attempt.leased(asked_at, self.handler.vt)
            if attempt.lease in held:
                continue
            if attempt in self._running:
                attempt.interrupt(LostLease(f"the lease on message {attempt.lease[0]} is lost"))
            elif attempt in self._waiting:
                self._waiting.remove(attempt)


class Unfinished(Exception):
    """A message that was delivered as often as it may be, and that no delivery finished."""

    def __init__(self, times: int) -> None:
        super().__init__(f"delivered {times} times and never finished: its worker was killed each time")
