"""A patient: a database whose queue is made ill, examined, and mended by the doctor's own remedy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pglast
import psycopg
import pytest

from pgqueue.doctor import Finding, Limits, Report, examine
from tests.cli.conftest import bare, offline, run
from tests.compat.reference import reference_sql
from tests.databases import Cluster, Database, our_sql

__all__ = ["bare", "offline", "run"]  # fixtures of the command line

QUIET = Limits(pinned_seconds=10**9, pinned_xids=2**31 - 1)
"""Other tests' transactions on the same server are not this test's."""


QUEUE = (
    "select pgmq.create('{x}')",
    "select pgmq.send('{x}', '1') from generate_series(1, 3)",
    "select pgmq.archive('{x}', 1)",
)


class Patient:
    """A database under examination. conn: autocommit, as the owner of everything there."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.conn = database.connect()

    def do(self, *statements: str) -> None:
        """Run statements one by one."""
        for statement in statements:
            self.conn.execute(statement.encode())

    def report(self, queue: str | None = None, user: str | None = None, **limits: Any) -> Report:
        """Examine, as another role if one is named."""
        conn = self.database.connect(user=user) if user else self.conn
        return examine(conn, queue, replace(QUIET, **limits))

    def findings(self, check: str, **how: Any) -> list[Finding]:
        """What one check finds."""
        return [one for one in self.report(**how).findings if one.check == check]

    def finding(self, check: str, **how: Any) -> Finding:
        """The one thing that a check finds."""
        (found,) = self.findings(check, **how)
        return found

    def mend(self, finding: Finding, user: str | None = None) -> None:
        """Run a remedy as psql would: statement by statement."""
        conn = self.database.connect(user=user) if user else self.conn
        statements = pglast.split(finding.remedy)
        assert statements, f"{finding.check} has no SQL for a remedy"
        for statement in statements:
            conn.execute(statement.encode())

    def eventually_well(self, check: str, **how: Any) -> None:
        """Wait until a check finds nothing more."""
        deadline = time.monotonic() + 20
        while found := self.findings(check, **how):
            assert time.monotonic() < deadline, found

    def counted(self, table: str, count: str, least: int) -> None:
        """Wait until the statistics know what this connection did to a table."""
        if self.conn.info.server_version >= 150000:
            self.conn.execute("select pg_stat_force_next_flush()")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with psycopg.connect(
                self.database.dsn, autocommit=True
            ) as other:  # a collector hears of it at its end
                found = other.execute(f"select pg_stat_get_{count}(%s::regclass)", [table]).fetchone()
            if found is not None and found[0] >= least:
                return
            self.conn.execute("select pg_sleep(0.01)")
        raise AssertionError(f"the statistics do not know of {least} {count} of {table}")


Make = Callable[[str], Patient]


@pytest.fixture
def make(server: Cluster) -> Iterator[Make]:
    """make("pgqueue") or make("pgmq"): a new patient, with a queue x of two messages and an archived one."""
    made: list[Database] = []

    def new(kind: str) -> Patient:
        script = our_sql() if kind == "pgqueue" else reference_sql()
        made.append(server.create_database(server.template(script)))
        patient = Patient(made[-1])
        patient.do(*(step.format(x="x") for step in QUEUE))
        return patient

    yield new
    for database in made:
        database.drop()


@pytest.fixture
def ours(make: Make) -> Patient:
    """A new patient with pgqueue."""
    return make("pgqueue")


@pytest.fixture
def theirs(make: Make) -> Patient:
    """A new patient with pgmq, from SQL."""
    return make("pgmq")
