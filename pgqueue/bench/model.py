"""What a run measured, and the file it is kept in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pgqueue.errors import BenchError

FORMAT = 2

#: The ways in which a call is made in SQL. The first is pgmq's own SQL; the others are ours: pgmq's functions,
#: the compiled functions of a queue, and pgmq's functions on a queue that is not compiled.
PGMQ = "pgmq"
BY_NAME = "by name"
COMPILED = "compiled"
NOT_COMPILED = "not compiled"
#: From Python: pgmq's official client, psycopg with the same calls as our client makes, and our client.
PGMQ_CLIENT = "pgmq-client"
PSYCOPG = "psycopg"
ASYNC_PSYCOPG = "async psycopg"
CLIENT = "client"
ASYNC_CLIENT = "async client"
#: Who calls the handlers.
PGQUEUER = "pgqueuer"
PROCRASTINATE = "procrastinate"
WORKER = "worker"

#: What is measured side by side, and in one table of a report.
FAMILIES = (
    (PGMQ, BY_NAME, COMPILED, NOT_COMPILED),
    (PGMQ_CLIENT, PSYCOPG, ASYNC_PSYCOPG, CLIENT, ASYNC_CLIENT),
    (PGQUEUER, PROCRASTINATE, WORKER),
)
#: Others, and which of ours are compared with them.
COMPARED = {
    PGMQ: (BY_NAME, COMPILED, NOT_COMPILED),
    PGMQ_CLIENT: (CLIENT, ASYNC_CLIENT),
    PSYCOPG: (CLIENT,),
    ASYNC_PSYCOPG: (ASYNC_CLIENT,),
    PGQUEUER: (WORKER,),
    PROCRASTINATE: (WORKER,),
}
#: Those that are measured only where they are asked for.
AGAINST = (PGMQ, PGMQ_CLIENT, PGQUEUER, PROCRASTINATE)


@dataclass(frozen=True)
class Figure:
    """One thing measured, once a turn.

    case: the circumstances, such as "4 clients".
    side: how the calls were made, one of FAMILIES'.
    values: one a turn, in `unit`.
    more_is_better: as for a rate; less is better for times, bytes and buffers.
    """

    workload: str
    case: str
    side: str
    measure: str
    unit: str
    values: tuple[float, ...]
    more_is_better: bool = False

    @property
    def median(self) -> float:
        """The middle one of its values."""
        return median(self.values)


@dataclass(frozen=True)
class Outcome:
    """How a workload went: the seconds it took, what was left out and why, and the error that ended it."""

    seconds: float
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Options:
    """What was asked for.

    scale: 1.0 for the sizes that the bars are meant for; less for a quick look.
    clients: numbers of pgbench clients.
    seconds: how long a load of fixed length lasts a turn; None for what each workload has.
    payload_bytes: length of a message's JSON text.
    turns: how often each side is measured, at most.
    against: those of AGAINST that are measured beside ours.
    seed: of the order of the turns.
    """

    scale: float = 1.0
    clients: tuple[int, ...] = (4, 16)
    seconds: float | None = None
    payload_bytes: int = 100
    turns: int = 5
    against: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Run:
    """A run of some workloads.

    server: what Postgres says of itself, by setting; "version" and "cores" among them.
    workloads: those that were asked for, in the order in which they ran.
    """

    started_at: str
    seconds: float
    versions: Mapping[str, str]
    server: Mapping[str, str]
    options: Options
    workloads: Mapping[str, Outcome]
    figures: tuple[Figure, ...] = field(default=())

    def figure(self, workload: str, case: str, side: str, measure: str) -> Figure | None:
        """The figure of that name, or None if it was not measured."""
        wanted = (workload, case, side, measure)
        for one in self.figures:
            if (one.workload, one.case, one.side, one.measure) == wanted:
                return one
        return None

    def as_json(self) -> str:
        """The text of its file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def read_run(path: Path) -> Run:
    """The run that a file holds.

    Raises:
        BenchError: it is no such file, or one that another version wrote.
        OSError: it cannot be read.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("format") != FORMAT:
            raise BenchError(f"{path} was written by another version of pgqueue")
        return _run(values)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BenchError(f"{path} is not what `pgqueue bench run --json` writes") from None


def _run(values: dict[str, Any]) -> Run:
    options = values.pop("options")
    workloads = values.pop("workloads")
    figures = values.pop("figures")
    return Run(
        **values,
        options=Options(
            **{**options, "clients": tuple(options["clients"]), "against": tuple(options["against"])}
        ),
        workloads={name: Outcome(**{**one, "notes": tuple(one["notes"])}) for name, one in workloads.items()},
        figures=tuple(Figure(**{**one, "values": tuple(map(float, one["values"]))}) for one in figures),
    )
