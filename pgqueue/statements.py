"""Each call of pgmq's and pgqueue's SQL as a value: text, parameters, and how to read the answer.

No connection here and no waiting: a client sends `sql` with `params` (placeholders $1, $2 …) and hands the
answer to `parse`. Every parameter is cast: the SQL functions are overloaded, and an untyped one is ambiguous.
JSON travels as text both ways, so that no codec set on the caller's connection can change what is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

from pgqueue.errors import BadMessage, BadValue
from pgqueue.model import Message, Metrics, NotifyThrottle, QueueInfo, RoutedId, TopicBinding, Upkeep, Version

T = TypeVar("T")
Seconds = int | float | timedelta
"""A length of time, negative too."""
When = Seconds | datetime
"""Seconds from now, or an instant: a datetime with a time zone."""


class Reply(NamedTuple):
    """What a server answered: the names of the columns and the rows, JSON in them as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One call. sql has placeholders $1, $2 …; parse turns the server's reply into the result."""

    sql: str
    params: tuple[Any, ...]
    parse: Callable[[Reply], T]


class JsonText(str):
    """Text that is JSON already: it is sent as it stands, digit for digit."""

    __slots__ = ()


def _dumps(value: Any) -> str:
    return value if isinstance(value, JsonText) else json.dumps(value, allow_nan=False)


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # jsonb's integers may be longer than Python reads (4300 digits)
        return json.loads(text, parse_int=Decimal)


@dataclass(frozen=True, slots=True)
class Codec:
    """How messages and headers become JSON text (dumps) and Python values again (loads)."""

    dumps: Callable[[Any], str] = _dumps
    loads: Callable[[str], Any] = _loads

    def encode(self, value: Any) -> str:
        """The JSON text of a message. Raises BadMessage."""
        try:
            return self.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadMessage(f"the message is not JSON: {error}") from error

    def encode_headers(self, value: Any) -> str | None:
        """The JSON text of headers; None stays None. Raises BadMessage."""
        return None if value is None else self.encode(value)

    def decode(self, text: str | None) -> Any:
        """A message or headers out of its JSON text; SQL null is None. Raises BadMessage."""
        try:
            return None if text is None else self.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadMessage(f"a message cannot be decoded: {error}") from error


PLAIN = Codec()
"""Python's own json."""
AS_TEXT = Codec(loads=JsonText)
"""Reads JSON as text, digit for digit."""


# --- queues ---------------------------------------------------------------------------------------


def create(queue_name: str) -> Statement[None]:
    return _call("select pgmq.create($1::text)", queue_name)


def create_unlogged(queue_name: str) -> Statement[None]:
    return _call("select pgmq.create_unlogged($1::text)", queue_name)


def create_partitioned(
    queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
) -> Statement[None]:
    sql = "select pgmq.create_partitioned($1::text, $2::text, $3::text)"
    return _call(sql, queue_name, partition_interval, retention_interval)


def drop_queue(queue_name: str) -> Statement[bool]:
    return Statement("select pgmq.drop_queue($1::text)", (queue_name,), _truth)


def purge_queue(queue_name: str) -> Statement[int]:
    return Statement("select pgmq.purge_queue($1::text)", (queue_name,), _number)


def list_queues() -> Statement[list[QueueInfo]]:
    return Statement("select * from pgmq.list_queues()", (), _each(QueueInfo))


def metrics(queue_name: str) -> Statement[Metrics]:
    return Statement("select * from pgmq.metrics($1::text)", (queue_name,), _only(Metrics))


def metrics_all() -> Statement[list[Metrics]]:
    return Statement("select * from pgmq.metrics_all()", (), _each(Metrics))


def version() -> Statement[Version]:
    return Statement("select * from pgqueue.version()", (), _only(Version))


def maintain() -> Statement[list[Upkeep]]:
    return Statement("select * from pgqueue.maintain()", (), _each(Upkeep))


# --- messages -------------------------------------------------------------------------------------


def send(
    queue_name: str, message: Any, headers: Any = None, delay: When | None = None, codec: Codec = PLAIN
) -> Statement[int]:
    params = (queue_name, codec.encode(message), codec.encode_headers(headers))
    due, after = _due(delay, 4)
    sql = f"select pgmq.send($1::text, $2::jsonb, $3::jsonb{due})"
    return Statement(sql, params + after, _number)


def send_batch(
    queue_name: str,
    messages: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: When | None = None,
    codec: Codec = PLAIN,
) -> Statement[list[int]]:
    params = (queue_name, *_arrays(messages, headers, codec))
    due, after = _due(delay, 4)
    sql = f"select pgmq.send_batch($1::text, $2::jsonb[], $3::jsonb[]{due})"
    return Statement(sql, params + after, _numbers)


