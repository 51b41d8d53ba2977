"""Give a database back to pgmq: the way of forth.py, the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgqueue.adopt import indexes, rights
from pgqueue.adopt.extension import give_to_extension
from pgqueue.adopt.finish import drop_index, lock_whole, rename_index
from pgqueue.adopt.forth import Teller, Watch, one_at_a_time, prepare_session
from pgqueue.adopt.indexes import Index, Known, Workshop
from pgqueue.adopt.pgmq_sql import pgmq_sql
from pgqueue.adopt.plan_back import steps_back
from pgqueue.adopt.refusals_back import reasons_back
from pgqueue.adopt.survey import UNFINISHED, Found, Queue, survey
from pgqueue.adopt.waiting import LIGHT_LOCK_WAIT, briefly, outlive_others, unless_dropped
from pgqueue.asking import scalar, texts
from pgqueue.errors import CannotAdopt
from pgqueue.names import as_cut, object_name
from pgqueue.sqltext import ident, literal

#: Compiled functions and sequences dropped in one transaction: each takes a lock of its own.
DROPPED_AT_ONCE = 500


def look_back(conn: psycopg.Connection, *, extension: bool = False) -> Found:
    """What is there, if it can be given back. Reads only.

    Raises:
        CannotAdopt: it cannot, and why.
    """
    prepare_session(conn)
    found = survey(conn)
    if why := reasons_back(conn, found, extension=extension):
        raise CannotAdopt("; ".join(why))
    return found


def give_back(
    conn: psycopg.Connection,
    observer: psycopg.Connection,
    *,
    sql_file: Path | None = None,
    extension: bool = False,
    watch: Watch | None = None,
) -> None:
    """Put pgmq in the place of pgqueue, queues and messages as they are. Both connections are in autocommit mode and
    of the same role.

    Args:
        sql_file: pgmq's SQL; that of the official client's wheel if not given.
        extension: Make the extension pgmq that the server offers, in place of functions from SQL.

    Raises:
        CannotAdopt: nothing was changed.
        InTheWay: another transaction stayed in the way; a further call goes on from there.
    """
    script = "" if extension else pgmq_sql(sql_file)
    with one_at_a_time(conn):
        found = look_back(conn, extension=extension)
        tell = Teller({step.key: step for step in steps_back(found, extension=extension)}, watch)
        workshop = Workshop(conn, observer, tell.within)
        if found.unfinished != "back":
            _prepare(workshop, found, tell)
            tell.begin("swap", 1)
            briefly(conn, lambda: _change(conn, script, extension), "the change of functions", over_all=True)
            tell.done()
        _finish(workshop, tell)


# --- before -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Theirs:
    """An index of pgmq's: built under `index.name`, or an index that is there renamed to that."""

    index: Index
    definition: str

    def names(self, there: dict[str, Known]) -> list[str]:
        """The valid indexes that are like it, whatever their names."""
        return [
            one.name
            for one in there.values()
            if one.table == self.index.table and one.definition == self.definition and one.valid
        ]


def theirs(queue: Queue, partition_column: str | None) -> list[Theirs]:
    """The indexes that pgmq gives a queue."""
    table, made = f"q_{queue.name}", []
    if partition_column:
        column = str(ident(partition_column))
        made.append(_theirs("part", as_cut(f"{table}_part_idx"), table, f"({column})"))
    else:
        made.append(_theirs("vt", as_cut(f"{table}_vt_idx"), table, "(vt)"))
    if queue.archived:
        name = as_cut(f"archived_at_idx_{(queue.registered or (queue.name,))[0]}")
        made.append(_theirs("archived_at", name, f"a_{queue.name}", "(archived_at)"))
    return made


def _theirs(label: str, name: str, table: str, columns: str) -> Theirs:
    return Theirs(Index(label, name, table, columns), f"btree {columns}")


def _gin(queue: Queue) -> Index:
    return Index("gin", object_name("q_", queue.name, "$gin_idx"), f"q_{queue.name}", "using gin (headers)")


def _prepare(workshop: Workshop, found: Found, tell: Teller) -> None:
    """pgmq's indexes, beside ours."""
    tell.begin("indexes", len(found.queues))
    there = indexes.indexes(workshop.conn)
    columns: dict[str, str] = dict(workshop.conn.execute(_PARTITION_COLUMNS).fetchall())
    for queue in found.queues:
        with unless_dropped(workshop.conn, queue.oid):
            for wanted in theirs(queue, columns.get(f"q_{queue.name}")):
                if not wanted.names(there):
                    workshop.build(wanted.index, queue)
            if _has_our_groups(queue, there):
                workshop.build(_gin(queue), queue)
        tell.one_more()


_PARTITION_COLUMNS = """
select c.relname::text, a.attname::text
from pg_catalog.pg_partitioned_table p
join pg_catalog.pg_class c on c.oid = p.partrelid
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = p.partattrs[0]
where c.relnamespace = 'pgmq'::regnamespace"""


def _has_our_groups(queue: Queue, there: dict[str, Known]) -> bool:
    known = there.get(object_name("q_", queue.name, "_fifo_idx"))
    return known is not None and known.definition.startswith("btree")


# --- the short transaction ----------------------------------------------------------------------------


_KEEP_STAMPS = """
update pgmq.notify_insert_throttle t
set last_notified_at = to_timestamp(s.stamp / 1000000.0)
from (
    select n.queue_name, pg_sequence_last_value(pgqueue._notified(lower(n.queue_name))) as stamp
    from pgmq.notify_insert_throttle n
) s
where s.queue_name = t.queue_name and s.stamp > 0 and to_timestamp(s.stamp / 1000000.0) > t.last_notified_at"""

