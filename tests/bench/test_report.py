"""bench report: ratios first, then figures with their spread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pgqueue.bench.model import BY_NAME, COMPILED, PGMQ, Figure, Outcome, read_run
from pgqueue.bench.report import bars_text, cycle_text, report, table
from tests.bench.conftest import Bench, invented


def cells(text: str, *starts: str) -> list[list[str]]:
    """The rows of the tables in a text that begin with these cells."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [row for row in rows if row[: len(starts)] == list(starts)]


RUN = replace(
    invented("wal"),
    figures=(
        Figure("cycle", "c", PGMQ, "cycle", "µs", (290.0, 300.0, 330.0)),
        Figure("cycle", "c", COMPILED, "cycle", "µs", (50.0, 60.0, 61.5)),
        Figure("cycle", "c", PGMQ, "cycles", "/s", (1000.0,), more_is_better=True),
        Figure("cycle", "c", COMPILED, "cycles", "/s", (1900.0,), more_is_better=True),
        Figure("cycle", "c", BY_NAME, "alone", "s", (0.1234,)),
    ),
    workloads={"cycle": Outcome(3.0, ("256 clients: no room",), "it broke")},
)


def test_a_run_is_told_with_ratios_first() -> None:
    text = report([("nightly", RUN)])
    assert text.index("## Ahead of pgmq") < text.index("## Figures")
    ratios, figures = text.split("## Figures")
    assert cells(ratios, "cycle", "c") == [
        ["cycle", "c", "cycle", "", "5.00"],
        ["cycle", "c", "cycles", "", "1.90"],
    ]
    assert cells(figures, "cycle", "c") == [
        ["cycle", "c", "cycle", "µs", "300 (290 to 330)", "", "60 (50 to 61.5)"],
        ["cycle", "c", "cycles", "/s", "1,000", "", "1,900"],
        ["cycle", "c", "alone", "s", "", "0.123", ""],
    ]


def test_the_heading_says_on_what_it_was_measured() -> None:
    heading = report([("nightly", RUN)]).split("\n\n")[0]
    for fact in ("Postgres 15.18", "2 cores", "pgqueue 0.1.0", "pgmq 1.13.0", "synchronous_commit=off"):
        assert fact in heading
    for fact in ("payload 100 bytes", "batch 100", "clients 4 and 16", "fsync=on", "scale 1"):
        assert fact in heading
    assert "cycle: 256 clients: no room" in heading
    assert "cycle: FAILED: it broke" in heading


def test_runs_stand_side_by_side(bench: Bench, tmp_path: Path) -> None:
    newer = replace(
        RUN,
        server={**RUN.server, "version": "18.6"},
        figures=tuple(
            replace(one, values=(one.values[0] * 2,)) if one.side == PGMQ else one for one in RUN.figures
        ),
    )
    for name, run in (("a", RUN), ("b", newer), ("c", newer)):
        (tmp_path / f"{name}.json").write_text(run.as_json())
    two = bench("report", tmp_path / "a.json", tmp_path / "b.json").stdout
    assert cells(two, "workload")[0][3:] == [
        "PG 15, by name",
        "PG 15, compiled",
        "PG 18, by name",
        "PG 18, compiled",
    ]
    assert cells(two, "cycle", "c", "cycle")[0][3:] == ["", "5.00", "", "9.67"]
    three = bench("report", *sorted(tmp_path.glob("*.json"))).stdout
    assert "| b, compiled | " in three


def test_a_run_without_pgmq_has_figures_alone() -> None:
    alone = replace(RUN, figures=tuple(one for one in RUN.figures if one.side != PGMQ))
    assert "Ahead of pgmq" not in report([("nightly", alone)])


def test_the_bars_have_the_worst_of_a_run_and_bold_what_falls_short() -> None:
    """What in-flight may cost is ten buffers, by name and compiled; the wal bar of that run was not measured."""
    run = invented("in-flight", {("crowded", COMPILED, "buffers"): 1000.0})
    text = bars_text([run])
    assert cells(text, "workload")[0][2:] == ["must be", "PG 15"]
    assert cells(text, "in-flight")[0][2:] == ["at most 10 buffers, by name and compiled", "10 / **900**"]
    assert cells(text, "wal")[0][3] == ""
    groups = invented("groups", {("30 groups of 20,000, read_grouped_rr", COMPILED, "call"): 12.0})
    assert cells(bars_text([groups]), "groups", "a call, 30 groups of 20,000")[0][3] == "**12**"


def test_the_cycle_is_told_for_each_way_to_call() -> None:
    by_name = Figure("cycle", "c", BY_NAME, "cycle", "µs", (120.0,))
    text = cycle_text([replace(RUN, figures=(*RUN.figures, by_name))])
    assert cells(text, "PG 15") == [["PG 15", "c", "cycle, µs", "300", "120", "60"]]


def test_a_run_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(RUN.as_json())
    assert read_run(path) == RUN


def test_columns_line_up() -> None:
    assert (
        table(("a", "b"), [("long", "1"), ("x", "")])
        == "| a    | b |\n|------|---|\n| long | 1 |\n| x    |   |"
    )
