"""pgqueue bench: how fast it is on your server, beside pgmq if you like."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgqueue.cli import server
from pgqueue.cli.options import server_option
from pgqueue.cli.output import note, say
from pgqueue.errors import BenchError
from pgqueue.names import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pgqueue.bench.model import Options
    from pgqueue.bench.run import Tell
    from pgqueue.bench.workloads import Workload

READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def bench() -> None:
    """Measure pgqueue on a server, beside pgmq.

    Each workload makes databases of its own and drops them afterwards, so the role must be able to create
    databases. Leave the machine alone meanwhile.

    \b
    Example:
      pgqueue bench run cycle --against pgmq --dsn postgresql://postgres@localhost
    """


class Clients(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Numbers of clients: 4 or 4,16."""

    name = "clients"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if not all(one.strip().isdecimal() and 0 < int(one) <= 1000 for one in parts):
            self.fail(f"{value!r} is not a number of clients such as 4, or several such as 4,16", param, ctx)
        return tuple(int(one) for one in parts)


class Against(click.ParamType):  # type: ignore[type-arg]
    """Names of others: pgmq or pgmq-client,pgqueuer."""

    name = "others"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        from pgqueue.bench.model import AGAINST

        names = str(value).split(",")
        if unknown := [one for one in names if one not in AGAINST]:
            self.fail(f"{unknown[0]!r} is none of {', '.join(AGAINST)}", param, ctx)
        return tuple(dict.fromkeys(names))


@bench.command()
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--against",
    type=Against(),
    default=(),
    show_default=False,
    help="Measure these in turns with ours, one or several: pgmq, pgmq-client, pgqueuer, procrastinate.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    help="How long each load of cycle, readers, mixed and worker lasts; the others go by counts. Default: 2 to 20.",
)
@click.option(
    "--clients", type=Clients(), default=(4, 16), show_default="4,16", help="Numbers of pgbench clients."
)
@click.option(
    "--payload-bytes",
    type=click.IntRange(10, 1_000_000),
    default=100,
    show_default=True,
    help="Length of a message's JSON.",
)
@click.option(
    "--turns", type=click.IntRange(1, 1000), default=5, show_default=True, help="Turns of each side, at most."
)
@click.option(
    "--scale",
    type=click.FloatRange(0, 10, min_open=True),
    default=1.0,
    show_default="1",
    help="Sizes of queues and loads: 0.01 for a quick look.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Another order of the turns.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Keep the results in this file."
)
@server_option
def run(
    workloads: tuple[str, ...],
    against: tuple[str, ...],
    seconds: float | None,
    clients: tuple[int, ...],
    payload_bytes: int,
    turns: int,
    scale: float,
    seed: int,
    file: Path | None,
    dsn: str | None,
) -> None:
    """Run workloads, all if none is named, and print what they measured.

    Exits with 1 if a workload failed; the others are measured all the same.

    \b
    Workloads: cycle, fetch, batch, in-flight, delayed, backlog, adopted, expired, pinned, groups,
    notify, metrics, create, many-queues, readers, partitions, mixed, memory, wal, python, worker.

    \b
    Examples:
      pgqueue bench run --against pgmq --json bench.json
      pgqueue bench run python worker --against pgmq-client,pgqueuer,procrastinate
      pgqueue bench run cycle wal --scale 0.1 --dsn embedded:
    """
    from pgqueue.bench.interrupts import Terminated
    from pgqueue.bench.model import Options
    from pgqueue.bench.report import report
    from pgqueue.bench.run import chosen
    from pgqueue.bench.run import run as measure

    chosen(workloads)
    if file is not None:
        file.touch()  # a place that cannot be written is known now, not after a quarter of an hour
    options = Options(scale, clients, seconds, payload_bytes, turns, against, seed)
    try:
        with _progress(workloads, options) as tell:
            done = measure(server.address(dsn), workloads, options, tell)
    except Terminated as stopped:
        raise click.exceptions.Exit(128 + stopped.number) from None
    if file is not None:
        file.write_text(done.as_json(), encoding="utf-8")
    click.echo(report([(file.stem if file else "bench", done)]))
    failed = [name for name, outcome in done.workloads.items() if outcome.error]
    if failed:
        raise BenchError(f"failed: {', '.join(failed)}")


