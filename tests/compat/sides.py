"""The two sides of a comparison: a database each, and outcomes of calls in a form that can be compared.

A point in time is compared by how far it lies from its own side's present, since the two sides run one after
the other: see Moment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader

from tests.databases import Database

# What ByHand steps call: a trigger by which a user keeps messages out of a queue.
KEEPS_OUT = "create function keeps_out() returns trigger language plpgsql as $$ begin return null; end $$"
SECONDS_APART = 4.0  # how far two sides' times may lie apart; steps.py makes them differ by tens


class Moment(float):
    """Seconds from the side's present, or between two of its times. Two of them are alike if nearly equal."""

    def __repr__(self) -> str:
        return f"{float(self):+.0f}s"

    def alike(self, other: Moment) -> bool:
        return float(self) == float(other) or abs(self - other) <= SECONDS_APART


class _MomentLoader(Loader):
    """timestamptz as seconds since 1970, infinite ones too."""

    def load(self, data: Buffer) -> Moment:
        text = bytes(data).decode()
        if text.endswith("infinity"):
            return Moment(-math.inf if text.startswith("-") else math.inf)
        return Moment(datetime.fromisoformat(_padded(text)).timestamp())


def _padded(text: str) -> str:
    """A server's timestamp as Python 3.10 reads it: 2026-11-30 00:57:32.7+00 has too few digits for it."""
    head, zone = text[:19], text[-3:]
    fraction = text[19:-3]
    return head + (fraction.ljust(7, "0") if fraction else "") + zone + ":00"


@dataclass(frozen=True)
class Outcome:
    """What a call gave: rows, or an error."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    sqlstate: str = ""
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.sqlstate != ""

    def __str__(self) -> str:
        if self.failed:
            return f"error {self.sqlstate}: {self.message}"
        return (
            "\n".join([", ".join(self.columns), *(f"  {row}" for row in self.rows)])
            if self.columns
            else "done"
        )

    def sorted(self) -> Outcome:
        """The same rows in an order that does not depend on times."""
        rows = sorted(
            self.rows, key=lambda row: [repr(value) for value in row if not isinstance(value, Moment)]
        )
        return Outcome(self.columns, tuple(rows))

    def column(self, name: str) -> list[Any]:
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def without(self, name: str) -> Outcome:
        """The same without a column."""
        index = self.columns.index(name)
        drop = [row[:index] + row[index + 1 :] for row in self.rows]
        return Outcome(
            self.columns[:index] + self.columns[index + 1 :], tuple(drop), self.sqlstate, self.message
        )


def alike(one: Any, other: Any) -> bool:
    """Whether two values, rows or tables of them are equal, moments by distance."""
    if isinstance(one, Moment) and isinstance(other, Moment):
        return one.alike(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and type(one) is type(other)


class Side:
    """One database under comparison. Its connection is in autocommit: transactions are steps.

    leaves_nothing: whether drop_queue is held to leave nothing of a queue in the catalogue.
    """

    def __init__(self, name: str, database: Database, leaves_nothing: bool = False) -> None:
        self.name = name
        self.leaves_nothing = leaves_nothing
        self.conn = database.connect(
            options="-c timezone=UTC -c statement_timeout=20s -c client_min_messages=error"
        )
        self.conn.prepare_threshold = None
        self.conn.adapters.register_loader("timestamptz", _MomentLoader)
        self.do(KEEPS_OUT)
        self.notified: list[str] = []
        self.conn.add_notify_handler(lambda note: self.notified.append(f"{note.channel} {note.payload!r}"))
        self._fresh = self._objects()
        (clock,) = self.ask("select clock_timestamp()")[0]
        self._skew = float(clock) - time.time()

    def run(self, sql: str) -> Outcome:
        """Runs a statement and says what came of it; times are counted from the side's present."""
        try:
            cursor = self.conn.execute(sql.encode())
            rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error)
            return Outcome(sqlstate=error.sqlstate or "none", message=message)
        columns = tuple(column.name for column in cursor.description or ())
        now = time.time() + self._skew
        return Outcome(columns, tuple(tuple(map(_relative, columns, row, [now] * len(row))) for row in rows))

    def do(self, sql: str) -> None:
        """Runs a statement that must not fail."""
        self.conn.execute(sql.encode())

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query that must not fail."""
        return self.conn.execute(sql.encode()).fetchall()

    def listen(self, names: Sequence[str]) -> None:
        """Hears every queue of these names notify."""
        channel = "'pgmq.' || pgmq.format_table_name(name, 'q') || '.INSERT'"
        query = f"select format('listen %%I', {channel}) from unnest(%s::text[]) as name"
        for (command,) in self.conn.execute(query.encode(), [list(names)]).fetchall():
            self.do(command)

    def heard(self) -> tuple[str, ...]:
        """Notifications since the last call, sorted."""
        notes, self.notified = sorted(self.notified), []
        return tuple(notes)

    def reset(self) -> tuple[str, ...]:
        """Drops every queue, and says what is left of them in the catalogue."""
        self.do("rollback")
        self.do("select pgmq.drop_queue(queue_name) from (select queue_name from pgmq.meta) as every_one")
        return tuple(sorted(self._objects() - self._fresh))

    def sweep(self) -> None:
        """Removes what pgmq's drop_queue leaves of queues whose names differ in capitals alone."""
        self.do("delete from pgmq.meta; delete from pgmq.notify_insert_throttle")
        tables = (
            "select relname from pg_class where relnamespace = 'pgmq'::regnamespace and relname ~ '^[qa]_'"
        )
        for (name,) in self.ask(tables + " and relkind = 'r'"):
            self.conn.execute(psycopg.sql.SQL("drop table pgmq.{}").format(psycopg.sql.Identifier(name)))

    def _objects(self) -> set[str]:
        query = """
            select relname::text from pg_class
            where relnamespace in (select oid from pg_namespace where nspname in ('pgmq', 'pgqueue'))
            union all
            select oid::regprocedure::text from pg_proc
            where pronamespace in (select oid from pg_namespace where nspname in ('pgmq', 'pgqueue'))"""
        if self.leaves_nothing:
            query += " union all select 'policy of ' || queue_name from pgqueue.policy"
        return {name for (name,) in self.ask(query)}


def _relative(column: str, value: Any, now: float) -> Any:
    if isinstance(value, Moment):
        return Moment(value - now)
    if column.endswith("_age_sec") and value is not None:
        return Moment(value)
    return value
