"""Where the two worlds differ: waiting, locking and work that blocks. Twin: pgqueue/_sync/_compat.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

Lock = asyncio.Lock


async def sleep(seconds: float) -> None:
    """Wait without holding up the event loop."""
    await asyncio.sleep(seconds)


async def blocking(function: Callable[..., T], *args: object) -> T:
    """The result of a function that blocks, run in a thread."""
    return await asyncio.to_thread(function, *args)
