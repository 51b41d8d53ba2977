"""When a message can be read: seconds from now, or an instant."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple

from pgqueue.errors import BadValue

Seconds = int | float | timedelta
"""A length of time, negative too."""
When = Seconds | datetime
"""Seconds from now, or an instant: a datetime with a time zone."""


class Moment(NamedTuple):
    """An argument of a call: as a function by name takes it, as a compiled one does, and its parameter."""

    sql: str
    compiled: str
    param: Any


def moment(when: When, place: int) -> Moment:
    """A When as an argument at that place. Raises BadValue."""
    check(when)
    if isinstance(when, datetime):
        return Moment(f"${place}::timestamptz", f"${place}::timestamptz", when)
    later = f"clock_timestamp() + make_interval(secs => ${place}::double precision)"
    if isinstance(when, int):
        return Moment(f"${place}::integer", later, when)
    return Moment(later, later, when.total_seconds() if isinstance(when, timedelta) else when)


def check(when: When) -> None:
    """Raises BadValue for what is no When: of another type, endless, or an instant without a time zone."""
    if isinstance(when, bool) or not isinstance(when, (int, float, timedelta, datetime)):
        raise BadValue(f"delay or vt must be seconds, a timedelta or a datetime, not {when!r}")
    if isinstance(when, float) and not isfinite(when):
        raise BadValue(f"delay or vt must be a number of seconds, not {when}")
    if isinstance(when, datetime) and when.utcoffset() is None:
        raise BadValue(f"{when.isoformat()} has no time zone: give a datetime that has one")


def is_now(delay: When | None) -> bool:
    """Whether a message with that delay is ready from the start."""
    return delay is None or delay == 0 or delay == timedelta(0)
