"""What a read of one message walks: today, by asking the server; in pgqueue's shape, by counting.

Measured is the search alone, the SELECT that finds the message, and without its FOR UPDATE. So the doctor locks no
message, takes no transaction id, writes nothing, works on a standby and with the right to select, and walks the same
rows: those that are leased or delayed hide by their vt, not by a lock. The one error: a message another reader has
locked at this moment is counted as free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from pgqueue.doctor.findings import Reading
from pgqueue.doctor.survey import Queue, Relation, Survey
from pgqueue.script import condition, floor_sql

#: Due waiting messages that a read of ours looks at, at most, when it asks for one: 32 + qty, and one to know of more.
MOST_DUE = 34


@dataclass(frozen=True, slots=True)
class _Walk:
    rows: int
    pages: int
    milliseconds: float


def read_of(survey: Survey, queue: Queue, table: Relation) -> Reading:
    """Measure and count for one queue, in a transaction of its own. What cannot be seen is said in `problem`."""
    name, messages = queue.name, table.rows
    if table.locked_by:
        return Reading(name, messages, problem=f"{table.locked_by} has locked it")
    if not table.readable:
        return Reading(name, messages, problem=f"this role may not select from {table.sql}")
    if not survey.ours and not survey.reads_as_pgmq:
        return Reading(name, messages, problem="the function pgmq.read here is not one of pgmq's own")
    try:
        walk = _walk_of_ours(survey, queue, table) if survey.ours else _walk_of_pgmq(survey, table)
        if survey.ours:
            return Reading(name, messages, walk.rows, walk.pages, walk.milliseconds, walk.rows)
    except psycopg.errors.QueryCanceled:
        return Reading(name, messages, problem=_stopped(survey))
    except psycopg.DatabaseError as problem:
        return Reading(name, messages, problem=survey.look.said(problem))
    adopted, at_most = _adopted(survey, table)
    return Reading(name, messages, walk.rows, walk.pages, walk.milliseconds, adopted, at_most)


def _stopped(survey: Survey) -> str:
    return f"a read took longer than {survey.limits.statement_ms:,} ms, and was stopped"


def _walk_of_pgmq(survey: Survey, table: Relation) -> _Walk:
    """Its statement is planned anew at each call, with the values in it: so is this one."""
    with survey.look.transaction():
        return _explained(
            survey,
            f"select msg_id from {table.sql} where vt <= clock_timestamp() order by msg_id asc limit 1",
        )


def _walk_of_ours(survey: Survey, queue: Queue, table: Relation) -> _Walk:
    """The two scans of a compiled reader: due waiting messages, ready ones; each from its floor on."""
    ready, waiting = condition("ready"), condition("waiting")
    with survey.look.transaction():
        for plan in ("enable_seqscan", "enable_bitmapscan"):
            survey.look.set(plan, "off")
        from_id, since = _floor(survey, queue)
        walks = [
            _explained(
                survey,
                f"select m.msg_id from {table.sql} m where {waiting} and m.vt >= {since} and m.vt <= now()"
                f" order by m.vt limit {MOST_DUE}",
            ),
            _explained(
                survey,
                f"select m.msg_id from {table.sql} m where {ready} and m.vt <= now() and m.msg_id >= {from_id}"
                " order by m.msg_id limit 1",
            ),
        ]
    return _Walk(
        sum(walk.rows for walk in walks),
        sum(walk.pages for walk in walks),
        sum(walk.milliseconds for walk in walks),
    )


def _floor(survey: Survey, queue: Queue) -> tuple[str, str]:
    """Where the scans begin, as literals: below lie rows that are dead."""
    from_id, since = floor_sql(queue.names)
    (row,) = survey.look.rows(f"select ({from_id})::text as id, ({since})::text as vt")
    return f"'{row.id}'::bigint", f"'{row.vt}'::timestamptz"


def _explained(survey: Survey, query: str) -> _Walk:
    """What running a query walks."""
    (plan,) = survey.look.value(f"explain (analyze, buffers, timing off, format json) {query}")
    return _Walk(
        sum(_looked_at(node) for node in _nodes(plan["Plan"])),
        plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"],
        plan["Execution Time"],
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def _looked_at(node: dict[str, Any]) -> int:
    """Live rows that one step of a plan fetched from a table, whether it kept them or not."""
    if "Relation Name" not in node:
        return 0
    each = (
        node["Actual Rows"]
        + node.get("Rows Removed by Filter", 0)
        + node.get("Rows Removed by Index Recheck", 0)
    )
    return int(each * node["Actual Loops"] + 0.5)


def _adopted(survey: Survey, table: Relation) -> tuple[int | None, bool]:
    """Rows that the scans of a compiled reader would look at, and whether that is only the most they could be.

    A message is ready or waiting by its own columns, so it is known without the indexes. At most 34 due waiting
    ones are looked at, whatever is there: where counting them takes long, that bound is the answer.
    """
    ready, waiting = condition("ready"), condition("waiting")
    try:
        # Ready messages of the future, as a clock set back leaves behind, stand in the way of those after them.
        ahead = _count(survey, table, f"m.vt > now() and {ready}", survey.limits.read_rows)
        if ahead == survey.limits.read_rows:
            return None, False
        due = _count(survey, table, f"m.vt <= now() and {waiting}", MOST_DUE)
        return due + _count(survey, table, f"m.vt <= now() and {ready}", 1) + ahead, ahead > 0
    except psycopg.errors.QueryCanceled:
        return MOST_DUE + 1, True
    except psycopg.DatabaseError as problem:
        survey.look.said(problem)
        return None, False


def _count(survey: Survey, table: Relation, condition: str, most: int) -> int:
    """How many messages there are of a kind, up to so many."""
    with survey.look.transaction():
        survey.look.set("statement_timeout", str(survey.limits.count_ms))
        found = survey.look.value(
            f"select count(*) from (select from {table.sql} m where {condition} limit {most}) m"
        )
    return int(found)
