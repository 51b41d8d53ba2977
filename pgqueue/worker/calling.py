"""How a handler is called: in the loop or in a thread, plainly or in a transaction that ends its message."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from pgqueue.errors import LostLease, PgqueueError, TimeLimitPassed
from pgqueue.model import columns_of
from pgqueue.worker.attempt import Attempt, Scissors
from pgqueue.worker.connections import Connections
from pgqueue.worker.delivery import AsyncDelivery, Delivery
from pgqueue.worker.settings import Handler
from pgqueue.worker.threads import Threads

Call = Callable[[Attempt], Awaitable[None]]
M = TypeVar("M", AsyncDelivery[Any], Delivery[Any])

_IDLE_LIMIT = "select set_config('idle_in_transaction_session_timeout', %s, true)"


class NotBegun(Exception):
    """There was no connection for the handler's transaction, so it was not called."""


def call_of(handler: Handler, connections: Connections, threads: Threads) -> Call:
    """What handles one message: returns when it is done, raises what the handler raised or interrupted it."""
    if not handler.transactional:
        return partial(_plain, handler) if handler.is_async else partial(_in_thread, handler, threads)
    if handler.is_async:
        return partial(_in_transaction, handler, connections)
    return partial(_in_thread_and_transaction, handler, connections, threads)


async def _plain(handler: Handler, attempt: Attempt) -> None:
    with attempt.cancellable():
        await handler.function(attempt.message)


async def _in_thread(handler: Handler, threads: Threads, attempt: Attempt) -> None:
    await threads.run(partial(_called, handler, attempt.message))


def _called(handler: Handler, *given: Any) -> None:
    """Call a function in a thread. Raises TypeError where that gave what somebody would have to await."""
    result = handler.function(*given)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the handler gave a coroutine back and did nothing: let its wrapper be async too")


# --- in a transaction -------------------------------------------------------------------------------


async def _in_transaction(handler: Handler, connections: Connections, attempt: Attempt) -> None:
    with connections.asynchronous.lent() as client:
        async with AsyncExitStack() as stack:
            try:
                conn = await stack.enter_async_context(client.transaction())
                await conn.execute(_IDLE_LIMIT, [_milliseconds(handler.time_limit)])
            except (PgqueueError, psycopg.Error) as error:
                raise NotBegun(str(error)) from error
            conn.row_factory = tuple_row  # whatever the last handler made of it
            queue = client.queue(handler.queue, handler.codec)
            message = _handed(attempt, AsyncDelivery(queue, *columns_of(attempt.message)))
            with attempt.cancellable():
                await handler.function(message, conn)
            with _ending(attempt):
                if not message.settled:
                    await message.complete(archive=handler.archive)


async def _in_thread_and_transaction(
    handler: Handler, connections: Connections, threads: Threads, attempt: Attempt
) -> None:
    await threads.run(partial(_run_in_transaction, handler, connections, attempt))


def _run_in_transaction(handler: Handler, connections: Connections, attempt: Attempt) -> None:
    with connections.synchronous.lent() as client, ExitStack() as stack:
        try:
            conn = stack.enter_context(client.transaction())
            conn.execute(_IDLE_LIMIT, [_milliseconds(handler.time_limit)])
        except (PgqueueError, psycopg.Error) as error:
            raise NotBegun(str(error)) from error
        conn.row_factory = tuple_row
        stack.enter_context(_cuttable(attempt, conn))
        message = _handed(
            attempt, Delivery(client.queue(handler.queue, handler.codec), *columns_of(attempt.message))
        )
        _called(handler, message, conn)
        with _ending(attempt):
            if not message.settled:
                message.complete(archive=handler.archive)


def _milliseconds(seconds: float) -> str:
    """For a setting of the server, which it keeps even where this process is stopped or unreachable."""
    return str(max(1, min(int(seconds * 1000), 2**31 - 1)))


def _handed(attempt: Attempt, message: M) -> M:
    """The message as it is in the transaction, in place of the one that was read."""
    attempt.message = message
    message.lost = attempt.reason is not None
    return message


@contextmanager
def _cuttable(attempt: Attempt, conn: psycopg.Connection[Any]) -> Iterator[None]:
    """Where interrupt() ends a thread's transaction. Raises its reason in place of what followed."""
    scissors = Scissors(conn)
    attempt.cut = scissors.cut
    try:
        if attempt.reason is not None:
            raise attempt.reason
        yield
    except Exception as error:
        if attempt.reason is None or attempt.reason is error:
            raise
        raise attempt.reason from error
    finally:
        attempt.cut = None
        scissors.close()


@contextmanager
def _ending(attempt: Attempt) -> Iterator[None]:
    """The end of a transaction: refused where the handler was interrupted, or its time is over."""
    if attempt.reason is None and monotonic() > attempt.ends_at:
        attempt.reason = TimeLimitPassed()
    if attempt.reason is not None:
        raise attempt.reason
    try:
        yield
    except LostLease as error:
        attempt.reason = error
        raise
