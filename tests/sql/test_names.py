"""The rule for names, in SQL and mirrored in Python; and `pgqueue sql queue` prints what is compiled."""

from __future__ import annotations

import random
import re

import pytest

from pgqueue.errors import BadName
from pgqueue.names import MAX_COMPILED_BYTES, object_name, tidy
from pgqueue.script import queue_sql
from tests.sql.asking import Connection, column, do, outcome, rows, value
from tests.sql.catalogue import catalogue
from tests.sql.odd_names import ODD

ALPHABET = "aZ0_- .\"%\\\n\t$;'{}éÉİıßΣ🐘"


def odd_names() -> list[str]:
    """The names above, and a thousand of odd characters drawn by a fixed seed."""
    rng = random.Random(61)
    drawn = [
        "".join(rng.choices(ALPHABET, k=rng.choice([1, 2, 3, 5, 8, 25, 40, 47, 48]))) for _ in range(1000)
    ]
    return ODD + drawn


@pytest.fixture
def conn(shared: Connection) -> Connection:
    return shared


def in_sql(conn: Connection, name: str) -> str:
    """What the rule in SQL says: the name in lower case, or the error."""
    state, message = outcome(conn, "select pgqueue._check_name(%s)", name)
    if state:
        assert state == "P0001", (name, state, message)
        return f"error: {message}"
    return str(value(conn, "select pgqueue._check_name(%s)", name))


def in_python(name: str) -> str:
    try:
        return tidy(name).name
    except BadName as error:
        return f"error: {error}"


def test_python_and_sql_have_one_rule_for_names(conn: Connection) -> None:
    """case 9: which names are legal, what becomes of them, and what is said of those that are not."""
    names = odd_names()
    answers = {name: (in_sql(conn, name), in_python(name)) for name in names}
    assert {name: pair for name, pair in answers.items() if pair[0] != pair[1]} == {}
    refused = [name for name, (answer, _) in answers.items() if answer.startswith("error")]
    assert 300 < len(refused) < len(answers) - 300


def test_names_of_objects_are_the_same_in_python_and_sql(conn: Connection) -> None:
    names = [tidy(name).name for name in odd_names() if not in_python(name).startswith("error")]
    parts = [
        ("q_", "_ready_idx"),
        ("q_", "_waiting_idx"),
        ("archived_at_idx_", ""),
        ("archived_at_idx_", "_old"),
    ]
    for prefix, suffix in [*parts, ("q_", "$p20261130000000")]:
        made = column(
            conn, "select pgqueue._object_name(%s, n, %s) from unnest(%s::text[]) n", prefix, suffix, names
        )
        assert made == [object_name(prefix, name, suffix) for name in names]
        assert len(set(made)) == len(set(names)), "no two queues share an object"
        assert max(len(name.encode()) for name in made) <= 63


def test_the_hash_of_a_long_name_meets_no_other_queue() -> None:
    """A queue may be named as the MD5 of another's name: the dollar keeps their objects apart."""
    long = "é" * 30
    (digest,) = re.findall("[0-9a-f]{32}", object_name("q_", long, "_ready_idx"))
    assert tidy(digest).name == digest
    for suffix in ("_ready_idx", "_waiting_idx", "$p0"):
        assert object_name("q_", long, suffix) != object_name("q_", digest, suffix)


FUNCTIONS = """
    select p.proname, pg_get_functiondef(p.oid), has_function_privilege('public', p.oid, 'execute')
    from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace and p.proname like '%%$%%' order by 1"""
SOURCES = """
    select proname, prosrc from pg_proc where pronamespace = 'pgqueue'::regnamespace and proname like '%$%'"""
BODY = re.compile(r'create or replace function pgqueue\.("(?:[^"]|"")*")\(.*?as \$body\$(.*?)\$body\$', re.S)
COMPILED = [name for name in ODD if not in_python(name).startswith("error") and tidy(name).compilable][::2]


@pytest.mark.parametrize("grouped", [False, True])
def test_static_text_is_what_the_server_compiles(conn: Connection, grouped: bool) -> None:
    """One body, two renderings: for each name, text by text."""
    empty = catalogue(conn)
    assert len(COMPILED) > 30
    for name in COMPILED:
        do(conn, "select pgmq.create(%s)", name)
        if grouped:
            do(conn, "select pgmq.create_fifo_index(%s)", name)
        in_server = dict(rows(conn, SOURCES))
        text = queue_sql(name, grouped=grouped)
        printed = {quoted[1:-1].replace('""', '"'): body for quoted, body in BODY.findall(text)}
        assert printed == in_server, name
        do(conn, "select pgmq.drop_queue(%s)", name)
    assert catalogue(conn) == empty


@pytest.mark.parametrize("kind", ["plain", "unlogged", "grouped"])
def test_a_printed_queue_is_a_made_queue(conn: Connection, kind: str) -> None:
    """What `pgqueue sql queue NAME` prints makes, run by itself, what create makes."""
    names = ["orders", 'quo"ted %I \\', "é" * 30, "n" * 47, "new\nline", "🐘"]
    for name in names:
        do(conn, "select pgmq.create_unlogged(%s)" if kind == "unlogged" else "select pgmq.create(%s)", name)
        if kind == "grouped":
            do(conn, "select pgmq.create_fifo_index(%s)", name)
        made = {row for row in catalogue(conn) if not row.startswith("meta ")}
        functions = rows(conn, FUNCTIONS)
        indexes = rows(
            conn, "select indexname, indexdef from pg_indexes where schemaname = 'pgmq' order by 1"
        )
        do(conn, "select pgmq.drop_queue(%s)", name)
        do(conn, queue_sql(name, unlogged=kind == "unlogged", grouped=kind == "grouped"))
        assert {row for row in catalogue(conn) if not row.startswith("meta ")} == made
        assert rows(conn, FUNCTIONS) == functions
        assert (
            rows(conn, "select indexname, indexdef from pg_indexes where schemaname = 'pgmq' order by 1")
            == indexes
        )
        assert column(conn, "select queue_name from pgmq.list_queues()") == [name]
        assert value(conn, "select is_unlogged from pgmq.list_queues()") == (kind == "unlogged")
        assert value(conn, "select pgmq.send(%s, '1')", name) == 1
        assert value(conn, "select msg_id from pgmq.read_grouped(%s, 0, 1)", name) == 1
        assert len(functions) == 0 if len(name.encode()) > MAX_COMPILED_BYTES else len(functions) >= 15
        do(conn, "select pgmq.drop_queue(%s)", name)
