"""The signals that ask a worker to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def heeded(stop: Callable[[], None]) -> Iterator[None]:
    """Call stop at the first SIGTERM or SIGINT, end the process at the second.

    Plain handlers, not the loop's: they run even where a coroutine holds the loop up. Does nothing outside
    the main thread, where no handler can be set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def heed(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            os._exit(128 + number)
        stopping = True
        stop()

    before = {number: signal.signal(number, heed) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
