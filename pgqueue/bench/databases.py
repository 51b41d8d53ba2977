"""Databases of a run's own, each with one installation in it; none of them outlives the run."""

from __future__ import annotations

import os
import secrets
import time
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import scalar_row

from pgqueue import migrate
from pgqueue.bench.interrupts import undisturbed
from pgqueue.dsn import cannot_connect
from pgqueue.errors import BenchError
from pgqueue.names import PGMQ_WHEEL
from pgqueue.script import pgmq_wheel_sql

PREFIX = "pgqueue_bench_"

Connection = psycopg.Connection[Any]


def pgmq_sql() -> str:
    """The script that installs pgmq, from its client's wheel. Raises BenchError if that is absent."""
    text = pgmq_wheel_sql()
    if text is None:
        raise BenchError(f"pgmq's SQL comes from its client's wheel: pip install '{PGMQ_WHEEL}'")
    return text


class Database:
    """A database with pgmq's SQL in it, or with ours."""

    def __init__(self, address: str) -> None:
        #: a conninfo string
        self.address = address
        self._connections: list[Connection] = []

    def connect(self, **options: Any) -> Connection:
        """A new autocommit connection, closed with the database. options: what psycopg.connect takes."""
        conn: Connection = psycopg.connect(self.address, autocommit=True, **options)
        self._connections.append(conn)
        return conn

    def run(self, statement: str) -> None:
        """Execute SQL text in a session of its own."""
        with psycopg.connect(self.address, autocommit=True) as conn:
            conn.execute(statement.encode())

    def value(self, query: str) -> Any:
        """The one value that a query gives, in a session of its own."""
        with psycopg.connect(self.address, autocommit=True, row_factory=scalar_row) as conn:
            return conn.execute(query.encode()).fetchone()

    def close(self) -> None:
        """Close the connections made here."""
        while self._connections:
            self._connections.pop().close()


class Databases:
    """Makes databases on a server; on the way out of `with` it drops them, whoever is connected."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._token = secrets.token_hex(4)
        self._made: dict[str, Database] = {}
        self._count = 0

    def __enter__(self) -> Databases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            self.drop_all()

    def make(self, what: str) -> Database:
        """A new database whose sessions have synchronous_commit off.

        what: "pgmq" or "pgqueue" for one that has it installed; any other word for an empty one.

        Raises:
            CannotConnect: the server cannot be reached.
            BenchError: the role may not create databases.
        """
        script = pgmq_sql() if what == "pgmq" else None
        self._count += 1
        name = f"{PREFIX}{self._token}_{self._count}_{what}"
        database = self._made[name] = Database(make_conninfo(self.address, dbname=name))
        with self._admin() as conn:
            try:
                conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
            except psycopg.errors.InsufficientPrivilege:
                raise BenchError("this role may not create databases: alter role … createdb") from None
            off = sql.SQL("alter database {} set synchronous_commit = off").format(sql.Identifier(name))
            conn.execute(off)
        if script is not None:
            database.run(script)
        if what == "pgqueue":
            with psycopg.connect(database.address) as conn:
                migrate.install(conn)
        return database

    def drop_all(self) -> None:
        """Drop what was made so far."""
        if not self._made:
            return
        with self._admin() as conn:
            for name, database in list(self._made.items()):
                database.close()
                _drop(conn, name)
                del self._made[name]

    def _admin(self) -> Connection:
        try:
            return psycopg.connect(self.address, autocommit=True)
        except psycopg.OperationalError as error:
            raise cannot_connect(error, self.address, os.environ) from None


def _drop(conn: Connection, name: str, patience: float = 30.0) -> None:
    """Drop a database; a session that is slow to end is waited for, up to `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
