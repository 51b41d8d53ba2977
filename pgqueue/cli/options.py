"""Options and kinds of value that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, Any, TypeVar

import click

from pgqueue.errors import PgqueueError

F = TypeVar("F", bound=Callable[..., Any])

DSN = "Where the server is. Default: PGQUEUE_DSN, DATABASE_URL, then libpq's PGHOST, PGSERVICE, PGDATABASE."
INTEGER = click.IntRange(-(2**31), 2**31 - 1)
QUANTITY = click.IntRange(1, 2**31 - 1)
BIGINT = click.IntRange(-(2**63), 2**63 - 1)


def server_option(command: F) -> F:
    """--dsn, after the name of every command that talks to a server."""
    return click.option("--dsn", metavar="DSN", help=DSN)(command)


def json_option(command: F) -> F:
    """--json: one object a line, for programs."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")(
        command
    )


class Seconds(click.IntRange):
    """A whole number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?\d+\s*", value):
            self.fail(f"{value!r} is not a whole number of seconds", param, ctx)
        return super().convert(value, param, ctx)


SECONDS = Seconds(0, 2**31 - 1)


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Seconds, or a date and time with its zone."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        if isinstance(value, (int, datetime)):
            return value
        if re.fullmatch(r"[+-]?\d+", value):
            return int(INTEGER.convert(value, param, ctx))
        try:
            moment = datetime.fromisoformat(re.sub(r"[zZ]\Z", "+00:00", value))
        except ValueError:
            self.fail(
                f"{value!r} is neither a number of seconds nor a date like 2030-01-31T09:00:00Z", param, ctx
            )
        if moment.utcoffset() is None:
            self.fail(f"{value!r} says no time zone: end it with Z or +01:00", param, ctx)
        return moment


UNITS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """A length of time: 30, 30s, 5m, 2h."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        parts = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|)", value)
        seconds = float(parts[1]) * UNITS[parts[2]] if parts else 0
        if not 0 < seconds < 10**9:
            self.fail(f"{value!r} is not a length of time such as 30s, 5m or 2h", param, ctx)
        return seconds


class MessageId(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """An id, or - for ids on standard input."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "-":
            return "-"
        if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?\d+\s*", value):
            self.fail(f"{value!r} is not a message id", param, ctx)
        return int(BIGINT.convert(value, param, ctx))


def all_ids(given: tuple[int | str, ...]) -> list[int]:
    """The ids of a command line, each once and in order; - stands for those on standard input."""
    return list(dict.fromkeys(one for word in given for one in _ids(word)))


def _ids(word: int | str) -> Iterator[int]:
    if isinstance(word, int):
        yield word
        return
    for number, line in enumerate(standard_input(), 1):
        for text in line.split():
            if not re.fullmatch(rb"[+-]?\d{1,19}", text) or not -(2**63) <= int(text) < 2**63:
                raise PgqueueError(f"line {number}: {text[:40].decode(errors='replace')!r} is not an id")
            yield int(text)


def standard_input() -> IO[bytes]:
    """Standard input as bytes. Raises PgqueueError if it is closed."""
    if sys.stdin is None:
        raise PgqueueError("standard input is closed")
    return sys.stdin.buffer


def agreed(question: str, yes: bool) -> None:
    """Return if --yes was given or the user types yes. Raises PgqueueError otherwise."""
    if yes:
        return
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = standard_input().readline().decode(errors="replace")
    if not answer:
        click.echo(err=True)
        raise PgqueueError("nobody answered, so nothing was done: give --yes to go on without a question")
    if answer.strip().lower() not in ("y", "yes"):
        raise PgqueueError("nothing was done")
