"""Statements as values: no server, no connection."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from pgqueue.codec import JSON, Codec
from pgqueue.errors import BadValue, LostLease
from pgqueue.model import COLUMNS, MessageRecord, Metrics, QueueInfo
from pgqueue.statements import installation
from pgqueue.statements.arrays import array, ids
from pgqueue.statements.queue import QueueCalls, probe
from pgqueue.statements.statement import Reply, Statement

HOSTILE = "'; drop table x; -- $1 %s \" \\"
SAMPLES: dict[str, Any] = {
    "queue_name": HOSTILE,
    "message": {"a": HOSTILE},
    "messages": [HOSTILE, 2],
    "msg_id": 7,
    "msg_ids": [7, 8],
    "read_ct": 1,
    "vt": 30,
    "delay": None,
    "qty": 5,
    "after_msg_id": 0,
    "done": [7],
    "done_ct": [1],
    "archive": True,
    "pattern": HOSTILE,
    "routing_key": HOSTILE,
    "throttle_interval_ms": 250,
}
MOMENT = datetime(2030, 1, 2, tzinfo=timezone.utc)


class Place:
    """Where messages come from, as far as they ask."""

    def __init__(self, name: str) -> None:
        self.name = name

    def decode(self, text: str | None) -> Any:
        return JSON.decode(text)

    def decode_headers(self, text: str | None) -> Any:
        return None if text is None else JSON.decode(text)


def calls(name: str = "orders") -> QueueCalls[Any, MessageRecord[Any]]:
    return QueueCalls(name, partial(MessageRecord, Place(name)))


def makers(things: dict[str, Any]) -> dict[str, Callable[..., Statement[Any]]]:
    return {
        name: maker
        for name, maker in things.items()
        if inspect.isfunction(maker) and "Statement[" in str(maker.__annotations__.get("return"))
    }


ON_ALL = {name: maker for name, maker in makers(vars(installation)).items() if name != "call"}
ON_ONE = {n: m for n, m in makers(vars(QueueCalls)).items() if not n.startswith("_")}
ALL = [*ON_ALL, *ON_ONE]
CALLED = {
    "archive_batch": "archive",
    "delete_batch": "delete",
    "set_vt_batch": "set_vt",
    "purge": "purge_queue",
}


def sample(name: str) -> Statement[Any]:
    maker = ON_ALL.get(name) or ON_ONE[name]
    parameters = [p for p in inspect.signature(maker).parameters.values() if p.default is p.empty]
    given = [SAMPLES[p.name] for p in parameters if p.name != "self"]
    return maker(*([] if name in ON_ALL else [calls(HOSTILE)]), *given)


@pytest.mark.parametrize(
    "name", [one for one in ALL if one not in ("set_lease", "bulk_terms", "notification_queue_usage")]
)
def test_every_statement_calls_the_function_of_its_name(name: str) -> None:
    statement = sample(name)
    assert re.match(rf"select (\* from )?(pgmq|pgqueue)\.{CALLED.get(name, name)}\(", statement.sql.decode())
    if statement.compiled is not None:
        assert f'${name}"(' in statement.compiled.decode()


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_cast_and_used(name: str) -> None:
    """Case 87: an untyped parameter makes an overloaded function ambiguous."""
    statement = sample(name)
    texts = [(statement.sql.decode(), len(statement.params))]
    if statement.compiled is not None:
        assert statement.params[-1] == statement.queue == HOSTILE
        texts.append((statement.compiled.decode(), len(statement.params) - 1))
    for sql, count in texts:
        own = sql.replace(f'"{identifier(HOSTILE)}', "").replace(f'"q_{identifier(HOSTILE)}', "")
        places = [int(n) for n in re.findall(r"\$(\d+)(?=::)", own)]
        assert sorted(set(places)) == list(range(1, count + 1))
        assert len(re.findall(r"\$\d", own)) == len(places)


def identifier(name: str) -> str:
    return name.replace('"', '""')


@pytest.mark.parametrize("name", ALL)
def test_no_value_is_put_into_the_text(name: str) -> None:
    """Cases 6 and 11: but for the queue's own name, as a quoted identifier."""
    statement = sample(name)
    for sql in (statement.sql.decode(), (statement.compiled or b"").decode()):
        rest = re.sub(r'"(?:q_)?' + re.escape(identifier(HOSTILE)) + r'(?:\$\w+)?"', "", sql)
        assert "drop" not in rest.replace("drop_queue", "").replace("isdropped", "")


