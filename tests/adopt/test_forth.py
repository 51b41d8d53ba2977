"""An adopted pgmq is what an installation of ours would be, around the same tables, rows and rights."""

from __future__ import annotations

import pytest

from pgqueue.adopt.survey import survey
from pgqueue.migrate import install, upgrade
from tests.adopt import layouts
from tests.adopt.pictures import MADE, THEIRS, picture, take_back, take_over
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, row, rows, value

VERSIONS = ("1.3.3", "1.5.1", "1.9.0", "1.10.0", "1.13.0")


def furnish(conn: Connection, version: str, kind: str, upgraded: bool = False) -> None:
    """A queue with messages in every state, one with a capital, an unlogged one."""
    has = layouts.number(version if not upgraded else layouts.UPGRADED_TO)
    layouts.build(
        conn,
        version,
        kind,
        upgraded=upgraded,
        queues=["x", "Orders"],
        unlogged=["u"],
        notified=["x"] if has >= (1, 7) else (),
        topics={"x": ["a.*"]} if has >= (1, 10) else None,
    )
    do(conn, "select pgmq.send('x', '{}', 0) from generate_series(1, 6)")
    do(conn, "select pgmq.send('x', '{}', 60)")
    do(conn, "select msg_id from pgmq.read('x', 30, 2)")
    do(conn, "select pgmq.archive('x', 1::bigint)")


def ours(cluster: Cluster) -> dict[str, list[tuple[object, ...]]]:
    """What an installation of ours is made of that has the same queues."""
    db = cluster.create_database()
    try:
        conn = db.connect()
        install(conn)
        do(conn, "select pgmq.create('x'), pgmq.create('Orders'), pgmq.create_unlogged('u')")
        do(conn, "select pgmq.enable_notify_insert('x', 100)")
        return picture(conn, MADE)
    finally:
        db.drop()


