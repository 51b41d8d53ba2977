"""Finding out what is installed: once, before the checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import md5
from typing import Any

import psycopg

from pgqueue.asking import INSTALLED, Kind
from pgqueue.doctor.findings import Finding, Limits, unseen
from pgqueue.doctor.look import Look
from pgqueue.doctor.survey import Queue, Relation, Survey
from pgqueue.errors import NoSuchQueue, NotInstalled
from pgqueue.names import LISTS, lower
from pgqueue.versions import SIGNATURES, told_by


def survey(look: Look, limits: Limits, queue: str | None = None) -> Survey:
    """Look up what is there; with `queue` the queue of that name alone.

    Raises:
        NotInstalled: neither pgqueue nor pgmq is.
        NoSuchQueue: there is no queue of that name.
    """
    with look.transaction():
        (found,) = look.rows(INSTALLED)
        lists = frozenset(row.name for row in look.rows(_LISTS, list(LISTS)))
        standby = look.value("select pg_is_in_recovery()")
        relations = look.rows(_RELATIONS)
        leaves = {row.leaf: row.parent for row in look.rows(_LEAVES)}
        locks = _locks(look, leaves)
        signatures = [row.signature for row in look.rows(SIGNATURES)]
        role = look.value("select quote_ident(current_user)")
        reads_as_pgmq = any(_SEARCH.search(row.prosrc) for row in look.rows(_READS))
    kind: Kind = found.kind
    if kind == "absent":
        raise NotInstalled("neither pgqueue nor pgmq is installed in this database: run `pgqueue install`.")
    version = _package(look) if kind == "pgqueue" else found.extension or told_by(signatures)
    notes: list[Finding] = []
    listed = _listed(look, role, notes)
    detached = _detached(listed, relations)
    queues = _queues(listed, [row for row in relations if row.name not in detached], locks)
    return Survey(
        look,
        limits,
        kind,
        version,
        role,
        reads_as_pgmq,
        tuple(_chosen(queues, queue)),
        leaves,
        lists,
        standby,
        detached,
        tuple(notes),
    )


def _queues(listed: list[Any] | None, relations: list[Any], locks: dict[int, str]) -> Iterator[Queue]:
    """Those in the list, and those whose tables are there without it."""
    found = {
        row.name: Relation(
            row.oid, row.name, row.kind, row.persistence, row.readable, row.rows, locks.get(row.oid)
        )
        for row in relations
    }
    shapes = {row.name for row in relations if row.queue_like}
    seen = set()
    for row in listed or ():
        seen.add(row.key)
        yield Queue(
            row.queue_name,
            row.key,
            True,
            row.is_partitioned,
            row.is_unlogged,
            found.get(f"q_{row.key}"),
            found.get(f"a_{row.key}"),
        )
    registered = None if listed is None else False
    for name in sorted(shapes):
        key = name.removeprefix("q_")
        if key not in seen:
            yield Queue(key, key, registered, table=found[name], archive=found.get(f"a_{key}"))


#: The table of a queue, or its name's MD5 where that is too long, and what tells its partitions apart.
_PARTITION = re.compile(r"([qa])_(?:([0-9a-f]{32})\$|(.+))\$(?:p\d+|default)")


def _detached(listed: list[Any] | None, relations: list[Any]) -> dict[str, str | None]:
    """Tables by name that were partitions of ours once, with the name of the table whose, if that is there.

    They are nobody's queue: no queue has a dollar in its name.
    """
    names = {row.name for row in relations} - {f"q_{row.key}" for row in listed or ()}
    keys = {name[2:] for name in names if "$" not in name} | {row.key for row in listed or ()}
    by_hash = {md5(key.encode(), usedforsecurity=False).hexdigest(): key for key in keys}
    found: dict[str, str | None] = {}
    for name in sorted(names):
        if parts := _PARTITION.fullmatch(name):
            kind, digest, key = parts.groups()
            whose = by_hash.get(digest) if digest else key
            found[name] = f"{kind}_{whose}" if whose in keys else None
    return found


def _chosen(queues: Iterator[Queue], name: str | None) -> Iterator[Queue]:
    if name is None:
        yield from queues
        return
    chosen = [queue for queue in queues if queue.name == name or queue.key == lower(name)]
    if not chosen:
        raise NoSuchQueue(f'queue "{name}" does not exist')
    yield from chosen


def _package(look: Look) -> str | None:
    """The version of the package that installed pgqueue, as its function version() says. Read there, not run."""
    with look.transaction():
        for row in look.rows(_VERSION):
            if told := re.search(r"package_version := '([^']+)'", row.prosrc):
                return told[1]
    return None


def _listed(look: Look, role: str, notes: list[Finding]) -> list[Any] | None:
    """The list of queues; None where this role may not see it."""
    try:
        with look.transaction():
            return look.rows(_META)
    except psycopg.errors.InsufficientPrivilege:
        why = "this role may not read pgmq.meta, so queues are known by their tables alone"
        notes.append(
            unseen("the list of queues", why, _grant_schema(role) + f"\ngrant select on pgmq.meta to {role};")
        )
    except psycopg.errors.LockNotAvailable:
        notes.append(unseen("the list of queues", "somebody locks pgmq.meta, so no queue can be created"))
    except psycopg.errors.UndefinedTable:
        notes.append(unseen("the list of queues", "there is no table pgmq.meta"))
    return None


def _grant_schema(role: str) -> str:
    return f"-- as its owner\ngrant usage on schema pgmq to {role};"


def _locks(look: Look, leaves: dict[int, int]) -> dict[int, str]:
    """Tables that nobody can read now, by oid, with who locks them."""
    found = {}
    for row in look.rows(_LOCKS):
        who = "a prepared transaction" if row.pid is None else f"process {row.pid}"
        found[leaves.get(row.table, row.table)] = who
    return found


_LISTS = """
select c.relname::text as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'pgmq' and c.relname = any(%s)
"""

_READS = """
select p.prosrc
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'pgmq' and p.proname = 'read'
"""

#: What the search of every pgmq from 1.3 to 1.13 looks like.
_SEARCH = re.compile(r"where\s+vt\s*<=\s*clock_timestamp\(\).*order\s+by\s+msg_id.*limit", re.I | re.S)

_VERSION = """
select p.prosrc
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'pgqueue' and p.proname = 'version'
"""

_META = """
select m.queue_name::text, lower(m.queue_name) as key, m.is_partitioned, m.is_unlogged
from pgmq.meta m
order by m.queue_name
"""

_RELATIONS = """
select
    c.oid,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    coalesce(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), false) as readable,
    coalesce((
        select sum(coalesce(nullif(pg_stat_get_live_tuples(r.oid), 0), greatest(r.reltuples, 0)))
        from (select c.oid union all select i.inhrelid from pg_inherits i where i.inhparent = c.oid) s
        join pg_class r on r.oid = s.oid and r.relkind = 'r'
    ), 0)::bigint as rows,
    c.relname like 'q\\_%' and (
        select count(*) = 2
        from pg_attribute a
        where a.attrelid = c.oid and a.attname in ('msg_id', 'vt') and not a.attisdropped
    ) as queue_like
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'pgmq'
    and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not c.relispartition
    and (c.relname like 'q\\_%' or c.relname like 'a\\_%')
"""

_LEAVES = """
select i.inhrelid as leaf, i.inhparent as parent
from pg_inherits i
join pg_class c on c.oid = i.inhparent and c.relkind = 'p'
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'pgmq'
"""

#: A lock on an index keeps readers away too: they open all indexes when they plan.
_LOCKS = """
select coalesce(i.indrelid, l.relation) as table, l.pid
from pg_locks l
left join pg_index i on i.indexrelid = l.relation
where l.locktype = 'relation'
    and l.mode = 'AccessExclusiveLock'
    and l.pid is distinct from pg_backend_pid()
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
"""
