"""The API under test, three times: pgmq's own SQL, ours, and ours with compiling switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.compat.player import TRAVEL
from tests.compat.reference import reference_sql
from tests.databases import Cluster, Database, our_sql

SIDES = ("pgmq", "ours", "ours not compiled")


class Api:
    """One side: a database and an autocommit connection to it. Notices are collected in `notices`."""

    def __init__(self, side: str, database: Database) -> None:
        self.side = side
        self.database = database
        self.conn = database.connect()
        self.notices: list[str] = []
        self.conn.add_notice_handler(self._note)

    @property
    def is_reference(self) -> bool:
        return self.side == "pgmq"

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return self.conn.execute(sql.encode(), params or None).fetchall()

    def row(self, sql: str, *params: Any) -> tuple[Any, ...]:
        """The only row."""
        (only,) = self.rows(sql, *params)
        return only

    def value(self, sql: str, *params: Any) -> Any:
        """The only value."""
        (only,) = self.row(sql, *params)
        return only

    def column(self, sql: str, *params: Any) -> list[Any]:
        """The first column."""
        return [row[0] for row in self.rows(sql, *params)]

    def ids(self, sql: str) -> list[int]:
        """The first column of a read or pop: rising on our side; pgmq's order is what its plan gives."""
        found = self.column(sql)
        return sorted(found) if self.is_reference else found

    def run(self, *statements: str) -> None:
        for sql in statements:
            self.conn.execute(sql.encode())

    def error(self, sql: str, *params: Any) -> tuple[str, str]:
        """SQLSTATE and message of a statement that must fail."""
        with pytest.raises(psycopg.Error) as caught:
            self.conn.execute(sql.encode(), params or None)
        return caught.value.sqlstate or "", caught.value.diag.message_primary or ""

    def travel(self, seconds: int) -> None:
        """Makes every message that much older."""
        self.run(TRAVEL.format(seconds=seconds))

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        self.notices.append(f"{diagnostic.severity}: {diagnostic.message_primary}")


@pytest.fixture(scope="session")
def side_databases(server: Cluster) -> Iterator[Callable[[str], Database]]:
    """The database of a side, made when it is first asked for; tests leave it without queues."""
    made: dict[str, Database] = {}

    def database(side: str) -> Database:
        if side not in made:
            script = reference_sql() if side == "pgmq" else our_sql()
            made[side] = server.create_database(server.template(script))
            if side == "ours not compiled":
                with made[side].connect() as conn:
                    conn.execute("insert into pgqueue.policy (queue_name, compiled) values ('', false)")
        return made[side]

    yield database
    for one in made.values():
        one.drop()


@pytest.fixture(params=SIDES)
def api(request: pytest.FixtureRequest, side_databases: Callable[[str], Database]) -> Iterator[Api]:
    """A side of the comparison, without queues."""
    one = Api(request.param, side_databases(request.param))
    yield one
    one.conn.rollback()
    one.run("select pgmq.drop_queue(queue_name) from (select queue_name from pgmq.meta) as every_one")
    one.conn.close()


@pytest.fixture
def q(api: Api) -> Api:
    """The same with a queue "q"."""
    api.run("select pgmq.create('q')")
    return api
