"""Statements for other drivers than psycopg 3, as SQLAlchemy's dialects run them."""

from __future__ import annotations

import re
from typing import Any

from pgqueue.errors import BadValue
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


def _cast(array: str | None) -> str:
    return f"::text{array}" if array else ""
