"""The signatures of our own functions in schema pgmq, read from the text that makes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pgqueue.script import functions_sql

_HEAD = re.compile(
    r"^create or replace function pgmq\.(?P<name>\w+)\((?P<parameters>.*?)\)\nreturns (?P<result>.*?)\nlanguage",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Signature:
    """One function of ours: `call` as Postgres prints a regprocedure, its parameters' names, how many of them
    have defaults, and what it returns, as `pg_get_function_result` prints it."""

    name: str
    call: str
    parameters: tuple[str, ...]
    defaults: int
    result: str


@cache
def ours() -> tuple[Signature, ...]:
    """Every function of ours in schema pgmq."""
    return tuple(_signature(found) for found in _HEAD.finditer(functions_sql()))


def _signature(found: re.Match[str]) -> Signature:
    texts = [one.strip() for one in found["parameters"].replace("\n", " ").split(",") if one.strip()]
    parameters = [re.fullmatch(r"(\w+) (.*?)( default .*)?", one) for one in texts]
    assert all(parameters), texts
    known = [one for one in parameters if one]
    return Signature(
        name=found["name"],
        call=f"pgmq.{found['name']}({','.join(_type(one[2]) for one in known)})",
        parameters=tuple(one[1] for one in known),
        defaults=sum(1 for one in known if one[3]),
        result=_type(found["result"]).replace("setof ", "SETOF ").replace("table (", "TABLE("),
    )


def _type(text: str) -> str:
    return re.sub(r"\btimestamptz\b", "timestamp with time zone", text)
