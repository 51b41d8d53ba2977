"""JSON that people hand over: checked here, and sent on as the text it is, digit for digit."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from pgqueue.codec import JsonText
from pgqueue.errors import BadMessage

NO_JSON = "is not JSON"
BATCH_BYTES = 4 * 2**20
"""A batch is full at this size, however few its messages."""


@dataclass(frozen=True)
class Batch:
    """The messages of some lines of a file; size is their bytes there."""

    first_line: int
    last_line: int
    messages: list[JsonText]
    size: int


def message(text: str) -> JsonText:
    """A message from the command line. Raises BadMessage."""
    try:
        return checked(text)
    except BadMessage as error:
        hint = "; text needs quotes of its own: '\"text\"'" if str(error).startswith(NO_JSON) else ""
        raise BadMessage(f"the message {error}{hint}") from None


def headers(text: str) -> JsonText:
    """Headers from the command line: a JSON object. Raises BadMessage."""
    try:
        found = checked(text)
    except BadMessage as error:
        raise BadMessage(f"the value for headers {error}") from None
    if not found.lstrip().startswith("{"):
        raise BadMessage('the headers are not a JSON object such as {"x-pgmq-group": "a"}')
    return found


def batches(lines: Iterable[bytes], length: int) -> Iterator[Batch]:
    """Messages of a file that has one JSON value a line, `length` at a time; blank lines are passed over.

    Raises BadMessage, naming the line.
    """
    messages: list[JsonText] = []
    first = last = size = 0
    for last, line in enumerate(lines, 1):
        first = first or last
        size += len(line)
        if last == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            messages.append(_from_line(line, last))
        if len(messages) == length or (messages and size >= BATCH_BYTES):
            yield Batch(first, last, messages, size)
            messages, first, size = [], 0, 0
    if messages:
        yield Batch(first, last, messages, size)


def _from_line(line: bytes, number: int) -> JsonText:
    try:
        return checked(line.decode().strip())
    except UnicodeDecodeError as error:
        raise BadMessage(f"line {number} is not UTF-8 (byte {error.start + 1})") from None
    except BadMessage as error:
        raise BadMessage(f"line {number} {error}") from None


def checked(text: str) -> JsonText:
    """The text, if Postgres can hold it as jsonb. Raises BadMessage, which says what it is or holds, and where."""
    if not _is_utf8(text):
        raise BadMessage("is not UTF-8")
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        if "\\" in text:
            for one in _strings(value):
                if "\0" in one or not _is_utf8(one):
                    raise BadMessage("holds \\u0000 or half a surrogate pair, which Postgres cannot store")
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise BadMessage(f"{NO_JSON}: {error.msg}, {place}") from None
    except RecursionError:
        raise BadMessage("is nested too deeply") from None
    return JsonText(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(word: str) -> NoReturn:
    raise BadMessage(f"{NO_JSON}: {word} is no JSON number")


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys too."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
