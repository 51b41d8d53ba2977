"""Logical replication: tables that are published, and whose rows have nothing to be told by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, error
from pgqueue.doctor.survey import Relation, Survey
from pgqueue.names import LISTS
from pgqueue.sqltext import ident

#: Of a partitioned table its partitions: those are what is updated, whichever of both is published.
_BARE = """
select
    coalesce(i.inhparent, r.oid) as table,
    format('%I.%I', n.nspname, r.relname) as name,
    r.relname::text as plain,
    r.relreplident::text as kind,
    exists (select from pg_index x where x.indrelid = r.oid and x.indisprimary and x.indisvalid) as keyed,
    string_agg(distinct quote_ident(p.pubname), ', ' order by quote_ident(p.pubname)) as publications
from pg_publication p
join pg_publication_tables t on t.pubname = p.pubname and t.schemaname = 'pgmq'
join pg_namespace n on n.nspname = t.schemaname
join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
cross join lateral (select c.oid union all select i.inhrelid from pg_inherits i where i.inhparent = c.oid) s
join pg_class r on r.oid = s.oid and r.relkind = 'r'
left join pg_inherits i on i.inhrelid = r.oid
where (p.pubupdate or p.pubdelete)
    and not case r.relreplident
        when 'd' then exists (select from pg_index x where x.indrelid = r.oid and x.indisprimary and x.indisvalid)
        when 'i' then exists (select from pg_index x where x.indrelid = r.oid and x.indisreplident)
        else r.relreplident = 'f'
    end
group by r.oid, i.inhparent, n.nspname
order by r.relname
"""

_CUT_BY = """
select a.attname::text as name
from pg_partitioned_table p
join pg_attribute a on a.attrelid = p.partrelid and a.attnum = any(p.partattrs)
where p.partrelid = %s and a.attname <> 'msg_id'
"""


def queue_without_identity(survey: Survey) -> Iterator[Finding]:
    """A queue's table whose updates or deletes are published. An archive's rows are only ever added."""
    found: dict[int, list[Any]] = {}
    for row in survey.look.rows(_BARE):
        found.setdefault(row.table, []).append(row)
    for oid, rows in found.items():
        queue, table = survey.by_table.get(oid, (None, None))
        if queue is not None and table is not None and table is queue.table:
            yield error(
                f"the publication {rows[0].publications} has {table.sql}, which has no replica identity",
                "every read, pop, delete and archive fails: the server cannot say which row it was",
                _identity(survey, table, rows),
                queue.name,
            )


def list_without_identity(survey: Survey) -> Iterator[Finding]:
    """One of the lists that all queues share."""
    for row in survey.look.rows(_BARE):
        if row.plain in LISTS:
            yield error(
                f"the publication {row.publications} has {row.name}, which has no replica identity",
                "what changes or drops a queue fails: the server cannot say which row it was",
                f"alter table {row.name} replica identity full;",
            )


def _identity(survey: Survey, table: Relation, rows: list[Any]) -> str:
    """A key of the whole table, which partitions to come have too; a table that has one goes by it again."""
    if table.kind == "p" and not all(row.keyed for row in rows):
        key = ", ".join(["msg_id", *(ident(row.name).text for row in survey.look.rows(_CUT_BY, table.oid))])
        return f"alter table {table.sql} add primary key ({key});"
    return "\n".join(
        f"alter table {row.name} replica identity {'default' if row.keyed else 'full'};" for row in rows
    )
