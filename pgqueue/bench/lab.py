"""What a workload is given: fresh databases, turns in random order, and a place to write its figures down."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import psycopg

from pgqueue.bench.calls import Caller, message
from pgqueue.bench.databases import Database, Databases
from pgqueue.bench.model import BY_NAME, COMPILED, NOT_COMPILED, PGMQ, PGMQ_CLIENT, Figure, Options

T = TypeVar("T")
Say = Callable[[str], None]


class Lab:
    """The place where one workload is done.

    options: what was asked for.
    notes: what was left out, for the report.
    make_database: makes a further one, see Databases.make.
    """

    def __init__(self, workload: str, options: Options, databases: Databases, say: Say) -> None:
        self.workload = workload
        self.options = options
        self.notes: list[str] = []
        self.say = say
        self.make_database = databases.make
        self.ours = databases.make("pgqueue")
        self.pgmq = databases.make("pgmq") if {PGMQ, PGMQ_CLIENT} & {*options.against} else None
        self._random = random.Random(f"{options.seed} {workload}")
        self._figures: dict[tuple[str, str, str], tuple[str, bool, list[float]]] = {}

    # --- sizes --------------------------------------------------------------------------------------

    @property
    def message(self) -> str:
        """The message that is sent, as JSON text."""
        return message(self.options.payload_bytes)

    def count(self, full: int, least: int = 1) -> int:
        """A number of things at the scale of this run."""
        return max(least, round(full * self.options.scale))

    def seconds(self, full: float, least: float = 1.0) -> float:
        """How long a load lasts: as asked for, else `full` at the scale of this run, but not less than `least`."""
        return self.options.seconds or max(least, full * self.options.scale)

    def settle(self) -> None:
        """Let a checkpoint that is due come now and not during a turn, where this role may ask for one."""
        with suppress(psycopg.errors.InsufficientPrivilege):
            self.ours.run("checkpoint")

    def has_room(self, clients: int) -> bool:
        """Whether the server lets in so many clients; if not, a note says so."""
        most = self.ours.value(
            "select current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int"
            " - (select count(*) from pg_stat_activity where backend_type = 'client backend')"
        )
        if clients < most:
            return True
        self.leave_out(f"{clients} clients: the server has room for {most} (max_connections)")
        return False

    # --- sides --------------------------------------------------------------------------------------

    @property
    def databases(self) -> list[Database]:
        """Ours, and pgmq's if it is there."""
        return [self.ours, *([self.pgmq] if self.pgmq else [])]

    def callers(self, *sides: str) -> list[Caller]:
        """The sides of those named (pgmq, by name and compiled if none is) that this run has."""
        known = {BY_NAME: self.ours, COMPILED: self.ours, NOT_COMPILED: self.ours}
        if self.pgmq and PGMQ in self.options.against:
            known[PGMQ] = self.pgmq
        return [Caller(side, known[side]) for side in sides or (PGMQ, BY_NAME, COMPILED) if side in known]

    def turns(self, things: Sequence[T], most: int = 99) -> Iterator[T]:
        """Each of the things once a turn, in a random order. As many turns as asked for, `most` at most."""
        turns = min(self.options.turns, most)
        for turn in range(turns):
            for thing in self._random.sample(things, len(things)):
                self.say(f"{self.workload}, turn {turn + 1} of {turns}")
                yield thing

    # --- results ------------------------------------------------------------------------------------

    def record(
        self, case: str, side: str, measure: str, unit: str, *values: float, more_is_better: bool = False
    ) -> None:
        """Write down what was measured; a figure gathers the values of all turns."""
        key = (case, side, measure)
        self._figures.setdefault(key, (unit, more_is_better, []))[2].extend(values)

    def leave_out(self, why: str) -> None:
        """Note what was not measured."""
        if why not in self.notes:
            self.notes.append(why)

    @property
    def figures(self) -> list[Figure]:
        """All that was written down, in the order in which it was first."""
        return [
            Figure(self.workload, case, side, measure, unit, tuple(values), more)
            for (case, side, measure), (unit, more, values) in self._figures.items()
            if values
        ]
