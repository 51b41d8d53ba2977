"""Every deliberate difference between pgmq and pgqueue, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.compat.sides import Outcome
from tests.compat.steps import Call

CATALOGUE: dict[str, tuple[str | None, str | None, str]] = {
    # what: (pgmq's, ours, why); None: absent
    "table notify_insert_throttle": (
        "r unlogged",
        "r logged",
        "an unlogged throttle table is empty after a crash, and NOTIFY stays silent for good",
    ),
}


@dataclass(frozen=True)
class Case:
    """A call that did not give the same on both sides, as the predicates see it."""

    call: Call
    reference: Outcome
    ours: Outcome
    in_transaction: bool
    ask: Callable[[str], list[tuple[Any, ...]]]
    """Queries our side, whose state is the one before the call if either side failed."""

    @property
    def name(self) -> Any:
        """The queue's name as it was given."""
        return self.call.value("queue_name")

    def queues(self) -> list[str]:
        return [name for (name,) in self.ask("select queue_name from pgmq.meta")]


@dataclass(frozen=True)
class Difference:
    name: str
    reason: str
    applies: Callable[[Case], bool]


def unknown_queue_text(case: Case) -> bool:
    return (
        case.reference.sqlstate == case.ours.sqlstate == "42P01"
        and case.ours.message == f'queue "{case.name}" does not exist'
    )


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "unknown queue: text",
        "the same sentence from every function, instead of the name of a relation",
        unknown_queue_text,
    ),
)
