"""A run held against the bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgqueue.bench.bars import BARS, Bar
from pgqueue.bench.model import Run
from pgqueue.errors import BenchError

HOLDS, SHORT, MISSED_AIM = "holds", "SHORT", "aim missed"
NOT_MEASURED = "NOT MEASURED"


@dataclass(frozen=True)
class Verdict:
    """What became of a bar in a run.

    value: what was held against its limit; None where that was not measured.
    """

    bar: Bar
    value: float | None
    word: str

    @property
    def fails(self) -> bool:
        """Whether the check fails for it."""
        return self.word in (SHORT, NOT_MEASURED)


def judge(run: Run, lenient: bool = False, bars: Sequence[Bar] = BARS) -> list[Verdict]:
    """Hold a run against the bars of the workloads that were asked for.

    lenient: judge a run of less than full size too, and let pass what it lacks.

    Raises:
        BenchError: the run was smaller than the bars are meant for, or has nothing that they are about.
    """
    if run.options.scale < 1 and not lenient:
        raise BenchError(
            f"the run was made with --scale {run.options.scale:g}, and the bars are meant for 1:"
            " --lenient judges it all the same"
        )
    verdicts = [_verdict(run, bar, lenient) for bar in bars if bar.workload in run.workloads]
    if all(one.value is None for one in verdicts):
        raise BenchError("the run has nothing that a bar is about")
    return verdicts


def _verdict(run: Run, bar: Bar, lenient: bool) -> Verdict:
    value = bar.value(run)
    if value is not None:
        holds = bar.holds(value)
        return Verdict(bar, value, HOLDS if holds else MISSED_AIM if bar.aim else SHORT)
    if absent := [one for one in bar.needs() if one not in run.options.against]:
        return Verdict(bar, None, f"{absent[0]} was not measured")
    return Verdict(bar, None, "not measured" if lenient or bar.aim else NOT_MEASURED)
