"""What is there: the installation, its queues, their tables, and what the catalogue says of those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pgqueue.asking import Kind
from pgqueue.doctor.findings import Finding, Limits
from pgqueue.doctor.look import Look
from pgqueue.doctor.packaged import Difference, differences
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
    leaves: partitions by oid, each with the oid of its table
    relations: which of the lists that all queues share are there
    standby: the server only follows another, on which all is mended
    detached: what were partitions once, by name, with the name of the table whose, None where that is gone
    unseen: what this role could not look up
    """

    look: Look
    limits: Limits
    kind: Kind
    version: str | None
    role: str
    reads_as_pgmq: bool
    queues: tuple[Queue, ...]
    leaves: dict[int, int]
    relations: frozenset[str]
    standby: bool
    detached: dict[str, str | None]
    unseen: tuple[Finding, ...] = field(default=())

    @property
    def ours(self) -> bool:
        return self.kind == "pgqueue"

    @property
    def current(self) -> bool:
        """Whether it is pgqueue, of the very version of this package."""
        return self.ours and self.version == package_version()

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """The package's functions that are other ones here; of another version they are not compared."""
        return differences(self.look) if self.current else {}

    @property
    def trusted(self) -> bool:
        """Whether functions in schema pgqueue may be run: whoever could change them would run in this session."""
        return self.current and not any(name.startswith("pgqueue.") for name in self.differences)

    def has(self, relation: str) -> bool:
        """Whether there is such a list in schema pgmq."""
        return relation in self.relations

    @cached_property
    def by_table(self) -> dict[int, tuple[Queue, Relation]]:
        """Tables and archives by oid, those left out that somebody locks."""
        return {table.oid: (queue, table) for queue in self.queues for table in queue.tables}

    @property
    def oids(self) -> list[int]:
        """Of tables and archives."""
        return list(self.by_table)

    @cached_property
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
    def sequences(self) -> dict[int, list[Any]]:
        """What numbers the messages, by the table's oid; each with its name, highest number, and if it is readable."""
        found: dict[int, list[Any]] = {}
        for row in self.look.rows(_SEQUENCES, self.oids):
            found.setdefault(row.table, []).append(row)
        return found

    @cached_property
    def indexes(self) -> list[Any]:
        """Indexes of tables, archives and partitions."""
        return self.look.rows(_INDEXES, [*self.by_table, *self.storage])

    @cached_property
    def indexes_of(self) -> dict[int, list[Any]]:
        """The same by the table's oid."""
        found: dict[int, list[Any]] = {oid: [] for oid in (*self.by_table, *self.storage)}
        for one in self.indexes:
            found[one.table].append(one)
        return found


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

_SEQUENCES = """
select
    a.attrelid as table,
    s.oid,
    format('%%I.%%I', n.nspname, s.relname) as name,
    q.seqmax as most,
    has_sequence_privilege(s.oid, 'usage, select') as readable
from pg_attribute a
join pg_depend d
    on d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum
    and d.classid = 'pg_class'::regclass and d.deptype in ('i', 'a')
join pg_class s on s.oid = d.objid and s.relkind = 'S'
join pg_namespace n on n.oid = s.relnamespace
join pg_sequence q on q.seqrelid = s.oid
where a.attrelid = any(%s::oid[]) and a.attname = 'msg_id'
"""
