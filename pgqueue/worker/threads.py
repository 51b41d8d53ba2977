"""Threads for what blocks. They do not keep the process alive: a stuck handler must not hold up its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple[Context, Callable[[], Any], "asyncio.Future[Any]"]


class Threads:
    """Up to `most` threads, started as they are needed. Used from the loop's thread."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of a function that blocks. Cancelling this does not end the function."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._busy += 1
        if self._busy > self._started and self._started < self._most:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._jobs.put((copy_context(), work, future))
        return await future

    def close(self) -> None:
        """Let the threads end, each after what it is doing."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _serve(self) -> None:
        while job := self._jobs.get():
            context, work, future = job
            result, error = None, None
            try:
                result = context.run(work)
            except BaseException as failure:
                error = failure
            try:
                future.get_loop().call_soon_threadsafe(self._settle, future, result, error)
            except RuntimeError:  # the loop was closed: nobody waits any more
                return
            del job, context, work, future, result, error  # nothing is held while there is nothing to do

    def _settle(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._busy -= 1
        if future.done():  # its task was cancelled
            return
        if isinstance(error, (StopIteration, GeneratorExit, asyncio.CancelledError)):  # no future takes them
            wrapped = RuntimeError(f"the handler raised {type(error).__name__}")
            wrapped.__cause__ = error
            error = wrapped
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
