"""Indexes: missing, broken, other than they should be, twice there, or read by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, error, info, warning
from pgqueue.doctor.survey import Queue, Relation, Survey
from pgqueue.names import object_name
from pgqueue.script import index_sql
from pgqueue.sqltext import INDEXES, ident

#: Conditions of our partial indexes, as every Postgres prints them.
CONDITIONS = {
    "ready_index": "(isfinite(vt) AND ((vt - enqueued_at) < '00:00:01'::interval))",
    "waiting_index": "((NOT isfinite(vt)) OR ((vt - enqueued_at) >= '00:00:01'::interval))",
}


def key_missing(survey: Survey) -> Iterator[Finding]:
    """A plain queue's table without an index that finds a message by its id."""
    for queue, table in survey.by_table.values():
        if table.kind == "p" or any(
            one.is_unique and one.first == "msg_id" for one in survey.indexes_of[table.oid]
        ):
            continue
        key = ident(f"{table.name[:58]}_pkey")
        yield error(
            f"{table.sql} has no primary key",
            "reads, deletes and archives walk the whole table, and one id may stand there twice",
            f"create unique index concurrently {key} on {table.sql} (msg_id);\n"
            f"alter table {table.sql} add primary key using index {key};",
            queue.name,
        )


def index_missing(survey: Survey) -> Iterator[Finding]:
    """One of pgqueue's own indexes."""
    found = {one.name for one in survey.indexes}
    for queue, table, kind in _ours(survey):
        name = _name(queue, kind)
        if name not in found:
            yield error(
                f"the index {name} is missing",
                "reads walk the whole queue instead"
                if table is queue.table
                else "archives cannot be cut by time",
                _create(queue, table, kind),
                queue.name,
            )


def index_unlike(survey: Survey) -> Iterator[Finding]:
    """One that bears the name of ours, and is another."""
    found = {one.name: one for one in survey.indexes}
    for queue, table, kind in _ours(survey):
        name = _name(queue, kind)
        if name in found and found[name].condition != CONDITIONS.get(kind):
            yield error(
                f"the index {name} is not the one that reads go by",
                "reads walk the whole queue instead",
                f"drop index {_online(table)}{ident('pgmq', name)};\n{_create(queue, table, kind)}",
                queue.name,
            )


def index_invalid(survey: Survey) -> Iterator[Finding]:
    """One whose building failed: it costs with every write, and serves no read."""
    for one in survey.indexes:
        if not one.valid:
            queue, table = survey.storage.get(one.table) or survey.by_table[one.table]
            name = ident(one.schema, one.name)
            online = "" if table.kind == "p" and one.table == table.oid else "concurrently "
            yield error(
                f"the index {name} is invalid",
                "its building failed: each write pays for it, and no read can use it",
                f"reindex index {online}{name};",
                queue.name,
            )


def index_twice(survey: Survey) -> Iterator[Finding]:
    """Two of the same make on one table."""
    for queue, table in survey.by_table.values():
        kept: dict[str, Any] = {}
        # What a constraint or a read of ours needs stays, else the older one.
        mine = survey.indexes_of[table.oid]
        for one in sorted(mine, key=lambda one: not (one.constraint or _is_ours(queue, one.name))):
            if one.make not in kept:
                kept[one.make] = one
            elif not one.constraint:
                name = ident(one.schema, one.name)
                yield warning(
                    f"the index {name} is the same as {ident(one.schema, kept[one.make].name)}",
                    "each message is written into both",
                    f"drop index {_online(table)}{name};",
                    queue.name,
                )


def index_unused(survey: Survey) -> Iterator[Finding]:
    """One of a queue's table that hardly anybody reads by, in all that the statistics remember."""
    for one in survey.indexes:
        queue, table = survey.by_table.get(one.table, (None, None))
        if queue is None or table is None or table is not queue.table or table.kind != "r":
            continue
        needed = one.is_unique or one.constraint or (survey.ours and _is_ours(queue, one.name))
        if needed or one.inserts < survey.limits.unused_inserts or one.scans * 1000 >= one.inserts:
            continue
        name = ident(one.schema, one.name)
        yield info(
            f"the index {name} was read {one.scans:,} times while {one.inserts:,} messages came in",
            _unused(survey, queue, one.name),
            f"drop index {_online(table)}{name};",
            queue.name,
        )


def _unused(survey: Survey, queue: Queue, name: str) -> str:
    if name == f"q_{queue.key}_vt_idx" and not survey.ours:
        return (
            "pgmq's reads compare vt with a clock that moves, and so cannot use it; each message pays for it"
        )
    return "each message pays for it"


def _ours(survey: Survey) -> Iterator[tuple[Queue, Relation, str]]:
    """Each index that a queue of pgqueue's has, by its kind."""
    if not survey.ours:
        return
    for queue, table in survey.by_table.values():
        if table is queue.archive:
            yield queue, table, "archive_index"
        elif table.kind == "r" or table.kind == "p":
            yield queue, table, "ready_index"
            yield queue, table, "waiting_index"
        if table is queue.table and table.kind == "p":
            yield queue, table, "msg_id_index"


def _is_ours(queue: Queue, name: str) -> bool:
    return name in [_name(queue, kind) for kind in INDEXES]


def _name(queue: Queue, kind: str) -> str:
    prefix, suffix = INDEXES[kind]
    return object_name(prefix, queue.key, suffix)


def _online(table: Relation) -> str:
    """Without keeping anybody out; of a partitioned table's index that cannot be had."""
    return "" if table.kind == "p" else "concurrently "


def _create(queue: Queue, table: Relation, kind: str) -> str:
    """The statement that makes an index of ours, as the template has it."""
    return f"{index_sql(kind, queue.names)};".replace("create index ", f"create index {_online(table)}", 1)
