"""What is there: the installation, its queues, their tables. Looked up once, before the checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import psycopg

from pgqueue.doctor.findings import Finding, Limits, unseen
from pgqueue.doctor.look import Look
from pgqueue.errors import NoSuchQueue, NotInstalled
from pgqueue.names import QueueNames
from pgqueue.script import package_version
from pgqueue.sqltext import ident, literal

TABLES = ("r", "p")
KINDS = {"r": "table", "p": "table", "v": "view", "m": "materialized view", "f": "foreign table"}


@dataclass(frozen=True, slots=True)
class Relation:
    """Something in schema pgmq that has the name of a queue's table or archive.

    kind, persistence: as in pg_class (r a table, p a partitioned one, v a view …; u unlogged)
    readable: whether this role may select from it
    rows: about how many, by the statistics
    locked_by: who holds it so that nobody can read it, None if nobody does
    """

    oid: int
    name: str
    kind: str
    persistence: str
    readable: bool
    rows: int
    locked_by: str | None = None

    @property
    def sql(self) -> str:
        """Its name as SQL has it."""
        return ident("pgmq", self.name).text

    @property
    def is_table(self) -> bool:
        return self.kind in TABLES


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, or what is left of one.

    name: as the list of queues has it; of an unregistered table what its name says
    key: in lower case, as it enters the names of tables
    registered: whether it is in the list of queues, None where this role may not see that list
    """

    name: str
    key: str
    registered: bool | None
    is_partitioned: bool | None = None
    is_unlogged: bool | None = None
    table: Relation | None = None
    archive: Relation | None = None

    @property
    def literal(self) -> str:
        """Its name as a string in SQL."""
        return literal(self.name).text

    @property
    def names(self) -> QueueNames:
        return QueueNames(self.key)

    @property
    def tables(self) -> Iterator[Relation]:
        """Those of its relations that are tables, and that nobody locks."""
        for relation in (self.table, self.archive):
            if relation is not None and relation.is_table and relation.locked_by is None:
                yield relation


@dataclass(frozen=True)
class Survey:
    """What the checks go by.

    kind: `pgqueue`, `extension`, `sql`
    version: of the package that installed pgqueue, or of pgmq; None where that cannot be seen
    role: who looks, as SQL writes that name
    reads_as_pgmq: its function read searches as pgmq's does
    current: it is pgqueue, of the very version of this package
    leaves: partitions by oid, each with the oid of its table
    """

    look: Look
    limits: Limits
    kind: str
    version: str | None
    role: str
    reads_as_pgmq: bool
    queues: tuple[Queue, ...]
    leaves: dict[int, int]
    relations: frozenset[str]
    unseen: tuple[Finding, ...] = field(default=())

    @property
    def ours(self) -> bool:
        return self.kind == "pgqueue"

    @property
    def current(self) -> bool:
        return self.ours and self.version == package_version()

    def has(self, relation: str) -> bool:
        """Whether there is such a relation in schema pgmq."""
        return relation in self.relations

    @cached_property
    def by_table(self) -> dict[int, tuple[Queue, Relation]]:
        """Tables and archives by oid, those left out that somebody locks."""
        return {table.oid: (queue, table) for queue in self.queues for table in queue.tables}

    @property
    def oids(self) -> list[int]:
        """Of tables and archives."""
        return list(self.by_table)

    @property
    def storage(self) -> dict[int, tuple[Queue, Relation]]:
        """Where rows lie, by oid: tables that are not partitioned, and partitions."""
        plain = {oid: found for oid, found in self.by_table.items() if found[1].kind == "r"}
        parts = {leaf: self.by_table[up] for leaf, up in self.leaves.items() if up in self.by_table}
        return plain | parts

    @cached_property
    def columns(self) -> dict[int, dict[str, Any]]:
        """Columns of tables and archives: by oid, by name; each with type, required, given, identity."""
        found: dict[int, dict[str, Any]] = {oid: {} for oid in self.oids}
        for row in self.look.rows(_COLUMNS, self.oids):
            found[row.table][row.name] = row
        return found

    @cached_property
    def indexes(self) -> list[Any]:
        """Indexes of tables, archives and partitions."""
        return self.look.rows(_INDEXES, [*self.by_table, *self.storage])


def survey(look: Look, limits: Limits, queue: str | None = None) -> Survey:
    """Look up what is there; with `queue` the queue of that name alone.

    Raises:
        NotInstalled: neither pgqueue nor pgmq is.
        NoSuchQueue: there is no queue of that name.
    """
    with look.transaction():
        extension = look.rows("select extversion from pg_extension where extname = 'pgmq'")
        kinds = look.rows(_KIND)[0]
        relations = look.rows(_RELATIONS)
        leaves = {row.leaf: row.parent for row in look.rows(_LEAVES)}
        locks = _locks(look, leaves)
        marks = look.value(_MARKS)
        role = look.value("select quote_ident(current_user)")
        reads_as_pgmq = any(_SEARCH.search(row.prosrc) for row in look.rows(_READS))
    if extension:
        kind, version = "extension", str(extension[0].extversion)
    elif kinds.ours:
        kind, version = "pgqueue", None
    elif kinds.pgmq:
        kind, version = "sql", marks
    else:
        raise NotInstalled("neither pgqueue nor pgmq is installed in this database: run `pgqueue install`.")
    notes: list[Finding] = []
    if kind == "pgqueue":
        version = _package(look, role, notes)
    listed = _listed(look, role, notes)
    found = {
        row.name: Relation(
            row.oid, row.name, row.kind, row.persistence, row.readable, row.rows, locks.get(row.oid)
        )
        for row in relations
    }
    shapes = {row.name for row in relations if row.queue_like}
    queues = tuple(_chosen(_queues(listed, found, shapes), queue))
    return Survey(
        look,
        limits,
        kind,
        version,
        role,
        reads_as_pgmq,
        queues,
        leaves,
        frozenset(kinds.relations),
        tuple(notes),
    )


