"""What keeps a pgmq from being adopted: each reason a sentence that names it. Reads only."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from pgqueue.adopt import indexes, waiting
from pgqueue.adopt.plan import space_needed
from pgqueue.adopt.survey import Found
from pgqueue.asking import scalar, texts
from pgqueue.model import TYPES
from pgqueue.names import LISTS, MAX_BYTES, listed
from pgqueue.versions import NEWEST, OLDEST, number


def reasons(conn: psycopg.Connection, found: Found, *, accept_newer: bool = False) -> list[str]:
    """Why this cannot be adopted; nothing if it can. An adoption that was begun goes on in any case.

    Args:
        accept_newer: Whether a pgmq that is newer than any known here will do.
    """
    if found.kind == "absent":
        return ["there is no pgmq in this database: run `pgqueue install`"]
    if found.unfinished == "back":
        return ["the way back to pgmq was begun here: run `pgqueue adopt --back` to its end first"]
    if found.unfinished == "forth":
        return []
    if found.kind == "pgqueue":
        return ["pgqueue is installed in this database already"]
    return [
        *_version(found, accept_newer),
        *owners(conn, found),
        *_queues(conn, found),
        *dependents(conn, found),
        *_disk(conn, found),
        *transactions(conn),
    ]


def _version(found: Found, accept_newer: bool) -> Iterator[str]:
    version = number(found.version) if found.kind == "extension" else None
    if found.kind == "extension" and version is None:
        yield f"pgmq {found.version} is no version known here"
        return
    if version and version < (number(OLDEST) or ()):
        yield f"pgmq {found.version} is older than {OLDEST}: upgrade it first, with `alter extension pgmq update`"
    differs = [
        f"{one.name} has {', '.join(sorted(more))}"
        for one in found.types
        if (more := _more(one.name, one.attributes))
    ]
    if version and version[:2] > (number(NEWEST) or ())[:2]:
        differs += [f"function {call}" for call in found.strange_functions]
    elif not differs:
        return
    if not accept_newer:
        what = listed(differs) if differs else "nothing that can be seen from outside"
        yield (
            f"pgmq {found.version} is newer than {NEWEST}, which is known here; beyond that it has {what};"
            " --accept-newer adopts it all the same"
        )


def _more(name: str, attributes: Sequence[str]) -> set[str]:
    return set(attributes) - set(TYPES[name])


_FOREIGN = """
with extension as (
    select e.oid, e.extowner from pg_catalog.pg_extension e where e.extname = 'pgmq'
), owned as (
    select 'the extension pgmq' as what, e.extowner as owner, 0 as place from extension e
    union all
    select 'table ' || c.oid::regclass, c.relowner, 1
    from pg_catalog.pg_class c
    where c.relnamespace = 'pgmq'::regnamespace
        and c.relkind in ('r', 'p')
        and (c.relname ~ '^[aq]_' or c.relname = any(%(lists)s))
    union all
    select 'type ' || t.oid::regtype, t.typowner, 2
    from pg_catalog.pg_type t
    where t.typnamespace = 'pgmq'::regnamespace and t.typname = any(%(types)s)
    union all
    select 'function ' || p.oid::regprocedure, p.proowner, 3
    from pg_catalog.pg_proc p
    where p.oid = any(%(functions)s::oid[])
)
select format('%%s, which belongs to %%s', o.what, o.owner::regrole)
from owned o
where not pg_has_role(o.owner, 'usage')
order by o.place, 1"""


def owners(conn: psycopg.Connection, found: Found) -> Iterator[str]:
    given = {"lists": list(LISTS), "types": list(TYPES), "functions": [one.oid for one in found.functions]}
    foreign = [str(row[0]) for row in conn.execute(_FOREIGN.encode(), given).fetchall()]
    if foreign:
        yield f"{scalar(conn, 'select current_user')} does not own {listed(foreign)}"
    for schema in ("pgmq", "pgqueue"):
        if (
            scalar(
                conn,
                f"select has_schema_privilege(oid, 'create') from pg_namespace where nspname = '{schema}'",
            )
            is False
        ):
            yield f"{scalar(conn, 'select current_user')} may not create in schema {schema}"
    if scalar(conn, "select to_regnamespace('pgqueue')") is None and not scalar(
        conn, "select has_database_privilege(current_database(), 'create')"
    ):
        yield f"{scalar(conn, 'select current_user')} may not create the schema pgqueue in this database"


_ODD_COLUMNS = """
select format('%%s.%%s is %%s', c.oid::regclass, a.attname, format_type(a.atttypid, null))
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join (
    values ('msg_id', 'bigint'), ('read_ct', 'integer'), ('enqueued_at', 'timestamp with time zone'),
        ('last_read_at', 'timestamp with time zone'), ('vt', 'timestamp with time zone'), ('message', 'jsonb'),
        ('headers', 'jsonb')
) k (name, type) on k.name = a.attname
where c.relnamespace = 'pgmq'::regnamespace
    and c.relkind in ('r', 'p')
    and c.relname = any(%s)
    and format_type(a.atttypid, null) <> k.type
