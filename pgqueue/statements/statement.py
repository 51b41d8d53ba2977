"""A call as a value: text, parameters, and how to read the answer.

No connection here and no waiting: a client sends `sql` with `params` (placeholders $1, $2 …) and hands the
answer to `parse`. Every parameter is cast: the SQL functions are overloaded, and an untyped one is ambiguous.
JSON travels as text both ways, so that no codec set on the caller's connection can change what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Reply(NamedTuple):
    """What a server answered: the names of the columns and the rows, JSON in them as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(slots=True)
class Statement(Generic[T]):
    """One call.

    sql: its text, with the functions that take a queue's name
    params: for $1, $2 …
    parse: turns the server's reply into the result; may raise a PgqueueError
    queue: name of the queue whose compiled function does the same
    compiled: the text that calls that one; its parameters are all of params but the last, the queue's name
    shape: names of the columns of `compiled`, which are not asked of the server
    repeatable: twice is as good as once, so it is repeated when the connection was lost during it
    """

    sql: bytes
    params: tuple[Any, ...]
    parse: Callable[[Reply], T]
    queue: str | None = None
    compiled: bytes | None = None
    shape: tuple[str, ...] = ()
    repeatable: bool = False

    def by_compiled(self) -> tuple[bytes, tuple[Any, ...]]:
        """Text and parameters of the call of the queue's compiled function."""
        return self.compiled or self.sql, self.params[:-1]


def call(sql: str, *params: Any) -> Statement[None]:
    """A call that answers with nothing."""
    return Statement(sql.encode(), params, lambda reply: None)


def number(reply: Reply) -> int:
    return int(reply.rows[0][0])


def truth(reply: Reply) -> bool:
    return bool(reply.rows[0][0])


def numbers(reply: Reply) -> list[int]:
    return [row[0] for row in reply.rows]


def each(kind: type[T]) -> Callable[[Reply], list[T]]:
    """Rows as instances of a dataclass, by the names of columns; those it does not know are passed over."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # every model is a dataclass

    def parse(reply: Reply) -> list[T]:
        places = [(name, place) for place, name in enumerate(reply.columns) if name in known]
        return [kind(**{name: row[place] for name, place in places}) for row in reply.rows]

    return parse


def only(kind: type[T]) -> Callable[[Reply], T]:
    """The one row, as an instance of a dataclass."""
    parse = each(kind)
    return lambda reply: parse(reply)[0]
