"""Where the tests of the two worlds differ. Twin: tests/_async/_compat.py."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from psycopg_pool import ConnectionPool

sleep = time.sleep


class Background:
    """Work beside the test; join() raises what it raised. A thread is outside the test's transactions."""

    def __init__(self, work: Callable[[], Any], own_context: bool = False) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Any] = self._pool.submit(work)

    def join(self) -> None:
        self._future.result(30)
        self._pool.shutdown()


def pool_of(dsn: str, size: int, autocommit: bool = False, timeout: float = 10) -> ConnectionPool[Any]:
    """A pool of so many connections, to be opened by `with`."""
    options = {"autocommit": autocommit, "application_name": "pool"}
    return ConnectionPool(dsn, min_size=size, max_size=size, kwargs=options, timeout=timeout, open=False)


@contextmanager
def on_signal(number: int, handler: Callable[[], None]) -> Iterator[None]:
    """Call the handler when the signal comes."""
    before = signal.signal(number, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(number, before)


def is_broken_off(call: Callable[..., Any], *args: Any, when: Callable[[], bool]) -> bool:
    """Make a call and break it off when it waits: by Ctrl-C."""

    def interrupt() -> None:
        while not when():
            sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    interrupting = Background(interrupt)
    try:
        call(*args)
    except KeyboardInterrupt:
        interrupting.join()
        return True
    return False