_OURS_LEFT = """
select p.oid::regprocedure::text, p.proname::text, pg_get_function_identity_arguments(p.oid)
from pg_catalog.pg_proc p
where p.pronamespace = 'pgmq'::regnamespace and p.prosrc ~ '\\mpgqueue\\.'"""


_OUR_COMMENT = """
select obj_description(n.oid, 'pg_namespace') like 'pgqueue:%' and pg_has_role(n.nspowner, 'usage')
from pg_catalog.pg_namespace n
where n.nspname = 'pgmq'"""


def _change(conn: psycopg.Connection, script: str, extension: bool) -> None:
    conn.execute("lock table pgmq.meta in share row exclusive mode")
    before = rights.of_functions(conn)
    conn.execute(_KEEP_STAMPS)
    if extension:
        give_to_extension(conn)
    else:
        conn.execute(script.encode())
        conn.execute("alter table pgmq.notify_insert_throttle set unlogged")
        for call, name, arguments in conn.execute(_OURS_LEFT).fetchall():
            conn.execute(f'alter function {call} rename to "{name}$retired"'.encode())
            conn.execute(f'alter function pgmq."{name}$retired"({arguments}) set schema pgqueue'.encode())
    rights.restore_functions(conn, before)
    conn.execute(f"create table {UNFINISHED} (way text primary key, version text not null)".encode())
    conn.execute(f"insert into {UNFINISHED} (way, version) values ('back', '')".encode())
    if scalar(conn, _OUR_COMMENT):
        conn.execute("comment on schema pgmq is null")


# --- after ------------------------------------------------------------------------------------------


def _finish(workshop: Workshop, tell: Teller) -> None:
    conn = workshop.conn
    outlive_others(conn, "waiting until nobody is inside our functions")
    found = survey(conn)
    _prepare(workshop, found, tell)  # a queue that our create made at the last moment
    notified = [queue for queue in found.queues if queue.notifies]
    tell.begin("notify", len(notified))
    for queue in notified:
        with unless_dropped(conn, queue.oid):
            briefly(conn, lambda: _their_trigger(conn, queue), f"notify trigger of queue {queue.name}")  # noqa: B023
        tell.one_more()
    tell.begin("tidy", len(found.queues) + 1)
    there = indexes.indexes(conn)
    columns: dict[str, str] = dict(conn.execute(_PARTITION_COLUMNS).fetchall())
    for queue in found.queues:
        with unless_dropped(conn, queue.oid):
            _change_indexes(workshop, queue, there, columns.get(f"q_{queue.name}"))
        tell.one_more()
    _drop_compiled(conn)
    briefly(conn, lambda: conn.execute("drop schema pgqueue cascade"), "schema pgqueue", wait=LIGHT_LOCK_WAIT)
    tell.done()


_HAS_THEIR_TRIGGER = """
select t.tgnargs = 0 and not t.tginitdeferred and t.tgfoid = to_regproc('pgmq.notify_queue_listeners')
from pg_catalog.pg_trigger t
where t.tgrelid = {table}::regclass and t.tgname = 'trigger_notify_queue_insert_listeners'"""


def _their_trigger(conn: psycopg.Connection, queue: Queue) -> None:
    table = str(ident("pgmq", f"q_{queue.name}"))
    if scalar(conn, _HAS_THEIR_TRIGGER.format(table=literal(table))):
        return
    lock_whole(conn, queue)
    conn.execute(f"drop trigger trigger_notify_queue_insert_listeners on {table}".encode())
    conn.execute(
        f"create constraint trigger trigger_notify_queue_insert_listeners after insert on {table}"
        " deferrable for each row execute procedure pgmq.notify_queue_listeners()".encode()
    )


def _change_indexes(workshop: Workshop, queue: Queue, there: dict[str, Known], column: str | None) -> None:
    """Drop ours, and give pgmq's their names."""
    conn = workshop.conn
    fifo, gin = object_name("q_", queue.name, "_fifo_idx"), _gin(queue).name
    if gin in there:
        if _has_our_groups(queue, there):
            drop_index(workshop, queue, fifo)
        rename_index(conn, gin, fifo)
    for wanted in theirs(queue, column):
        name = wanted.index.name
        same = wanted.names(there)
        if name not in same and same:
            rename_index(conn, same[0], name)
            there = {**there, name: there[same[0]]}
            del there[same[0]]
    for one in indexes.reading(queue, {}):
        if one.name in there and there[one.name].table == one.table:
            drop_index(workshop, queue, one.name)


_COMPILED = """
select format('drop function %%s', p.oid::regprocedure)
from pg_catalog.pg_proc p
where p.pronamespace = 'pgqueue'::regnamespace and p.proname ~ '[^$]\\$'
union all
select format('drop sequence %%s', c.oid::regclass)
from pg_catalog.pg_class c
where c.relnamespace = 'pgqueue'::regnamespace and c.relkind = 'S'
limit %s"""


def _drop_compiled(conn: psycopg.Connection) -> None:
    while statements := texts(conn, _COMPILED, (DROPPED_AT_ONCE,)):

        def drop(statements: tuple[str, ...] = statements) -> None:
            for statement in statements:
                conn.execute(statement.encode())

        briefly(conn, drop, "dropping the compiled functions", wait=LIGHT_LOCK_WAIT)
