"""What a handler is: its function and how its messages are treated."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pgqueue.codec import Codec
from pgqueue.errors import BadValue
from pgqueue.names import lower
from pgqueue.statements.moment import When, check

LONGEST_RUN = 3600.0
LONGEST_TRANSACTION = 60.0


class Retry(Exception):
    """Raised by a handler: not this time; deliver the message again, after so many seconds if given.

    It counts as a failure like any other exception. Raises BadValue for what is no time.
    """

    def __init__(self, reason: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(reason)
        if after is not None:
            check(after)
        self.after = after


class Discard(Exception):
    """Raised by a handler: never; archive the message now, with the reason in its headers."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Defer(Exception):
    """Raised by a handler: later; deliver the message at an instant, or in so many seconds. No failure.

    Raises BadValue for what is no time, or an instant without a time zone.
    """

    def __init__(self, until: When) -> None:
        check(until)
        super().__init__(f"until {until}" if isinstance(until, datetime) else f"for {until}")
        self.until = until


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds until a message that failed is delivered again.

    first, first * factor, first * factor², … up to `longest`; each time a random part of it, at least half,
    so that messages that failed together do not come back together.
    """

    first: float = 1.0
    factor: float = 3.0
    longest: float = 3600.0

    def seconds(self, failures: int) -> float:
        """The pause after so many failures, 1 or more."""
        try:
            whole = min(self.longest, self.first * self.factor ** (failures - 1))
        except OverflowError:
            whole = self.longest
        return whole * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and how the messages it gets are treated. See Worker.handler()."""

    function: Callable[..., Any]
    queue: str
    concurrency: int
    batch: int
    vt: int
    archive: bool
    transactional: bool
    grouped: bool
    max_deliveries: int
    backoff: Backoff
    dead_letter: str | None
    time_limit: float
    codec: Codec[Any]

    def __post_init__(self) -> None:
        self._check_function()
        for name in ("concurrency", "batch", "vt", "max_deliveries"):
            if getattr(self, name) < 1:
                raise BadValue(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.time_limit <= 0:
            raise BadValue(f"time_limit must be more than 0 seconds, not {self.time_limit}")
        if self.dead_letter is not None and lower(self.dead_letter) == lower(self.queue):
            raise BadValue(f'queue "{self.queue}" cannot be its own dead-letter queue')

    def _check_function(self) -> None:
        """Raises BadValue for a function that could not be called, or would do nothing when it is."""
        function = self.function
        if not callable(function):
            raise BadValue(f"the handler of {self.queue} is no function: {function!r}")
        if self._is(inspect.isgeneratorfunction) or self._is(inspect.isasyncgenfunction):
            raise BadValue(
                f"the handler of {self.queue} is a generator function, which does nothing when called;"
                " return instead of yield"
            )
        given = ("message", "conn") if self.transactional else ("message",)
        try:
            inspect.signature(function).bind(*given)
        except TypeError as error:
            what = " and a connection" if self.transactional else " alone"
            raise BadValue(f"the handler of {self.queue} is given a message{what}: {error}") from None
        except ValueError:  # some of C's functions do not tell
            pass

    @property
    def is_async(self) -> bool:
        """Whether the function runs in the worker's loop, and not in a thread."""
        return self._is(inspect.iscoroutinefunction)

    def _is(self, kind: Callable[[Any], bool]) -> bool:
        """Whether the function is of a kind, or an object whose __call__ is."""
        return kind(self.function) or kind(getattr(self.function, "__call__", None))  # noqa: B004

    @property
    def capacity(self) -> int:
        """Messages held at once: running, waiting for their turn, or not yet acknowledged."""
        return self.concurrency * self.batch