def read(
    queue_name: str, vt: int, qty: int, conditional: Any = None, codec: Codec = PLAIN
) -> Statement[list[Message]]:
    if conditional is None:
        sql = "select * from pgmq.read($1::text, $2::integer, $3::integer)"
        return Statement(sql, (queue_name, vt, qty), _messages(codec))
    sql = "select * from pgmq.read($1::text, $2::integer, $3::integer, $4::jsonb)"
    return Statement(sql, (queue_name, vt, qty, codec.encode(conditional)), _messages(codec))


def read_grouped(queue_name: str, vt: int, qty: int, codec: Codec = PLAIN) -> Statement[list[Message]]:
    sql = "select * from pgmq.read_grouped($1::text, $2::integer, $3::integer)"
    return Statement(sql, (queue_name, vt, qty), _messages(codec))


def read_grouped_rr(queue_name: str, vt: int, qty: int, codec: Codec = PLAIN) -> Statement[list[Message]]:
    sql = "select * from pgmq.read_grouped_rr($1::text, $2::integer, $3::integer)"
    return Statement(sql, (queue_name, vt, qty), _messages(codec))


def read_grouped_head(queue_name: str, vt: int, qty: int, codec: Codec = PLAIN) -> Statement[list[Message]]:
    sql = "select * from pgmq.read_grouped_head($1::text, $2::integer, $3::integer)"
    return Statement(sql, (queue_name, vt, qty), _messages(codec))


def pop(queue_name: str, qty: int = 1, codec: Codec = PLAIN) -> Statement[list[Message]]:
    sql = "select * from pgmq.pop($1::text, $2::integer)"
    return Statement(sql, (queue_name, qty), _messages(codec))


def peek(
    queue_name: str, qty: int = 10, after_msg_id: int = 0, codec: Codec = PLAIN
) -> Statement[list[Message]]:
    sql = "select * from pgqueue.peek($1::text, $2::integer, $3::bigint)"
    return Statement(sql, (queue_name, qty, after_msg_id), _messages(codec))


def archive(queue_name: str, msg_id: int) -> Statement[bool]:
    return Statement("select pgmq.archive($1::text, $2::bigint)", (queue_name, msg_id), _truth)


def archive_batch(queue_name: str, msg_ids: Sequence[int]) -> Statement[list[int]]:
    return Statement("select pgmq.archive($1::text, $2::bigint[])", (queue_name, list(msg_ids)), _numbers)


def delete(queue_name: str, msg_id: int) -> Statement[bool]:
    return Statement("select pgmq.delete($1::text, $2::bigint)", (queue_name, msg_id), _truth)


def delete_batch(queue_name: str, msg_ids: Sequence[int]) -> Statement[list[int]]:
    return Statement("select pgmq.delete($1::text, $2::bigint[])", (queue_name, list(msg_ids)), _numbers)


def set_vt(queue_name: str, msg_id: int, vt: When, codec: Codec = PLAIN) -> Statement[Message | None]:
    due, after = _moment(vt, 3)
    sql = f"select * from pgmq.set_vt($1::text, $2::bigint, {due})"
    parse = _messages(codec)
    return Statement(sql, (queue_name, msg_id, after), lambda reply: next(iter(parse(reply)), None))


def set_vt_batch(
    queue_name: str, msg_ids: Sequence[int], vt: When, codec: Codec = PLAIN
) -> Statement[list[Message]]:
    due, after = _moment(vt, 3)
    sql = f"select * from pgmq.set_vt($1::text, $2::bigint[], {due})"
    return Statement(sql, (queue_name, list(msg_ids), after), _messages(codec))


# --- topics ---------------------------------------------------------------------------------------


def bind_topic(pattern: str, queue_name: str) -> Statement[None]:
    return _call("select pgmq.bind_topic($1::text, $2::text)", pattern, queue_name)


def unbind_topic(pattern: str, queue_name: str) -> Statement[bool]:
    return Statement("select pgmq.unbind_topic($1::text, $2::text)", (pattern, queue_name), _truth)


def list_topic_bindings(queue_name: str | None = None) -> Statement[list[TopicBinding]]:
    if queue_name is None:
        return Statement("select * from pgmq.list_topic_bindings()", (), _each(TopicBinding))
    sql = "select * from pgmq.list_topic_bindings($1::text)"
    return Statement(sql, (queue_name,), _each(TopicBinding))


