"""After the short transaction: compile the queues, change their triggers and indexes over, drop what is old."""

from __future__ import annotations

import psycopg

from pgqueue.adopt import indexes
from pgqueue.adopt.indexes import Known, Workshop
from pgqueue.adopt.survey import UNFINISHED, Found, Queue, survey
from pgqueue.adopt.waiting import LIGHT_LOCK_WAIT, briefly
from pgqueue.names import as_cut, object_name
from pgqueue.sqltext import ident

#: The index of an archive, as Postgres prints its definition.
ARCHIVED = "btree (archived_at)"


def compile_queue(conn: psycopg.Connection, queue: Queue) -> None:
    """Make a queue's compiled functions and sequences, where it is registered."""
    if queue.kind == "unlogged":
        keep = "select pgqueue._keep_ids(%s)"
        briefly(conn, lambda: conn.execute(keep, (queue.name,)), f"ids of queue {queue.name}")
    if queue.registered:
        briefly(
            conn,
            lambda: conn.execute("select pgqueue._compile(%s, false)", (queue.name,)),
            f"compiling queue {queue.name}",
            wait=LIGHT_LOCK_WAIT,
        )


_OUR_TRIGGER = """
select pgqueue._make_notify_trigger(%(name)s, %(registered)s);
select pgqueue._make_notified_sequence(%(name)s);
select setval(pgqueue._notified(%(name)s), greatest(date_part('epoch', t.last_notified_at) * 1000000, 0)::bigint)
from pgmq.notify_insert_throttle t
where t.queue_name = %(registered)s and pg_sequence_last_value(pgqueue._notified(%(name)s)) is null"""


def change_trigger(conn: psycopg.Connection, queue: Queue) -> None:
    """Our notify trigger for pgmq's; when listeners were last told is kept."""
    names = {"name": queue.name, "registered": queue.registered[0] if queue.registered else queue.name}

    def change() -> None:
        lock_whole(conn, queue)
        for statement in _OUR_TRIGGER.split(";\n"):
            conn.execute(statement.encode(), names)

    briefly(conn, change, f"notify trigger of queue {queue.name}")


def lock_whole(conn: psycopg.Connection, queue: Queue) -> None:
    """Lock a queue's table, then its partitions, as everybody else does: dropping a trigger would begin with the
    partitions and meet senders and readers half-way."""
    table = ident("pgmq", f"q_{queue.name}")
    conn.execute(f"lock table {table} in access exclusive mode".encode())


def change_indexes(workshop: Workshop, queue: Queue, there: dict[str, Known]) -> None:
    """Drop pgmq's indexes that ours stand for, and give ours their names."""
    made = indexes.grouped(queue)
    final = object_name("q_", queue.name, "_fifo_idx")
    if made.name in there:
        theirs = there.get(final)
        if theirs and theirs.definition.startswith("gin"):
            drop_index(workshop, queue, final)
        rename_index(workshop.conn, made.name, final)
    theirs = there.get(as_cut(f"q_{queue.name}_vt_idx"))
    if theirs and theirs.table == f"q_{queue.name}" and theirs.definition == "btree (vt)":
        drop_index(workshop, queue, theirs.name)
    wanted = indexes.archive(queue)
    archived = [
        one.name for one in there.values() if one.table == wanted.table and one.definition == ARCHIVED
    ]
    if archived and wanted.name not in there:
        rename_index(workshop.conn, archived[0], wanted.name)


def drop_index(workshop: Workshop, queue: Queue, name: str) -> None:
    """Drop an index of a queue; of a partitioned one it goes at once, as no other way is known."""
    if queue.kind == "partitioned":
        drop = f"drop index if exists {ident('pgmq', name)}".encode()
        briefly(workshop.conn, lambda: workshop.conn.execute(drop), f"index {name}")
    else:
        workshop.drop(name)


def rename_index(conn: psycopg.Connection, name: str, final: str) -> None:
    """Give an index another name."""
    rename = f"alter index {ident('pgmq', name)} rename to {ident(final)}".encode()
    briefly(conn, lambda: conn.execute(rename), f"index {name}", wait=LIGHT_LOCK_WAIT)


def settle_tables(workshop: Workshop) -> None:
    """Throttles in a logged table; on the small tables replica identities, and no index of pgmq's."""
    conn = workshop.conn
    kept = (
        "select relpersistence from pg_catalog.pg_class where oid = 'pgmq.notify_insert_throttle'::regclass"
    )
    if conn.execute(kept.encode()).fetchone() == ("u",):
        briefly(conn, lambda: conn.execute("alter table pgmq.notify_insert_throttle set logged"), "throttles")
    briefly(conn, lambda: conn.execute("select pgqueue._identify_rows()"), "replica identities")
    workshop.drop("idx_notify_throttle_active")
    workshop.drop("idx_topic_bindings_covering")


_RETIRED = """
select format('drop %s %s', case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure), 1
from pg_catalog.pg_proc p
where p.pronamespace = 'pgqueue'::regnamespace and p.proname like '%$retired'
union all
select format('drop type %s', t.oid::regtype), 2
from pg_catalog.pg_type t
where t.typnamespace = 'pgqueue'::regnamespace and t.typtype = 'c' and t.typname like '%$retired'
order by 2"""


def clear(conn: psycopg.Connection) -> None:
    """Drop pgmq's functions and types, which nobody can be inside any more, and say that all is done."""
    found: Found = survey(conn)
    statements = [f"drop function {one.call}" for one in found.functions if one.fate == "left"]
    statements += [str(row[0]) for row in conn.execute(_RETIRED.encode()).fetchall()]

    def drop() -> None:
        for statement in statements:
            conn.execute(statement.encode())
        conn.execute(f"drop table {UNFINISHED}".encode())
        conn.execute(b"select pgqueue._write_direct_calls()")

    briefly(conn, drop, "dropping pgmq's old functions", wait=LIGHT_LOCK_WAIT)