def test_the_probe_cannot_fail() -> None:
    assert probe(HOSTILE).params == (HOSTILE, HOSTILE)
    assert probe("Größe").params == ("Größe", "größe")


LATER = "clock_timestamp() + make_interval(secs => ${}::double precision)"


@pytest.mark.parametrize(
    ("delay", "sql", "compiled", "param"),
    [
        (5, "${}::integer", LATER, 5),
        (-5, "${}::integer", LATER, -5),
        (MOMENT, "${}::timestamptz", "${}::timestamptz", MOMENT),
        (1.5, LATER, LATER, 1.5),
        (timedelta(hours=1), LATER, LATER, 3600.0),
    ],
)
def test_a_delay_takes_the_form_that_holds_it(delay: Any, sql: str, compiled: str, param: Any) -> None:
    send = calls().send(1, None, delay)
    assert send.sql.decode() == f"select pgmq.send($4::text, $1::jsonb, $2::jsonb, {sql.format(3)})"
    wanted = f'select pgqueue."orders$send"($1::jsonb, $2::jsonb, {compiled.format(3)})'
    assert (send.compiled or b"").decode() == wanted
    assert send.params == ("1", None, param, "orders")
    assert compiled.format(2) in (calls().set_vt(7, delay).compiled or b"").decode()


@pytest.mark.parametrize("none", [None, 0, 0.0, timedelta(0)])
def test_no_delay_is_no_argument(none: Any) -> None:
    """A message without delay is ready from the start; one of 0 seconds is too."""
    assert calls().send(1, None, none).sql == b"select pgmq.send($3::text, $1::jsonb, $2::jsonb)"


@pytest.mark.parametrize("bad", [datetime(2030, 1, 1), "5", True, [5]])
def test_a_delay_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(BadValue):
        calls().send(1, None, bad)
    with pytest.raises(BadValue):
        calls().set_vt(1, bad)


def test_headers_that_are_not_given_are_null() -> None:
    assert calls().send(None).params == ("null", None, "orders")
    assert calls().send_batch([None], [None]).params == ('{"null"}', "{NULL}", "orders")
    assert calls().send_batch([1], None).params == ('{"1"}', None, "orders")
    one = QueueCalls("orders", MessageRecord, Codec(dumps=lambda value: "null", loads=str))
    assert one.send(1).params == ("null", None, "orders")


def test_arrays_are_written_as_postgres_reads_them() -> None:
    assert ids([1, -2]) == "{1,-2}"
    assert array(['"a\\', None, "NULL", "{,}"]) == r'{"\"a\\",NULL,"NULL","{,}"}'
    for bad in (["1"], [True], [1.5]):
        with pytest.raises(BadValue):
            ids(bad)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("order", [list(ROW), list(reversed(ROW)), COLUMNS])
def test_columns_are_found_by_name(order: list[str]) -> None:
    """Case 81."""
    (message,) = calls().read(30, 1).parse(Reply(order, [[ROW[name] for name in order]]))
    assert [getattr(message, name) for name in COLUMNS] == [7, 1, MOMENT, MOMENT, MOMENT, {"a": 1}, {"b": 2}]


def test_columns_that_are_not_there_are_none() -> None:
    """Case 81: five columns, as pgmq once had."""
    old = ["msg_id", "read_ct", "enqueued_at", "vt", "message"]
    (message,) = calls().pop(1).parse(Reply(old, [[ROW[name] for name in old]]))
    assert [getattr(message, name) for name in COLUMNS] == [7, 1, MOMENT, None, MOMENT, {"a": 1}, None]
    (queue,) = installation.list_queues().parse(Reply(["queue_name"], [["orders"]]))
    assert queue == QueueInfo("orders")
    metrics = calls().metrics().parse(Reply(["queue_name", "queue_length"], [["orders", 3]]))
    assert metrics == Metrics("orders", 3)


def test_single_values() -> None:
    assert calls().send(1).parse(Reply(["send"], [[7]])) == 7
    assert calls().send_batch([1, 2]).parse(Reply(["send_batch"], [[7], [8]])) == [7, 8]
    assert calls().archive(1).parse(Reply(["archive"], [[True]])) is True
    assert installation.create("orders").parse(Reply(["create"], [[""]])) is None
    assert calls().set_vt(1, 0).parse(Reply([], [])) is None
    with pytest.raises(LostLease, match="message 7, delivery 2"):
        calls().set_lease(7, 2, 30).parse(Reply([], []))
