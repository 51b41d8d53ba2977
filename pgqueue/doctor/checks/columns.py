"""Columns out of line. What is in line says the installation itself: its type message_record has the columns."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, error
from pgqueue.doctor.survey import Queue, Relation, Survey
from pgqueue.sqltext import ident

#: Columns that no row goes without, and what they are when a call gives nothing.
REQUIRED = ("msg_id", "read_ct", "enqueued_at", "vt")
DEFAULTS = {"read_ct": "0", "enqueued_at": "now()", "archived_at": "now()"}

_RECORD = """
select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type
from pg_attribute a
join pg_type t on t.typrelid = a.attrelid
join pg_namespace n on n.oid = t.typnamespace
where n.nspname = 'pgmq' and t.typname = 'message_record' and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""


def _tables(survey: Survey) -> Iterator[tuple[Queue, Relation, dict[str, str]]]:
    """Each table, with the columns that it should have and their types."""
    record = {row.name: row.type for row in survey.look.rows(_RECORD)}
    for queue, table in survey.by_table.values():
        archived = {"archived_at": "timestamp with time zone"} if table is queue.archive else {}
        yield queue, table, record | archived


def column_missing(survey: Survey) -> Iterator[Finding]:
    """A column that the functions name."""
    for queue, table, expected in _tables(survey):
        for name in expected.keys() - survey.columns[table.oid].keys():
            default = f" not null default {DEFAULTS[name]}" if name in DEFAULTS else ""
            yield error(
                f"{table.sql} has no column {name}",
                "the functions name it, so sends, reads or archives of this queue fail",
                f"alter table {table.sql} add column {name} {expected[name]}{default};",
                queue.name,
            )


def column_type(survey: Survey) -> Iterator[Finding]:
    """A column of another type than the functions give back."""
    for queue, table, expected in _tables(survey):
        for name, column in survey.columns[table.oid].items():
            wanted = expected.get(name, column.type)
            if column.type != wanted:
                yield error(
                    f"column {name} of {table.sql} is {column.type}, not {wanted}",
                    "reads fail, or find nothing by their index",
                    "-- writes the whole table anew, and nobody can use it meanwhile\n"
                    f"alter table {table.sql} alter column {name} type {wanted} using {name}::{wanted};",
                    queue.name,
                )


def column_unguarded(survey: Survey) -> Iterator[Finding]:
    """A column that may be null, or lost its default: then a message is stored that nobody can ever read."""
    for queue, table, _ in _tables(survey):
        columns = survey.columns[table.oid]
        steps = [
            f"alter column {name} set default {value}"
            for name, value in DEFAULTS.items()
            if name in columns and not columns[name].given
        ]
        steps += [
            f"alter column {name} set not null"
            for name in REQUIRED
            if name in columns and not columns[name].required
        ]
        if steps:
            named = ", ".join(dict.fromkeys(step.split()[2] for step in steps))
            yield error(
                f"{table.sql} has lost defaults or not-null constraints: {named}",
                "sends fail, or store messages without a time, which no read ever finds",
                f"alter table {table.sql} {', '.join(steps)};",
                queue.name,
            )


def column_in_the_way(survey: Survey) -> Iterator[Finding]:
    """A column of somebody else's that every insert would have to fill."""
    for queue, table, expected in _tables(survey):
        for name, column in survey.columns[table.oid].items():
            if name not in expected and column.required and not (column.given or column.identity):
                quoted = ident(name)
                yield error(
                    f"{table.sql} has a column {quoted} that is required and has no default",
                    "no function knows it, so every send or archive fails",
                    f"alter table {table.sql} alter column {quoted} drop not null;",
                    queue.name,
                )
