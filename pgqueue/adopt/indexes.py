"""Build and drop the indexes of queues while everybody goes on: concurrently, or, on a small table, in an instant."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import psycopg

from pgqueue.adopt import waiting
from pgqueue.adopt.survey import Queue
from pgqueue.adopt.waiting import briefly, unless_going
from pgqueue.errors import InTheWay
from pgqueue.names import QueueNames, object_name
from pgqueue.script import index_sql
from pgqueue.sqltext import INDEXES, ident

#: Pages up to which an index is made in an instant, under a lock that writers wait for: 2 MB.
SMALL = 256
#: Seconds that such a lock is tried for, before the index is built concurrently all the same.
TRIES = 2.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Index:
    """An index that a table shall have: `definition` is what follows the table's name in `create index`."""

    label: str
    name: str
    table: str
    definition: str

    def on(self, table: str, name: str) -> str:
        """What follows `create index` to make it on a table, under a name."""
        return f"{ident(name)} on {ident('pgmq', table)} {self.definition}"

    def in_part(self, part: str) -> str:
        """Its name on a partition."""
        return object_name("", part, f"_{self.label}_idx")


@dataclass(frozen=True)
class Known:
    """An index that is there, on which table, whether it is valid, and its definition as Postgres prints it, from
    `USING` on."""

    name: str
    table: str
    valid: bool
    definition: str


_INDEXES = """
select x.relname::text, t.relname::text, i.indisvalid, regexp_replace(d.said, '^.*? USING ', '')
from pg_catalog.pg_index i
join pg_catalog.pg_class x on x.oid = i.indexrelid
join pg_catalog.pg_class t on t.oid = i.indrelid
cross join lateral pg_get_indexdef(x.oid) d (said)
where x.relnamespace = 'pgmq'::regnamespace and d.said is not null"""  # null: dropped since the query began


def indexes(conn: psycopg.Connection, table: str | None = None) -> dict[str, Known]:
    """The indexes of schema pgmq, or of one table, by name."""
    query = _INDEXES + (" and t.relname = %s" if table else "")
    rows = unless_going(conn, lambda: conn.execute(query.encode(), (table,) if table else None).fetchall())
    return {row[0]: Known(*row) for row in rows}


# --- which ------------------------------------------------------------------------------------------


def reading(queue: Queue, there: dict[str, Known]) -> list[Index]:
    """The indexes that our readers need and pgmq's tables have not."""
    q_table = f"q_{queue.name}"
    wanted = [_ours("ready_index", queue.name, q_table), _ours("waiting_index", queue.name, q_table)]
    if queue.kind == "partitioned" and not any(
        one.table == q_table and one.definition == "btree (msg_id)" and one.valid for one in there.values()
    ):
        wanted.append(_ours("msg_id_index", queue.name, q_table))
    return wanted


def archive(queue: Queue) -> Index:
    """The index of a queue's archive."""
    return _ours("archive_index", queue.name, f"a_{queue.name}")


def grouped(queue: Queue) -> Index:
    """Our index over groups. pgmq's bears its name, so it gets that name last."""
    return replace(
        _ours("fifo_index", queue.name, f"q_{queue.name}"), name=object_name("q_", queue.name, "$fifo_idx")
    )


def _ours(index: str, name: str, table: str) -> Index:
    definition = index_sql(index, QueueNames(name)).split(f" on {ident('pgmq', table)} ", 1)[1]
    prefix, suffix = INDEXES[index]
    return Index(index.removesuffix("_index"), object_name(prefix, name, suffix), table, definition)


# --- building ---------------------------------------------------------------------------------------


