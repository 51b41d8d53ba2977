"""What of the schemas pgmq and pgqueue is there."""

from __future__ import annotations

from tests.sql.asking import Connection, column

OBJECTS = """
    with ours as (select oid from pg_namespace where nspname in ('pgmq', 'pgqueue'))
    select concat_ws(' ', 'relation', c.oid::regclass, c.relkind, c.relowner::regrole, r.rights)
    from pg_class c
    cross join lateral (select (case c.relkind when 'S' then 's' else 'r' end)::"char" as kind) k
    cross join lateral (
        select string_agg(a::text, ' ' order by a::text) as rights
        from unnest(coalesce(c.relacl, acldefault(k.kind, c.relowner))) a
    ) r
    where c.relnamespace in (select oid from ours)
    union all
    select concat_ws(' ', 'function', p.oid::regprocedure, p.proowner::regrole, r.rights, md5(p.prosrc))
    from pg_proc p
    cross join lateral (
        select string_agg(a::text, ' ' order by a::text) as rights
        from unnest(coalesce(p.proacl, acldefault('f', p.proowner))) a
    ) r
    where p.pronamespace in (select oid from ours)
    union all
    select concat_ws(' ', 'type', t.oid::regtype)
    from pg_type t where t.typnamespace in (select oid from ours)
    union all
    select concat_ws(' ', 'trigger', t.tgname, t.tgrelid::regclass)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where not t.tgisinternal and c.relnamespace in (select oid from ours)
    union all
    select concat_ws(' ', 'constraint', k.conname, k.conrelid::regclass)
    from pg_constraint k where k.connamespace in (select oid from ours)
    union all select 'meta ' || m::text from pgmq.meta m
    union all select 'throttle ' || t.queue_name from pgmq.notify_insert_throttle t
    union all select 'binding ' || t::text from pgmq.topic_bindings t
    union all select 'policy ' || p::text from pgqueue.policy p
    union all select 'partitioning ' || p::text from pgqueue.partitioning p"""


def catalogue(conn: Connection) -> set[str]:
    """Every object of both schemas and every row about queues, as texts."""
    return set(column(conn, OBJECTS))
