"""The old pgmqs that the other tests stand on are what the facts say, and clients can live on them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from pgmq import PGMQueue

from tests.adopt import layouts
from tests.compat.test_catalogue import COLUMNS, FUNCTIONS, KEYS, RELATIONS, facts
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, rows, value

# Each in the words of facts.json.
THEIR_COLUMNS = """
    select c.relname, array_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
        case when a.attnotnull then 'not null' end,
        case a.attidentity when 'a' then 'identity always' end,
        'default ' || pg_get_expr(d.adbin, d.adrelid)) order by a.attnum)
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relnamespace = 'pgmq'::regnamespace and c.relkind in ('r', 'c') group by c.relname"""
THEIR_INDEXES = """
    select regexp_replace(indexdef, 'CREATE (UNIQUE )?INDEX ', '\\1') from pg_indexes where schemaname = 'pgmq'"""
THEIR_MEMBERS = """
    select case c.relkind when 'S' then 'sequence ' else 'table ' end || d.objid::regclass
    from pg_depend d join pg_class c on c.oid = d.objid
    where d.deptype = 'e' and d.classid = 'pg_class'::regclass and d.refclassid = 'pg_extension'::regclass
    and d.refobjid = (select oid from pg_extension where extname = 'pgmq') and c.relkind in ('r', 'S')"""
THEIR_FUNCTIONS = """
    select format('%s(%s) returns %s', p.proname, pg_get_function_identity_arguments(p.oid),
        pg_get_function_result(p.oid))
    from pg_proc p where p.pronamespace = 'pgmq'::regnamespace"""


@pytest.fixture(scope="module")
def blank(old_server: Cluster) -> Iterator[Database]:
    """An empty database, which each test leaves empty."""
    database = old_server.create_database()
    yield database
    database.drop()


@pytest.fixture
def conn(blank: Database) -> Iterator[Connection]:
    """One transaction, taken back at the end: much quicker than a database for each test."""
    with psycopg.connect(blank.dsn) as conn:
        conn.execute("select")  # it begins here, so that no step within commits
        yield conn
        conn.rollback()


@pytest.fixture
def client(conn: Connection) -> PGMQueue:
    """The official client. Each call is given `conn`: that is its way into a caller's transaction."""
    return PGMQueue(pool=object(), init_extension=False)


def told(conn: Connection) -> layouts.Layout:
    """What is in a database, as a layout."""
    members = column(conn, THEIR_MEMBERS)
    return layouts.Layout(
        version=str(value(conn, "select max(extversion) from pg_extension where extname = 'pgmq'")),
        relations={str(name): columns for name, columns in rows(conn, THEIR_COLUMNS)},  # type: ignore[misc]
        indexes=sorted(map(str, column(conn, THEIR_INDEXES))),
        extension_members=sorted(map(str, members)),
        functions=sorted(map(str, column(conn, THEIR_FUNCTIONS))),
    )


def known(version: str) -> layouts.Layout:
    made = layouts.layout(version)
    return layouts.Layout(
        version,
        made.relations,
        sorted(made.indexes),
        sorted(made.extension_members),
        sorted(made.functions),
    )


@pytest.mark.parametrize("version", layouts.versions())
def test_an_extension_is_what_the_facts_say(conn: Connection, version: str) -> None:
    layouts.build(conn, version, "extension")
    found, expected = told(conn), known(version)
    assert found.version == version
    assert found.relations == expected.relations
    assert found.indexes == expected.indexes
    assert found.extension_members == expected.extension_members
    assert found.functions == expected.functions


@pytest.mark.parametrize("version", ["1.3.3", "1.5.0", "1.10.0", "1.13.0"])
def test_without_the_extension_it_is_the_same(conn: Connection, version: str) -> None:
    layouts.build(conn, version, "sql")
    found, expected = told(conn), known(version)
    assert (found.relations, found.indexes, found.functions) == (
        expected.relations,
        expected.indexes,
        expected.functions,
    )
    assert found.extension_members == []


def test_what_is_made_from_the_facts_is_pgmq(conn: Connection) -> None:
    """Defaults, constraints, kinds: what the facts leave out, seen on the one version whose SQL is at hand."""
    seen = []
    for script in (layouts.made_script("1.13.0"), layouts.script("1.13.0")):
        do(conn, script)
        do(conn, "select pgmq.create('x'), pgmq.create_unlogged('y'), pgmq.enable_notify_insert('x')")
        seen.append(facts(conn, FUNCTIONS, RELATIONS, COLUMNS, KEYS))
        do(conn, "rollback; begin")
    assert seen[0] == seen[1] and len(seen[0]) > 130


