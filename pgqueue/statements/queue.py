"""Calls on one queue: by its compiled functions where it has them, else by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pgqueue.codec import JSON, Codec
from pgqueue.errors import BadValue, LostLease, NoSuchQueue
from pgqueue.model import COLUMNS, MessageRecord, Metrics
from pgqueue.names import lower, quoted, table_of
from pgqueue.statements.arrays import array, ids
from pgqueue.statements.moment import Moment, When, is_now, moment
from pgqueue.statements.statement import Reply, Statement, number, numbers, only, truth

T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound=MessageRecord[Any])

_LIST = ", ".join(f"m.{column}" for column in COLUMNS)
_VALUES = ("select {}", "select {}")
_MESSAGES = ("select * from {}", f"select {_LIST} from {{}} m")
"""What is around a call that gives plain values, or messages: by name, and compiled."""
_LEASE = """\
with mine as materialized (
    select m.msg_id from {table} m where m.msg_id = $1::bigint and m.read_ct = $2::integer for update
)
select {list} from mine cross join lateral {function} m"""

_BULK_TERMS = """\
select
    format('pgmq.%I', c.relname),
    to_char(({instant}) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00',
    not row_security_active(c.oid) and not exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass('pgqueue.policy')
            and a.attnum > 0
            and not a.attisdropped
            and a.attname not in ('queue_name', 'compiled')
    )