@pytest.mark.parametrize("kind", layouts.KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_adopted_pgmq_is_ours(old_server: Cluster, old_db: Database, version: str, kind: str) -> None:
    conn = old_db.connect()
    furnish(conn, version, kind)
    before = picture(conn, THEIRS)
    take_over(old_db)
    after = picture(conn, THEIRS)
    assert after == before
    if layouts.number(version) < (1, 7):
        do(conn, "select pgmq.enable_notify_insert('x', 100)")
    assert picture(conn, MADE) == ours(old_server)
    assert value(conn, "select count(*) from pg_extension where extname = 'pgmq'") == 0
    ids = "select relpersistence from pg_class where oid = 'pgmq.q_u_msg_id_seq'::regclass"
    assert value(conn, ids) == "p", "which go on after a crash"
    with conn.transaction():
        assert upgrade(conn) == (), "an adopted database is current"


@pytest.mark.parametrize("version", ["1.3.3", "1.13.0"])
def test_a_publication_of_all_tables_stops_nothing(old_db: Database, version: str) -> None:
    """Adopted, and given back, under one that was there before: sends that notify, lists that change, drops."""
    conn = old_db.connect()
    furnish(conn, version, "sql")
    do(old_db.connect(user=old_db.superuser), "create publication everything for all tables")
    use = """
        select pgmq.enable_notify_insert('x', 0), pgmq.bind_topic('b.*', 'x');
        select pgmq.send('x', '{}'), pgmq.read('x', 0, 1);
        select pgmq.unbind_topic('b.*', 'x'), pgmq.disable_notify_insert('x')"""
    take_over(old_db)
    do(conn, use)
    take_back(old_db)
    do(conn, use)
    assert value(conn, "select pgmq.drop_queue('x')") is True


@pytest.mark.parametrize("version", ["1.4.4", "1.8.1"])
def test_columns_in_another_order(old_db: Database, version: str) -> None:
    """After pgmq's own upgrades the columns stand in another order."""
    conn = old_db.connect()
    furnish(conn, version, "extension", upgraded=True)
    names = """select array_agg(attname::text order by attnum) from pg_attribute
        where attrelid = 'pgmq.q_x'::regclass and attnum > 0"""
    before = value(conn, names)
    assert before[-1] == "last_read_at"
    take_over(old_db)
    assert value(conn, names) == before
    assert column(conn, "select msg_id from pgmq.read('x', 30, 3)") == [3, 4, 5]
    assert value(conn, "select pgmq.archive('x', 3::bigint)") is True
    assert row(conn, "select msg_id, read_ct, message from pgmq.a_x where msg_id = 3") == (3, 1, {})


def test_a_column_of_older_queues_is_added_without_rewriting(old_db: Database) -> None:
    conn = old_db.connect()
    furnish(conn, "1.4.4", "extension")
    node = value(conn, "select pg_relation_filenode('pgmq.q_x')")
    take_over(old_db)
    assert value(conn, "select pg_relation_filenode('pgmq.q_x')") == node
    do(conn, "select pgmq.send('x', '{}', '{\"x-pgmq-group\": \"a\"}'::jsonb)")
    assert len(rows(conn, "select last_read_at, headers from pgmq.read('x', 30, 10)")) == 5


def test_functions_that_return_all_columns(old_db: Database) -> None:
    """pgmq before 1.10 said `returning *`: it works on queues that have more columns already."""
    conn = old_db.connect()
    furnish(conn, "1.4.4", "sql")
    do(
        conn,
        """create or replace function pgmq.pop(queue_name text) returns setof pgmq.message_record language plpgsql as $$
        begin
            return query execute format('delete from pgmq.%I m where msg_id = (select min(msg_id) from pgmq.%1$I)
                RETURNING m.*', 'q_' || queue_name);
        end $$""",
    )
    seen = []

    def watch(step: object, done: int, total: int) -> None:
        if getattr(step, "key", "") == "columns" and done == total:
            seen.append(row(conn, "select msg_id, message from pgmq.pop('x')"))

    take_over(old_db, watch=watch)
    assert seen == [(2, {})]


def test_groups(old_db: Database) -> None:
    """pgmq's index over headers gives way to ours, under its name; grouped reads are compiled."""
    conn = old_db.connect()
    furnish(conn, "1.13.0", "extension")
    do(conn, "select pgmq.create_fifo_index('x')")
    take_over(old_db)
    definition = value(conn, "select pg_get_indexdef('pgmq.q_x_fifo_idx'::regclass)")
    assert "hashtextextended" in definition
    assert value(conn, "select to_regproc('pgqueue.\"x$read_grouped\"') is not null")
    assert column(conn, "select indexname from pg_indexes where indexname like '%$%'") == []


def test_when_listeners_were_last_told_is_kept(old_db: Database) -> None:
    conn = old_db.connect()
    furnish(conn, "1.13.0", "extension")
    do(conn, "update pgmq.notify_insert_throttle set last_notified_at = '2026-01-01 00:00:00+00'")
    take_over(old_db)
    query = """select extract(epoch from last_notified_at)::bigint, throttle_interval_ms
        from pgmq.list_notify_insert_throttles()"""
    assert row(conn, query) == (1767225600, 100)


def test_what_is_odd_is_left_alone(old_db: Database) -> None:
    """A row without a table, a table without a row, a queue without its archive, a function of the user's."""
    conn = old_db.connect()
    furnish(conn, "1.13.0", "sql")
    do(conn, "select pgmq.create('lost'), pgmq.create('secret'), pgmq.create('bare')")
    do(
        conn,
        "drop table pgmq.q_lost, pgmq.a_lost, pgmq.a_bare; delete from pgmq.meta where queue_name = 'secret'",
    )
    do(conn, "create function pgmq.of_mine() returns integer language sql return 1")
    do(conn, "alter table pgmq.q_x add column of_mine integer")
    take_over(old_db)
    assert value(conn, "select pgmq.of_mine()") == 1
    assert value(conn, "select count(*) from pgmq.meta where queue_name = 'lost'") == 1
    for queue in ("secret", "bare"):
        do(conn, f"select pgmq.send('{queue}', '1')")
        assert column(conn, f"select msg_id from pgmq.read('{queue}', 30, 1)") == [1]
    assert value(conn, "select to_regclass('pgmq.a_bare') is null")


@pytest.mark.parametrize("version", layouts.versions())
def test_which_version_it_is(old_db: Database, version: str) -> None:
    """Where no extension says it, the functions do, as far as versions differ."""
    conn = old_db.connect()
    layouts.build(conn, version, "sql")
    told = survey(conn).version
    first, _, last = told.partition(" to ")
    low, high = layouts.number(first), layouts.number(last or first)
    assert low <= layouts.number(version) <= high
    same = [one for one in layouts.versions() if low <= layouts.number(one) <= high]
    assert len({tuple(layouts.layout(one).functions) for one in same}) == 1