def test_routing(routing_key: str) -> Statement[list[TopicBinding]]:
    return Statement("select * from pgmq.test_routing($1::text)", (routing_key,), _each(TopicBinding))


def send_topic(
    routing_key: str, message: Any, headers: Any = None, delay: int = 0, codec: Codec = PLAIN
) -> Statement[int]:
    sql = "select pgmq.send_topic($1::text, $2::jsonb, $3::jsonb, $4::integer)"
    params = (routing_key, codec.encode(message), codec.encode_headers(headers), delay)
    return Statement(sql, params, _number)


def send_batch_topic(
    routing_key: str,
    messages: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: When | None = None,
    codec: Codec = PLAIN,
) -> Statement[list[RoutedId]]:
    params = (routing_key, *_arrays(messages, headers, codec))
    due, after = _due(delay, 4)
    sql = f"select * from pgmq.send_batch_topic($1::text, $2::jsonb[], $3::jsonb[]{due})"
    return Statement(sql, params + after, _each(RoutedId))


# --- notifications --------------------------------------------------------------------------------


def enable_notify_insert(queue_name: str, throttle_interval_ms: int = 250) -> Statement[None]:
    return _call("select pgmq.enable_notify_insert($1::text, $2::integer)", queue_name, throttle_interval_ms)


def disable_notify_insert(queue_name: str) -> Statement[None]:
    return _call("select pgmq.disable_notify_insert($1::text)", queue_name)


def update_notify_insert(queue_name: str, throttle_interval_ms: int) -> Statement[None]:
    return _call("select pgmq.update_notify_insert($1::text, $2::integer)", queue_name, throttle_interval_ms)


def list_notify_insert_throttles() -> Statement[list[NotifyThrottle]]:
    return Statement("select * from pgmq.list_notify_insert_throttles()", (), _each(NotifyThrottle))


# --- parameters -----------------------------------------------------------------------------------


def _arrays(
    messages: Sequence[Any], headers: Sequence[Any] | None, codec: Codec
) -> tuple[list[str], list[str | None] | None]:
    encoded = [codec.encode(message) for message in messages]
    return encoded, None if headers is None else [codec.encode_headers(one) for one in headers]


def _due(delay: When | None, place: int) -> tuple[str, tuple[Any, ...]]:
    """The last argument of a send: nothing for no delay, so that the message is ready from the start."""
    if delay is None or delay == 0:
        return "", ()
    sql, param = _moment(delay, place)
    return f", {sql}", (param,)


def _moment(when: When, place: int) -> tuple[str, Any]:
    """An instant or a number of seconds as pgmq's functions take them: timestamptz, or whole seconds."""
    if isinstance(when, bool) or not isinstance(when, (int, float, timedelta, datetime)):
        raise BadValue(f"seconds, a timedelta or a datetime, not {when!r}")
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise BadValue(f"{when.isoformat()} has no time zone: give a datetime that has one")
        return f"${place}::timestamptz", when
    if isinstance(when, int):
        return f"${place}::integer", when
    seconds = when.total_seconds() if isinstance(when, timedelta) else when
    return f"clock_timestamp() + make_interval(secs => ${place}::double precision)", seconds


# --- replies --------------------------------------------------------------------------------------


def _call(sql: str, *params: Any) -> Statement[None]:
    return Statement(sql, params, lambda reply: None)


def _number(reply: Reply) -> int:
    return int(reply.rows[0][0])


def _truth(reply: Reply) -> bool:
    return bool(reply.rows[0][0])


def _numbers(reply: Reply) -> list[int]:
    return [row[0] for row in reply.rows]


def _each(kind: type[T]) -> Callable[[Reply], list[T]]:
    """Rows as instances of a dataclass, by the names of columns; those it does not know are passed over."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # every model is a dataclass

    def parse(reply: Reply) -> list[T]:
        places = [(name, place) for place, name in enumerate(reply.columns) if name in known]
        return [kind(**{name: row[place] for name, place in places}) for row in reply.rows]

    return parse


def _only(kind: type[T]) -> Callable[[Reply], T]:
    parse = _each(kind)
    return lambda reply: parse(reply)[0]


def _messages(codec: Codec) -> Callable[[Reply], list[Message]]:
    """Messages whose body and headers go through the codec."""

    def parse(reply: Reply) -> list[Message]:
        decoders = [codec.decode if name in ("message", "headers") else None for name in reply.columns]
        rows = [
            [decode(value) if decode else value for decode, value in zip(decoders, row, strict=True)]
            for row in reply.rows
        ]
        return _each(Message)(Reply(reply.columns, rows))

    return parse