def _queues(listed: list[Any] | None, found: dict[str, Relation], shapes: set[str]) -> Iterator[Queue]:
    """Those in the list, and those whose tables are there without it."""
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


def _chosen(queues: Iterator[Queue], name: str | None) -> Iterator[Queue]:
    if name is None:
        yield from queues
        return
    chosen = [queue for queue in queues if queue.name == name or queue.key == name.lower()]
    if not chosen:
        raise NoSuchQueue(f'queue "{name}" does not exist')
    yield from chosen


def _package(look: Look, role: str, notes: list[Finding]) -> str | None:
    """The version of the package that installed pgqueue."""
    try:
        with look.transaction():
            return str(look.value("select v.package_version from pgqueue.version() v"))
    except psycopg.errors.InsufficientPrivilege:
        notes.append(
            unseen("the version of pgqueue", "this role may not use schema pgmq", _grant_schema(role))
        )
    except (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable) as problem:
        notes.append(unseen("the version of pgqueue", str(problem.diag.message_primary)))
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


_KIND = """
select
    exists (
        select from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'pgqueue' and c.relname = 'migration'
    ) as ours,
    exists (
        select from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'pgmq' and c.relname = 'meta'
        union all
        select from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'pgmq'
    ) as pgmq,
    array(
        select c.relname::text
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'pgmq' and c.relname in ('meta', 'notify_insert_throttle', 'topic_bindings')
    ) as relations
"""

#: What tells the versions of an SQL-only pgmq apart, newest first: a function, by its number of arguments.
_MARKS = """
select coalesce(
    (
        select m.version
        from (values
            (1, '1.13', 'create_partitioned', 4),
            (2, '1.11.2', 'read_grouped_head_with_poll', null),
            (3, '1.11', 'read_grouped_head', null),
            (4, '1.10.1', 'list_topic_bindings', null),
            (5, '1.10', 'send_topic', null),
            (6, '1.9', 'read_grouped', 3),
            (7, '1.8.1', 'read_grouped', 4),
            (8, '1.7', 'enable_notify_insert', null),
            (9, '1.5.1', 'acquire_queue_lock', null),
            (10, '1.5', 'read', 4),
            (11, '1.4.4', '_get_pg_partman_schema', null),
            (12, '1.4.3', '_get_pg_partman_major_version', null),
            (13, '1.4.1', 'format_table_name', null)
        ) as m (place, version, function, arguments)
        join pg_proc p on p.proname = m.function and (m.arguments is null or p.pronargs = m.arguments)
        join pg_namespace n on n.oid = p.pronamespace and n.nspname = 'pgmq'
        order by m.place
        limit 1
    ),
    '1.4 or before'
)
"""

_READS = """
select p.prosrc
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'pgmq' and p.proname = 'read'
"""

#: What the search of every pgmq from 1.3 to 1.13 looks like.
_SEARCH = re.compile(r"where\s+vt\s*<=\s*clock_timestamp\(\).*order\s+by\s+msg_id.*limit", re.I | re.S)

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
        select sum(greatest(nullif(pg_stat_get_live_tuples(r.oid), 0), r.reltuples, 0))
        from pg_class r
        where r.oid = c.oid and r.relkind = 'r'
            or r.oid in (select i.inhrelid from pg_inherits i where i.inhparent = c.oid)
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

_COLUMNS = """
select
    a.attrelid as table,
    a.attname::text as name,
    format_type(a.atttypid, a.atttypmod) as type,
    a.attnotnull as required,
    a.atthasdef as given,
    a.attidentity::text as identity
from pg_attribute a
where a.attrelid = any(%s::oid[]) and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

_INDEXES = """
select
    i.indrelid as table,
    c.relname::text as name,
    n.nspname::text as schema,
    i.indisvalid and i.indisready as valid,
    i.indisunique as is_unique,
    exists (select from pg_constraint k where k.conindid = i.indexrelid) as constraint,
    i.indnatts as columns,
    (select a.attname::text from pg_attribute a where a.attrelid = i.indrelid and a.attnum = i.indkey[0]) as first,
    pg_get_expr(i.indpred, i.indrelid) as condition,
    regexp_replace(
        concat_ws(
            '/', c.relam, i.indkey, i.indclass, i.indcollation, i.indoption, i.indexprs, i.indpred, i.indisunique
        ),
        ':location -?\\d+', '', 'g'
    ) as make,
    pg_stat_get_numscans(i.indexrelid) as scans,
    pg_stat_get_tuples_inserted(i.indrelid) as inserts
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where i.indrelid = any(%s::oid[])
order by i.indexrelid
"""
