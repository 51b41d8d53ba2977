"""The values that random calls are made with, those among them that nobody should pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class At:
    """A point in time, `seconds` from now on the server's clock."""

    seconds: int


NAMES = (
    "plain",
    "MixedCase",
    "two words",
    "with-hyphen",
    "dots.in.name",
    'quo"ted',
    "ünï→çødé",
    "per%cent %I",
    "n" * 47,
    "é" * 25,  # 50 bytes: no room for the suffix of every compiled function
    "é" * 30,  # 60 bytes: nor for the one of pgmq's sequence
    "foo_default",
    "_",
)
ODD_NAMES = (
    "nope",
    "mixedcase",
    "PLAIN",
    "",
    " ",
    "\t",
    None,
    "bad$name",
    "semi;colon",
    "dash--dash",
    "apo'strophe",
    "n" * 48,
    "é" * 47,  # 94 bytes
)
MESSAGES = (
    '{"a": 1}',
    '{"a": 2, "b": "x"}',
    '{"a": {"b": [1, 2, 3]}}',
    '{"k": "ünï"}',
    "{}",
    "[1, 2]",
    '"text"',
    "7",
    "null",
    None,
)
GROUPS = ("g1", "g2", "g3", "_default_fifo_group", 5, None, {"o": 1}, "")
HEADERS = (
    None,
    None,
    "{}",
    '{"trace": "t-1"}',
    "[1, 2]",
    '"scalar"',
    "null",
    '{"x-pgmq-group": "g1", "n": 1}',
)
CONDITIONS = ("{}", '{"a": 1}', '{"a": {"b": [2]}}', '{"k": "ünï"}', "[1]", "null", '"text"', "7", None)
PATTERNS = ("orders.*", "orders.#", "#", "*.created", "a.b", "Orders.*", "*.*", "a-b_c.#.d")
ODD_PATTERNS = ("", None, ".a", "a.", "a..b", "a.**", "a.##", "a.*#", "a b", "a!", "x" * 255, "x" * 256)
KEYS = ("orders.created", "orders", "orders.eu.created", "a.b", "Orders.x", "a-b_c.x.d", "zzz")
ODD_KEYS = ("", None, ".a", "a.", "a..b", "a.*", "#", "a b", "x" * 255, "x" * 256)
SECONDS = (0, 0, 20, 30, 20, 3600, -30, 2147483647, -2147483648, None)
MOMENTS = (At(0), At(20), At(-40), At(3600), "infinity", "-infinity", "1999-01-01 00:00:00+00", None)
QUANTITIES = (1, 1, 1, 2, 3, 5, 10, 1000, 0, -1, None)
THROTTLES = (0, 0, 3_600_000, 3_600_000, -1, None)
TRAVELS = (10, 20, 30, 40, 4000)
BEGINS = (
    *("begin",) * 8,
    "begin isolation level repeatable read",
    "begin isolation level serializable",
    "begin read only",
)
# What users do to a queue's table past the API.
BY_HAND = (
    "insert into {table} (vt, message) values (clock_timestamp(), {message})",
    "insert into {table} (vt, message) values (clock_timestamp(), {message})",
    "insert into {table} (msg_id, vt, message) overriding system value values ({low}, clock_timestamp(), '{}')",
    "update {table} set vt = clock_timestamp() - interval '20 seconds' where {row}",
    """update {table} set headers = '{"x-pgmq-group": "g1"}' where {row}""",
    "delete from {table} where {row}",
    "create or replace trigger keeps_out before insert on {table} for each row"
    " when (new.message = '7') execute function keeps_out()",
)
