"""pgmq's own SQL, from the official client's wheel or a file, so changed that it replaces ours in place."""

from __future__ import annotations

import re
from pathlib import Path

from pgqueue.errors import CannotAdopt
from pgqueue.names import PGMQ_WHEEL
from pgqueue.script import pgmq_wheel_sql

#: What makes transactions of its own would tear ours apart. A PL/pgSQL block's begin has no semicolon.
_TRANSACTIONS = re.compile(
    r"^\s*(begin|start transaction|commit|rollback|\\\w+)\b[^\n]*", re.IGNORECASE | re.MULTILINE
)
_NEEDED = ("send", "read", "archive", "create", "metrics")
_TYPES = re.compile(r"^create type pgmq\.\w+ as \(.*?\);", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_GRANTS = re.compile(
    r"^(grant|alter default privileges)\b[^;]*\bto pg_monitor;", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
_FUNCTIONS = re.compile(r"^(\s*)create function\b", re.IGNORECASE | re.MULTILINE)


def pgmq_sql(file: Path | None = None) -> str:
    """The script that puts pgmq's functions in the place of ours. Types stay, as they are the same; rights too.

    Args:
        file: pgmq's SQL; the official client's if not given.

    Raises:
        CannotAdopt: there is none, or that file is not pgmq's SQL.
        OSError: the file cannot be read.
    """
    text, where = (file.read_text(encoding="utf-8"), str(file)) if file else (_wheel(), "the wheel pgmq")
    missing = [
        one for one in _NEEDED if not re.search(rf'function pgmq\."?{one}"?\s*\(', text, re.IGNORECASE)
    ]
    if missing:
        raise CannotAdopt(f"{where} is not pgmq's SQL: it makes no function pgmq.{missing[0]}")
    for found in _TRANSACTIONS.finditer(text):
        if found[0].rstrip().endswith(";") or found[1].startswith("\\"):
            raise CannotAdopt(f"{where} holds `{found[0].strip()}`: it must leave transactions to us")
    text = _GRANTS.sub("", _TYPES.sub("", text))
    return _FUNCTIONS.sub(r"\1create or replace function", text)


def _wheel() -> str:
    text = pgmq_wheel_sql()
    if text is None:
        raise CannotAdopt(
            f"pgmq's SQL is not at hand: pip install {PGMQ_WHEEL}, or name a file with --sql, or give --extension"
            " where the server offers it"
        )
    return text
