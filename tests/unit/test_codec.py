"""Codecs: JSON by two libraries, bytes, bodies of a type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from pgqueue.codec import AS_TEXT, BYTES, JSON, PLAIN, JsonText, codec_of
from pgqueue.errors import BadMessage

# --- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ({"a": [1, "ü"]}, '{"a": [1, "\\u00fc"]}'),
        (JsonText("1.10"), "1.10"),
        ("1.10", '"1.10"'),
    ],
)
def test_messages_become_json(value: Any, text: str) -> None:
    assert PLAIN.encode(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"", {1}, {(1,): 2}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(BadMessage):
        PLAIN.encode(value)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(BadMessage):
        PLAIN.encode(circle)


def test_json_is_read() -> None:
    assert PLAIN.decode('{"a": null}') == {"a": None}
    assert PLAIN.decode(None) is None, "SQL null"
    assert PLAIN.decode("null") is None, "JSON null"
    assert PLAIN.decode("9" * 5000) == Decimal("9" * 5000), "longer than Python's int reads"
    assert AS_TEXT.decode("1.10") == "1.10"
    with pytest.raises(BadMessage):
        PLAIN.decode("[" * 100_000 + "]" * 100_000)


# --- json and orjson say the same ------------------------------------------------------------------

VALUES: list[Any] = [
    None,
    {"a": [1, 2.5, True, None, "ü"]},
    2**63,
    2**64,
    -(2**70),
    10**30,
    {"n": 12345678901234567890123},
    12345678901234567890,
    0.1,
    1e300,
    "12345678901234567890123",
    {2: "a", None: "b", True: "c"},
    (1, 2),
    "a\u2028b",
    UUID("12345678123456781234567812345678"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_both_libraries_write_and_read_the_same(value: Any) -> None:
    assert json.loads(JSON.encode(value)) == json.loads(PLAIN.encode(value))
    for text in (JSON.encode(value), PLAIN.encode(value)):
        ours, theirs = JSON.decode(text), PLAIN.decode(text)
        assert ours == theirs and repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"a": [None, float("inf")]}, object(), b"", {1}, {(1,): 2}, "\ud800", datetime.now()],
)
def test_both_refuse_the_same(value: Any) -> None:
    if value == "\ud800":  # json writes an escape, which the server refuses
        assert JSON.encode(value) == PLAIN.encode(value)
        return
    for codec in (JSON, PLAIN):
        with pytest.raises(BadMessage):
            codec.encode(value)


class Colour(Enum):
    RED = "red"


@dataclass
class Inner:
    colour: Colour


@dataclass
class Outer:
    inner: Inner
    many: list[Inner]


def test_records_become_json_in_both() -> None:
    outer = Outer(Inner(Colour.RED), [Inner(Colour.RED)])
    wanted = {"inner": {"colour": "red"}, "many": [{"colour": "red"}]}
    assert json.loads(JSON.encode(outer)) == json.loads(PLAIN.encode(outer)) == wanted


def test_a_codec_is_taken_as_it_is() -> None:
    assert codec_of(BYTES) is BYTES


def test_an_integer_beyond_64_bits_keeps_its_digits() -> None:
    assert JSON.decode('{"wei": 123456789012345678901234567890}') == {"wei": 123456789012345678901234567890}
    assert JSON.decode('["12345678901234567890123", 1.5]') == ["12345678901234567890123", 1.5]
