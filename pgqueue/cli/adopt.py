"""From pgmq to pgqueue in place, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgqueue.cli import server
from pgqueue.cli.options import agreed, server_option
from pgqueue.cli.output import say
from pgqueue.errors import PgqueueError

if TYPE_CHECKING:
    import psycopg

    from pgqueue.adopt.plan import Step

Watch = Callable[["Step", int, int], None]

CLIENTS = (
    "clients that create the extension when they start must be told not to: PG_INIT_EXTENSION=false or"
    " init_extension=False (pgmq for Python), skipExtensionCreation (pgmq-js)"
)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what is there and what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--accept-newer", is_flag=True, help="Adopt a pgmq newer than any known here.")
@click.option("--back", is_flag=True, help="Give the database back to pgmq.")
@click.option(
    "--sql",
    "sql_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --back: pgmq's SQL. Default: that of the Python package pgmq.",
)
@click.option(
    "--extension", is_flag=True, help="With --back: create the extension pgmq that the server offers."
)
@server_option
def adopt(
    dry_run: bool,
    yes: bool,
    accept_newer: bool,
    back: bool,
    sql_file: Path | None,
    extension: bool,
    dsn: str | None,
) -> None:
    """Take over a live pgmq in place, or give it back.

    Any pgmq from 1.3.3 to 1.13.1, as an extension or from SQL. No message is copied; senders and readers go on.
    Says what it will do, with each lock, and asks. One that was stopped can be run again: it goes on from there.

    \b
    Examples:
      pgqueue adopt --dry-run
      pgqueue adopt --yes
      pgqueue adopt --back
    """
    if (sql_file or extension) and not back:
        raise click.UsageError("--sql and --extension go with --back")
    if sql_file and extension:
        raise click.UsageError("--sql and --extension exclude each other")
    if back and accept_newer:
        raise click.UsageError("--accept-newer does not go with --back")
    with _connection(dsn) as conn:
        if back:
            _give_back(conn, dsn, dry_run, yes, sql_file, extension)
        else:
            _take_over(conn, dsn, dry_run, yes, accept_newer)


@contextmanager
def _connection(dsn: str | None) -> Iterator[psycopg.Connection[Any]]:
    """A connection without a transaction around: concurrent builds want none."""
    with server.connection(dsn) as conn:
        conn.autocommit = True
        yield conn


def _take_over(
    conn: psycopg.Connection[Any], dsn: str | None, dry_run: bool, yes: bool, accept_newer: bool
) -> None:
    from pgqueue.adopt.forth import adopt, look
    from pgqueue.adopt.plan import findings, steps

    found = look(conn, accept_newer=accept_newer)
    # Where an adoption was begun, nobody knows any more what it found.
    for_clients = [CLIENTS] if found.unfinished or found.kind == "extension" else []
    plan = steps(found)
    _show("found", ["an adoption that was begun"] if found.unfinished else findings(found))
    _show_plan(plan)
    if not dry_run:
        agreed("adopt this pgmq?", yes)
        with _connection(dsn) as observer, _bar(plan) as watch:
            adopt(conn, observer, accept_newer=accept_newer, watch=watch)
        say("pgqueue has taken over")
    _show("note", for_clients)


def _give_back(
    conn: psycopg.Connection[Any],
    dsn: str | None,
    dry_run: bool,
    yes: bool,
    sql_file: Path | None,
    extension: bool,
) -> None:
    from pgqueue.adopt.back import give_back, look_back
    from pgqueue.adopt.pgmq_sql import pgmq_sql
    from pgqueue.adopt.plan_back import steps_back, warnings_back

    found = look_back(conn, extension=extension)
    if not extension:
        try:
            pgmq_sql(sql_file)
        except UnicodeDecodeError:
            raise PgqueueError(f"{sql_file} is not text in UTF-8") from None
    plan = steps_back(found, extension=extension)
    _show("note", warnings_back(found))
    _show_plan(plan)
    if dry_run:
        return
    agreed("give this database back to pgmq?", yes)
    with _connection(dsn) as observer, _bar(plan) as watch:
        give_back(conn, observer, sql_file=sql_file, extension=extension, watch=watch)
    say("pgmq has its queues back, and pgqueue is gone")


def _show(word: str, lines: list[str]) -> None:
    for line in lines:
        say(f"{word}: {line}")


def _show_plan(plan: list[Step]) -> None:
    for number, step in enumerate(plan, 1):
        say(f"step {number}: {step.what}")
        say(f"  lock: {step.lock}")
        say(f"  takes: {step.takes}")


@contextmanager
def _bar(plan: list[Step]) -> Iterator[Watch]:
    """A bar for each step on a terminal; elsewhere a line when a step is done.

    Each is shown once: the first are done again where queues come late.
    """
    named = {step.key: f"step {number}, {step.key}" for number, step in enumerate(plan, 1)}
    ended: set[str] = set()
    if sys.stderr is None or not sys.stderr.isatty():

        def line(step: Step, done: int, total: int) -> None:
            if done == total and step.key not in ended:
                ended.add(step.key)
                click.echo(f"done: {named.get(step.key, step.key)}", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def watch(step: Step, done: int, total: int) -> None:
            if step.key in ended:
                return
            if step.key not in tasks:
                tasks[step.key] = bars.add_task(named.get(step.key, step.key), total=max(total, 1))
            finished = total == 0 or done == total
            if finished:
                ended.add(step.key)
            bars.update(tasks[step.key], completed=max(total, 1) if finished else done, total=max(total, 1))

        yield watch
