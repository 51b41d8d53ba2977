"""Take locks without making anybody queue behind us, and say who is in the way."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg.errors import (
    DeadlockDetected,
    InternalError_,
    LockNotAvailable,
    ObjectNotInPrerequisiteState,
    UndefinedObject,
    UndefinedTable,
)
from psycopg.pq import TransactionStatus

from pgqueue.errors import InTheWay

T = TypeVar("T")

#: Milliseconds that a lock is waited for: others wait behind us no longer.
LOCK_WAIT = 300
#: Milliseconds that a lock is waited for which stands in no reader's or writer's way. Longer than deadlock_timeout, a
#: second, after which the server ends an autovacuum that holds it.
LIGHT_LOCK_WAIT = 3000
#: Seconds that an obstacle is waited for before it is named.
PATIENCE = 60.0

#: What going over all queues fails with when one is dropped meanwhile, and how often that may happen.
_DROPPED = (UndefinedTable, UndefinedObject, ObjectNotInPrerequisiteState, InternalError_)
MOST_DROPPED = 50

_OTHERS = """
select a.pid, a.usename::text, coalesce(a.state, ''), coalesce(left(a.query, 200), ''),
    coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::integer
from pg_catalog.pg_stat_activity a
where a.datid = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
    and a.pid <> pg_backend_pid()
    and a.pid <> all(%s)
    and exists (
        select from pg_catalog.pg_locks l
        where l.pid = a.pid
            and l.granted
            and (
                l.locktype = 'virtualxid' and %s
                or l.locktype = 'relation' and l.database = a.datid and l.relation in (
                    select c.oid from pg_catalog.pg_class c where c.relnamespace = to_regnamespace('pgmq')
                )
            )
    )
order by a.xact_start nulls last
limit 1"""

#: Transactions that run now, by what stays the same as long as they do. Autovacuum's are no user's.
_RUNNING = """
select l.virtualtransaction
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid'
    and l.granted
    and l.pid <> pg_backend_pid()
    and a.datid = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
    and a.usesysid is not null"""


@dataclass(frozen=True)
class Blocker:
    """Another session whose transaction is in the way: `seconds` is how long it has been open."""

    pid: int
    user: str
    state: str
    query: str
    seconds: int

    def __str__(self) -> str:
        query = " ".join(self.query.split()) or "a query that this role may not see"
        return f"pid {self.pid} of {self.user}, {self.state or 'open'} for {self.seconds} s: {query}"


def blocker(conn: psycopg.Connection, *ours: int, any_transaction: bool = False) -> Blocker | None:
    """The longest open transaction that holds a table of schema pgmq, or, if asked for, any at all.

    Args:
        ours: Process ids of our own other sessions.
    """
    row = conn.execute(_OTHERS.encode(), (list(ours), any_transaction)).fetchone()
    return Blocker(*row) if row else None


def briefly(
    conn: psycopg.Connection,
    work: Callable[[], T],
    what: str,
    *,
    wait: int = LOCK_WAIT,
    patience: float | None = None,
    over_all: bool = False,
) -> T:
    """Do work in a transaction that waits for no lock longer than `wait` milliseconds, and again until it is done.

    Args:
        what: What is being done, for the error.
        patience: Seconds after which to give up; PATIENCE if not given.
        over_all: Whether the work goes over all queues: then one that is dropped meanwhile makes it begin again.

    Raises:
        InTheWay: others held what is needed all that time; what this work did is undone.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    pause = 0.05
    dropped = 0
    while True:
        try:
            with conn.transaction():
                conn.execute(f"set local lock_timeout = {wait}".encode())
                return work()
        except (LockNotAvailable, DeadlockDetected) as error:
            if time.monotonic() >= end:
                raise in_the_way(conn, what) from error
        except _DROPPED:
            dropped += 1
            if not over_all or dropped > MOST_DROPPED:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, 2.0)


def unless_going(conn: psycopg.Connection, look: Callable[[], T]) -> T:
    """Runs a catalogue query, retrying while objects vanish under it, at most MOST_DROPPED times."""
    for _ in range(MOST_DROPPED):
        try:
            return look()
        except InternalError_:
            if conn.info.transaction_status != TransactionStatus.IDLE:
                raise
    return look()


@contextmanager
def unless_dropped(conn: psycopg.Connection, table: int) -> Iterator[None]:
    """What fails because the queue was dropped meanwhile has nothing to do any more. One made anew under its name is
    another one.

    Args:
        table: The oid of the queue's table.
    """
    try:
        yield
    except psycopg.Error:
        there = "select from pg_catalog.pg_class where oid = %s"
        if conn.closed or conn.execute(there, (table,)).fetchone() is not None:
            raise


def in_the_way(conn: psycopg.Connection, what: str, *ours: int, any_transaction: bool = False) -> InTheWay:
    """The error that says who is in the way of what."""
    found = blocker(conn, *ours, any_transaction=any_transaction)
    who = str(found) if found else "another session"
    return InTheWay(
        f"{what}: in the way is {who}; wait for it or end it, then run this again: it goes on where it stopped"
    )


def outlive_others(conn: psycopg.Connection, what: str, *, patience: float | None = None) -> None:
    """Wait until every transaction has ended that runs now in this database: after that nobody is still inside an
    old function.

    Raises:
        InTheWay: one of them went on for longer than PATIENCE.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    old = {row[0] for row in conn.execute(_RUNNING.encode()).fetchall()}
    while old:
        old &= {row[0] for row in conn.execute(_RUNNING.encode()).fetchall()}
        if old and time.monotonic() >= end:
            raise in_the_way(conn, what, any_transaction=True)
        time.sleep(0.02)
