"""What commands print: tables for people, one JSON object a line for programs, progress on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any

import click

from pgqueue.codec import JsonText

GAP = 2
"""Columns of a terminal between two of a table."""
SHORTEST_TEXT = 16
"""Text is not broken into lines shorter than this."""

Row = Mapping[str, Any]
Advance = Callable[[int, int], None]


def row(thing: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass, in their order."""
    return {one.name: getattr(thing, one.name) for one in fields(thing) if one.name not in without}


def say(text: str) -> None:
    """A line for people."""
    click.echo(printable(text))


def note(text: str) -> None:
    """A line beside the result, on stderr."""
    click.echo(printable(text), err=True)


def printable(text: str) -> str:
    """The text on one line; what would move a terminal's cursor or change its colours becomes an escape."""
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(one: str) -> str:
    return " " if one in "\n\t" else one.encode("unicode_escape").decode()


# --- for programs ----------------------------------------------------------------------------------


def json_line(values: Row) -> str:
    """One object; JSON that came as text from the server stays as it came, digit for digit."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_json(value)}" for name, value in values.items()) + "}"


def _json(value: Any) -> str:
    if isinstance(value, JsonText):
        return value
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON form for {type(value).__name__}")


def print_json(rows: Iterable[Row]) -> None:
    """One object a line, in UTF-8 whatever the terminal's encoding."""
    for one in rows:
        click.echo(json_line(one).encode("utf-8", "backslashreplace"))


# --- for people ------------------------------------------------------------------------------------


def show(rows: Sequence[Row], as_json: bool, nothing: str, *, in_full: bool = False) -> None:
    """Rows as NDJSON or as a table; `nothing` is said when there is none.

    in_full: a row is shown from top to bottom where it is the only one.
    """
    if as_json:
        print_json(rows)
    elif in_full and len(rows) == 1:
        print_details({name: value for name, value in rows[0].items() if value is not None})
    elif rows:
        print_table(rows)
    else:
        say(nothing)


def print_table(rows: Sequence[Row]) -> None:
    """A table with the columns of the first row; one that is empty throughout is left out.

    Where the terminal is too narrow for it, one row below the other, each from top to bottom.
    """
    from rich.table import Table
    from rich.text import Text

    names = [name for name in rows[0] if any(one[name] is not None for one in rows)]
    console = _console()
    if sum(_narrowest(name, [one[name] for one in rows]) + GAP for name in names) - GAP > console.width:
        for place, one in enumerate(rows):
            if place:
                say("")
            print_details({name: one[name] for name in names if one[name] is not None})
        return
    table = Table(box=None, pad_edge=False, header_style=_bold())
    for name in names:
        number = all(
            one[name] is None or (isinstance(one[name], int) and not isinstance(one[name], bool))
            for one in rows
        )
        least = _narrowest(name, [one[name] for one in rows])
        table.add_column(name, justify="right" if number else "left", overflow="fold", min_width=least)
    for one in rows:
        table.add_row(*(Text(_cell(one[name])) for name in names))
    console.print(table)


def _narrowest(name: str, values: Sequence[Any]) -> int:
    """The width that a column needs: text may be broken, names, numbers and instants may not."""
    longest = max(
        min(len(_cell(value)), SHORTEST_TEXT) if isinstance(value, str) else len(_cell(value))
        for value in values
    )
    return max(len(name), longest)


def print_details(values: Row) -> None:
    """Names and values, one below the other."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style=_bold())
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, Text(_cell(value)))
    _console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(one) for one in value)
    return printable(str(value))


def _bold() -> str:
    return "" if os.environ.get("NO_COLOR") else "bold"  # rich takes NO_COLOR to mean colours alone


def _console() -> Any:
    """Where tables go. Off a terminal there is no colour, and no line is broken."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Ours(highlight=False, emoji=False, markup=False, width=None if on_terminal else 10**6)


@contextmanager
def progress(total_bytes: int | None) -> Iterator[Advance]:
    """A bar on stderr while a file is sent, if that is a terminal. It moves by `advance(messages, bytes)`.

    Without the file's size there is none: somebody may be typing.
    """
    if total_bytes is None or sys.stderr is None or not sys.stderr.isatty():
        yield lambda messages, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.fields[sent]} messages"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("sending", total=total_bytes, sent=0)
        sent = 0

        def advance(messages: int, size: int) -> None:
            nonlocal sent
            sent += messages
            bars.update(bar, advance=size, sent=sent)

        yield advance


@contextmanager
def bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, if that is a terminal. It is told how many are done, and of how many."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress

    with Progress(BarColumn(), MofNCompleteColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, of: bars.update(task, completed=done, total=of)