from pg_catalog.pg_class c
where c.relnamespace = to_regnamespace('pgmq')
    and c.relname = 'q_' || lower($1::text)
    and c.relkind in ('r', 'p')"""


class BulkTerms(NamedTuple):
    """How messages get into a queue by COPY.

    table: its table, quoted; vt: from when they can be read, as text
    free: no policy and no row security stands between, which the functions apply and COPY does not
    """

    table: str
    vt: str
    free: bool

    @property
    def copy(self) -> bytes:
        return f"copy {self.table} (vt, message, headers) from stdin".encode()


class QueueCalls(Generic[T, M]):
    """The statements of one queue.

    make: a message of the values of its columns, in the order of COLUMNS
    codec: for bodies; headers: for headers
    """

    def __init__(
        self,
        queue_name: str,
        make: Callable[..., M],
        codec: Codec[T] = JSON,
        headers: Codec[Any] = JSON,
    ) -> None:
        if not isinstance(queue_name, str):
            raise BadValue(f"a queue's name is a text, not {queue_name!r}")
        if not queue_name.isascii() and queue_name.encode(errors="replace").decode() != queue_name:
            raise BadValue("a queue's name is not UTF-8")
        self.queue_name = queue_name
        self.codec = codec
        self.headers = headers
        self._make = make
        self._texts: dict[tuple[str, str, str], tuple[bytes, bytes]] = {}

    # --- sending ----------------------------------------------------------------------------------

    def send(self, message: T, headers: Any = None, delay: When | None = None) -> Statement[int]:
        params = (self.codec.encode(message), self.encode_headers(headers))
        if delay is None or is_now(delay):
            sql, compiled = self._text(_VALUES, "send", "pgmq.send", "$1::jsonb, $2::jsonb")
            return self._statement(sql, compiled, params, number)
        due = moment(delay, 3)
        sql, compiled = self._text(_VALUES, "send", "pgmq.send", "$1::jsonb, $2::jsonb, {}", due)
        return self._statement(sql, compiled, (*params, due.param), number)

    def send_batch(
        self, messages: Iterable[T], headers: Sequence[Any] | None = None, delay: When | None = None
    ) -> Statement[list[int]]:
        heads = None if headers is None else array([self.encode_headers(one) for one in headers])
        params = (array([self.codec.encode(message) for message in messages]), heads)
        if delay is None or is_now(delay):
            sql, compiled = self._text(_VALUES, "send_batch", "pgmq.send_batch", "$1::jsonb[], $2::jsonb[]")
            return self._statement(sql, compiled, params, numbers)
        due = moment(delay, 3)
        arguments = "$1::jsonb[], $2::jsonb[], {}"
        sql, compiled = self._text(_VALUES, "send_batch", "pgmq.send_batch", arguments, due)
        return self._statement(sql, compiled, (*params, due.param), numbers)

    def bulk_terms(self, delay: When | None) -> Statement[BulkTerms]:
        """How messages can be copied in. Its parse raises NoSuchQueue."""
        due = None if delay is None or is_now(delay) else moment(delay, 2)
        sql = _BULK_TERMS.format(instant=due.compiled if due else "now()")

        def parse(reply: Reply) -> BulkTerms:
            if not reply.rows:
                raise NoSuchQueue(f'queue "{self.queue_name}" does not exist', sqlstate="42P01")
            return BulkTerms(*reply.rows[0])

        params = (self.queue_name, due.param) if due else (self.queue_name,)
        return Statement(sql.encode(), params, parse, repeatable=True)

    # --- reading ----------------------------------------------------------------------------------

    def read(self, vt: int, qty: int, conditional: Any = None) -> Statement[list[M]]:
        whole(vt=vt, qty=qty)
        if conditional is not None:
            sql = b"select * from pgmq.read($1::text, $2::integer, $3::integer, $4::jsonb)"
            return Statement(sql, (self.queue_name, vt, qty, JSON.encode(conditional)), self.messages)
        sql, compiled = self._text(_MESSAGES, "read", "pgmq.read", "$1::integer, $2::integer")
        return self._statement(sql, compiled, (vt, qty), self.messages, COLUMNS)

    def fetch(
        self, vt: int, qty: int, done: Iterable[int], done_ct: Iterable[int] | None, archive: bool
    ) -> Statement[list[M]]:
        whole(vt=vt, qty=qty)
        arguments = "$1::integer, $2::integer, $3::bigint[], $4::integer[], $5::boolean"
        sql, compiled = self._text(_MESSAGES, "fetch", "pgqueue.fetch", arguments)
        return self._statement(
            sql, compiled, (vt, qty, ids(done), done_ct and ids(done_ct), archive), self.messages, COLUMNS
        )

    def read_grouped(self, vt: int, qty: int) -> Statement[list[M]]:
        return self._grouped("read_grouped", vt, qty)

    def read_grouped_rr(self, vt: int, qty: int) -> Statement[list[M]]:
        return self._grouped("read_grouped_rr", vt, qty)

    def read_grouped_head(self, vt: int, qty: int) -> Statement[list[M]]:
        return self._grouped("read_grouped_head", vt, qty)

    def pop(self, qty: int) -> Statement[list[M]]:
        whole(qty=qty)
        sql, compiled = self._text(_MESSAGES, "pop", "pgmq.pop", "$1::integer")
        return self._statement(sql, compiled, (qty,), self.messages, COLUMNS)

    def peek(self, qty: int, after_msg_id: int) -> Statement[list[M]]:
        sql = b"select * from pgqueue.peek($1::text, $2::integer, $3::bigint)"
        return Statement(sql, (self.queue_name, qty, after_msg_id), self.messages, repeatable=True)

    # --- what becomes of a message ----------------------------------------------------------------

    def archive(self, msg_id: int) -> Statement[bool]:
        whole(msg_id=msg_id)
        sql, compiled = self._text(_VALUES, "archive", "pgmq.archive", "$1::bigint")
        return self._statement(sql, compiled, (msg_id,), truth)

    def archive_batch(self, msg_ids: Iterable[int]) -> Statement[list[int]]:
        sql, compiled = self._text(_VALUES, "archive_batch", "pgmq.archive", "$1::bigint[]")
        return self._statement(sql, compiled, (ids(msg_ids),), numbers)

    def delete(self, msg_id: int) -> Statement[bool]:
        whole(msg_id=msg_id)
        sql, compiled = self._text(_VALUES, "delete", "pgmq.delete", "$1::bigint")
        return self._statement(sql, compiled, (msg_id,), truth)

    def delete_batch(self, msg_ids: Iterable[int]) -> Statement[list[int]]:
        sql, compiled = self._text(_VALUES, "delete_batch", "pgmq.delete", "$1::bigint[]")
        return self._statement(sql, compiled, (ids(msg_ids),), numbers)

    def complete(self, msg_id: int, read_ct: int, archive: bool) -> Statement[None]:
        arguments = "$1::bigint, $2::integer, $3::boolean"
        sql, compiled = self._text(_VALUES, "complete", "pgqueue.complete", arguments)
        return self._statement(sql, compiled, (msg_id, read_ct, archive), lambda reply: None)

    def set_vt(self, msg_id: int, vt: When) -> Statement[M | None]:
        whole(msg_id=msg_id)
        due = moment(vt, 2)
        sql, compiled = self._text(_MESSAGES, "set_vt", "pgmq.set_vt", "$1::bigint, {}", due)
        return self._statement(sql, compiled, (msg_id, due.param), self._first, COLUMNS)

    def set_vt_batch(self, msg_ids: Iterable[int], vt: When) -> Statement[list[M]]:
        due = moment(vt, 2)
        sql, compiled = self._text(_MESSAGES, "set_vt_batch", "pgmq.set_vt", "$1::bigint[], {}", due)
        return self._statement(sql, compiled, (ids(msg_ids), due.param), self.messages, COLUMNS)

    def set_lease(self, msg_id: int, read_ct: int, vt: When) -> Statement[M]:
        """set_vt for whoever holds the lease. Its parse raises LostLease."""
        due = moment(vt, 3)
        table = table_of(self.queue_name)
        compiled = _LEASE.format(
            table=table, list=_LIST, function=f"{self._function('set_vt')}(mine.msg_id, {due.compiled})"
        )
        sql = _LEASE.format(
            table=table, list="m.*", function=f"pgmq.set_vt($4::text, mine.msg_id, {due.sql})"
        )

        def parse(reply: Reply) -> M:
            found = self.messages(reply)
            if not found:
                raise LostLease(
                    f"the lease on message {msg_id}, delivery {read_ct}, is lost", sqlstate="PQ001"
                )
            return found[0]

        return self._statement(sql.encode(), compiled.encode(), (msg_id, read_ct, due.param), parse, COLUMNS)

    # --- the whole queue --------------------------------------------------------------------------

    def metrics(self) -> Statement[Metrics]:
        sql = b"select * from pgmq.metrics($1::text)"
        return Statement(sql, (self.queue_name,), only(Metrics), repeatable=True)

    def purge(self) -> Statement[int]:
        return Statement(b"select pgmq.purge_queue($1::text)", (self.queue_name,), number)

    # --- texts ------------------------------------------------------------------------------------

    def _text(
        self, form: tuple[str, str], function: str, by_name: str, arguments: str, due: Moment | None = None
    ) -> tuple[bytes, bytes]:
        """A call by name and compiled. form: what is around each; due: for the {} in the arguments."""
        late = due.sql if due else ""
        key = (function, arguments, late)
        if key not in self._texts:
            place = len(re.findall(r"\$\d", arguments + late)) + 1
            named = f"{by_name}(${place}::text, {arguments.format(late)})"
            compiled = f"{self._function(function)}({arguments.format(due.compiled if due else '')})"
            self._texts[key] = (form[0].format(named).encode(), form[1].format(compiled).encode())
        return self._texts[key]

    def _grouped(self, function: str, vt: int, qty: int) -> Statement[list[M]]:
        whole(vt=vt, qty=qty)
        sql = f"select * from pgmq.{function}($1::text, $2::integer, $3::integer)"
        return Statement(sql.encode(), (self.queue_name, vt, qty), self.messages)

    def _function(self, suffix: str) -> str:
        return f"pgqueue.{quoted(f'{lower(self.queue_name)}${suffix}')}"

    def _statement(
        self,
        sql: bytes,
        compiled: bytes,
        params: tuple[Any, ...],
        parse: Callable[[Reply], R],
        shape: tuple[str, ...] = (),
    ) -> Statement[R]:
        return Statement(sql, (*params, self.queue_name), parse, self.queue_name, compiled, shape)

    def encode_headers(self, value: Any) -> str | None:
        """JSON text of headers; None stays None. Raises BadMessage."""
        return None if value is None else self.headers.encode(value)

    # --- replies ----------------------------------------------------------------------------------

    def messages(self, reply: Reply) -> list[M]:
        """Rows as messages, by the names of columns: other servers have other ones."""
        make = self._make
        if reply.columns is COLUMNS:
            return [make(*row) for row in reply.rows]
        places = {name: place for place, name in enumerate(reply.columns)}
        wanted = [places.get(name) for name in COLUMNS]
        return [make(*[None if at is None else row[at] for at in wanted]) for row in reply.rows]

    def _first(self, reply: Reply) -> M | None:
        return next(iter(self.messages(reply)), None)


def whole(**numbers: int) -> None:
    """Raises BadValue, with its name, for what is no integer."""
    for name, value in numbers.items():
        if not isinstance(value, int):
            raise BadValue(f"{name} is a whole number, not {value!r}")


def several(messages: Iterable[T]) -> Iterable[T]:
    """The messages. Raises BadValue for one message where several belong: its parts would be sent."""
    if isinstance(messages, (str, bytes, Mapping)):
        raise BadValue(f"several messages, in a list for instance, not one {type(messages).__name__}")
    return messages


def copy_line(vt: str, message: str, headers: str | None) -> str:
    """A row of (vt, message, headers) in COPY's text format."""
    return f"{vt}\t{_copied(message)}\t{_copied(headers) if headers is not None else _NULL}\n"


_NULL = r"\N"


def _copied(text: str) -> str:
    escaped = text.replace("\\", r"\\") if "\\" in text else text
    if escaped.isprintable():  # JSON as we write it; text of others may be on several lines
        return escaped
    return escaped.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")


def probe(queue_name: str) -> Statement[bool]:
    """Whether the queue has compiled functions, asked so that it cannot fail."""
    sql = b"""\
select lower($1::text) = $2::text and strpos($1::text, '$') = 0
    and to_regproc('pgqueue.' || quote_ident($2::text || '$send')) is not null"""
    return Statement(sql, (queue_name, lower(queue_name)), truth, repeatable=True)
