"""Runs as text: ratios first, then the figures, as tables that are Markdown too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pgqueue.bench.bars import AT_LEAST, Bar, bars_that_say_the_same
from pgqueue.bench.check import Verdict
from pgqueue.bench.loops import BATCH
from pgqueue.bench.model import BY_NAME, COMPARED, COMPILED, FAMILIES, PGMQ, Figure, Run

NONE = ""


def report(runs: Sequence[tuple[str, Run]]) -> str:
    """What runs measured. runs: each with the name of its file."""
    parts = [_heading(name, run) for name, run in runs]
    parts += [text for text in (_ratios(runs, other) for other in COMPARED) if text]
    for name, run in runs:
        title = f"Figures ({_label(name, run, runs)})" if len(runs) > 1 else "Figures"
        parts.append(f"## {title}: median (least to most)\n\n{_figures(run)}")
    return "\n\n".join(parts)


def verdicts_table(verdicts: Sequence[Verdict]) -> str:
    """What `check` found, bar by bar."""
    rows = [
        (
            one.bar.workload,
            _of(one),
            one.bar.side,
            NONE if one.value is None else _against(one.value, one.bar.limit),
            f"{one.bar.relation} {one.bar.limit:g} {one.bar.unit}".strip(),
            one.word,
        )
        for one in verdicts
    ]
    return table(("workload", "what", "side", "measured", "bar", "verdict"), rows)


def _of(verdict: Verdict) -> str:
    return f"{verdict.bar.says} [{verdict.bar.what.case}]"


def bars_text(runs: Sequence[Run]) -> str:
    """The bars as docs/performance.md has them, with the worst that runs have for each; bold what falls short."""
    heads = ("workload", "what", "must be", *(f"PG {_major(run)}" for run in runs))
    return table(
        heads,
        (
            (workload, says, _limits(bars), *(_worst(bars, run) for run in runs))
            for (workload, says), bars in bars_that_say_the_same().items()
        ),
    )


def cycle_text(runs: Sequence[Run]) -> str:
    """What send, read and delete cost each way to call, medians: README and docs/performance.md have it."""
    sides = (PGMQ, BY_NAME, COMPILED)
    rows = []
    for run in runs:
        for workload, case, measure in _subjects([run]):
            found = [run.figure(workload, case, side, measure) for side in sides]
            if workload == "cycle" and all(found):
                unit = next(one.unit for one in found if one)
                medians = (_number(one.median) for one in found if one)
                rows.append(
                    (f"PG {_major(run)}", case, f"{measure}, {unit}".replace(", /s", " a second"), *medians)
                )
    return table(("server", "case", "measure", *sides), rows)


def _limits(bars: Sequence[Bar]) -> str:
    limits: dict[str, dict[str, None]] = {}
    for bar in bars:
        limit = f"{bar.relation} {bar.limit:g} {bar.unit}".strip() + (" (an aim)" if bar.aim else "")
        limits.setdefault(limit, {})[bar.side] = None
    return "; ".join(f"{limit}, {' and '.join(sides)}" for limit, sides in limits.items())


def _worst(bars: Sequence[Bar], run: Run) -> str:
    """The worst value of each side, in the order of the limits."""
    values: dict[str, list[tuple[Bar, float]]] = {}
    for bar in bars:
        value = bar.value(run)
        if value is not None:
            values.setdefault(bar.side, []).append((bar, value))
    texts = []
    for seen in values.values():
        bar, value = (min if seen[0][0].relation == AT_LEAST else max)(seen, key=lambda one: one[1])
        text = _against(value, bar.limit)
        texts.append(text if bar.holds(value) else f"**{text}**")
    return " / ".join(texts)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns line up, so that it can be read as it is."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    head, *body = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    return "\n".join([head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *body])


# --- parts -----------------------------------------------------------------------------------------


def _heading(name: str, run: Run) -> str:
    options, server = run.options, dict(run.server)
    version, cores = server.pop("version"), server.pop("cores")
    versions = ", ".join(f"{what} {number}" for what, number in run.versions.items())
    clients = " and ".join(map(str, options.clients))
    seconds = NONE if options.seconds is None else f", {options.seconds:g} s a load"
    lines = [
        f"# {name}: {versions} on Postgres {version}, {cores} cores",
        f"synchronous_commit=off unless said, payload {options.payload_bytes} bytes, batch {BATCH}, "
        f"clients {clients}, turns {options.turns}, scale {options.scale:g}{seconds}",
        ", ".join(f"{setting}={value}" for setting, value in server.items()),
        f"started {run.started_at}, took {run.seconds:.0f} s",
    ]
    for workload, outcome in run.workloads.items():
        lines += [f"{workload}: {note}" for note in outcome.notes]
        lines += [f"{workload}: FAILED: {outcome.error}"] if outcome.error else []
    return "\n".join(lines)


def _label(name: str, run: Run, runs: Sequence[tuple[str, Run]]) -> str:
    """PG 15, or the file's name where two runs are of one major version."""
    majors = [_major(one) for _, one in runs]
    return f"PG {_major(run)}" if majors.count(_major(run)) == 1 else name


