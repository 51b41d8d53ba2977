"""What every client of a run did, and whether it comes out even.

wait      the longest that any statement took, beyond what a poll was told to wait
errors    what failed; messages that came changed, early, or without ever having been committed
lost      committed, but neither handled nor to be had any more
doubled   delivered while another's lease was running or after it was handled; handled or kept twice
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Delivery:
    """A message that a client was given: from `began` to `until`, by the server's clock, it is this client's."""

    key: str
    read_ct: int
    began: datetime
    until: datetime
    asked: datetime  # when the client began to ask
    whole: bool = True  # as it was sent


@dataclass(frozen=True)
class Handled:
    """A message that a client was done with, and was told so, at a moment."""

    key: str
    moment: datetime
    how: str  # deleted or archived


@dataclass(frozen=True)
class Report:
    """What came of a run. wait: seconds; slowest: the statement it was."""

    sent: int
    handled: int
    wait: float
    slowest: str
    errors: list[str]
    lost: list[str]
    doubled: list[str]

    def even(self, limit: float = 1.0) -> bool:
        """Whether nothing was wrong, and no statement waited longer than `limit` seconds."""
        return not self.faults() and self.wait <= limit

    def faults(self) -> list[str]:
        """Everything that was wrong, a line each."""
        return [*self.errors, *self.lost, *self.doubled]


@dataclass
class Ledger:
    """The notes. Each is written by one append or update, so threads need no lock."""

    tried: set[str] = field(default_factory=set)  # sent, or in doubt after an error
    committed: dict[str, datetime] = field(
        default_factory=dict
    )  # with the moment before which none can be due
    taken_back: set[str] = field(default_factory=set)
    deliveries: list[Delivery] = field(default_factory=list)
    handled: list[Handled] = field(default_factory=list)
    waits: list[tuple[float, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    backlog_lost: int = 0  # of the messages that lay there before

    def missing(self) -> set[str]:
        """Committed and not handled yet."""
        return set(self.committed) - {done.key for done in self.handled}

    def report(self, left: set[str], archived: Counter[str], drained: bool = True) -> Report:
        """The account. left, archived: what lies in the queue and in its archive at the end.

        drained: the consumers were given the time to handle everything.
        """
        wait, slowest = max(self.waits, default=(0.0, ""))
        return Report(
            sent=len(self.committed),
            handled=len(self.handled),
            wait=max(wait, 0.0),
            slowest=slowest,
            errors=[*self.errors, *self._strange()],
            lost=list(self._lost(left, archived, drained)),
            doubled=[*self._handled_twice(left, archived), *self._delivered_twice()],
        )

    def _strange(self) -> Iterator[str]:
        for key, deliveries in self._by_key().items():
            first = deliveries[0]
            if not all(delivery.whole for delivery in deliveries):
                yield f"{key} was not delivered as it was sent"
            if key in self.taken_back:
                yield f"{key} was taken back, and delivered"
            elif key not in self.tried:
                yield f"{key} was never sent, and delivered"
            if key in self.committed and first.began < self.committed[key]:
                yield f"{key} was delivered {self.committed[key] - first.began} early"

    def _lost(self, left: set[str], archived: Counter[str], drained: bool) -> Iterator[str]:
        missing = self.missing()
        if self.backlog_lost:
            yield f"{self.backlog_lost} of the backlog are gone"
        yield from (f"{key} was committed, and is gone" for key in missing - left)
        if drained:
            yield from (f"{key} lies in the queue, and no read gives it" for key in missing & left)
        for done in self.handled:
            if done.how == "archived" and not archived[done.key]:
                yield f"{done.key} was archived, and is not in the archive"

    def _handled_twice(self, left: set[str], archived: Counter[str]) -> Iterator[str]:
        times = Counter(done.key for done in self.handled)
        yield from (f"{key} was handled {count} times" for key, count in times.items() if count > 1)
        yield from (f"{key} was handled, and is still there" for key in set(times) & left)
        yield from (f"{key} is in the archive {count} times" for key, count in archived.items() if count > 1)

    def _delivered_twice(self) -> Iterator[str]:
        done = {one.key: one.moment for one in reversed(self.handled)}
        for key, deliveries in self._by_key().items():
            for earlier, later in itertools.pairwise(deliveries):
                if later.began < earlier.until:
                    yield f"{key} was delivered again {earlier.until - later.began} before its lease ended"
            if key in done and deliveries[-1].asked > done[key]:
                yield f"{key} was delivered after it had been handled"
            counts = [delivery.read_ct for delivery in deliveries]
            if not self.errors and counts != list(range(counts[0], counts[0] + len(counts))):
                yield f"{key} was delivered with the counts {counts}"

    def _by_key(self) -> dict[str, list[Delivery]]:
        found: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            found[delivery.key].append(delivery)
        for deliveries in found.values():
            deliveries.sort(key=lambda delivery: delivery.began)
        return found
