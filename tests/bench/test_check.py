"""bench check: a run held against the bars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgqueue.bench.bars import BARS, Bar, Measured
from pgqueue.bench.check import HOLDS, MISSED_AIM, NOT_MEASURED, SHORT, judge
from pgqueue.bench.model import COMPILED, PGMQ, Outcome, Run
from pgqueue.bench.workloads import WORKLOADS
from pgqueue.errors import BenchError
from tests.bench.conftest import Bench, invented

SERVER = "in the server"


def words(run: Run, lenient: bool = False) -> set[str]:
    return {one.word for one in judge(run, lenient)}


def written(run: Run, folder: Path) -> Path:
    path = folder / "run.json"
    path.write_text(run.as_json())
    return path


@pytest.mark.parametrize("workload", sorted({bar.workload for bar in BARS}))
def test_bars_that_are_just_met_hold(workload: str) -> None:
    assert workload in WORKLOADS
    run = invented(workload)
    if workload in ("cycle", "partitions", "readers"):  # a figure serves two bars there
        run = invented(workload, flattering(workload))
    assert words(run) == {HOLDS}


def flattering(workload: str) -> dict[tuple[str, str, str], float]:
    """Figures far on the good side of every bar."""
    values = {}
    for bar in BARS:
        if bar.workload == workload:
            good = 1e6 if bar.relation == "at least" else 1e-6
            if bar.beside and bar.what.side == PGMQ:
                values[bar.beside.case, bar.beside.side, bar.beside.measure] = 1 / good
            else:
                values[bar.what.case, bar.what.side, bar.what.measure] = good
    return values


@pytest.mark.parametrize(
    ("bar", "good", "bad"),
    [
        (
            Bar(
                "w",
                "",
                PGMQ,
                Measured("c", PGMQ, "t"),
                "at least",
                2.0,
                "times",
                Measured("c", COMPILED, "t"),
            ),
            200,
            199,
        ),
        (
            Bar(
                "w", "", PGMQ, Measured("c", PGMQ, "t"), "at most", 2.0, "times", Measured("c", COMPILED, "t")
            ),
            200,
            201,
        ),
        (
            Bar(
                "w",
                "",
                PGMQ,
                Measured("c", PGMQ, "t"),
                "at most",
                2.0,
                "kB",
                Measured("c", COMPILED, "t"),
                excess=True,
            ),
            102,
            103,
        ),
        (Bar("w", "", PGMQ, Measured("c", PGMQ, "t"), "at most", 2.0, "ms"), 2, 3),
    ],
    ids=["at least times", "at most times", "at most more", "at most"],
)
def test_on_which_side_of_its_limit_a_bar_holds(bar: Bar, good: float, bad: float) -> None:
    run = invented("w", {("c", COMPILED, "t"): 100.0})
    for value, word in ((good, HOLDS), (bad, SHORT)):
        measured = invented("w", {("c", COMPILED, "t"): 100.0, ("c", PGMQ, "t"): value})
        (verdict,) = judge(measured, bars=[bar])
        assert (verdict.word, verdict.fails) == (word, word == SHORT)
        (aim,) = judge(measured, bars=[replace(bar, aim=True)])
        assert (aim.word, aim.fails) == (HOLDS if word == HOLDS else MISSED_AIM, False)
    with pytest.raises(BenchError, match="nothing that a bar is about"):
        judge(run, bars=[bar])


def test_what_was_asked_for_and_not_measured_fails() -> None:
    run = invented("wal")
    run = replace(run, workloads={**run.workloads, "memory": Outcome(1.0)})
    assert words(run) == {HOLDS, NOT_MEASURED}
    assert {one.word for one in judge(run) if one.fails} == {NOT_MEASURED}
    assert not any(one.fails for one in judge(run, lenient=True))


def test_without_pgmq_only_what_stands_alone_is_judged() -> None:
    run = invented("memory")
    run = replace(
        run,
        options=replace(run.options, against=()),
        figures=tuple(one for one in run.figures if one.side != PGMQ),
    )
    verdicts = judge(run)
    assert {one.word for one in verdicts} == {HOLDS, "pgmq was not measured"}
    assert not any(one.fails for one in verdicts)


def test_a_small_run_is_not_judged_unless_asked() -> None:
    run = invented("wal")
    small = replace(run, options=replace(run.options, scale=0.5))
    with pytest.raises(BenchError, match=r"--scale 0\.5"):
        judge(small)
    assert words(small, lenient=True) == {HOLDS}


def test_the_command_says_which_bar_falls_short(bench: Bench, tmp_path: Path) -> None:
    good = bench("check", written(invented("wal"), tmp_path))
    assert good.exit_code == 0, good.output
    assert good.stdout.count(HOLDS) == 2

    dear = invented("wal", {("1 kB", COMPILED, "WAL a message"): 150.0})
    bad = bench("check", written(dear, tmp_path))
    assert bad.exit_code == 1
    (line,) = [line for line in bad.stdout.splitlines() if SHORT in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "wal", "over pgmq's [1 kB]", COMPILED, "1.5", "at most 1 times", SHORT
    ]  # fmt: skip
    assert bad.stderr == "Error: 1 of 2 bars fall short\n"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', '{"format": 2, "options": {}}', "\x00"])
def test_a_file_that_is_none_of_ours_is_refused(bench: Bench, tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    for command in ("check", "report"):
        refused = bench(command, path)
        assert refused.exit_code == 1
        assert refused.stderr == f"Error: {path} is not what `pgqueue bench run --json` writes\n"


def test_a_file_of_another_version_is_refused(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"format": 99}')
    assert bench("check", path).stderr == f"Error: {path} was written by another version of pgqueue\n"
