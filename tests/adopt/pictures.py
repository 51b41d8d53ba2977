"""What is in a database, as something to compare: before and after, adopted and installed afresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from pgqueue.adopt.back import give_back
from pgqueue.adopt.forth import adopt
from pgqueue.adopt.plan import Step
from tests.databases import Database
from tests.sql.asking import Connection, rows

Picture = dict[str, list[tuple[Any, ...]]]

#: What people have: rows, ids, rights.
THEIRS = {
    "meta": "select queue_name, is_partitioned, is_unlogged, created_at from pgmq.meta order by 1",
    "messages": """select msg_id, read_ct, enqueued_at, vt, message, to_jsonb(m) ->> 'headers',
        to_jsonb(m) ->> 'last_read_at' from pgmq.q_x m order by 1""",
    "archive": """select msg_id, read_ct, enqueued_at, archived_at, vt, message, to_jsonb(m) ->> 'headers',
        to_jsonb(m) ->> 'last_read_at' from pgmq.a_x m order by 1""",
    "files": "select pg_relation_filenode('pgmq.q_x'), pg_relation_filenode('pgmq.a_x')",
    "next ids": "select sequencename, last_value from pg_sequences where schemaname = 'pgmq' order by 1",
    "owners": """select c.relname, c.relowner::regrole, c.relrowsecurity, c.relforcerowsecurity,
        array(select x::text from unnest(coalesce(c.relacl, acldefault('r', c.relowner))) x order by 1)
        from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relname ~ '^[aq]_' and c.relkind in ('r', 'p')
        order by 1""",
    "policies": """select polrelid::regclass::text, polname, pg_get_expr(polqual, polrelid) from pg_policy
        where polrelid::regclass::text like 'pgmq.%' order by 1, 2""",
    "schema": """select array(select x::text from unnest(coalesce(nspacl, acldefault('n', nspowner))) x order by 1)
        from pg_namespace where nspname = 'pgmq'""",
}
#: What pgmq is made of. Of an unlogged queue the sequence stays logged, on the way back too: its ids outlive a crash.
MADE = {
    "relations": """select c.relname, c.relkind, case when c.relkind <> 'S' then c.relpersistence end, array(
            select concat_ws(' ', a.attname, format_type(a.atttypid, null), a.attnotnull, a.attidentity)
            from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attname
        ) from pg_class c where c.relnamespace = 'pgmq'::regnamespace and c.relkind in ('r', 'p', 'S') order by 1""",
    "types": """select t.typname, array(
            select a.attname::text from pg_attribute a
            where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum
        ) from pg_type t join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
        where t.typnamespace = 'pgmq'::regnamespace order by 1""",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'pgmq' order by 1",
    "invalid": "select indexrelid::regclass::text from pg_index where not indisvalid",
    "triggers": """select tgrelid::regclass::text, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
        and tgname = 'trigger_notify_queue_insert_listeners' order by 1""",
    "functions": """select p.oid::regprocedure::text, md5(p.prosrc), p.provolatile, p.prosecdef, p.proconfig,
            pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
            array(select x::text from unnest(coalesce(p.proacl, acldefault('f', p.proowner))) x order by 1)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('pgmq', 'pgqueue') order by 1""",
    "ours": """select c.relname, c.relkind from pg_class c
        where c.relnamespace in (select oid from pg_namespace where nspname = 'pgqueue') order by 1""",
}


def picture(conn: Connection, *queries: dict[str, str]) -> Picture:
    """The answers to queries, by name."""
    with conn.transaction():
        conn.execute("set local search_path = pg_catalog")
        return {name: rows(conn, query) for part in queries for name, query in part.items()}


Watch = Callable[[Step, int, int], None]


def take_over(db: Database, user: str = "", watch: Watch | None = None, **options: Any) -> None:
    """Adopts a database as its owner, or as another role."""
    with connections(db, user) as (conn, observer):
        adopt(conn, observer, watch=watch, **options)


def take_back(db: Database, user: str = "", watch: Watch | None = None, **options: Any) -> None:
    """Gives it back."""
    with connections(db, user) as (conn, observer):
        give_back(conn, observer, watch=watch, **options)


class connections:
    """Two autocommit connections that end with the block, whatever they were at."""

    def __init__(self, db: Database, user: str = "") -> None:
        self.dsn = db.dsn_for(user) if user else db.dsn

    def __enter__(self) -> tuple[psycopg.Connection[Any], psycopg.Connection[Any]]:
        self.both = tuple(psycopg.connect(self.dsn, autocommit=True) for _ in range(2))
        return self.both[0], self.both[1]

    def __exit__(self, *_: object) -> None:
        for conn in self.both:
            conn.close()
