"""Being asked to stop: by Ctrl-C, by SIGTERM, by a terminal that is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

HEEDED = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the program to stop; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise Terminated, as Ctrl-C does KeyboardInterrupt: `finally` is kept."""
    with _handled({one: _terminate for one in HEEDED if one != signal.SIGINT}):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it no such signal ends the program: for the clearing up, which must not be left half done."""
    with _handled(dict.fromkeys(HEEDED, signal.SIG_IGN)):
        yield


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated(number)


@contextmanager
def _handled(handlers: dict[signal.Signals, signal._HANDLER]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread, and only that may set handlers
        return
    former = {one: signal.signal(one, handler) for one, handler in handlers.items()}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
