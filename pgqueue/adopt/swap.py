"""The short transaction: pgmq's objects leave the extension, the extension goes, and its functions become ours."""

from __future__ import annotations

import psycopg

from pgqueue.adopt import rights
from pgqueue.adopt.survey import UNFINISHED, Found, survey
from pgqueue.adopt.waiting import LIGHT_LOCK_WAIT, briefly
from pgqueue.model import TYPES
from pgqueue.script import adopt_sql

#: Tables and sequences released from the extension in one transaction: each takes a lock of its own.
RELEASED_AT_ONCE = 100

_MEMBERS = """
select o.type, o.identity
from pg_catalog.pg_depend d
cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) o
left join pg_catalog.pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
where d.deptype = 'e'
    and d.refclassid = 'pg_extension'::regclass
    and d.refobjid = (select e.oid from pg_catalog.pg_extension e where e.extname = 'pgmq')
    and o.identity is not null  -- else dropped since the query began
    and (not %s or c.relname ~ '^[aq]_')
    -- The types of a table's rows and of arrays go with the table or type; newer servers list them.
    and not exists (
        select from pg_catalog.pg_type t
        left join pg_catalog.pg_class r on r.oid = t.typrelid
        where d.classid = 'pg_type'::regclass and t.oid = d.objid and (t.typcategory = 'A' or r.relkind <> 'c')
    )
order by d.classid, d.objid
limit %s"""


def release_queues(conn: psycopg.Connection) -> int:
    """Let go of the queues' tables and sequences, which the extension owned before 1.6, some at a time. Dropping the
    extension would drop them. Says how many."""
    what = "release of the queues' tables from the extension"

    def some() -> int:
        members = _members(conn, of_queues=True, most=RELEASED_AT_ONCE)
        _release(conn, members)
        return len(members)

    released = 0
    while count := briefly(conn, some, what, wait=LIGHT_LOCK_WAIT, over_all=True):
        released += count
    return released


def take_over(conn: psycopg.Connection) -> bool:
    """Make what is there ours, queues apart; inside a transaction. False, and nothing done, where a queue was created
    meanwhile that is not prepared."""
    if conn.execute("select to_regclass('pgmq.meta') is not null").fetchone() == (True,):
        conn.execute("lock table pgmq.meta in share row exclusive mode")
    found = survey(conn)
    if found.lacking or found.owned_relations > RELEASED_AT_ONCE:
        return False
    before = rights.of_functions(conn)
    remade = functions_to_remake(conn, found)
    if found.kind == "extension":
        _release(conn, _members(conn, of_queues=False, most=None))
        conn.execute("drop extension pgmq")
    if conn.execute("select to_regnamespace('pgqueue') is null").fetchone() == (True,):
        conn.execute("create schema pgqueue")
    for statement in remade.retiring:
        conn.execute(statement.encode())
    _retire(conn, found)
    _mend_tables(conn)
    conn.execute(adopt_sql().encode())
    for statement in remade.making:
        conn.execute(statement.encode())
    rights.restore_functions(conn, before)
    conn.execute(f"create table {UNFINISHED} (way text primary key, version text not null)".encode())
    conn.execute(f"insert into {UNFINISHED} (way, version) values ('forth', %s)".encode(), (found.version,))
    return True


def _members(conn: psycopg.Connection, *, of_queues: bool, most: int | None) -> list[tuple[str, str]]:
    return conn.execute(_MEMBERS.encode(), (of_queues, most)).fetchall()


def _release(conn: psycopg.Connection, members: list[tuple[str, str]]) -> None:
    for kind, identity in members:
        conn.execute(f"alter extension pgmq drop {kind} {identity}".encode())


def _retire(conn: psycopg.Connection, found: Found) -> None:
    """Move functions and types that ours cannot replace in place out of the way. They are not dropped yet:
    whoever is inside one, or has planned with it, goes on."""
    for function in found.functions:
        if function.fate == "retired":
            retired = f'"{function.name}$retired"'
            arguments = function.call.split("(", 1)[1]
            conn.execute(f"alter function {function.call} rename to {retired}".encode())
            conn.execute(f"alter function pgmq.{retired}({arguments} set schema pgqueue".encode())
    for one in found.types:
        if one.fate == "replaced":
            conn.execute(f'alter type pgmq.{one.name} rename to "{one.name}$retired"'.encode())
            conn.execute(f'alter type pgmq."{one.name}$retired" set schema pgqueue'.encode())
        elif one.fate == "grows":
            for attribute in TYPES[one.name][len(one.attributes) :]:
                conn.execute(f"alter type pgmq.{one.name} add attribute {attribute} bigint".encode())


def _mend_tables(conn: psycopg.Connection) -> None:
    """What pgmq 1.10.0's table of bindings lacks."""
    lacks = """
        select from pg_catalog.pg_class c
        where c.oid = to_regclass('pgmq.topic_bindings') and not exists (
            select from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attname = 'bound_at'
        )"""
    if conn.execute(lacks.encode()).fetchone() is not None:
        conn.execute("alter table pgmq.topic_bindings add column bound_at timestamptz not null default now()")


# --- functions of users' that take or give a type which is replaced ----------------------------------


class Remade:
    """Statements that move users' functions away, and those that make them anew with the new type."""

    def __init__(self) -> None:
        self.retiring: list[str] = []
        self.making: list[str] = []


_USERS_FUNCTIONS = """
select
    f.call,
    quote_ident(f.proname || '$retired'),
    quote_ident(f.nspname),
    pg_get_function_identity_arguments(f.oid),
    pg_get_functiondef(f.oid),
    quote_ident(pg_get_userbyid(f.proowner)),
    f.takes,
    f.proacl::text,
    f.kind
from (
    select
        p.oid, p.proname, p.proowner, p.proacl, n.nspname, p.oid::regprocedure::text as call,
        case p.prokind when 'p' then 'procedure' else 'function' end as kind,
        p.prosrc ~ %(mentioned)s as mentions,
        exists (
            select from pg_catalog.pg_depend d
            join pg_catalog.pg_type t on d.refobjid in (t.oid, t.typarray)
            where d.classid = 'pg_proc'::regclass
                and d.objid = p.oid
                and d.refclassid = 'pg_type'::regclass
                and t.typnamespace = 'pgmq'::regnamespace
                and t.typname = any(%(types)s)
        ) as takes
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where p.prokind in ('f', 'p')
        and p.oid <> all(%(pgmqs)s::oid[])
        and n.nspname not in ('pg_catalog', 'information_schema', 'pgqueue')
        and pg_has_role(p.proowner, 'usage')
) f
where f.takes or f.mentions
order by f.call"""


def functions_to_remake(conn: psycopg.Connection, found: Found) -> Remade:
    """Users' functions that take or give a type which is replaced are made anew, with owner and rights; those that
    only speak of it are written once more, so that sessions forget the old type."""
    remade = Remade()
    types = list(found.replaced_types)
    if not types:
        return remade
    known = {
        "types": types,
        "pgmqs": [one.oid for one in found.functions],
        "mentioned": r"\m(" + "|".join(types) + r")\M",
    }
    for row in conn.execute(_USERS_FUNCTIONS.encode(), known).fetchall():
        call, retired, schema, arguments, definition, owner, takes, acl, kind = row
        if takes:
            remade.retiring += [
                f"alter {kind} {call} rename to {retired}",
                f"alter {kind} {schema}.{retired}({arguments}) set schema pgqueue",
            ]
            remade.making += [definition, f"alter {kind} {call} owner to {owner}"]
            remade.making += rights.statements(conn, call, acl, kind)
        else:
            remade.making.append(definition)
    return remade
