"""The catalogue of schema pgmq, ours beside the reference: functions, types, tables, queues, rights.

Facts are lines of text by what they are about; each one that differs must stand in differences.CATALOGUE.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.compat.differences import CATALOGUE
from tests.databases import Database

Facts = dict[str, str]

# Language, body and parallel safety may differ, which no caller sees. Names beginning with _ are private in pgmq.
FUNCTIONS = """
    select format('function %s(%s)', p.proname, pg_get_function_arguments(p.oid)),
           concat_ws(' ', p.prokind, 'returns', pg_get_function_result(p.oid))
    from pg_proc p
    where p.pronamespace = 'pgmq'::regnamespace and left(p.proname, 1) <> '_'"""

PLANNING = """
    select format('function %s(%s)', p.proname, pg_get_function_arguments(p.oid)),
           concat_ws(' ', p.provolatile, case when p.proisstrict then 'strict' end, 'rows', p.prorows)
    from pg_proc p
    where p.pronamespace = 'pgmq'::regnamespace and left(p.proname, 1) <> '_'"""

RELATIONS = """
    select concat(case c.relkind when 'c' then 'type ' else 'table ' end, c.relname),
           concat_ws(' ', c.relkind, case c.relpersistence when 'u' then 'unlogged' else 'logged' end)
    from pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relkind not in ('i', 'I', 'S', 't')"""

COLUMNS = """
    select format('column %s.%s', c.relname, a.attname),
           concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod),
               case when a.attnotnull then 'not null' end,
               'identity ' || nullif(a.attidentity::text, ''),
               case a.attgenerated when 's' then 'generated' end,
               'default ' || pg_get_expr(d.adbin, d.adrelid))
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relnamespace = 'pgmq'::regnamespace and c.relkind not in ('i', 'I', 'S', 't')"""

KEYS = """
    select format('constraint %s on %s', k.conname, c.relname), pg_get_constraintdef(k.oid)
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where c.relnamespace = 'pgmq'::regnamespace and k.contype in ('u', 'p', 'f')"""

SEQUENCES = """
    select format('sequence of %s.%s', c.relname, a.attname),
           concat_ws(' ', s.oid::regclass, q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqcache)
    from pg_depend d
    join pg_class s on s.oid = d.objid and s.relkind = 'S' and s.relnamespace = 'pgmq'::regnamespace
    join pg_sequence q on q.seqrelid = s.oid
    join pg_class c on c.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
    join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid
    where d.classid = 'pg_class'::regclass"""

TRIGGERS = """
    select format('trigger %s on %s', t.tgname, c.relname),
           format('type %s, deferrable %s, calls %s', t.tgtype, t.tgdeferrable, t.tgfoid::regproc)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where c.relnamespace = 'pgmq'::regnamespace and not t.tgisinternal"""

MONITOR = """
    select format('pg_monitor on %s', c.relname), has_table_privilege('pg_monitor', c.oid, 'select')::text
    from pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relkind = 'r'"""

PUBLIC_RIGHTS = """
    select format('public on %s', c.relname), x.privilege_type
    from pg_class c, aclexplode(c.relacl) x
    where c.relnamespace = 'pgmq'::regnamespace and x.grantee = 0
    union all
    select 'public on schema', x.privilege_type
    from pg_namespace n, aclexplode(n.nspacl) x
    where n.nspname = 'pgmq' and x.grantee = 0"""


def facts(conn: psycopg.Connection[Any], *queries: str) -> Facts:
    return {what: fact for query in queries for what, fact in conn.execute(query.encode()).fetchall()}


def differing(reference: Facts, ours: Facts) -> dict[str, tuple[str | None, str | None]]:
    what = {key: (reference.get(key), ours.get(key)) for key in sorted(reference | ours)}
    return {key: pair for key, pair in what.items() if pair[0] != pair[1]}


def listed(*prefixes: str) -> dict[str, tuple[str | None, str | None]]:
    """What differences.CATALOGUE has about such facts: too much in the list is as wrong as too little."""
    return {what: pair[:2] for what, pair in CATALOGUE.items() if what.startswith(prefixes)}


@pytest.mark.parametrize("query", [FUNCTIONS, PLANNING], ids=["signature", "planning"])
def test_functions(db: Database, reference_db: Database, query: str) -> None:
    reference = facts(reference_db.connect(), query)
    assert len(reference) > 60
    assert differing(reference, facts(db.connect(), query)) == listed("function")


@pytest.mark.parametrize(
    ("query", "prefixes"),
    [
        pytest.param(RELATIONS, ("type", "table"), id="relations"),
        pytest.param(COLUMNS, ("column",), id="columns"),
        pytest.param(KEYS, ("constraint",), id="keys"),
        pytest.param(MONITOR, ("pg_monitor",), id="monitor"),
        pytest.param(PUBLIC_RIGHTS, ("public",), id="public"),
    ],
)
def test_installation(db: Database, reference_db: Database, query: str, prefixes: tuple[str, ...]) -> None:
    reference = facts(reference_db.connect(), query)
    assert differing(reference, facts(db.connect(), query)) == listed(*prefixes)


QUEUES = {
    "plain": "select pgmq.create('plain')",
    "non_partitioned": "select pgmq.create_non_partitioned('other')",
    "unlogged": "select pgmq.create_unlogged('quick')",
    "odd name": """select pgmq.create('Odd "Näme" 1.0')""",
    "longest name": f"select pgmq.create('{'n' * 47}')",
    "with notification": "select pgmq.create('loud'), pgmq.enable_notify_insert('loud')",
    "with a fifo index": "select pgmq.create('fifo'), pgmq.create_fifo_index('fifo')",
}


@pytest.mark.parametrize("script", QUEUES.values(), ids=QUEUES.keys())
def test_queue(db: Database, reference_db: Database, script: str) -> None:
    """The tables of a queue and its archive: columns in order, keys, sequence, trigger, rights."""
    queries = (RELATIONS, COLUMNS, KEYS, SEQUENCES, TRIGGERS, MONITOR, PUBLIC_RIGHTS)
    made = []
    for database in (reference_db, db):
        conn = database.connect()
        before = facts(conn, *queries)
        conn.execute(script.encode())
        after = facts(conn, *queries)
        made.append({what: fact for what, fact in after.items() if before.get(what) != fact})
    reference, ours = made
    assert len(reference) > 17, "two tables with their columns"
    assert differing(reference, ours) == {}


def test_the_pattern_of_a_topic_compiles_to_the_same_regex(db: Database, reference_db: Database) -> None:
    patterns = ["a", "*", "#", "a.*", "*.b.#", "a-b_c.D", "#.x.*", "orders.*.created"]
    regexes = []
    for database in (reference_db, db):
        conn = database.connect()
        conn.execute("select pgmq.create('q')")
        for pattern in patterns:
            conn.execute("select pgmq.bind_topic(%s, 'q')", [pattern])
        query = "select pattern, compiled_regex from pgmq.topic_bindings order by pattern"
        regexes.append(conn.execute(query).fetchall())
    assert len(regexes[0]) == len(patterns)
    assert regexes[0] == regexes[1]
