"""Connections that can start a statement and go on while it waits for another session."""

from __future__ import annotations

import time
from typing import NamedTuple

from psycopg import pq

DEADLINE = 20.0

Rows = list[tuple[str | None, ...]]


class Refused(NamedTuple):
    """An error of the server, in place of rows."""

    sqlstate: str
    message: str


class Session:
    """A connection of its own, autocommit; values come as text. Who waits for long runs into lock_timeout."""

    def __init__(self, dsn: str, lock_timeout_ms: int = 5000) -> None:
        self.conn = pq.PGconn.connect(dsn.encode())
        assert self.conn.status == pq.ConnStatus.OK, self.conn.error_message
        self.pid = self.conn.backend_pid
        self.ask(f"set lock_timeout = {lock_timeout_ms}")

    def ask(self, sql: str) -> Rows:
        """Runs statements to their end; the last one's rows. Raises AssertionError if the server refuses."""
        return rows(self.conn.exec_(sql.encode()))

    def start(self, sql: str) -> None:
        """Sends one statement; `finish` or `outcome` takes its answer."""
        self.conn.send_query(sql.encode())
        self.conn.flush()

    def settles(self, observer: Session) -> bool:
        """Waits until the statement is done (true), or waits for another session (false)."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            self.conn.consume_input()
            if not self.conn.is_busy():
                return True
            if observer.ask(f"select pg_blocking_pids({self.pid})") != [("{}",)]:
                return False
        raise AssertionError("a statement neither ends nor waits")

    def outcome(self) -> Rows | Refused:
        """The answer of the statement that was started."""
        found: Rows | Refused = []
        while result := self.conn.get_result():
            found = answer(result)
        return found

    def finish(self) -> Rows:
        """The rows of the statement that was started. Raises AssertionError where the server refused."""
        found = self.outcome()
        assert not isinstance(found, Refused), found
        return found

    def close(self) -> None:
        self.conn.finish()


def answer(result: pq.abc.PGresult) -> Rows | Refused:
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        return Refused(sqlstate.decode(), message.decode())
    return [
        tuple(text(result.get_value(row, column)) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def rows(result: pq.abc.PGresult) -> Rows:
    found = answer(result)
    assert not isinstance(found, Refused), f"{found.sqlstate}: {found.message}"
    return found
