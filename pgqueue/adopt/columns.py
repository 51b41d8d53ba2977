"""Add the columns that queues of an older pgmq lack, one queue at a time, while its functions go on."""

from __future__ import annotations

import re
from importlib import resources

import psycopg

from pgqueue.adopt.survey import Found, Queue
from pgqueue.adopt.waiting import LIGHT_LOCK_WAIT, briefly, outlive_others
from pgqueue.sqltext import ident
from pgqueue.versions import LATER_COLUMNS

#: What would give more columns than before once there are more.
_ALL_COLUMNS = re.compile(r"\breturning\s+(\w+\.)?\*", re.IGNORECASE)

_READERS = """
select pg_get_functiondef(p.oid)
from pg_catalog.pg_proc p
where p.oid = any(%s::oid[])
    and p.prosrc ~* '\\mreturning\\s+(\\w+\\.)?\\*'
    and p.prorettype = to_regtype('pgmq.message_record')"""


def name_columns(conn: psycopg.Connection, found: Found) -> None:
    """Have pgmq's own functions name the columns that they return: until 1.10 some said `returning *`, and would fail
    on a queue that has more. They do the same as before."""
    attributes = next((one.attributes for one in found.types if one.name == "message_record"), ())
    oids = [one.oid for one in found.functions]
    definitions = [str(row[0]) for row in conn.execute(_READERS.encode(), (oids,)).fetchall()]
    if not definitions:
        return

    def rewrite() -> None:
        for definition in definitions:
            conn.execute(_named(definition, attributes).encode())

    briefly(conn, rewrite, "functions of pgmq")
    outlive_others(conn, "functions of pgmq")


def _named(definition: str, attributes: tuple[str, ...]) -> str:
    def columns(match: re.Match[str]) -> str:
        return "returning " + ", ".join(f"{match[1] or ''}{one}" for one in attributes)

    return _ALL_COLUMNS.sub(columns, definition)


#: Where an older pgmq makes a queue's table the extension's. The lock waits for whoever drops the extension.
_ADDING = re.compile(r"\bexecute\s+format\s*\(\s*'alter extension pgmq add [^;]*;", re.IGNORECASE)
_THERE = (
    "lock table pgmq.meta in row exclusive mode;"
    " if exists (select from pg_catalog.pg_extension e where e.extname = 'pgmq') then {} end if;"
)


_POLLERS = """
select format(
    'create or replace function pgmq.%%I(%%s) returns %%s language plpgsql',
    p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
), r.oid::bigint, r.proargnames
from pg_catalog.pg_proc p
join pg_catalog.pg_proc r
    on r.oid = any(%(ours)s::oid[])
    and r.proname = regexp_replace(p.proname, '_with_poll$', '')
    and r.proargnames = array_remove(array_remove(p.proargnames, 'max_poll_seconds'), 'poll_interval_ms')
where p.oid = any(%(ours)s::oid[]) and p.proname ~ '_with_poll$'"""

_POLLER = """
declare
    v_end timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    while clock_timestamp() < v_end loop
        begin
            return query execute format('select * from %s({marks})', {reader}::oid::regproc) using {given};
        exception when datatype_mismatch or undefined_function then
            -- The name was printed before this session heard that it had changed, and looked up after.
            return query execute format('select * from %s({marks})', {reader}::oid::regproc) using {given};
        end;
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end
"""


def hold_on_to_readers(conn: psycopg.Connection, found: Found) -> None:
    """Have pgmq's polls go on with the reader and the type that they began with. Its own look up the type of their
    record by name once more when it is renamed, even in a call that is running, and would fail on the new one's
    columns. They do the same as before."""
    pollers = conn.execute(_POLLERS.encode(), {"ours": [one.oid for one in found.functions]}).fetchall()

    def rewrite() -> None:
        for header, reader, names in pollers:
            marks = ", ".join(f"${place}" for place in range(1, len(names) + 1))
            body = _POLLER.format(marks=marks, reader=reader, given=", ".join(names))
            conn.execute(f"{header}\nas $body${body}$body$".encode())

    if pollers:
        briefly(conn, rewrite, "functions of pgmq")
        outlive_others(conn, "functions of pgmq")


def tolerate_release(conn: psycopg.Connection, found: Found) -> None:
    """Before 1.6 pgmq's drop_queue and detach_archive fail on a queue whose tables have left the extension, and its
    create once there is none. These do not: they look first."""
    definitions = {"drop_queue": _text("drop_queue.sql"), "detach_archive": _text("detach_archive.sql")}
    oids = [one.oid for one in found.functions]
    headers = conn.execute(_HEADERS.encode(), (oids, list(definitions))).fetchall()
    creators = [str(row[0]) for row in conn.execute(_CREATORS.encode(), (oids,)).fetchall()]

    def rewrite() -> None:
        for name, header in headers:
            conn.execute(f"{header}\nas $body$\n{definitions[name]}$body$".encode())
        for definition in creators:
            conn.execute(_ADDING.sub(lambda adding: _THERE.format(adding[0]), definition).encode())

    briefly(conn, rewrite, "functions of pgmq")
    outlive_others(conn, "functions of pgmq")


_CREATORS = """
select pg_get_functiondef(p.oid)
from pg_catalog.pg_proc p
where p.oid = any(%s::oid[]) and p.proname like 'create%%' and p.prosrc ~* 'alter extension pgmq add'
    and p.prosrc !~ 'if exists \\(select from pg_catalog.pg_extension e where'"""

_HEADERS = """
select p.proname::text, format(
    'create or replace function pgmq.%%I(%%s) returns %%s language plpgsql',
    p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
)
from pg_catalog.pg_proc p
where p.oid = any(%s::oid[]) and p.proname = any(%s)"""


def _text(name: str) -> str:
    return (resources.files("pgqueue.adopt") / name).read_text(encoding="utf-8")


def add(conn: psycopg.Connection, queue: Queue) -> None:
    """Add what a queue lacks, without rewriting a row. Everybody waits for an instant; an autovacuum is ended first,
    since it would not give way to so short a wait.

    Raises:
        InTheWay: somebody held the tables all the time.
    """
    tables = [(f"q_{queue.name}", queue.missing), (f"a_{queue.name}", queue.archive_missing)]
    lacking = [(str(ident("pgmq", table)), missing) for table, missing in tables if missing]

    def alter() -> None:
        conn.execute(f"set local lock_timeout = {LIGHT_LOCK_WAIT}".encode())
        for table, _ in lacking:
            conn.execute(f"lock table {table} in share update exclusive mode".encode())
        conn.execute("set local lock_timeout = 300")
        for table, missing in lacking:
            columns = ", ".join(f"add column if not exists {one} {LATER_COLUMNS[one]}" for one in missing)
            conn.execute(f"alter table {table} {columns}".encode())
            _extend_grants(conn, table, missing)

    briefly(conn, alter, f"columns of queue {queue.name}")


_COLUMN_GRANTS = """
select
    string_agg(distinct x.privilege_type, ','),
    case when x.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(x.grantee)) end
from pg_catalog.pg_attribute a
cross join lateral aclexplode(a.attacl) x
where a.attrelid = %s::text::regclass and a.attname = 'message'
group by x.grantee"""


def _extend_grants(conn: psycopg.Connection, table: str, columns: tuple[str, ...]) -> None:
    """Whoever has rights on single columns gets those on the message for the new columns too."""
    for privileges, role in conn.execute(_COLUMN_GRANTS, (table,)).fetchall():
        for privilege in privileges.split(","):
            statement = f"grant {privilege} ({', '.join(columns)}) on {table} to {role}"
            conn.execute(statement.encode())
