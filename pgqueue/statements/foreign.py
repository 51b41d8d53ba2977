"""Statements for other drivers than psycopg 3, as SQLAlchemy's dialects run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgqueue.errors import BadValue, ConnectionLost
from pgqueue.sqlstate import from_server
from pgqueue.statements.statement import Statement

_PLACEHOLDER = re.compile(r"\$(\d)(::\w+\[\])?")


def for_dialect(statement: Statement[Any], paramstyle: str) -> tuple[str, tuple[Any, ...] | dict[str, Any]]:
    """Text and parameters in a DBAPI's style. Raises BadValue for a style that is not known here.

    JSON comes as text: other drivers decode it, each in its way. Arrays go as text, as Postgres writes them.
    """
    sql = statement.sql.decode()
    if "*" in sql:
        sql = f"""\
select r.*, (to_jsonb(r) -> 'message')::text as message, (to_jsonb(r) -> 'headers')::text as headers
from ({sql}) r"""
    if paramstyle == "numeric_dollar":
        return _PLACEHOLDER.sub(lambda found: f"${found[1]}{_cast(found[2])}", sql), statement.params
    if paramstyle != "pyformat":
        raise BadValue(f"SQLAlchemy's dialect has parameters in the style {paramstyle}: psycopg is advised")
    sql = _PLACEHOLDER.sub(lambda found: f"%(p{found[1]})s{_cast(found[2])}", sql.replace("%", "%%"))
    return sql, {f"p{place}": value for place, value in enumerate(statement.params, 1)}


@contextmanager
def our_errors() -> Iterator[None]:
    """Raises our errors for those of the database in SQLAlchemy's form."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        lost = error.connection_invalidated
        raise (ConnectionLost() if lost else from_server(error.orig or error)) from error


def _cast(array: str | None) -> str:
    return f"::text{array}" if array else ""
