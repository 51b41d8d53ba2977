"""Where the two worlds differ: waiting, locking and work that blocks. Twin: pgqueue/_async/_compat.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

Lock = threading.Lock


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def blocking(function: Callable[..., T], *args: object) -> T:
    """The result of a function that blocks."""
    return function(*args)
