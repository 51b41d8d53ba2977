"""Adopt: every step in order, each found out from what is there, so that a run goes on where the last one stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from pgqueue.adopt import columns, finish, indexes, swap
from pgqueue.adopt.indexes import Workshop
from pgqueue.adopt.plan import Step, steps
from pgqueue.adopt.refusals import reasons
from pgqueue.adopt.survey import Found, Queue, survey
from pgqueue.adopt.waiting import briefly, outlive_others, unless_dropped
from pgqueue.errors import CannotAdopt

#: Told of each step: when it begins (0 done), as it goes on, and when it is done.
Watch = Callable[[Step, int, int], None]

_SETTINGS = """
set search_path = pg_catalog;
set statement_timeout = 0;
set lock_timeout = 0;
set idle_in_transaction_session_timeout = 0;
set default_transaction_isolation = 'read committed';
set client_min_messages = warning"""


def look(conn: psycopg.Connection, *, accept_newer: bool = False) -> Found:
    """What is there, if it can be adopted. Reads only.

    Raises:
        CannotAdopt: it cannot, and why.
    """
    prepare_session(conn)
    found = survey(conn)
    if why := reasons(conn, found, accept_newer=accept_newer):
        raise CannotAdopt("; ".join(why))
    return found


def prepare_session(conn: psycopg.Connection) -> None:
    """Settings under which everything here runs, whatever the role's are."""
    for setting in _SETTINGS.split(";"):
        conn.execute(setting.encode())


def adopt(
    conn: psycopg.Connection,
    observer: psycopg.Connection,
    *,
    accept_newer: bool = False,
    watch: Watch | None = None,
) -> None:
    """Take over a pgmq in place. Both connections are in autocommit mode and of the same role.

    Args:
        observer: Watches what `conn` does, and who is in its way.
        accept_newer: Whether a pgmq newer than any known here will do.

    Raises:
        CannotAdopt: nothing was changed.
        InTheWay: another transaction stayed in the way. What was done so far stands, pgmq or pgqueue works, and a
        further call goes on from there.
    """
    with one_at_a_time(conn):
        found = look(conn, accept_newer=accept_newer)
        plan = {step.key: step for step in steps(found)}
        tell = Teller(plan, watch)
        workshop = Workshop(conn, observer, tell.within)
        while found.unfinished != "forth":
            _prepare(workshop, found.queues, found, tell)
            tell.begin("swap", 1)
            if briefly(conn, lambda: swap.take_over(conn), "the change of functions", over_all=True):
                tell.done()
            found = survey(conn)
        _finish(workshop, found, tell)


_HOLDER = """
select l.pid
from pg_catalog.pg_locks l
where l.locktype = 'advisory'
    and l.granted
    and l.objid::bigint = hashtext('pgqueue.adopt')::bigint & 4294967295
    and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())"""


@contextmanager
def one_at_a_time(conn: psycopg.Connection) -> Iterator[None]:
    """Of several adoptions of a database, one.

    Raises:
        CannotAdopt: another session is at it.
    """
    key = "hashtext('pgqueue.adopt')"
    if conn.execute(f"select pg_try_advisory_lock({key})".encode()).fetchone() != (True,):
        pid = conn.execute(_HOLDER).fetchone()
        raise CannotAdopt(f"another `pgqueue adopt` is at work here, pid {pid[0] if pid else 'unknown'}")
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute(f"select pg_advisory_unlock({key})".encode())


class Teller:
    """Tells the watcher how far the present step is."""

    def __init__(self, plan: dict[str, Step], watch: Watch | None) -> None:
        self._plan, self._watch = plan, watch or (lambda step, done, total: None)
        self._step: Step | None = None
        self._total = self._count = 0

    def begin(self, key: str, total: int) -> None:
        self._step, self._total, self._count = self._plan.get(key), total, 0
        self._say(0)

    def one_more(self) -> None:
        self._count += 1
        self._say(self._count)

    def done(self) -> None:
        self._say(self._total)

    def within(self, done: int, total: int) -> None:
        """How far the one thing is that is at work."""
        if self._step and self._total:
            self._watch(self._step, self._count * 1000 + done * 1000 // max(total, 1), self._total * 1000)

    def _say(self, done: int) -> None:
        if self._step:
            self._watch(self._step, done * 1000, self._total * 1000)


def _prepare(workshop: Workshop, queues: Sequence[Queue], found: Found, tell: Teller) -> None:
    """What can be done before, or for queues that came late: indexes, columns, release from the extension."""
    conn = workshop.conn
    tell.begin("indexes", len(queues))
    there = indexes.indexes(conn)
    for queue in queues:
        with unless_dropped(conn, queue.oid):
            for index in _wanted(queue, there):
                known = there.get(index.name)
                if known is None or not known.valid:
                    workshop.build(index, queue)
        tell.one_more()
    lacking = [queue for queue in queues if queue.lacks_columns]
    if lacking:
        tell.begin("columns", len(lacking))
        columns.name_columns(conn, found)
        for queue in lacking:
            with unless_dropped(conn, queue.oid):
                columns.add(conn, queue)
            tell.one_more()
    if "message_record" in found.replaced_types:
        columns.hold_on_to_readers(conn, found)
    if found.owned_relations:
        tell.begin("release", 1)
        columns.tolerate_release(conn, found)
        swap.release_queues(conn)
        tell.done()


def _wanted(queue: Queue, there: dict[str, indexes.Known]) -> list[indexes.Index]:
    wanted = indexes.reading(queue, there)
    archive = indexes.archive(queue)
    if queue.archived and not any(
        one.table == archive.table and one.definition == finish.ARCHIVED and one.valid
        for one in there.values()
    ):
        wanted.append(archive)
    if queue.grouped:
        wanted.append(indexes.grouped(queue))
    return wanted


def _finish(workshop: Workshop, found: Found, tell: Teller) -> None:
    conn = workshop.conn
    compiled: set[int] = set()
    _compile(workshop, found, compiled, tell)
    # Whoever was inside pgmq's create at the change has left it after this: no queue is made its way any more.
    outlive_others(conn, "waiting until nobody is inside pgmq's old functions")
    found = survey(conn)
    _compile(workshop, found, compiled, tell)
    notified = [queue for queue in found.queues if queue.notifies]
    tell.begin("notify", len(notified))
    for queue in notified:
        with unless_dropped(conn, queue.oid):
            finish.change_trigger(conn, queue)
        tell.one_more()
    tell.begin("tidy", len(found.queues) + 1)
    there = indexes.indexes(conn)
    for queue in found.queues:
        with unless_dropped(conn, queue.oid):
            finish.change_indexes(workshop, queue, there)
            if queue.grouped:
                finish.compile_queue(conn, queue)
        tell.one_more()
    finish.settle_tables(workshop)
    finish.clear(conn)
    tell.done()


def _compile(workshop: Workshop, found: Found, compiled: set[int], tell: Teller) -> None:
    """Compile the queues that were not yet, and bring late ones to what the others are."""
    queues = [queue for queue in found.queues if queue.oid not in compiled]
    _prepare(workshop, queues, found, tell)
    tell.begin("compile", len(queues))
    for queue in queues:
        with unless_dropped(workshop.conn, queue.oid):
            finish.compile_queue(workshop.conn, queue)
        compiled.add(queue.oid)
        tell.one_more()
