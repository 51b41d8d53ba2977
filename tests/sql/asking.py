"""Short ways to ask a database."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[Any]


def rows(conn: Connection, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement that must not fail."""
    return conn.execute(sql.encode(), args or None).fetchall()


def row(conn: Connection, sql: str, *args: Any) -> tuple[Any, ...]:
    """The one row of a statement that gives one."""
    (only,) = rows(conn, sql, *args)
    return only


def value(conn: Connection, sql: str, *args: Any) -> Any:
    """The one value of a statement that gives one row with one column."""
    ((only,),) = rows(conn, sql, *args)
    return only


def column(conn: Connection, sql: str, *args: Any) -> list[Any]:
    """The values of a statement with one column."""
    return [one for (one,) in rows(conn, sql, *args)]


def do(conn: Connection, sql: str, *args: Any) -> None:
    """Runs what must not fail, one statement or several."""
    conn.execute(sql.encode(), args or None)


def outcome(conn: Connection, sql: str, *args: Any) -> tuple[str, str]:
    """SQLSTATE and message of what a statement fails with; two empty texts if it does not."""
    try:
        conn.execute(sql.encode(), args or None)
    except psycopg.Error as error:
        return error.sqlstate or "none", error.diag.message_primary or str(error)
    return "", ""


def sqlstate(conn: Connection, sql: str, *args: Any) -> str:
    """The SQLSTATE that a statement fails with; an empty text if it does not."""
    return outcome(conn, sql, *args)[0]
