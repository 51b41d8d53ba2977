"""Statements as values: no server, no connection."""

from __future__ import annotations

import inspect
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from pgqueue import statements
from pgqueue.errors import BadMessage, BadValue
from pgqueue.model import Message, Metrics, QueueInfo
from pgqueue.statements import AS_TEXT, PLAIN, Codec, JsonText, Reply, Statement

SAMPLES: dict[str, Any] = {
    "queue_name": "orders",
    "message": {"a": 1},
    "messages": [1, 2],
    "msg_id": 7,
    "msg_ids": [7, 8],
    "vt": 30,
    "qty": 5,
    "pattern": "logs.*",
    "routing_key": "logs.a",
    "throttle_interval_ms": 250,
}
MAKERS = {
    name: maker
    for name, maker in vars(statements).items()
    if inspect.isfunction(maker) and not name.startswith("_") and maker.__module__ == statements.__name__
}


def sample(name: str) -> Statement[Any]:
    needed = [p for p in inspect.signature(MAKERS[name]).parameters.values() if p.default is p.empty]
    return MAKERS[name](*[SAMPLES[p.name] for p in needed])


@pytest.mark.parametrize("name", MAKERS)
def test_every_statement_calls_the_function_of_its_name(name: str) -> None:
    called = name.removesuffix("_batch") if name not in ("send_batch",) else name
    assert re.match(rf"select (\* from )?(pgmq|pgqueue)\.{called}\(", sample(name).sql)


@pytest.mark.parametrize("name", MAKERS)
def test_every_parameter_is_cast_and_used(name: str) -> None:
    """Case 87: an untyped parameter makes an overloaded function ambiguous."""
    statement = sample(name)
    places = [int(n) for n in re.findall(r"\$(\d+)(?=::)", statement.sql)]
    assert places == list(range(1, len(statement.params) + 1))
    assert statement.sql.count("$") == len(places)


@pytest.mark.parametrize("name", MAKERS)
def test_no_value_is_put_into_the_text(name: str) -> None:
    """Cases 6 and 11."""
    hostile = "'; drop table x; -- $1 %s \" \\"
    needed = [p for p in inspect.signature(MAKERS[name]).parameters.values() if p.default is p.empty]
    values = [
        hostile if SAMPLES[p.name] in ("orders", "logs.*", "logs.a") else SAMPLES[p.name] for p in needed
    ]
    assert MAKERS[name](*values).sql == sample(name).sql


MOMENT = datetime(2030, 1, 2, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("delay", "sql", "param"),
    [
        (5, "$4::integer", 5),
        (-5, "$4::integer", -5),
        (MOMENT, "$4::timestamptz", MOMENT),
        (1.5, "clock_timestamp() + make_interval(secs => $4::double precision)", 1.5),
        (timedelta(hours=1), "clock_timestamp() + make_interval(secs => $4::double precision)", 3600.0),
    ],
)
def test_a_delay_takes_the_form_that_holds_it(delay: Any, sql: str, param: Any) -> None:
    statement = statements.send("orders", 1, delay=delay)
    assert statement.sql == f"select pgmq.send($1::text, $2::jsonb, $3::jsonb, {sql})"
    assert statement.params == ("orders", "1", None, param)


@pytest.mark.parametrize("none", [None, 0, 0.0])
def test_no_delay_is_no_argument(none: Any) -> None:
    """A message without delay is ready from the start; one of 0 seconds is too."""
    assert statements.send("orders", 1, delay=none).sql == "select pgmq.send($1::text, $2::jsonb, $3::jsonb)"


@pytest.mark.parametrize("bad", [datetime(2030, 1, 1), "5", True, [5]])
def test_a_delay_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(BadValue):
        statements.send("orders", 1, delay=bad)
    with pytest.raises(BadValue):
        statements.set_vt("orders", 1, bad)


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


def test_headers_that_are_not_given_are_null() -> None:
    assert statements.send("orders", None).params == ("orders", "null", None)
    assert statements.send_batch("orders", [None], [None]).params == ("orders", ["null"], [None])
    assert statements.send_batch("orders", [1], None).params == ("orders", ["1"], None)
    codec = Codec(dumps=lambda value: "null")
    assert statements.send("orders", 1, None, codec=codec).params == ("orders", "null", None)


# --- replies ---------------------------------------------------------------------------------------

ROW = {
    "msg_id": 7,
    "read_ct": 1,
    "enqueued_at": MOMENT,
    "last_read_at": MOMENT,
    "vt": MOMENT,
    "message": '{"a": 1}',
    "headers": '{"b": 2}',
    "unknown": "x",
}


@pytest.mark.parametrize("order", [list(ROW), list(reversed(ROW))])
def test_columns_are_found_by_name(order: list[str]) -> None:
    """Case 81."""
    reply = Reply(order, [[ROW[name] for name in order]])
    wanted = Message(7, 1, MOMENT, MOMENT, {"a": 1}, {"b": 2}, MOMENT)
    assert statements.read("orders", 30, 1).parse(reply) == [wanted]


def test_columns_that_are_not_there_are_none() -> None:
    """Case 81: five columns, as pgmq once had."""
    old = ["msg_id", "read_ct", "enqueued_at", "vt", "message"]
    (message,) = statements.pop("orders").parse(Reply(old, [[ROW[name] for name in old]]))
    assert message == Message(7, 1, MOMENT, MOMENT, {"a": 1}, None, None)
    (queue,) = statements.list_queues().parse(Reply(["queue_name"], [["orders"]]))
    assert queue == QueueInfo("orders")
    metrics = statements.metrics("orders").parse(Reply(["queue_name", "queue_length"], [["orders", 3]]))
    assert metrics == Metrics("orders", 3)


def test_single_values() -> None:
    assert statements.send("orders", 1).parse(Reply(["send"], [[7]])) == 7
    assert statements.send_batch("orders", [1, 2]).parse(Reply(["send_batch"], [[7], [8]])) == [7, 8]
    assert statements.archive("orders", 1).parse(Reply(["archive"], [[True]])) is True
    assert statements.create("orders").parse(Reply(["create"], [[""]])) is None
    assert statements.set_vt("orders", 1, 0).parse(Reply([], [])) is None
