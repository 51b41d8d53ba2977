"""What a run must show: the one place where it stands.

`pgqueue bench check` and the table of docs/performance.md are made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pgqueue.bench.loops import BATCH
from pgqueue.bench.model import (
    AGAINST,
    ASYNC_CLIENT,
    ASYNC_PSYCOPG,
    BY_NAME,
    CLIENT,
    COMPILED,
    NOT_COMPILED,
    PGMQ,
    PGMQ_CLIENT,
    PGQUEUER,
    PROCRASTINATE,
    PSYCOPG,
    WORKER,
    Figure,
    Run,
)
from pgqueue.bench.workloads import catalogue, cost, crowds, groups, notify, pinned, python, worker
from pgqueue.bench.workloads.expired import QUANTITIES
from pgqueue.bench.workloads.throughput import IN_THE_SERVER, clients_case

AT_LEAST = "at least"
AT_MOST = "at most"


@dataclass(frozen=True)
class Measured:
    """Which figure of a workload."""

    case: str
    side: str
    measure: str


@dataclass(frozen=True)
class Bar:
    """One comparison that must hold: `what`, a figure, is at least or at most `limit`.

    says: in words, for people.
    side: whose bar it is.
    beside: another figure: what / beside is held against the limit then, or what - beside where `excess`.
    aim: wished for, not required.
    """

    workload: str
    says: str
    side: str
    what: Measured
    relation: str
    limit: float
    unit: str
    beside: Measured | None = None
    excess: bool = False
    aim: bool = False

    def value(self, run: Run) -> float | None:
        """What is held against the limit, or None if the run lacks a figure for it."""
        what = self._median(run, self.what)
        if what is None or self.beside is None:
            return what
        beside = self._median(run, self.beside)
        if beside is None:
            return None
        if self.excess:
            return what - beside
        return what / beside if beside else None

    def holds(self, value: float) -> bool:
        """Whether a value keeps to the limit."""
        return value >= self.limit if self.relation == AT_LEAST else value <= self.limit

    def needs(self) -> list[str]:
        """Those whom it can be judged without only where nobody asked for them: see model.AGAINST."""
        sides = (self.what.side, self.beside.side if self.beside else None)
        return [one for one in AGAINST if one in sides]

    def _median(self, run: Run, one: Measured) -> float | None:
        figure: Figure | None = run.figure(self.workload, one.case, one.side, one.measure)
        return figure.median if figure else None


def _ahead(
    workload: str, says: str, case: str, measure: str, rate: bool = False, **limits: float
) -> Iterator[Bar]:
    """Ours ahead of pgmq by a factor: its time over ours, or our rate over its. limits: by_name, compiled."""
    for name, limit in limits.items():
        side = name.replace("_", " ")
        ours, pgmq = Measured(case, side, measure), Measured(case, PGMQ, measure)
        what, beside = (ours, pgmq) if rate else (pgmq, ours)
        yield Bar(workload, says, side, what, AT_LEAST, limit, "times", beside)


def _no_dearer(
    workload: str, says: str, case: str, measure: str, *sides: str, times: float = 1.0, against: str = ""
) -> Iterator[Bar]:
    """Ours at most so many times what pgmq has, in the same measure or in `against`."""
    for side in sides:
        pgmq = Measured(case, PGMQ, against or measure)
        yield Bar(workload, says, side, Measured(case, side, measure), AT_MOST, times, "times", pgmq)


def _within(
    workload: str, says: str, case: str, measure: str, *sides: str, limit: float, unit: str
) -> Iterator[Bar]:
    """Ours at most so much."""
    for side in sides:
        yield Bar(workload, says, side, Measured(case, side, measure), AT_MOST, limit, unit)


def _cycle() -> Iterator[Bar]:
    yield from _ahead(
        "cycle",
        "in the server, commits left out: pgmq's time over ours",
        IN_THE_SERVER,
        "cycle",
        by_name=2.2,
        compiled=4.5,
    )
    says = "pgbench, 4 and 16 clients, synchronous_commit=off: our rate over pgmq's"
    for clients in (4, 16):
        yield from _ahead(
            "cycle", says, clients_case(clients), "cycles", rate=True, by_name=1.5, compiled=1.9
        )
    says = "pgbench, 16 clients, synchronous_commit=on: our rate over pgmq's"
    yield from _ahead("cycle", says, clients_case(16, "on"), "cycles", rate=True, by_name=1.3, compiled=1.4)


def _fetch() -> Iterator[Bar]:
    says = "pgbench, 4 clients: the rate of fetch over that of read and delete apart"
    for side in (BY_NAME, COMPILED):
        what, beside = (Measured(f"{way}, 4 clients", side, "messages") for way in ("fetch", "apart"))
        yield Bar("fetch", says, side, what, AT_LEAST, 1.5, "times", beside)


def _batch() -> Iterator[Bar]:
    says = "in the server: pgmq's time over ours"
    yield from _ahead("batch", says, IN_THE_SERVER, "batch cycle", by_name=1.5, compiled=1.5)


def _crowds() -> Iterator[Bar]:
    for workload in ("in-flight", "delayed", "backlog", "adopted"):
        for side in (BY_NAME, COMPILED):
            crowded, empty = (Measured(case, side, "buffers") for case in (crowds.CROWDED, crowds.EMPTY))
            says = "buffers of a read, more than on an empty queue"
            yield Bar(workload, says, side, crowded, AT_MOST, 10, "buffers", empty, excess=True)


def _expired() -> Iterator[Bar]:
    for qty in QUANTITIES:
        due, ready = f"expired by {qty}", f"ready by {qty}"
        for says, what, beside, limit in (
            (
                "a read over a ready one",
                Measured(due, COMPILED, "read"),
                Measured(ready, COMPILED, "read"),
                8,
            ),
            (
                "reads at the end over those at the start (a tenth is noise)",
                Measured(due, COMPILED, "last reads"),
                Measured(due, COMPILED, "first reads"),
                1.1,
            ),
            (
                "WAL over that of a normal drain",
                Measured(due, COMPILED, "WAL a message"),
                Measured(ready, COMPILED, "WAL a message"),
                1.1,
            ),
        ):
            yield Bar(
                "expired", f"{says}, by ones and by hundreds", COMPILED, what, AT_MOST, limit, "times", beside
            )


def _pinned() -> Iterator[Bar]:
    says = "the last 1,000 cycles over the first 1,000"
    cases = [
        (f"{says}, {count:,} cycles, 1, 32 and 128 connections", case, pinned.cycles_before(count))
        for count in (pinned.FEW, pinned.MANY)
        for case in ("1 connection", "32 connections", "128 connections")
    ]
    short = (f"{says}, short connections", "short connections", pinned.cycles_before(pinned.RECONNECTING))
    for words, case, measure in [*cases, short]:
        what, beside = Measured(case, COMPILED, measure), Measured(case, COMPILED, "first cycles")
        yield Bar("pinned", words, COMPILED, what, AT_MOST, pinned.NORMAL, "times", beside)
    says = "from the release of the snapshot until cycles are as at first"
    yield from _within(
        "pinned", says, pinned.RELEASED, "until normal", COMPILED, limit=pinned.PATIENCE, unit="s"
    )


def _groups() -> Iterator[Bar]:
    for shape in groups.SHAPES:
        for function in groups.FUNCTIONS:
            case = f"{shape}, {function}"
            yield from _within("groups", f"a call, {shape}", case, "call", COMPILED, limit=10, unit="ms")
            for measure in ("groups shared by readers", "readers that got nothing"):
                says = f"{groups.READERS} readers at once: {measure}"
                yield from _within("groups", says, case, measure, COMPILED, limit=0, unit="")


def _notify() -> Iterator[Bar]:
    for case in notify.THROTTLES:
        for measure in ("second send and its commit", "until the listener wakes"):
            says = f"{measure}, throttled and not"
            yield from _within("notify", says, case, measure, BY_NAME, limit=50, unit="ms")


def _catalogue() -> Iterator[Bar]:
    case = catalogue.MILLION
    yield from _within(
        "metrics", "messages miscounted", case, "messages miscounted", BY_NAME, limit=0, unit=""
    )
    yield from _no_dearer("metrics", "time over pgmq's", case, "metrics", BY_NAME)
    says = "the estimate's time over that of pgmq's metrics"
    yield from _no_dearer("metrics", says, case, "estimate", BY_NAME, times=0.1, against="metrics")
    yield from _no_dearer("create", "time over pgmq's", "one queue", "create", BY_NAME, times=3)
    case = catalogue.THOUSAND
    yield from _no_dearer("many-queues", "metrics_all over pgmq's", case, "metrics_all", BY_NAME)
    yield from _within("many-queues", "upgrade", case, "upgrade", BY_NAME, limit=60, unit="s")


def _readers() -> Iterator[Bar]:
    kept = Measured("256 clients", COMPILED, "of the peak")
    says = "the rate with 256 clients over the best with fewer"
    yield Bar("readers", says, COMPILED, kept, AT_LEAST, 0.75, "times")
    beside = Measured("256 clients", PGMQ, "of the peak")
    yield Bar("readers", "that ratio over pgmq's", COMPILED, kept, AT_LEAST, 1, "times", beside)


def _partitions() -> Iterator[Bar]:
    for case in ("10 partitions", "100 partitions"):
        yield from _no_dearer(
            "partitions", "a read over pgmq's, 10 and 100 partitions", case, "read", BY_NAME, COMPILED
        )
    for case in ("10 partitions", "100 partitions"):
        for side in (BY_NAME, COMPILED):
            says = "a read over one of a plain queue, 10 and 100 partitions"
            what, plain = Measured(case, side, "read"), Measured("plain", side, "read")
            yield Bar("partitions", says, side, what, AT_MOST, 3, "times", plain, aim=True)


def _cost() -> Iterator[Bar]:
    held = (cost.QUEUE, "memory")
    yield from _within("memory", "held by a session for a queue", *held, COMPILED, limit=200, unit="kB")
    what, pgmq = Measured(cost.QUEUE, NOT_COMPILED, "memory"), Measured(cost.QUEUE, PGMQ, "memory")
    says = "held by a session for a queue, more than pgmq's"
    yield Bar("memory", says, NOT_COMPILED, what, AT_MOST, 10, "kB", pgmq, excess=True)
    yield from _no_dearer("wal", "over pgmq's", cost.KILOBYTE, "WAL a message", BY_NAME, COMPILED)


def _python() -> Iterator[Bar]:
    says = "on one connection: the time of pgmq's client over ours"
    for measure, limit in (
        ("send, read, delete", 2.0),
        ("send, fetch", 2.8),
        (f"send {python.BULK:,}", 2.0),
        (f"read and delete {BATCH}", 1.5),
    ):
        what, beside = (Measured(python.ONE_CONNECTION, side, measure) for side in (PGMQ_CLIENT, CLIENT))
        yield Bar("python", f"{says}, {measure}", CLIENT, what, AT_LEAST, limit, "times", beside)
    for side, raw in ((CLIENT, PSYCOPG), (ASYNC_CLIENT, ASYNC_PSYCOPG)):
        for measure in ("send, read, delete", "send, fetch"):
            what, beside = (Measured(python.ONE_CONNECTION, one, measure) for one in (side, raw))
            says = "on one connection: our time over psycopg's for the same calls"
            yield Bar("python", f"{says}, {measure}", side, what, AT_MOST, 1.3, "times", beside)
    yield from _within(
        "python", python.BEST_WAKE_UP, python.WAKE_UP, python.BEST_WAKE_UP, CLIENT, limit=5, unit="ms"
    )


def _worker() -> Iterator[Bar]:
    for other, cases in (
        (PGQUEUER, (*worker.ONE_BY_ONE, *worker.BATCHES)),
        (PROCRASTINATE, worker.ONE_BY_ONE),
    ):
        for case in cases:
            ours, beside = (Measured(case, side, "messages") for side in (WORKER, other))
            says = f"handlers that do nothing, 1 and 16 concurrent: our rate over {other}'s"
            yield Bar("worker", says, WORKER, ours, AT_LEAST, 1, "times", beside)
    yield from _within(
        "worker", worker.BEST_WAKE_UP, worker.IDLE, worker.BEST_WAKE_UP, WORKER, limit=5, unit="ms"
    )
    yield from _within(
        "worker", "statements of an idle worker", worker.IDLE, "statements", WORKER, limit=0.34, unit="/s"
    )


BARS: tuple[Bar, ...] = (
    *_cycle(),
    *_fetch(),
    *_batch(),
    *_crowds(),
    *_expired(),
    *_pinned(),
    *_groups(),
    *_notify(),
    *_catalogue(),
    *_readers(),
    *_partitions(),
    *_cost(),
    *_python(),
    *_worker(),
)


def bars_that_say_the_same() -> dict[tuple[str, str], list[Bar]]:
    """The bars by workload and by what they say."""
    groups: dict[tuple[str, str], list[Bar]] = {}
    for bar in BARS:
        groups.setdefault((bar.workload, bar.says), []).append(bar)
    return groups
