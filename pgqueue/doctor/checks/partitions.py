"""Partitioned queues and archives, and who keeps them up: pgqueue.maintain() or pg_partman."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, unseen, warning
from pgqueue.doctor.survey import Queue, Relation, Survey
from pgqueue.names import counted
from pgqueue.sqltext import ident, literal

#: Rows of a default partition that are counted.
COUNTED = 10_000
MAINTAIN = "select * from pgqueue.maintain();"

_DEFAULT = """
select
    p.partdefid as oid,
    format('%%I.%%I', n.nspname, c.relname) as name,
    has_table_privilege(c.oid, 'select') as readable
from pg_partitioned_table p
join pg_class c on c.oid = p.partdefid
join pg_namespace n on n.oid = c.relnamespace
where p.partrelid = %s
"""

_PARTMAN = """
select n.nspname::text
from pg_extension e
join pg_namespace n on n.oid = e.extnamespace
where e.extname = 'pg_partman'
"""

#: ahead: partitions that are missing up to the one after the present; expired: those past what is kept.
_OVERDUE = """
select
    p.table_name,
    (
        select count(*)
        from pgqueue._partition_bounds(p.table_name, pgqueue._newest_value(p.table_name), 1) b
        where not exists (
            select from pg_class n
            where n.relnamespace = c.relnamespace and n.relname = pgqueue._partition_name(p.table_name, b.suffix)
        )
    ) as ahead,
    (
        select count(*)
        from pg_inherits i
        join pg_class l on l.oid = i.inhrelid
        cross join lateral pgqueue._partition_bounds(
            p.table_name,
            case p.control
                when 'msg_id' then greatest(pgqueue._newest_value(p.table_name)::bigint - p.retention::bigint, 0)::text
                else (pgqueue._newest_value(p.table_name)::timestamptz - pgqueue._span(p.retention))::text
            end,
            0
        ) b
        where i.inhparent = c.oid
            and substring(l.relname from '\\$p(\\d+)$')::numeric < substr(b.suffix, 3)::numeric
    ) as expired,
    c.oid
