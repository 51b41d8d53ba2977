"""The sequence that numbers a queue's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, error, unseen, warning
from pgqueue.doctor.survey import Queue, Survey
from pgqueue.sqltext import ident, literal

BIGGEST = 2**63 - 1


def sequence_missing(survey: Survey) -> Iterator[Finding]:
    """A queue's table that hands out no msg_id."""
    for queue, table in survey.by_table.values():
        column = survey.columns[table.oid].get("msg_id")
        if (
            table is not queue.table
            or column is None
            or column.identity
            or (column.given and not survey.ours)
        ):
            continue
        kind = "by default" if table.kind == "p" else "always"
        default = f"alter table {table.sql} alter column msg_id drop default;\n" if column.given else ""
        yield error(
            f"{table.sql} has no sequence for msg_id",
            "every send fails",
            f"{default}alter table {table.sql} alter column msg_id set not null;\n"
            f"alter table {table.sql} alter column msg_id add generated {kind} as identity;\n{go_on(queue)}",
            queue.name,
        )


def sequence_near_end(survey: Survey, queue: Queue) -> Iterator[Finding]:
    """One whose numbers are nearly used up."""
    for sequence in _readable(survey, queue):
        used = survey.look.value("select coalesce(pg_sequence_last_value(%s::oid), 0)", sequence.oid)
        if used >= sequence.most * survey.limits.used_share:
            wider = sequence.most < BIGGEST
            yield warning(
                f"the sequence {sequence.name} stands at {used:,} of {sequence.most:,}",
                "when it ends, every send fails",
                f"alter sequence {sequence.name} as bigint no maxvalue;"
                if wider
                else "-- there are no higher numbers: create another queue, and let senders change over to it",
                queue.name,
            )


def sequence_behind(survey: Survey, queue: Queue) -> Iterator[Finding]:
    """One that stands below ids which are taken, as after rows were copied in by hand."""
    for sequence in _readable(survey, queue):
        # Ids first: whoever sends meanwhile only moves the sequence on.
        taken = max(_highest(survey, queue), default=0)
        used = survey.look.value("select coalesce(pg_sequence_last_value(%s::oid), 0)", sequence.oid)
        if taken > used:
            yield error(
                f"the sequence {sequence.name} stands at {used:,}, and there is a message {taken:,}",
                "sends or archives fail, or two messages get one id",
                go_on(queue),
                queue.name,
            )


def sequence_hidden(survey: Survey, queue: Queue) -> Iterator[Finding]:
    """One that this role may not look at."""
    for sequence in _sequences(survey, queue):
        if not sequence.readable:
            yield unseen(
                f"the sequence {sequence.name}",
                "this role may not select from it",
                f"-- as its owner\ngrant select on sequence {sequence.name} to {survey.role};",
                queue.name,
            )


def _sequences(survey: Survey, queue: Queue) -> list[Any]:
    return survey.sequences.get(queue.table.oid, []) if queue.table else []


def _readable(survey: Survey, queue: Queue) -> list[Any]:
    return [one for one in _sequences(survey, queue) if one.readable]


def _highest(survey: Survey, queue: Queue) -> Iterator[int]:
    """The highest id in the table and in the archive, where an index finds it."""
    for table in queue.tables:
        indexed = any(one.first == "msg_id" and one.valid for one in survey.indexes_of[table.oid])
        if indexed and table.readable:
            yield survey.look.value(f"select coalesce(max(m.msg_id), 0) from {table.sql} m")


def go_on(queue: Queue) -> str:
    """What lets the sequence go on after every id that is taken."""
    highest = [f"(select max(m.msg_id) from {table.sql} m)" for table in queue.tables]
    table = literal(ident("pgmq", queue.names.table).text)
    return f"select setval(pg_get_serial_sequence({table}, 'msg_id'), greatest({', '.join(highest)}, 1));"
