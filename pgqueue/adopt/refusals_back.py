"""What keeps a database from being given back to pgmq: each reason a sentence that names it. Reads only."""

from __future__ import annotations

import psycopg

from pgqueue.adopt.extension import OLDEST_OFFERED, all_replaced, offered
from pgqueue.adopt.refusals import dependents, owners, transactions
from pgqueue.adopt.survey import Found
from pgqueue.asking import texts
from pgqueue.names import LISTS, listed


def reasons_back(conn: psycopg.Connection, found: Found, *, extension: bool) -> list[str]:
    """Why this cannot be given back; nothing if it can. A way back that was begun goes on in any case."""
    if found.unfinished == "back":
        return []
    if found.unfinished == "forth":
        return ["an adoption was begun here: run `pgqueue adopt` to its end first"]
    if found.kind != "pgqueue":
        return ["pgqueue is not installed in this database, so there is nothing to give back"]
    return [
        *owners(conn, found),
        *_users_of_ours(conn),
        *(_extension(conn, found) if extension else ()),
        *transactions(conn),
    ]


_USERS_OF_OURS = """
with ours as (
    select 'pg_proc'::regclass::oid as classid, p.oid as objid
    from pg_catalog.pg_proc p
    where p.pronamespace = 'pgqueue'::regnamespace
    union all
    select 'pg_class'::regclass, c.oid from pg_catalog.pg_class c where c.relnamespace = 'pgqueue'::regnamespace
    union all
    select 'pg_type'::regclass, t.oid from pg_catalog.pg_type t where t.typnamespace = 'pgqueue'::regnamespace
    union all
    select 'pg_trigger'::regclass, t.oid
    from pg_catalog.pg_trigger t
    join pg_catalog.pg_class c on c.oid = t.tgrelid
    where c.relnamespace = 'pgqueue'::regnamespace
)
select distinct pg_describe_object(
    case when r.oid is null then d.classid else 'pg_class'::regclass end, coalesce(r.ev_class, d.objid), 0
)
from pg_catalog.pg_depend d
join ours o on o.classid = d.refclassid and o.objid = d.refobjid
left join pg_catalog.pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
where d.deptype in ('n', 'a')
    and (d.classid, d.objid) not in (select n.classid, n.objid from ours n)
    and d.classid not in ('pg_attrdef'::regclass, 'pg_constraint'::regclass, 'pg_policy'::regclass)
    and (r.oid is null or r.ev_class not in (select n.objid from ours n))
order by 1"""

_USERS_OF_TABLES = """
select distinct pg_describe_object(
    case when r.oid is null then d.classid else 'pg_class'::regclass end, coalesce(r.ev_class, d.objid), 0
)
from pg_catalog.pg_depend d
left join pg_catalog.pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
left join pg_catalog.pg_constraint c on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
where d.refclassid = 'pg_class'::regclass
    and d.refobjid = any(%(tables)s::text[]::regclass[])
    and (r.oid is not null or c.contype = 'f' and c.conrelid <> all(%(tables)s::text[]::regclass[]))
order by 1"""


def _users_of_ours(conn: psycopg.Connection) -> list[str]:
    used = texts(conn, _USERS_OF_OURS)
    return [f"schema pgqueue will be gone, and is used by {listed(used)}: drop that first"] if used else []


def _extension(conn: psycopg.Connection, found: Found) -> list[str]:
    if offered(conn) is None:
        oldest = ".".join(map(str, OLDEST_OFFERED))
        return [f"the server offers no extension pgmq of version {oldest} or later: leave --extension away"]
    tables = {"tables": [f"pgmq.{table}" for table in LISTS]}
    used = texts(conn, _USERS_OF_TABLES, tables)
    reasons = (
        [f"the extension makes pgmq.meta and its like anew, and they are used by {listed(used)}"]
        if used
        else []
    )
    return reasons + list(dependents(conn, all_replaced(found)))
