"""Codecs: JSON by two libraries, bytes, bodies of a type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pgqueue.codec import AS_TEXT, PLAIN, JsonText
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
