"""What others made that depends on pgqueue: an uninstall would drop it too."""

from __future__ import annotations

import re
from collections.abc import Sequence

import psycopg

from .asking import texts
from .errors import Refused
from .model import TYPES
from .names import LISTS, listed
from .script import functions_sql

_DEPENDENTS_EXIST = "2BP01"


def dependents(conn: psycopg.Connection, *, keep_archives: bool = False) -> tuple[str, ...]:
    """What others made that uninstall() would drop with pgqueue: views, foreign keys, columns, functions, triggers
    and the like, each in Postgres's words. Reads only.

    Args:
        keep_archives: Of an uninstall() that leaves the archive tables.
    """
    with conn.transaction():
        given = (keep_archives, _pgmq_functions(), list(LISTS), list(TYPES))
        return tuple(sorted(texts(conn, _DEPENDENTS, given)))


def refuse_dependents(used: Sequence[str]) -> None:
    """Raises Refused if there are any."""
    if used:
        raise Refused(
            f"these depend on pgqueue and would be dropped with it: {listed(used)}; drop them, or give --cascade;"
            " nothing was done",
            sqlstate=_DEPENDENTS_EXIST,
        )


def _pgmq_functions() -> list[str]:
    """The names of our functions in schema pgmq."""
    return sorted(set(re.findall(r"^create or replace function pgmq\.(\w+)", functions_sql(), re.MULTILINE)))


#: All that goes with what uninstall() drops, found as `drop … cascade` finds it; then what of that is not ours, nor
#: merely a part of a table of ours: an index, a row policy, a place in a publication.
_DEPENDENTS = r"""
with recursive given (keep, functions, lists, types) as (
    select %s::boolean, %s::text[], %s::text[], %s::text[]
),
doomed (classid, objid, objsubid) as (
    select n.tableoid, n.oid, 0
    from pg_catalog.pg_namespace n
    cross join given
    where n.nspname = 'pgqueue' or n.nspname = 'pgmq' and not given.keep
    union
    select o.classid, o.objid, 0
    from (
        select p.tableoid as classid, p.oid as objid
        from pg_catalog.pg_proc p
        where p.pronamespace = 'pgmq'::regnamespace
        union all
        select c.tableoid, c.oid
        from pg_catalog.pg_class c
        cross join given
        where c.relnamespace = 'pgmq'::regnamespace and (c.relname ~ '^q_' or c.relname = any(given.lists))
        union all
        select t.tableoid, t.oid
        from pg_catalog.pg_type t
        cross join given
        where t.typnamespace = 'pgmq'::regnamespace and t.typname = any(given.types)
    ) o
    cross join given
    where given.keep
    union
    -- Whoever drops the rule that a view consists of drops the view.
    select
        case when r.rulename = '_RETURN' then 'pg_class'::regclass::oid else d.classid end,
        case when r.rulename = '_RETURN' then r.ev_class else d.objid end,
        case when r.rulename = '_RETURN' then 0 else d.objsubid end
    from doomed o
    join pg_catalog.pg_depend d
        on d.refclassid = o.classid
        and d.refobjid = o.objid
        and (o.objsubid = 0 or d.refobjsubid = o.objsubid)
    left join pg_catalog.pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    where d.deptype in ('n', 'a', 'i')
)
select distinct pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
from doomed d
cross join given
join pg_catalog.pg_class k on k.oid = d.classid
left join pg_catalog.pg_class c on k.relname = 'pg_class' and c.oid = d.objid
left join pg_catalog.pg_type t on k.relname = 'pg_type' and t.oid = d.objid
left join pg_catalog.pg_proc p on k.relname = 'pg_proc' and p.oid = d.objid
left join pg_catalog.pg_trigger g on k.relname = 'pg_trigger' and g.oid = d.objid
left join pg_catalog.pg_proc f on f.oid = g.tgfoid
left join pg_catalog.pg_constraint x on k.relname = 'pg_constraint' and x.oid = d.objid
left join pg_catalog.pg_attrdef a on k.relname = 'pg_attrdef' and a.oid = d.objid
left join pg_catalog.pg_policy y on k.relname = 'pg_policy' and y.oid = d.objid
left join pg_catalog.pg_class h on h.oid = coalesce(g.tgrelid, x.conrelid, a.adrelid, y.polrelid)
left join pg_catalog.pg_namespace n
    on n.oid = coalesce(c.relnamespace, t.typnamespace, p.pronamespace, h.relnamespace)
where case k.relname
    when 'pg_class' then
        c.relkind not in ('i', 'I', 't')
        and n.nspname not in ('pgqueue', 'pg_toast')
        and not (
            n.nspname = 'pgmq'
            and (
                c.relkind in ('r', 'p', 'S') and c.relname ~ '^[qa]_'
                or c.relname = any(given.lists)
                or c.relname = any(given.types)
            )
        )
    when 'pg_type' then
        t.typrelid = 0 and t.typelem = 0 and t.typtype in ('b', 'd', 'e', 'r') and n.nspname <> 'pgqueue'
    when 'pg_proc' then n.nspname <> 'pgqueue' and not (n.nspname = 'pgmq' and p.proname = any(given.functions))
    when 'pg_trigger' then
        not g.tgisinternal
        and g.tgparentid = 0
        and not (n.nspname in ('pgmq', 'pgqueue') and f.pronamespace = n.oid)
    when 'pg_constraint' then n.nspname is null or n.nspname not in ('pgmq', 'pgqueue')
    when 'pg_attrdef' then n.nspname not in ('pgmq', 'pgqueue')
    when 'pg_policy' then n.nspname not in ('pgmq', 'pgqueue')
    else k.relname not in (
        'pg_namespace', 'pg_default_acl', 'pg_publication_rel', 'pg_publication_namespace', 'pg_statistic_ext'
    )
end"""
