"""Look at what is in a database: which pgmq, which queues, and what people built around them. Reads only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from pgqueue.adopt.signatures import ours
from pgqueue.adopt.waiting import unless_going
from pgqueue.asking import Kind, installed, scalar, texts
from pgqueue.model import COLUMNS, TYPES
from pgqueue.versions import FUNCTIONS, LATER_COLUMNS, SIGNATURES, told_by

#: What is left of an adoption, or of a way back, that was begun: dropped when it is done.
UNFINISHED = "pgqueue.unfinished"
#: Bytes that an entry of an index takes, with its page's slack.
BYTES_AN_ENTRY = 28


@dataclass(frozen=True)
class Queue:
    """A queue's table in schema pgmq. `name` is the table's without `q_`; `registered` what pgmq.meta calls it."""

    oid: int
    name: str
    registered: tuple[str, ...]
    kind: str  # plain, unlogged, partitioned
    partman: bool
    owner: str
    rows: int
    pages: int
    archived: bool
    missing: tuple[str, ...]
    archive_missing: tuple[str, ...]
    extra: tuple[str, ...]
    notifies: bool
    grouped: bool

    @property
    def lacks_columns(self) -> bool:
        """Whether columns of pgmq 1.13 are missing."""
        return bool(self.missing or self.archive_missing)


@dataclass(frozen=True)
class Function:
    """A function of pgmq's in schema pgmq, and what becomes of it: `replaced` in place, `retired` (moved away, dropped
    at the end), or `left` until the end, when it is dropped since we have none of that name."""

    oid: int
    call: str
    name: str
    fate: str


@dataclass(frozen=True)
class Composite:
    """One of pgmq's types: `same` as ours, `grows` by attributes at its end, or must be `replaced`."""

    name: str
    attributes: tuple[str, ...]
    fate: str


@dataclass(frozen=True)
class Found:
    """What is in a database."""

    kind: Kind
    version: str = ""
    unfinished: str = ""  # forth or back: what was begun and not ended
    queues: tuple[Queue, ...] = ()
    nameless: tuple[str, ...] = ()  # in pgmq.meta without a table
    not_tables: tuple[str, ...] = ()  # views and the like in a queue's place
    functions: tuple[Function, ...] = ()
    strange_functions: tuple[str, ...] = ()  # pgmq's, by what the extension says, and of no version known
    foreign_functions: tuple[str, ...] = ()  # in schema pgmq, and not pgmq's
    types: tuple[Composite, ...] = ()
    owned_relations: int = 0  # queue tables and sequences that belong to the extension
    bindings: int = 0
    throttles: int = 0
    around: tuple[tuple[str, int], ...] = field(default=())

    @property
    def lacking(self) -> tuple[Queue, ...]:
        """The queues that lack columns."""
        return tuple(queue for queue in self.queues if queue.lacks_columns)

    @property
    def replaced_types(self) -> tuple[str, ...]:
        """The types whose attributes are others, or in another order, than ours."""
        return tuple(one.name for one in self.types if one.fate == "replaced")


def survey(conn: psycopg.Connection) -> Found:
    """Say what is in a database. Reads only; `conn` is in autocommit mode, or in a transaction of its caller's."""
    return unless_going(conn, lambda: _survey(conn))


def _survey(conn: psycopg.Connection) -> Found:
    began = str(scalar(conn, f"select to_regclass('{UNFINISHED}')") or "")
    unfinished = str(scalar(conn, f"select way from {UNFINISHED}")) if began else ""
    kind, extension = installed(conn)
    if kind == "absent":
        return Found(kind)
    types = _types(conn)
    registered = _registered(conn)
    functions, strange, foreign = _functions(conn, types)
    return Found(
        kind=kind,
        version=extension or told_by(texts(conn, SIGNATURES)),
        unfinished=unfinished,
        queues=_queues(conn, registered),
        nameless=_nameless(conn, registered),
        not_tables=texts(conn, _NOT_TABLES),
        functions=functions,
        strange_functions=strange,
        foreign_functions=foreign,
        types=types,
        owned_relations=int(str(scalar(conn, _OWNED_RELATIONS))),
        bindings=_count(conn, "pgmq.topic_bindings"),
        throttles=_count(conn, "pgmq.notify_insert_throttle"),
        around=tuple((str(what), int(str(how_many))) for what, how_many in conn.execute(_AROUND).fetchall()),
    )


_NOT_TABLES = """
select c.relname::text
from pg_catalog.pg_class c
where c.relnamespace = to_regnamespace('pgmq')
    and c.relname ~ '^[aq]_'
    and c.relkind in ('v', 'm', 'f')
order by 1"""

_OWNED_RELATIONS = """
select count(*)
from pg_catalog.pg_depend d
join pg_catalog.pg_class c on c.oid = d.objid
where d.classid = 'pg_class'::regclass
    and d.refclassid = 'pg_extension'::regclass
    and d.refobjid = (select e.oid from pg_catalog.pg_extension e where e.extname = 'pgmq')
    and d.deptype = 'e'
    and c.relname ~ '^[aq]_'"""

