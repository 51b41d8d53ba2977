"""Half-made queues: a part is missing, or is not what it should be."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.checks.sequences import go_on
from pgqueue.doctor.findings import Finding, error, unseen, warning
from pgqueue.doctor.survey import KINDS, Queue, Relation, Survey
from pgqueue.names import object_name
from pgqueue.sqltext import INDEXES, ident, literal


def table_missing(survey: Survey) -> Iterator[Finding]:
    """In the list of queues, without a table."""
    for queue in survey.queues:
        if queue.registered and queue.table is None:
            table = ident("pgmq", queue.names.table)
            yield error(
                f"the list has the queue, but there is no table {table}",
                "every call for it fails, and in pgmq one such queue makes metrics_all() fail for all",
                _rename_back(survey, queue, queue.names.table) or _create_or_forget(queue),
                queue.name,
            )


def _create_or_forget(queue: Queue) -> str:
    forget = f"delete from pgmq.meta where queue_name = {queue.literal};"
    if queue.is_partitioned:
        return f"{forget}\n-- and then, if it is wanted: select pgmq.create_partitioned({queue.literal});"
    return f"{_create(queue)}\n-- or, if it is not wanted: {forget}"


def _create(queue: Queue) -> str:
    """Makes the table that is missing; its ids go on after those in the archive, if that is there."""
    create = f"select pgmq.{'create_unlogged' if queue.is_unlogged else 'create'}({queue.literal});"
    return f"{create}\n{go_on(queue)}" if any(queue.tables) else create


def _rename_back(survey: Survey, queue: Queue, table: str) -> str | None:
    """For a table that bears another name now: a new one could not have its indexes, whose names are taken."""
    kinds = (
        ("archive_index",)
        if table == queue.names.archive
        else ("ready_index", "waiting_index", "msg_id_index")
    )
    indexes = [object_name(INDEXES[kind][0], queue.key, INDEXES[kind][1]) for kind in kinds]
    for row in survey.look.rows(_BEARING, indexes):
        bearing = ident("pgmq", row.name)
        return (
            f"-- {bearing} bears its indexes, so it was renamed. If it is to stay as it is: give those other names"
            f" (alter index), and then\n-- select pgmq.create({queue.literal});\n"
            f"alter table {bearing} rename to {ident(table)};"
        )
    return None


_BEARING = """
select t.relname::text as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_index i on i.indexrelid = c.oid
join pg_class t on t.oid = i.indrelid
where n.nspname = 'pgmq' and c.relname = any(%s)
limit 1
"""


def not_registered(survey: Survey) -> Iterator[Finding]:
    """A queue's table that the list of queues does not have."""
    for queue in survey.queues:
        if queue.registered is False and queue.table is not None and queue.table.is_table:
            yield warning(
                f"there is a table {queue.table.sql}, but the list has no such queue",
                "list_queues(), metrics_all() and drop_queue() pass it over, and nothing can be bound to it",
                _register(survey, queue, queue.table),
                queue.name,
            )


def _register(survey: Survey, queue: Queue, table: Relation) -> str:
    if survey.ours:
        return f"select pgmq.create({queue.literal});"
    partitioned, unlogged = (str(fact).lower() for fact in _flags(table))
    return (
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)\n"
        f"values ({queue.literal}, {partitioned}, {unlogged});"
    )


def _flags(table: Relation) -> tuple[bool, bool]:
    """is_partitioned and is_unlogged as they are."""
    return table.kind == "p", table.persistence == "u"


def archive_missing(survey: Survey) -> Iterator[Finding]:
    """A queue without an archive."""
    for queue in survey.queues:
        if queue.table is not None and queue.table.is_table and queue.archive is None:
            yield error(
                f"there is no archive {ident('pgmq', queue.names.archive)}",
                "archive() fails, so consumers that archive never get rid of a message",
                _rename_back(survey, queue, queue.names.archive) or f"select pgmq.create({queue.literal});",
                queue.name,
            )


def not_a_table(survey: Survey) -> Iterator[Finding]:
    """A view, or the like, in the place of a queue's table or archive."""
    for queue in survey.queues:
        for relation in (queue.table, queue.archive):
            if relation is not None and not relation.is_table:
                kind = KINDS[relation.kind]
                yield error(
                    f"{relation.sql} is a {kind}, not a table",
                    "whoever counts or reads all queues runs what its author wrote, with their own rights",
                    f"-- look at it first: \\d+ {relation.sql}\n"
                    f"drop {kind} {relation.sql};\n{_create(queue)}",
                    queue.name,
                )


def listed_twice(survey: Survey) -> Iterator[Finding]:
    """Two entries of the list whose names differ in case alone, and so mean one table. pgmq lets that happen."""
    first: dict[str, Queue] = {}
    for queue in survey.queues:
        other = first.setdefault(queue.key, queue)
        if queue.registered and other is not queue:
            yield warning(
                f"the list has {queue.literal} and {other.literal}, which share one table",
                "each sees the other's messages, and to drop one is to drop both",
                f"delete from pgmq.meta where queue_name = {queue.literal};",
                queue.name,
            )


def table_locked(survey: Survey) -> Iterator[Finding]:
    """A table that somebody has locked so that nobody can even read it; it was left alone."""
    for queue in survey.queues:
        for relation in (queue.table, queue.archive):
            if relation is not None and relation.locked_by is not None:
                yield unseen(
                    f"{relation.sql}, which {relation.locked_by} has locked against everybody",
                    "every call that needs it waits until that transaction ends",
                    "-- who that is, and what it does\n"
                    f"select * from pg_stat_activity where pid in (\n"
                    f"    select pid from pg_locks where relation = {literal(relation.sql)}::regclass and granted\n);",
                    queue.name,
                )


def list_is_wrong(survey: Survey) -> Iterator[Finding]:
    """The list of queues says of one what it is not."""
    for queue in survey.queues:
        if not queue.registered or queue.table is None or not queue.table.is_table:
            continue
        said, is_so = (queue.is_partitioned, queue.is_unlogged), _flags(queue.table)
        if said != is_so:
            partitioned, unlogged = (str(fact).lower() for fact in is_so)
            words = " and ".join(
                f"{'' if fact else 'not '}{word}"
                for word, was, fact in zip(("partitioned", "unlogged"), said, is_so, strict=True)
                if was != fact
            )
            yield warning(
                f"the table is {words}, and the list of queues says otherwise",
                "clients go by the list, and pgmq drops and measures the queue as what it says",
                f"update pgmq.meta set is_partitioned = {partitioned}, is_unlogged = {unlogged}\n"
                f"where queue_name = {queue.literal};",
                queue.name,
            )