class Workshop:
    """Two sessions: one builds, the other watches how far it got and who is in its way."""

    def __init__(self, conn: psycopg.Connection, observer: psycopg.Connection, progress: Progress) -> None:
        self.conn = conn
        self.observer = observer
        self.progress = progress

    def build(self, index: Index, queue: Queue) -> None:
        """Make an index, whatever an interrupted attempt left of it.

        Raises:
            InTheWay: a transaction that does not end keeps it from being finished.
        """
        if _is_partitioned(self.conn, index.table):
            self._build_in_parts(index)
        else:
            self._build_on(index, index.table, index.name, queue.pages)

    def _build_in_parts(self, index: Index) -> None:
        """On each partition, then on the whole: new partitions get it by themselves meanwhile."""
        if index.name not in indexes(self.conn, index.table):
            statement = (
                f"create index {ident(index.name)} on only {ident('pgmq', index.table)} {index.definition}"
            )
            briefly(self.conn, lambda: self.conn.execute(statement.encode()), f"index {index.name}")
        whole = ident("pgmq", index.name)
        while leaves := self._leaves_without(index):
            for leaf, pages in leaves:
                name = index.in_part(leaf)
                self._build_on(index, leaf, name, pages)
                attach = f"alter index {whole} attach partition {ident('pgmq', name)}"
                briefly(self.conn, lambda attach=attach: self.conn.execute(attach.encode()), f"index {name}")  # type: ignore[misc]

    def _leaves_without(self, index: Index) -> list[tuple[str, int]]:
        rows = self.conn.execute(
            _LEAVES_WITHOUT.encode(), (str(ident("pgmq", index.table)), str(ident("pgmq", index.name)))
        )
        return [(str(name), int(pages)) for name, pages in rows.fetchall()]

    def _build_on(self, index: Index, table: str, name: str, pages: int) -> None:
        found = indexes(self.conn, table).get(name)
        if found and found.valid:
            return
        if found:
            self.drop(name)
        place = index.on(table, name)
        if pages <= SMALL and self._at_once(f"create index {place}", name):
            return
        with self._dropping_ruins(name):
            self._watched(f"create index concurrently {place}", f"index {name}")

    def _at_once(self, statement: str, name: str) -> bool:
        try:
            briefly(self.conn, lambda: self.conn.execute(statement.encode()), f"index {name}", patience=TRIES)
        except InTheWay:
            return False
        return True

    @contextmanager
    def _dropping_ruins(self, name: str) -> Iterator[None]:
        """What an attempt that failed left is dropped, if it can be: else the next run does it."""
        try:
            yield
        except (psycopg.Error, InTheWay):
            if not self.conn.closed:
                drop = f"drop index if exists {ident('pgmq', name)}".encode()
                with suppress(InTheWay):
                    briefly(self.conn, lambda: self.conn.execute(drop), f"index {name}", patience=TRIES)
            raise

    def drop(self, name: str) -> None:
        """Drop an index, valid or not; say nothing where there is none."""
        self._watched(f"drop index concurrently if exists {ident('pgmq', name)}", f"index {name}")

    def _watched(self, statement: str, what: str) -> None:
        """Run a statement that waits for other transactions; give up when one of them does not end."""
        failure: list[BaseException] = []

        def work() -> None:
            try:
                self.conn.execute(statement.encode())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            given_up = self._wait_for(thread, what)
        except BaseException:
            self.conn.cancel()
            thread.join()
            raise
        if failure:
            raise given_up or failure[0]

    def _wait_for(self, thread: threading.Thread, what: str) -> InTheWay | None:
        """Until it ends; where it only waits for longer than PATIENCE, cancel it and say for whom it waited."""
        worked, given_up = time.monotonic(), None
        thread.join(0.02)
        while thread.is_alive():
            if self._goes_on():
                worked = time.monotonic()
            elif given_up is None and time.monotonic() - worked > waiting.PATIENCE:
                ours = self.conn.info.backend_pid
                given_up = waiting.in_the_way(self.observer, what, ours, any_transaction=True)
                self.conn.cancel()
            thread.join(0.1)
        return given_up

    def _goes_on(self) -> bool:
        """Whether the other session works, and does not only wait; how far it is, to the progress."""
        row = self.observer.execute(_PROGRESS.encode(), (self.conn.info.backend_pid,)).fetchone()
        if row is None:
            return True
        waits, done, total = row
        if total:
            self.progress(done, total)
        return not waits


_PROGRESS = """
select
    coalesce(a.wait_event_type = 'Lock', false),
    coalesce(nullif(p.tuples_done, 0), p.blocks_done, 0),
    coalesce(nullif(p.tuples_total, 0), p.blocks_total, 0)
from pg_catalog.pg_stat_activity a
left join pg_catalog.pg_stat_progress_create_index p on p.pid = a.pid
where a.pid = %s"""

_LEAVES_WITHOUT = """
select c.relname::text, (coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::integer)::integer
from pg_catalog.pg_partition_tree(%s::text::regclass) t
join pg_catalog.pg_class c on c.oid = t.relid
where t.isleaf
    and not exists (
        select from pg_catalog.pg_index i
        join pg_catalog.pg_inherits h on h.inhrelid = i.indexrelid
        where i.indrelid = c.oid and h.inhparent = %s::text::regclass
    )
order by 1"""


def _is_partitioned(conn: psycopg.Connection, table: str) -> bool:
    query = "select c.relkind = 'p' from pg_catalog.pg_class c where c.oid = %s::text::regclass"
    return conn.execute(query, (str(ident("pgmq", table)),)).fetchone() == (True,)