#: What people built around the queues' tables.
_AROUND = """
with queue as (
    select c.oid, c.relacl
    from pg_catalog.pg_class c
    where c.relnamespace = to_regnamespace('pgmq') and c.relkind in ('r', 'p') and c.relname ~ '^[aq]_'
)
select 'view', count(distinct r.ev_class)
from pg_catalog.pg_depend d
join pg_catalog.pg_rewrite r on r.oid = d.objid
where d.classid = 'pg_rewrite'::regclass and d.refobjid in (select q.oid from queue q) and r.ev_class <> d.refobjid
union all
select 'trigger', count(*)
from pg_catalog.pg_trigger t
where t.tgrelid in (select q.oid from queue q)
    and not t.tgisinternal
    and t.tgname <> 'trigger_notify_queue_insert_listeners'
union all
select 'foreign key', count(*)
from pg_catalog.pg_constraint c
where c.contype = 'f' and (c.conrelid in (select q.oid from queue q) or c.confrelid in (select q.oid from queue q))
union all
select 'row security policy', count(*) from pg_catalog.pg_policy p where p.polrelid in (select q.oid from queue q)
union all
select 'table with grants', count(*) from queue q where q.relacl is not null"""


def _readable(conn: psycopg.Connection, table: str) -> bool:
    """Whether there is that table, and this role may read it: one that may not is refused later, by name."""
    return bool(scalar(conn, f"select has_table_privilege(to_regclass('{table}'), 'select')"))


def _count(conn: psycopg.Connection, table: str) -> int:
    if not _readable(conn, table):
        return 0
    return int(str(scalar(conn, f"select count(*) from {table}")))


# --- queues -----------------------------------------------------------------------------------------

#: Tables whose names and columns make them a queue's, whether pgmq.meta knows them or not.
_QUEUES = """
-- Queues and archives are paired by the caller: the server, without statistics of its catalogue, compares all with all.
with relation as materialized (
    select
        c.oid, c.relname::text as relname, c.relkind, c.relpersistence, greatest(c.reltuples, 0) as reltuples,
        c.relowner::regrole::text as owner,
        array_agg(a.attname::text) as columns
    from pg_catalog.pg_class c
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = to_regnamespace('pgmq')
        and c.relkind in ('r', 'p')
        and not c.relispartition
        and c.relname ~ '^[aq]_'
    group by c.oid
)
select
    q.oid::bigint as oid,
    q.relname,
    q.relkind = 'p' as partitioned,
    q.relpersistence = 'u' as unlogged,
    q.owner,
    q.columns,
    case when q.relkind = 'r' then coalesce(pg_relation_size(q.oid), 0) else (
        select coalesce(sum(pg_relation_size(t.relid)), 0) from pg_catalog.pg_partition_tree(q.oid) t where t.isleaf
    ) end::bigint / current_setting('block_size')::bigint as pages,
    case when q.relkind = 'r' then q.reltuples else (
        select coalesce(sum(greatest(l.reltuples, 0)), 0)
        from pg_catalog.pg_partition_tree(q.oid) t
        join pg_catalog.pg_class l on l.oid = t.relid
        where t.isleaf
    ) end::bigint as rows,
    exists (
        select from pg_catalog.pg_trigger t
        where t.tgrelid = q.oid and t.tgname = 'trigger_notify_queue_insert_listeners'
    ) as notifies,
    exists (
        select from pg_catalog.pg_index i
        join pg_catalog.pg_class x on x.oid = i.indexrelid
        join pg_catalog.pg_am m on m.oid = x.relam
        where i.indrelid = q.oid and m.amname = 'gin' and x.relname = left(q.relname || '_fifo_idx', 63)
    ) as grouped
from relation q
where q.columns @> array['msg_id', 'enqueued_at', 'vt', 'message']
order by q.relname"""

_REGISTERED = "select lower(m.queue_name), m.queue_name::text from pgmq.meta m order by m.queue_name"


def _registered(conn: psycopg.Connection) -> dict[str, list[str]]:
    """The names in pgmq.meta, by their lower case."""
    registered: dict[str, list[str]] = {}
    if _readable(conn, "pgmq.meta"):
        for name, as_created in conn.execute(_REGISTERED).fetchall():
            registered.setdefault(name, []).append(as_created)
    return registered


def _nameless(conn: psycopg.Connection, registered: dict[str, list[str]]) -> tuple[str, ...]:
    there = set(
        texts(conn, "select relname::text from pg_class where relnamespace = to_regnamespace('pgmq')")
    )
    return tuple(one for name, names in registered.items() if f"q_{name}" not in there for one in names)


def _queues(conn: psycopg.Connection, registered: dict[str, list[str]]) -> tuple[Queue, ...]:
    kept_up = set(_partman_tables(conn))
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        found: list[Any] = cursor.execute(_QUEUES.encode()).fetchall()
    by_name = {row.relname: row for row in found}
    return tuple(
        _queue(row, by_name.get(f"a_{row.relname[2:]}"), registered, kept_up)
        for row in found
        if row.relname[0] == "q"
    )