from pgqueue.partitioning p
join pg_class c on c.relname = p.table_name and c.oid = any(%s::oid[])
order by p.table_name
"""


def rows_spilled(survey: Survey, queue: Queue) -> Iterator[Finding]:
    """Messages in the partition for what fits no other."""
    for table in queue.tables:
        for default in survey.look.rows(_DEFAULT, table.oid) if table.kind == "p" else []:
            if not default.readable:
                yield unseen(
                    f"whether messages lie in {default.name}",
                    "this role may not read it",
                    f"-- as its owner\ngrant select on {default.name} to {survey.role};",
                    queue.name,
                )
                continue
            rows = survey.look.value(
                f"select count(*) from (select from {default.name} limit {COUNTED + 1}) m"
            )
            if rows:
                many = f"more than {COUNTED:,} rows" if rows > COUNTED else counted(rows, "row")
                yield warning(
                    f"{many} of {table.sql} outside of its partitions, in {default.name}",
                    "partitions for them cannot be made while they lie there, and retention never drops them",
                    _keeper(survey, table),
                    queue.name,
                )


def _keeper(survey: Survey, table: Relation) -> str:
    """What moves rows to where they belong."""
    if survey.ours and table.name in _cut_by_us(survey):
        return MAINTAIN
    for row in survey.look.rows(_PARTMAN):
        partman, name = ident(row.nspname), literal(f"pgmq.{table.name}")
        return f"call {partman}.partition_data_proc({name});\nselect {partman}.run_maintenance({name});"
    return "-- nothing keeps its partitions up: see the finding partitions_of_nobody"


def upkeep_overdue(survey: Survey) -> Iterator[Finding]:
    """pgqueue.maintain() has not run for long. A standby knows its sequences ahead of what was handed out."""
    if not survey.trusted or survey.standby:
        return
    for row in survey.look.rows(_OVERDUE, survey.oids):
        queue, table = survey.by_table[row.oid]
        if row.ahead or row.expired > 1:
            what = (
                "the next partition is not there"
                if row.ahead
                else f"{row.expired} partitions are past their time"
            )
            yield warning(
                f"{table.sql} waits for pgqueue.maintain(): {what}",
                "messages will lie outside of their partitions, where retention never drops them"
                if row.ahead
                else "old messages take room, and each read looks into each partition",
                f"-- and then regularly, from cron or by pgqueue maintain --every 1m\n{MAINTAIN}",
                queue.name,
            )


def partitions_of_nobody(survey: Survey) -> Iterator[Finding]:
    """A partitioned table that neither pgqueue nor pg_partman keeps up."""
    tables = [(queue, table) for queue, table in survey.by_table.values() if table.kind == "p"]
    if not tables:
        return
    kept = {f"pgmq.{name}" for name in _cut_by_us(survey)} if survey.ours else set()
    for row in survey.look.rows(_PARTMAN):
        kept |= {
            one.parent
            for one in survey.look.rows(
                f"select p.parent_table as parent from {ident(row.nspname)}.part_config p"
            )
        }
    for queue, table in tables:
        if f"pgmq.{table.name}" not in kept:
            yield warning(
                f"{table.sql} is partitioned, and nothing makes its next partitions or drops the old",
                "once the last partition is full, sends or archives fail, or all goes into one",
                "-- there is no telling how it was meant to be cut: make its partitions by hand, or give\n"
                "-- pg_partman a row in part_config for it",
                queue.name,
            )


def default_missing(survey: Survey) -> Iterator[Finding]:
    """No partition takes what fits no other."""
    kept = _cut_by_us(survey) if survey.ours else set()
    for queue, table in survey.by_table.values():
        if table.name in kept and not survey.look.rows(_DEFAULT, table.oid):
            lost = _lost_default(survey, table)
            yield warning(
                f"{table.sql} has no default partition",
                "once its last partition is full, "
                + ("sends fail" if table is queue.table else "archive() fails"),
                _attach_default(table, lost) if lost else MAINTAIN,
                queue.name,
            )


def _lost_default(survey: Survey, table: Relation) -> str | None:
    """Name of a table's default partition that was detached."""
    mine = (name for name, whose in survey.detached.items() if whose == table.name)
    return next((name for name in mine if name.endswith("$default")), None)


def _attach_default(table: Relation, name: str) -> str:
    return f"alter table {table.sql} attach partition {ident('pgmq', name)} default;"


def partition_detached(survey: Survey) -> Iterator[Finding]:
    """What was a partition once, and is a table by itself."""
    tables = {table.name: (queue, table) for queue, table in survey.by_table.values()}
    without_default = {finding.remedy for finding in default_missing(survey)}
    for name, whose in survey.detached.items():
        lost = ident("pgmq", name)
        queue, table = tables.get(whose or "", (None, None))
        if queue is None or table is None:
            yield warning(
                f"{lost} was a partition of a table that is gone",
                "it takes room, and nothing ever reads or drops it",
                f"-- look at it first: table {lost}\ndrop table {lost};",
            )
        elif _attach_default(table, name) not in without_default:
            columns = survey.look.value(_COLUMNS_OF, lost.text)
            yield warning(
                f"{lost} is a partition of {table.sql} that was detached",
                "its rows are in no queue or archive, retention never drops them,"
                " and no other partition is made in its place",
                f"-- or, if its rows are not wanted, the last statement alone\n"
                f"insert into {table.sql} ({columns}) overriding system value\nselect {columns} from {lost};\n"
                f"drop table {lost};",
                queue.name,
            )


_COLUMNS_OF = """
select string_agg(quote_ident(a.attname), ', ' order by a.attnum)
from pg_attribute a
where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
"""


def _cut_by_us(survey: Survey) -> set[str]:
    """Tables that pgqueue.maintain() keeps up."""
    return {row.table_name for row in survey.look.rows("select p.table_name from pgqueue.partitioning p")}