@bench.command()
@click.argument("files", nargs=-1, required=True, type=READABLE, metavar="FILE...")
def report(files: tuple[Path, ...]) -> None:
    """Print what runs measured, ratios first, as Markdown.

    Several files stand side by side: one a Postgres version, for instance.

    \b
    Example:
      pgqueue bench report pg15.json pg18.json
    """
    from pgqueue.bench.model import read_run
    from pgqueue.bench.report import report as text

    click.echo(text([(file.stem, read_run(file)) for file in files]))


@bench.command()
@click.argument("file", type=READABLE, metavar="FILE")
@click.option(
    "--lenient", is_flag=True, help="Judge a run of less than full size, and let pass what it lacks."
)
def check(file: Path, lenient: bool) -> None:
    """Compare a run with what it must show.

    Exits with 1 where something falls short, or was asked for and not measured. The bars stand in
    docs/performance.md.

    \b
    Example:
      pgqueue bench check bench.json
    """
    from pgqueue.bench.check import judge
    from pgqueue.bench.model import read_run
    from pgqueue.bench.report import verdicts_table

    verdicts = judge(read_run(file), lenient)
    click.echo(verdicts_table(verdicts))
    failing = [one for one in verdicts if one.fails]
    if failing:
        raise BenchError(f"{len(failing)} of {len(verdicts)} bars fall short")
    judged = sum(one.value is not None for one in verdicts)
    say(f"no bar falls short: {judged} are judged, {len(verdicts) - judged} could not be")


@contextmanager
def _progress(names: tuple[str, ...], options: Options) -> Iterator[Tell]:
    """Says how long it will take; then a bar on stderr, or a line for each workload if that is no terminal."""
    from pgqueue.bench.run import chosen, expected_seconds

    workloads = chosen(names)
    seconds = {one.name: expected_seconds(one, options) for one in workloads}
    minutes = max(1, round(sum(seconds.values()) / 60))
    whole = f"{counted(len(workloads), 'workload')}, about {minutes} min"
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines(whole, list(seconds))
        return
    note(whole)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    clock = _Clock(seconds)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())

    class Moving(Progress):
        """One whose bar moves with the clock whenever it is drawn, and not only when something is said."""

        def get_renderables(self) -> Iterable[RenderableType]:
            for task in self.task_ids:
                self.update(task, completed=clock.now())
            return super().get_renderables()

    with Moving(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=sum(seconds.values()))

        def tell(workload: Workload, text: str) -> None:
            clock.at(workload.name)
            bars.update(task, description=text)

        yield tell


def _lines(whole: str, names: list[str]) -> Tell:
    """Names each workload on stderr when it begins, and before the first how long all will take."""
    begun: set[str] = set()

    def tell(workload: Workload, text: str) -> None:
        if not begun:
            note(whole)
        if workload.name not in begun:
            begun.add(workload.name)
            note(f"{workload.name} ({names.index(workload.name) + 1} of {len(names)})")

    return tell


class _Clock:
    """How far a run is, in seconds of the time that its workloads should take: a slow one waits at its end."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._before = 0.0
        self._name = ""
        self._began = time.monotonic()

    def at(self, name: str) -> None:
        """The workload that is at work."""
        if name == self._name:
            return
        names = list(self._seconds)
        self._before = sum(self._seconds[one] for one in names[: names.index(name)])
        self._name, self._began = name, time.monotonic()

    def now(self) -> float:
        return self._before + min(self._seconds.get(self._name, 0), time.monotonic() - self._began)