def _queue(row: Any, archive: Any, registered: dict[str, list[str]], kept_up: set[str]) -> Queue:
    name = row.relname[2:]
    return Queue(
        oid=row.oid,
        name=name,
        registered=tuple(registered.get(name, ())),
        kind="partitioned" if row.partitioned else "unlogged" if row.unlogged else "plain",
        partman=f"pgmq.q_{name}" in kept_up,
        owner=row.owner,
        rows=row.rows,
        pages=row.pages,
        archived=archive is not None,
        missing=tuple(one for one in LATER_COLUMNS if one not in row.columns),
        archive_missing=tuple(
            one for one in LATER_COLUMNS if archive is not None and one not in archive.columns
        ),
        extra=tuple(sorted(set(row.columns) - set(COLUMNS))),
        notifies=row.notifies,
        grouped=row.grouped,
    )


def partman_schema(conn: psycopg.Connection) -> str | None:
    """The schema of pg_partman, quoted; None where it is not installed or cannot be read."""
    schema = scalar(
        conn,
        "select quote_ident(n.nspname) from pg_catalog.pg_extension e"
        " join pg_catalog.pg_namespace n on n.oid = e.extnamespace"
        " join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'part_config'"
        " where e.extname = 'pg_partman' and has_schema_privilege(n.oid, 'usage')"
        " and has_table_privilege(c.oid, 'select')",
    )
    return None if schema is None else str(schema)


def _partman_tables(conn: psycopg.Connection) -> tuple[str, ...]:
    schema = partman_schema(conn)
    return texts(conn, f"select parent_table from {schema}.part_config") if schema else ()


# --- functions and types ----------------------------------------------------------------------------

_MEMBER = """exists (
        select from pg_catalog.pg_depend d
        where d.classid = 'pg_proc'::regclass
            and d.objid = p.oid
            and d.deptype = 'e'
            and d.refclassid = 'pg_extension'::regclass
            and d.refobjid = (select e.oid from pg_catalog.pg_extension e where e.extname = 'pgmq')
    )"""

_FUNCTIONS = f"""
with ours as (
    select to_regprocedure(o.call) as oid, o.*
    from jsonb_to_recordset(%s::jsonb) as o (call text, parameters text[], defaults integer, result text)
)
select
    p.oid::bigint as oid,
    format('pgmq.%%I(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as call,
    p.proname::text as name,
    p.proname || '(' || concat_ws(',', variadic array(
        select format_type(t.type, null) from unnest(p.proargtypes) with ordinality as t (type, place) order by t.place
    )) || ')' as signature,
    {_MEMBER} as member,
    coalesce(
        coalesce(p.proargnames[1:p.pronargs], '{{}}') = o.parameters
        and p.pronargdefaults <= o.defaults
        and pg_get_function_result(p.oid) = o.result,
        false
    ) as fits,
    pg_get_function_result(p.oid) as result
from pg_catalog.pg_proc p
left join ours o on o.oid = p.oid
where p.pronamespace = to_regnamespace('pgmq')
order by p.proname, 4"""


def _functions(
    conn: psycopg.Connection, types: Sequence[Composite]
) -> tuple[tuple[Function, ...], tuple[str, ...], tuple[str, ...]]:
    """pgmq's functions with their fates; names of those of no version known; names of those that are not pgmq's."""
    known = json.dumps(
        [
            {"call": o.call, "parameters": o.parameters, "defaults": o.defaults, "result": o.result}
            for o in ours()
        ]
    )
    our_names = {one.name for one in ours()}
    replaced_types = [f"pgmq.{one.name}" for one in types if one.fate == "replaced"]
    functions, strange, foreign = [], [], []
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(_FUNCTIONS.encode(), (known,)).fetchall()
        for row in rows:
            is_known = row.signature in FUNCTIONS
            if not is_known and not row.member:
                foreign.append(row.call)
                continue
            if not is_known:
                strange.append(row.call)
            if row.fits and not any(one in row.result for one in replaced_types):
                fate = "replaced"
            elif row.name in our_names:
                fate = "retired"
            else:
                fate = "left"
            functions.append(Function(row.oid, row.call, row.name, fate))
    return tuple(functions), tuple(strange), tuple(foreign)


_ATTRIBUTES = """
select t.typname::text, array_agg(a.attname::text order by a.attnum)
from pg_catalog.pg_type t
join pg_catalog.pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
where t.typnamespace = to_regnamespace('pgmq') and t.typname = any(%s)
group by t.typname
order by t.typname"""


def _types(conn: psycopg.Connection) -> tuple[Composite, ...]:
    return tuple(
        Composite(name, tuple(attributes), _fate(tuple(attributes), TYPES[name]))
        for name, attributes in conn.execute(_ATTRIBUTES, (list(TYPES),)).fetchall()
    )


def _fate(attributes: tuple[str, ...], needed: tuple[str, ...]) -> str:
    if attributes == needed:
        return "same"
    return "grows" if attributes == needed[: len(attributes)] else "replaced"
