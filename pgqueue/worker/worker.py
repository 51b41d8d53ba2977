"""The worker as its users see it: handlers are registered, then it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Any, TypeVar

from pgqueue._async.client import AsyncClient
from pgqueue._sync.client import Client
from pgqueue.codec import JSON, Codec, codec_of
from pgqueue.errors import BadValue, NoSuchQueue
from pgqueue.names import lower
from pgqueue.statements import leases
from pgqueue.worker.connections import Connections
from pgqueue.worker.consumer import CANCEL_SECONDS, Consumer
from pgqueue.worker.periodic import Schedule, Ticker
from pgqueue.worker.settings import LONGEST_RUN, LONGEST_TRANSACTION, Backoff, Handler
from pgqueue.worker.signals import heeded

log = logging.getLogger("pgqueue.worker")
Part = Callable[[], Coroutine[Any, Any, None]]
F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Callable[[datetime], Any])


class Worker:
    """Takes messages from queues and calls handlers with them.

    server: a client made of a DSN or of a pool, or a DSN; PGQUEUE_DSN, DATABASE_URL or libpq's variables if
        not given. The worker talks over one connection, hears of new messages over another, and opens one more
        for each running transactional handler.
    grace: seconds that running handlers have to end when the worker is stopped
    poll: seconds between two looks at an empty queue, at most; one that notifies
        (`client.enable_notify_insert`) is looked at as soon as a message comes
    """

    def __init__(
        self, server: AsyncClient | Client | str | None = None, *, grace: float = 30.0, poll: float = 5.0
    ) -> None:
        if not isinstance(server, (AsyncClient, Client, str, NoneType)):
            raise BadValue(f"a worker is given a client or a DSN, not {type(server).__name__}")
        if not poll > 0 or not grace >= 0:
            raise BadValue(f"poll must be more than 0 seconds and grace at least 0, not {poll} and {grace}")
        self._server = server
        self._codec = server.codec if isinstance(server, (AsyncClient, Client)) else JSON
        self._grace = grace
        self._poll = poll
        self._handlers: list[Handler] = []
        self._schedules: list[Schedule] = []
        self._stop: Callable[[], None] | None = None

    @property
    def server(self) -> AsyncClient | Client | str | None:
        """What it was given; None stands for the server that the environment names when it runs."""
        return self._server

    # --- registering ------------------------------------------------------------------------------

    def handler(
        self,
        queue: str,
        *,
        concurrency: int = 1,
        vt: int = 30,
        batch: int = 1,
        archive: bool = True,
        transactional: bool = False,
        grouped: bool = False,
        max_deliveries: int = 10,
        backoff: Backoff | None = None,
        dead_letter: str | None = None,
        time_limit: float | None = None,
        body: Codec[Any] | type[Any] | Callable[[Any], Any] | None = None,
    ) -> Callable[[F], F]:
        """Let a function handle the messages of a queue: a coroutine in the loop, another in a thread.

        It gets the message, an AsyncDelivery or a Delivery, and a connection too if it is transactional.
        When it returns the message is completed; when it raises, delivered again later (Retry, Defer and
        Discard say how).

        concurrency: how many messages are handled at once
        vt: seconds that a message is kept from others; the worker extends them while the handler runs
        batch: messages taken at a time for each place and handled one after the other; more is faster for
            handlers that take well under a millisecond, and a killed worker repeats as many more
        archive: completed messages go to the archive; False deletes them
        transactional: called in a transaction of the connection it gets, which also completes the message:
            what it does in the database is done once, or not at all
        grouped: one message of a group (header x-pgmq-group) at a time, in order
        max_deliveries: after so many failures a message is set aside
        backoff: how long a message that failed waits
        dead_letter: queue for messages that are set aside, which must exist; else they are archived. The
            headers x-pgqueue-error, -traceback, -deliveries, -queue, -msg-id and -failed-at say why, whence
            and when.
        time_limit: seconds after which a coroutine is cancelled, a transaction rolled back, and the lease no
            longer extended; 3600 if not given, 60 for a transactional handler
        body: what the bodies are, see Client.queue()

        Raises BadValue for settings that make no sense, and for a second handler of a queue.
        """
        if not isinstance(queue, str):
            raise BadValue('a handler is registered with the name of its queue: @worker.handler("orders")')
        if time_limit is None:
            time_limit = LONGEST_TRANSACTION if transactional else LONGEST_RUN

        def register(function: F) -> F:
            if any(lower(one.queue) == lower(queue) for one in self._handlers):
                raise BadValue(f'queue "{queue}" has a handler already')
            self._handlers.append(
                Handler(
                    function=function,
                    queue=queue,
                    concurrency=concurrency,
                    batch=batch,
                    vt=vt,
                    archive=archive,
                    transactional=transactional,
                    grouped=grouped,
                    max_deliveries=max_deliveries,
                    backoff=backoff or Backoff(),
                    dead_letter=dead_letter,
                    time_limit=time_limit,
                    codec=self._codec if body is None else codec_of(body, self._codec),
                )
            )
            return function

        return register

    def every(
        self,
        cron: str,
        *,
        queue: str,
        name: str | None = None,
        zone: str = "UTC",
        headers: Mapping[str, Any] | None = None,
    ) -> Callable[[M], M]:
        """Let a function make the message that is sent at each tick of a cron expression.

        It gets the tick's instant and returns the body. Of all workers with a schedule of that name and queue
        one sends the message, once for each tick; after a time without any worker, for the last one missed.

        cron: five fields, or six with seconds first. zone: the time zone they are meant in, "Europe/Paris".
        name: the function's if not given. headers: of the message, beside x-pgqueue-tick, the instant.
        Raises BadValue for what is no cron expression or time zone.
        """

        def register(make: M) -> M:
            called = name or str(getattr(make, "__qualname__", type(make).__name__))
            if any((one.queue, one.name) == (queue, called) for one in self._schedules):
                raise BadValue(f'there is a periodic message "{called}" for queue "{queue}" already')
            self._schedules.append(Schedule(cron, queue, called, make, zone, dict(headers or {})))
            return make

        return register

    # --- running ----------------------------------------------------------------------------------

    def run(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        once: bool = False,
        until_empty: bool = False,
    ) -> None:
        """Work until SIGTERM or SIGINT, or until stop(). A second signal ends the process at once.

        queues: of these only. concurrency: instead of the handlers' own. once: handle one message, if there
        is one, and return. until_empty: return when nothing is left that can be read now; like once, without
        periodic messages.

        Raises NoSuchQueue, BadValue, CannotConnect when it starts, and later what does not pass by itself; a
        server that is away is waited for.
        """

        async def work() -> None:
            with heeded(self.stop):
                try:
                    await self.serve(
                        queues=queues, concurrency=concurrency, once=once, until_empty=until_empty
                    )
                finally:
                    if isinstance(self._server, AsyncClient):
                        await self._server.close()  # its connections belong to this loop, which ends

        asyncio.run(work())

    async def serve(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        once: bool = False,
        until_empty: bool = False,
    ) -> None:
        """run() in a loop that runs already, without heeding signals."""
        if self._stop is not None:
            raise BadValue("the worker runs already")
        handlers, schedules = self._chosen(queues, concurrency)
        connections, stopping = Connections(self._server), asyncio.Event()
        self._stop = partial(_wake, asyncio.get_running_loop(), stopping)
        try:
            if not await _unless(stopping, _check(connections.main, handlers, schedules)):
                return
            names = [one.queue for one in handlers] or ["periodic messages alone"]
            log.info("takes messages: %s", ", ".join(names))
            consumers = [Consumer(one, connections, self._poll) for one in handlers]
            if once:
                work: list[Part] = [partial(_one_message, consumers)]
            else:
                work = [partial(one.run, until_empty=until_empty) for one in consumers]
            ticks: list[Part] = []
            if not once and not until_empty:
                ticks = [Ticker(connections.main, one).run for one in schedules]
            await self._supervise(consumers, work, ticks, stopping)
        finally:
            self._stop = None
            await connections.close()

    def stop(self) -> None:
        """Take no more messages; run() returns when the running handlers have ended, or the grace period has.

        From any thread, and from a signal handler. Nothing happens where the worker does not run.
        """
        if self._stop is not None:
            self._stop()

    def _chosen(
        self, queues: Iterable[str] | None, concurrency: int | None
    ) -> tuple[list[Handler], list[Schedule]]:
        handlers, schedules = self._handlers, self._schedules
        if queues is not None:
            wanted = set(queues)
            if unknown := wanted - {one.queue for one in handlers}:
                raise BadValue(f"no handler for {', '.join(sorted(unknown))}")
            handlers = [one for one in handlers if one.queue in wanted]
            schedules = [one for one in schedules if one.queue in wanted]
        if concurrency is not None:
            handlers = [replace(one, concurrency=concurrency) for one in handlers]
        if not handlers and not schedules:
            raise BadValue("the worker has nothing to do: register a handler")
        return handlers, schedules

    async def _supervise(
        self,
        consumers: Sequence[Consumer],
        work: Sequence[Part],
        ticks: Sequence[Part],
        stopping: asyncio.Event,
    ) -> None:
        """Run the parts until all have ended, one has failed, or the worker is to stop; raise the failure."""
        working = [asyncio.create_task(_or_stop(part, stopping)) for part in work]
        ticking = [asyncio.create_task(_or_stop(part, stopping)) for part in ticks]
        tasks = [*working, *ticking, asyncio.create_task(_then_stop([*working, *ticking], stopping))]
        try:
            await stopping.wait()
            for task in ticking:
                task.cancel()
            await self._wind_down(consumers, [one for one in working if not one.done()])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in (*working, *ticking):
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def _wind_down(self, consumers: Sequence[Consumer], working: Sequence[asyncio.Task[None]]) -> None:
        """Let what is running end within the grace period, and give the rest back."""
        for consumer in consumers:
            consumer.stop()
        if not working:
            return
        running = sum(one.running for one in consumers)
        log.info("stopping: %s running, with %g s to end", running, self._grace)
        _, stuck = await asyncio.wait(working, timeout=self._grace)
        if stuck:
            await asyncio.gather(*(one.give_up() for one in consumers))
            await asyncio.wait(stuck, timeout=CANCEL_SECONDS)


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether it came to its end, which it does not if the worker is to stop before. Raises what it raises."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return task.done()
    finally:
        for one in (task, stopped):
            one.cancel()
        await asyncio.wait({task}, timeout=CANCEL_SECONDS)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from anywhere."""
    loop.call_soon_threadsafe(event.set)


async def _or_stop(part: Part, stopping: asyncio.Event) -> None:
    """Run a part; if it fails, all are to stop."""
    try:
        await part()
    except Exception:
        stopping.set()
        raise


async def _then_stop(tasks: Sequence[asyncio.Task[None]], stopping: asyncio.Event) -> None:
    """When all tasks have ended there is nothing left to do."""
    await asyncio.gather(*tasks, return_exceptions=True)
    stopping.set()


async def _one_message(consumers: Sequence[Consumer]) -> None:
    """Handle one message of the first queue that has one."""
    for consumer in consumers:
        await consumer.run(at_most=1)
        if consumer.taken:
            return


async def _check(client: AsyncClient, handlers: Sequence[Handler], schedules: Sequence[Schedule]) -> None:
    """Raises NoSuchQueue where a queue is not there, NotInstalled, CannotConnect."""
    await client.version()
    names = [one.queue for one in handlers] + [one.queue for one in schedules]
    names += [one.dead_letter for one in handlers if one.dead_letter is not None]
    if missing := await client.run(leases.missing(names)):
        raise NoSuchQueue(f'queue "{missing[0]}" does not exist')