@pytest.mark.parametrize("kind", layouts.KINDS)
@pytest.mark.parametrize("version", ["1.3.3", "1.5.1", "1.9.0", "1.10.0", "1.11.1"])
def test_after_an_upgrade_columns_are_in_another_order(conn: Connection, version: str, kind: str) -> None:
    layouts.build(conn, version, kind, upgraded=True)
    found, expected = told(conn), known(layouts.UPGRADED_TO)
    order = max(
        (v for v in layouts.facts()["upgraded"] if layouts.number(v) <= layouts.number(version)),
        key=layouts.number,
    )
    for table, names in layouts.facts()["upgraded"][order].items():
        assert found.names(table) == names
        assert sorted(found.relations[table]) == sorted(expected.relations[table])
    assert found.functions == expected.functions
    assert found.indexes == expected.indexes
    members = {*expected.extension_members, *layouts.layout(version).extension_members}
    assert found.extension_members == (sorted(members) if kind == "extension" else [])
    assert rows(conn, "select msg_id, headers from pgmq.read('x', 0, 1)") == []
    assert value(conn, "select pgmq.send('x', '1', '{\"a\": 1}'::jsonb)") == 1
    assert rows(conn, "select msg_id, message, headers from pgmq.read('x', 0, 1)") == [(1, 1, {"a": 1})]
    assert value(conn, "select pgmq.archive('x', 1)") is True


@pytest.mark.parametrize("version", layouts.versions())
def test_the_official_client_lives_on_it(conn: Connection, client: PGMQueue, version: str) -> None:
    """Its read names columns that came with 1.10; before, it is asked in the words of its time."""
    layouts.build(conn, version, "sql")
    assert client.send("x", {"n": 1}, conn=conn) == 1
    assert client.send_batch("x", [{"n": 2}, {"n": 3}], delay=0, conn=conn) == [2, 3]
    assert client.send("x", {"n": 4}, delay=60, conn=conn) == 4
    if layouts.layout(version).has("last_read_at"):
        given = [m.message for m in client.read_batch("x", vt=30, batch_size=2, conn=conn)]
    else:
        with pytest.raises(psycopg.errors.UndefinedColumn), conn.transaction():
            client.read("x", conn=conn)
        old = "select msg_id, read_ct, enqueued_at, vt, message from pgmq.read(%s, %s, %s)"
        given = [row[4] for row in conn.execute(old, ("x", 30, 2))]
    assert given == [{"n": 1}, {"n": 2}]
    assert client.delete("x", 1, conn=conn) is True and client.delete("x", 1, conn=conn) is False
    assert client.archive("x", 2, conn=conn) is True
    assert client.archive_batch("x", [3], conn=conn) == [3]
    assert client.purge("x", conn=conn) == 1
    assert column(conn, "select message ->> 'n' from pgmq.a_x order by msg_id") == ["2", "3"]
    assert value(conn, "select queue_length from pgmq.metrics('x')") == 0
    assert client.drop_queue("x", conn=conn) is True
    assert column(conn, "select queue_name from pgmq.list_queues()") == []


@pytest.mark.parametrize("version", ["1.4.4", "1.5.1", "1.6.0"])
def test_dropping_an_extension_drops_what_belongs_to_it(conn: Connection, version: str) -> None:
    """Why adoption must let go first: before 1.6 the messages go with the extension."""
    layouts.build(conn, version, "extension")
    do(conn, "select pgmq.send('x', '1')")
    do(conn, "drop extension pgmq")
    assert (value(conn, "select to_regclass('pgmq.q_x')") is None) == layouts.layout(version).owns_queues


def test_what_hangs_on_a_queue(old_db: Database) -> None:
    conn = old_db.connect()
    bindings = {"x": ["a.*", "#"]}
    layouts.build(conn, "1.11.2", "extension", unlogged=["u"], notified=["x"], topics=bindings)
    assert column(conn, "select relpersistence from pg_class where oid in ('pgmq.q_u'::regclass)") == ["u"]
    listener = old_db.connect()
    do(listener, 'listen "pgmq.q_x.INSERT"')
    assert value(conn, "select pgmq.send_topic('a.b', '1')") == 1
    assert next(listener.notifies(timeout=5, stop_after=1)).channel == "pgmq.q_x.INSERT"


@pytest.mark.parametrize("version", ["1.4.4", "1.9.0", "1.13.0"])
def test_a_partitioned_queue(partman: Cluster, version: str) -> None:
    database = partman.create_database()
    admin = database.connect(user=database.superuser)
    do(admin, "create schema partman; create extension pg_partman schema partman")
    layouts.build(admin, version, "extension", queues=[], partitioned=["p"])
    do(admin, "select pgmq.send('p', to_jsonb(g)) from generate_series(1, 150) g")
    assert value(admin, "select count(*) from pgmq.q_p_p100") == 51
    assert value(admin, "select count(*) from pgmq.read('p', 30, 200)") == 150
    assert rows(admin, "select parent_table, control from partman.part_config order by 1") == [
        ("pgmq.a_p", "msg_id"),
        ("pgmq.q_p", "msg_id"),
    ]
    database.drop()
