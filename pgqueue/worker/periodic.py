"""Messages that are sent by the clock, one for each tick however many workers there are."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import takewhile
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from pgqueue._async.client import AsyncClient
from pgqueue.codec import JSON
from pgqueue.errors import BadValue
from pgqueue.statements import leases
from pgqueue.statements.statement import Statement
from pgqueue.worker.settle import patiently

log = logging.getLogger("pgqueue.worker")
T = TypeVar("T")

LONGEST_SLEEP = 3600.0
"""Seconds after which the server's clock is asked again."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Schedule:
    """A periodic message. Raises BadValue for what is no cron expression or time zone."""

    cron: str
    queue: str
    name: str
    make: Callable[[datetime], Any]
    zone: str
    headers: Mapping[str, Any]

    def __post_init__(self) -> None:
        try:
            next(self._ticks(datetime.now(timezone.utc)))
        except (CronSimError, StopIteration) as error:
            raise BadValue(f"{self.cron!r} is not a cron expression that ever comes: {error}") from None

    def after(self, at: datetime) -> datetime:
        """The first tick after an instant."""
        return _utc(next(self._ticks(at)))

    def before(self, at: datetime) -> datetime:
        """The last tick before an instant."""
        return _utc(next(self._ticks(at, reverse=True)))

    def due(self, sent: datetime, now: datetime) -> list[datetime]:
        """The ticks whose turn has come since that of `sent`: those of the last minute, else the last."""
        ticks = map(_utc, self._ticks(max(sent, now - MINUTE)))
        last = self.before(now)
        return list(takewhile(now.__ge__, ticks)) or ([last] if last > sent else [])

    def _ticks(self, at: datetime, *, reverse: bool = False) -> CronSim:
        return CronSim(self.cron, at.astimezone(zone(self.zone)), reverse)


def _utc(at: datetime) -> datetime:
    return at.astimezone(timezone.utc)


def zone(name: str) -> tzinfo:
    """A time zone by its name. Raises BadValue."""
    if name == "UTC":
        return timezone.utc  # needs no data of the system's
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadValue(f"{name!r} is not a time zone known here") from None


class Ticker:
    """Sends the messages of one schedule, by the server's clock.

    Of the ticks that were missed while no worker ran, the last is sent; those that a busy worker is late with
    are all sent, in their order, so that a later one is never claimed before an earlier one.
    """

    def __init__(self, client: AsyncClient, schedule: Schedule) -> None:
        self._client = client
        self._schedule = schedule

    async def run(self) -> None:
        """Until cancelled. Raises what does not pass by itself."""
        schedule = self._schedule
        now = await self._now()
        sent = schedule.before(now)
        await self._run(leases.begin_ticks(schedule.queue, schedule.name, sent))
        await self._send(sent)
        while True:
            seconds = (schedule.after(now) - now).total_seconds()
            await asyncio.sleep(min(seconds, LONGEST_SLEEP))
            now = await self._now()
            for tick in schedule.due(sent, now):
                await self._send(tick)
                sent = tick

    async def _send(self, at: datetime) -> None:
        schedule = self._schedule
        try:
            body = JSON.encode(await self._made(at))
        except Exception:
            log.exception("periodic message %s: the tick of %s has no message", schedule.name, at)
            return
        headers = {**schedule.headers, "x-pgqueue-tick": at.isoformat()}
        msg_id = await self._run(leases.tick(schedule.queue, schedule.name, at, body, headers))
        if msg_id is not None:
            log.info("periodic message %s of %s sent to %s: %s", schedule.name, at, schedule.queue, msg_id)

    async def _made(self, at: datetime) -> Any:
        make = self._schedule.make
        moment = at.astimezone(zone(self._schedule.zone))
        return await (make(moment) if inspect.iscoroutinefunction(make) else asyncio.to_thread(make, moment))

    async def _now(self) -> datetime:
        return await self._run(leases.now())

    async def _run(self, statement: Statement[T]) -> T:
        return await patiently(self._client, lambda: self._client.run(statement))