def _major(run: Run) -> str:
    return run.server["version"].split(".")[0]


def _ratios(runs: Sequence[tuple[str, Run]], other: str) -> str:
    """How many times ours is ahead of another: its time over ours, or our rate over its."""
    measured = {one.side for _, run in runs for one in run.figures}
    columns = [(name, run, side) for name, run in runs for side in COMPARED[other] if side in measured]
    rows = []
    for workload, case, measure in _subjects(run for _, run in runs):
        ratios = [_ratio(run, workload, case, measure, other, side) for _, run, side in columns]
        if any(ratios):
            rows.append((workload, case, measure, *ratios))
    if not rows:
        return NONE
    many = len(runs) > 1
    heads = [f"{_label(name, run, runs)}, {side}" if many else side for name, run, side in columns]
    title = f"## Ahead of {other}, times (its time over ours, or our rate over its)"
    return f"{title}\n\n{table(('workload', 'case', 'measure', *heads), rows)}"


def _ratio(run: Run, workload: str, case: str, measure: str, other: str, side: str) -> str:
    theirs, ours = (run.figure(workload, case, one, measure) for one in (other, side))
    if theirs is None or ours is None or not theirs.median or not ours.median:
        return NONE
    ratio = theirs.median / ours.median
    return f"{1 / ratio if ours.more_is_better else ratio:.2f}"


def _figures(run: Run) -> str:
    tables = [_family(run, family) for family in FAMILIES]
    return "\n\n".join(text for text in tables if text)


def _family(run: Run, family: Sequence[str]) -> str:
    sides = [side for side in family if any(one.side == side for one in run.figures)]
    rows = []
    for workload, case, measure in _subjects([run]):
        found = [run.figure(workload, case, side, measure) for side in sides]
        if any(found):
            unit = next(one.unit for one in found if one)
            rows.append((workload, case, measure, unit, *(_spread(one) for one in found)))
    return table(("workload", "case", "measure", "unit", *sides), rows) if rows else NONE


def _subjects(runs: Iterable[Run]) -> Iterator[tuple[str, str, str]]:
    """What was measured, whichever side, in the order in which it was."""
    yield from dict.fromkeys((one.workload, one.case, one.measure) for run in runs for one in run.figures)


def _spread(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    least, most = min(figure.values), max(figure.values)
    if least == most:
        return _number(least)
    return f"{_number(figure.median)} ({_number(least)} to {_number(most)})"


def _against(value: float, limit: float) -> str:
    """A value beside its limit: it must not read like it unless it is."""
    text = _number(value)
    return text if text != _number(limit) else f"{value:.6g}"


def _number(value: float) -> str:
    """Three digits that matter; whole numbers whole."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