order by 1"""

_RELATIONS = """
select c.relname::text, coalesce(t.relname::text, '')
from pg_catalog.pg_class c
left join pg_catalog.pg_index i on i.indexrelid = c.oid
left join pg_catalog.pg_class t on t.oid = i.indrelid
where c.relnamespace = 'pgmq'::regnamespace"""


def _queues(conn: psycopg.Connection, found: Found) -> Iterator[str]:
    if found.not_tables:
        yield f"not a table, and pgqueue reads tables alone: {listed(found.not_tables)}"
    bad = [
        queue.name
        for queue in found.queues
        if any(mark in queue.name for mark in ("$", ";", "--", "'"))
        or not queue.name.strip(" \t\n\v\f\r")
        or len(queue.name.encode()) > MAX_BYTES
    ]
    bad += [name for name in found.nameless if len(name.encode()) > MAX_BYTES]
    if bad:
        yield f"names that no queue of pgqueue may have, rename them first: {listed(bad)}"
    tables = [f"{prefix}_{queue.name}" for queue in found.queues for prefix in "qa"]
    odd = texts(conn, _ODD_COLUMNS, (tables,))
    if odd:
        yield f"columns of another type than pgmq's: {listed(odd)}"
    table_of: dict[str, str] = dict(conn.execute(_RELATIONS).fetchall())
    taken = [
        one.name
        for queue in found.queues
        for one in (*indexes.reading(queue, {}), indexes.archive(queue))
        if table_of.get(one.name, one.table) != one.table
    ]
    if taken:
        yield f"in schema pgmq, names that our indexes need are taken: {listed(taken)}"


_DEPENDENTS = """
select distinct pg_describe_object(s.classid, s.objid, 0) || ' uses ' || s.used
from (
    select
        case when d.classid = 'pg_rewrite'::regclass then 'pg_class'::regclass::oid else d.classid end as classid,
        coalesce(r.ev_class, d.objid) as objid,
        d.classid as kind,
        pg_describe_object(d.refclassid, d.refobjid, 0) as used,
        d.refclassid
    from pg_catalog.pg_depend d
    left join pg_catalog.pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    where d.deptype in ('n', 'a')
        and (
            d.refclassid = 'pg_proc'::regclass and d.refobjid = any(%(functions)s::oid[])
            or d.refclassid in ('pg_type'::regclass, 'pg_class'::regclass) and d.refobjid in (
                select unnest(case d.refclassid
                    when 'pg_class'::regclass then array[t.typrelid] else array[t.oid, t.typarray]
                end)
                from pg_catalog.pg_type t
                where t.typnamespace = 'pgmq'::regnamespace and t.typname = any(%(types)s)
            )
        )
) s
where not (s.kind = 'pg_proc'::regclass and s.objid = any(%(pgmqs)s::oid[]))
    -- Functions that take or give a type are made anew.
    and not (s.kind = 'pg_proc'::regclass and s.refclassid = 'pg_type'::regclass)
    and s.kind <> 'pg_type'::regclass
    -- The notify triggers are changed over.
    and not exists (
        select from pg_catalog.pg_trigger t
        where s.kind = 'pg_trigger'::regclass
            and t.oid = s.objid
            and t.tgname = 'trigger_notify_queue_insert_listeners'
    )
order by 1"""

_FOREIGN_TAKERS = """
select distinct p.oid::regprocedure::text
from pg_catalog.pg_depend d
join pg_catalog.pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
join pg_catalog.pg_type t on d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray)
where t.typnamespace = 'pgmq'::regnamespace
    and t.typname = any(%(types)s)
    and p.oid <> all(%(pgmqs)s::oid[])
    and (
        not pg_has_role(p.proowner, 'usage')
        or p.prokind not in ('f', 'p')
        or exists (
            select from pg_catalog.pg_depend u
            where u.refclassid = 'pg_proc'::regclass and u.refobjid = p.oid and u.deptype in ('n', 'a')
        )
    )
order by 1"""


def dependents(conn: psycopg.Connection, found: Found) -> Iterator[str]:
    """What people built on functions and types that cannot stay as they are."""
    given = {
        "functions": [one.oid for one in found.functions if one.fate != "replaced"],
        "types": list(found.replaced_types),
        "pgmqs": [one.oid for one in found.functions],
    }
    used = texts(conn, _DEPENDENTS, given)
    if used:
        yield f"these use what cannot stay; drop them, and make them again afterwards: {listed(used)}"
    takers = texts(conn, _FOREIGN_TAKERS, given)
    if takers:
        yield (
            f"functions that take or give {' or '.join(found.replaced_types)} must be made anew, and cannot be,"
            f" since they belong to another or are used by other objects: {listed(takers)}"
        )


def _disk(conn: psycopg.Connection, found: Found) -> Iterator[str]:
    free, needed = free_bytes(conn), space_needed(found)
    if free is not None and free < needed:
        yield f"the new indexes need {needed:,} bytes, and {free:,} are free where the server keeps its data"


def free_bytes(conn: psycopg.Connection) -> int | None:
    """What is free on the server's disk; None where the server is on another machine, or does not say where its data
    lies."""
    host = conn.info.host
    if not (host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")):
        return None
    folder = scalar(conn, "select setting from pg_catalog.pg_settings where name = 'data_directory'")
    if not folder or not Path(str(folder)).exists():
        return None
    return shutil.disk_usage(str(folder)).free


def transactions(conn: psycopg.Connection) -> Iterator[str]:
    found = waiting.blocker(conn)
    if found and found.seconds >= waiting.PATIENCE:
        yield f"an open transaction holds tables of pgmq: {found}; end it, or wait for it"
