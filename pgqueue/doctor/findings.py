"""What an examination says: findings, readings, the report. Plain words, no database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from pgqueue.asking import Kind
from pgqueue.names import counted


class Severity(IntEnum):
    """How much a finding matters; the higher the worse."""

    INFO = 0
    """Good to know."""
    UNSEEN = 1
    """Could not be looked at, for want of a right or because of a lock: it may be well or not."""
    WARNING = 2
    """Works today, and will cost or fail later."""
    ERROR = 3
    """Calls fail, messages do not arrive, or strangers can get at them."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    what, why: a sentence each, without a full stop: what is the case, and why it matters
    remedy: SQL to paste, statement by statement as psql runs it; lines that begin with -- are for its reader
    queue: the queue it is about, None for the installation or the server
    check: name of the function in pgqueue/doctor/checks that found it
    """

    severity: Severity
    what: str
    why: str
    remedy: str = ""
    queue: str | None = None
    check: str = ""


def error(what: str, why: str, remedy: str = "", queue: str | None = None) -> Finding:
    return Finding(Severity.ERROR, what, why, remedy, queue)


def warning(what: str, why: str, remedy: str = "", queue: str | None = None) -> Finding:
    return Finding(Severity.WARNING, what, why, remedy, queue)


def info(what: str, why: str, remedy: str = "", queue: str | None = None) -> Finding:
    return Finding(Severity.INFO, what, why, remedy, queue)


def unseen(what: str, why: str, remedy: str = "", queue: str | None = None) -> Finding:
    return Finding(Severity.UNSEEN, what, why, remedy, queue)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one read of a single message costs in a queue, now and in pgqueue's shape.

    messages: how many the queue holds, about, as the server's statistics have it
    rows, pages, milliseconds: live rows looked at, visits to pages (dead rows show in these), server time;
        None where it was not measured, and then `problem` says why
    adopted_rows: rows that a read would look at with pgqueue's two indexes; None where it was not counted
    at_most: adopted_rows is an upper bound, since counting further would have cost too much
    """

    queue: str
    messages: int
    rows: int | None = None
    pages: int | None = None
    milliseconds: float | None = None
    adopted_rows: int | None = None
    at_most: bool = False
    problem: str | None = None

    @property
    def walked(self) -> str:
        """41,300 rows, 83,054 page visits: what it walks today, in words."""
        return f"{counted(self.rows or 0, 'row')}, {counted(self.pages or 0, 'page visit')}"

    @property
    def adopted(self) -> str:
        """4 rows, at most 35 rows: what it would walk, in words; nothing where that is not known."""
        if self.adopted_rows is None:
            return ""
        return f"{'at most ' if self.at_most else ''}{counted(self.adopted_rows, 'row')}"

    @property
    def gains(self) -> bool:
        """Whether it walks many, and would walk less by a factor of ten."""
        if self.rows is None or self.adopted_rows is None:
            return False
        return self.rows >= 100 and self.rows > 10 * self.adopted_rows


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is a finding, and how long the doctor itself may take.

    lock_ms, statement_ms: the doctor's own waits, in milliseconds
    count_ms: how long the doctor counts, at most, to work out what pgqueue would read
    read_rows, read_pages: what one read may walk
    pinned_seconds, pinned_xids: age of a snapshot that holds vacuum back
    hidden_seconds: how long to watch a transaction whose start time this role may not see
    dead_rows: dead rows in one table, if there are more than twice what autovacuum is set to bear
    vacuum_seconds: time since the last vacuum, below which dead rows are nothing but a busy queue's
    used_share: part of a sequence's numbers that is used up
    unused_inserts: messages after which an index that nobody reads counts as unused
    """

    lock_ms: int = 200
    statement_ms: int = 5000
    count_ms: int = 1000
    read_rows: int = 1000
    read_pages: int = 1000
    pinned_seconds: float = 300
    pinned_xids: int = 100_000
    hidden_seconds: float = 1
    dead_rows: int = 10_000
    vacuum_seconds: float = 600
    used_share: float = 0.9
    unused_inserts: int = 10_000


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer, worst findings first.

    kind: `pgqueue`, `extension` (pgmq's) or `sql` (pgmq without its extension)
    version: of the package that installed pgqueue, or of pgmq; None where this role may not see it
    """

    kind: Kind
    version: str | None
    database: str
    server_version: str
    queues: int
    readings: tuple[Reading, ...]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity | None:
        """Of all findings; None where there is none."""
        return max((one.severity for one in self.findings), default=None)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by check and queue."""
    return tuple(sorted(findings, key=lambda one: (-one.severity, one.check, one.queue or "")))
