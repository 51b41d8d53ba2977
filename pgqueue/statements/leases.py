"""What a worker says about the messages it holds; a pair (msg_id, read_ct) is a lease."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pgqueue.codec import JSON
from pgqueue.names import lower, table_of
from pgqueue.statements.arrays import ids
from pgqueue.statements.statement import Reply, Statement

Lease = tuple[int, int]

UNCOUNTED = "x-pgqueue-uncounted"
"""Header: how many deliveries ended without a failure, and so do not count as attempts."""

_LEASED = """\
from {table} m
join unnest($1::bigint[], $2::integer[]) l (msg_id, read_ct)
    on l.msg_id = m.msg_id and l.read_ct = m.read_ct"""
_HEADERS = """\
case
    when jsonb_typeof(m.headers) = 'object' then m.headers
    when m.headers is null or m.headers = 'null' then '{}'
    else jsonb_build_object('x-pgqueue-headers', m.headers)
end"""


def extend(queue_name: str, leases: Iterable[Lease], vt: int) -> Statement[set[Lease]]:
    """Let leases end in vt seconds, and give those that are still held.

    A message that is locked, since its transaction is about to finish it, is held and not waited for.
    """
    leased = _leased(queue_name)
    sql = f"""\
with held as materialized (select m.msg_id, m.read_ct {leased}),
free as materialized (select m.msg_id {leased} for update of m skip locked),
extended as materialized (
    select count(*) from pgmq.set_vt($3::text, array(select f.msg_id from free f), $4::integer)
)
select h.msg_id, h.read_ct from held h cross join extended"""
    return Statement(sql.encode(), (*_pairs(leases), queue_name, vt), _leases, repeatable=True)


def uncount(queue_name: str, leases: Iterable[Lease]) -> Statement[set[Lease]]:
    """Note on messages that this delivery is no attempt, and give those whose lease is held."""
    sql = f"""\
update {table_of(queue_name)} m
set headers = h.headers || jsonb_build_object(
    '{UNCOUNTED}', 1 + case
        when jsonb_typeof(h.headers -> '{UNCOUNTED}') = 'number' then (h.headers ->> '{UNCOUNTED}')::numeric
        else 0
    end
)
from (select m.msg_id, m.read_ct, {_HEADERS} as headers {_leased(queue_name)} for update of m) h
where m.msg_id = h.msg_id
returning m.msg_id, m.read_ct"""
    return Statement(sql.encode(), _pairs(leases), _leases)


def mark(queue_name: str, lease: Lease, headers: Mapping[str, Any]) -> Statement[bool]:
    """Add headers to a message. False if the lease is lost."""
    sql = f"""\
update {table_of(queue_name)} m
set headers = {_HEADERS} || $3::jsonb
where m.msg_id = $1::bigint and m.read_ct = $2::integer
returning true"""
    return Statement(sql.encode(), (*lease, JSON.encode(headers)), lambda reply: bool(reply.rows))


def copy(queue_name: str, lease: Lease, to: str, headers: Mapping[str, Any]) -> Statement[bool]:
    """Send a message to another queue too, with further headers. False if the lease is lost."""
    sql = f"""\
select pgmq.send($4::text, m.message, ({_HEADERS} - '{UNCOUNTED}') || $3::jsonb)
from (
    select * from {table_of(queue_name)} m where m.msg_id = $1::bigint and m.read_ct = $2::integer for update
) m"""
    params = (*lease, JSON.encode(headers), to)
    return Statement(sql.encode(), params, lambda reply: bool(reply.rows))


# --- periodic messages ----------------------------------------------------------------------------


def now() -> Statement[datetime]:
    """The server's clock."""
    return Statement(b"select clock_timestamp()", (), lambda reply: reply.rows[0][0], repeatable=True)


def begin_ticks(queue_name: str, name: str, at: datetime) -> Statement[None]:
    """Let the ticks of a periodic message begin after an instant, unless they have begun."""
    sql = b"""\
insert into pgqueue.tick (queue_name, name, at) values ($1::text, $2::text, $3::timestamptz)
on conflict (queue_name, name) do nothing
returning true"""
    return Statement(sql, (lower(queue_name), name, at), lambda reply: None, repeatable=True)


def tick(
    queue_name: str, name: str, at: datetime, body: str, headers: Mapping[str, Any]
) -> Statement[int | None]:
    """Send the message of a tick and give its id; None if that tick, or a later one, was sent already."""
    sql = b"""\
with ours as (
    insert into pgqueue.tick as t (queue_name, name, at) values ($1::text, $2::text, $3::timestamptz)
    on conflict (queue_name, name) do update set at = excluded.at where t.at < excluded.at
    returning true
)
select pgmq.send($1::text, $4::jsonb, $5::jsonb) from ours"""
    params = (lower(queue_name), name, at, body, JSON.encode(headers))
    return Statement(sql, params, lambda reply: reply.rows[0][0] if reply.rows else None, repeatable=True)


def missing(queue_names: Iterable[str]) -> Statement[list[str]]:
    """Those queues that are not there; asked so that it cannot fail."""
    sql = b"""\
select n.name from unnest($1::text[], $2::text[]) n (name, lowered)
where to_regclass('pgmq.' || quote_ident('q_' || n.lowered)) is null"""
    names = list(queue_names)
    params = (names, [lower(name) for name in names])
    return Statement(sql, params, lambda reply: [row[0] for row in reply.rows], repeatable=True)


# --- texts ----------------------------------------------------------------------------------------


def _leased(queue_name: str) -> str:
    return _LEASED.format(table=table_of(queue_name))


def _pairs(leases: Iterable[Lease]) -> tuple[str, str]:
    pairs = list(leases)
    return ids(msg_id for msg_id, _ in pairs), ids(read_ct for _, read_ct in pairs)


def _leases(reply: Reply) -> set[Lease]:
    return {(row[0], row[1]) for row in reply.rows}
