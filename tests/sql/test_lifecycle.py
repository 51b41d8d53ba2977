"""Creating, dropping and purging queues: what is public about them, case by case."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.databases import Database, our_sql, uri
from tests.servers import Server
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.catalogue import catalogue


@pytest.fixture
def conn(shared: Connection) -> Connection:
    return shared


def test_no_statement_mentions_an_extension(conn: Connection) -> None:
    """case 16: without the extension, a queue's life ends well, and no function names one but that which leaves
    pg_partman where an adopted queue is dropped."""
    for statement in (
        "create('q')",
        "send('q', '{}')",
        "read('q', 30, 1)",
        "archive('q', 1)",
        "drop_queue('q')",
    ):
        assert sqlstate(conn, f"select pgmq.{statement}") == ""
    query = """
        select p.proname from pg_proc p
        where p.pronamespace in ('pgmq'::regnamespace, 'pgqueue'::regnamespace)
            and p.prosrc ~* 'extension|part_config|partman\\.'"""
    assert column(conn, query) == ["_leave_partman"]


@pytest.mark.parametrize("length", [46, 47, 48, 58, 59])
def test_the_limit_is_47_characters(conn: Connection, length: int) -> None:
    """case 2: 47 works end to end; 48 and over give one clear error and leave nothing."""
    before = catalogue(conn)
    name = "n" * length
    state, message = outcome(conn, f"select pgmq.create('{name}')")
    if length <= 47:
        assert value(conn, f"select pgmq.send('{name}', '1')") == 1
        assert column(conn, f"select msg_id from pgmq.read('{name}', 30, 1)") == [1]
        assert value(conn, f"select pgmq.drop_queue('{name}')") is True
    else:
        assert (state, message) == ("P0001", "queue name is too long, maximum length is 47 characters")
    assert catalogue(conn) == before


def test_capitals_mean_the_same_queue(conn: Connection) -> None:
    """case 8, case 10, case 13: one rule, applied by every function; a second spelling is refused."""
    do(conn, "select pgmq.create('Foo')")
    state, message = outcome(conn, "select pgmq.create('foo')")
    assert (state, message) == ("42710", 'queue name "foo" collides with queue "Foo"')
    assert value(conn, "select pgmq.send('fOO', '1')") == 1
    assert column(conn, "select msg_id from pgmq.read('FOO', 0, 1)") == [1]
    assert column(conn, "select queue_name from pgmq.list_queues()") == ["Foo"]
    assert column(conn, "select queue_name from pgmq.metrics_all()") == ["Foo"]
    do(conn, "select pgmq.create('Foo')")
    assert value(conn, "select pgmq.drop_queue('foo')") is True
    assert rows(conn, "select * from pgmq.list_queues()") == []


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_a_queue_has_a_name(conn: Connection, name: str) -> None:
    """case 15"""
    for create in ("create", "create_unlogged", "create_non_partitioned", "create_partitioned"):
        state, message = outcome(conn, f"select pgmq.{create}(%s)", name)
        assert (state, message) == ("P0001", "queue name cannot be empty or blank")
        assert outcome(conn, f"select pgmq.{create}(null)") == ("22004", "queue name cannot be null")


# --- halves of queues -----------------------------------------------------------------------------

HALVES = {
    "meta row alone": "drop table pgmq.q_half, pgmq.a_half",
    "no queue table": "drop table pgmq.q_half",
    "no archive": "drop table pgmq.a_half",
    "no meta row": "delete from pgmq.meta",
    "no index": "drop index pgmq.q_half_ready_idx, pgmq.archived_at_idx_half",
    "no functions": 'drop function pgqueue."half$read", pgqueue."half$floor"',
    "no sequences": 'drop sequence pgqueue."half$walk", pgqueue."half$floor_id"',
    "tables alone": """
        delete from pgmq.meta;
        drop function pgqueue."half$send", pgqueue."half$pop";""",
}


@pytest.mark.parametrize("half", HALVES)
def test_create_repairs_half_a_queue(conn: Connection, half: str) -> None:
    """case 27: what is missing is made anew, and what is there stays."""
    do(conn, "select pgmq.create('half')")
    whole = {row for row in catalogue(conn) if not row.startswith("meta ")}
    do(conn, HALVES[half])
    assert sqlstate(conn, "select pgmq.create('half')") == ""
    assert {row for row in catalogue(conn) if not row.startswith("meta ")} == whole
    assert column(conn, "select queue_name from pgmq.list_queues()") == ["half"]
    assert column(conn, "select msg_id from pgmq.send('half', '1') as s (msg_id)") == [1]
    assert column(conn, "select msg_id from pgmq.read('half', 0, 1)") == [1]
    assert value(conn, "select pgmq.drop_queue('half')") is True


@pytest.mark.parametrize("half", HALVES)
def test_half_a_queue_can_be_dropped(conn: Connection, half: str) -> None:
    """case 27, case 142"""
    before = catalogue(conn)
    do(conn, "select pgmq.create('half')")
    do(conn, HALVES[half])
    assert value(conn, "select pgmq.drop_queue('half')") is True
    assert catalogue(conn) == before


def test_a_queue_table_that_hands_out_no_ids_is_said_so(conn: Connection) -> None:
    """case 27"""
    do(conn, "select pgmq.create('half')")
    do(conn, "alter table pgmq.q_half alter column msg_id drop identity")
    state, message = outcome(conn, "select pgmq.create('half')")
    assert (state, message) == ("42809", 'pgmq.q_half hands out no msg_id, so there can be no queue "half"')
    assert value(conn, "select pgmq.drop_queue('half')") is True


def test_an_archive_that_was_kept_is_taken_up_again(conn: Connection) -> None:
    """case 71: what an earlier queue of that name archived stays, and later archives join it."""
    do(conn, "select pgmq.create('again'), pgmq.send('again', '1'), pgmq.archive('again', 1)")
    do(conn, "select pgqueue._drop('again', true)")
    assert value(conn, "select count(*) from pgmq.a_again") == 1
    do(conn, "select pgmq.create('again')")
    assert value(conn, "select count(*) from pgmq.a_again") == 1


# --- dropping -------------------------------------------------------------------------------------


def test_dropping_what_is_not_there_says_so_and_nothing_more(conn: Connection) -> None:
    """case 31, case 35: false and a notice; an archive detached before is no matter."""
    notices: list[str] = []
    conn.add_notice_handler(lambda note: notices.append(f"{note.severity} {note.message_primary}"))
    assert value(conn, "select pgmq.drop_queue('nope')") is False
    assert notices == ["NOTICE pgmq queue `nope` does not exist"]
    do(conn, "select pgmq.create('q'), pgmq.detach_archive('q')")
    assert value(conn, "select pgmq.drop_queue('q')") is True


def test_both_ways_to_drop(conn: Connection) -> None:
    """case 34: with one argument and with two; the second is deprecated."""
    notices: list[str] = []
    conn.add_notice_handler(lambda note: notices.append(f"{note.severity} {note.message_primary}"))
    for statement in ("drop_queue('q')", "drop_queue('q', true)", "drop_queue('q', partitioned => false)"):
        do(conn, "select pgmq.create('q')")
        notices.clear()
        assert value(conn, f"select pgmq.{statement}") is True
        assert len(notices) == (0 if statement == "drop_queue('q')" else 1)
        assert all("deprecated" in notice and notice.startswith("WARNING") for notice in notices)


@pytest.mark.parametrize(
    "create", ["create('q')", "create_unlogged('q')", "create_partitioned('q', '10', '100')"]
)
def test_drop_leaves_nothing(conn: Connection, create: str) -> None:
    """case 32, case 33: no object and no row about it stays, whatever it had."""
    before = catalogue(conn)
    do(conn, f"select pgmq.{create}, pgmq.bind_topic('a.#', 'q'), pgmq.bind_topic('b', 'q')")
    do(conn, "select pgmq.create_fifo_index('q'), pgmq.enable_notify_insert('q')")
    do(conn, "select pgmq.send('q', '1') from generate_series(1, 40)")
    do(conn, "select pgqueue.decompile('q')")
    assert value(conn, "select pgmq.drop_queue('q')") is True
    assert catalogue(conn) == before


def test_drop_waits_for_who_uses_the_queue(house: Database, conn: Connection) -> None:
    """A drop that cannot have the table in time changes nothing."""
    do(conn, "select pgmq.create('q'), pgmq.send('q', '1')")
    before = catalogue(conn)
    reader = house.connect(autocommit=False)
    do(reader, "select pgmq.read('q', 30, 1)")
    assert sqlstate(conn, "set lock_timeout = '100ms'; select pgmq.drop_queue('q')") == "55P03"
    assert catalogue(conn) == before
    reader.rollback()
    assert value(conn, "select pgmq.drop_queue('q')") is True


def test_a_view_of_the_users_is_not_dropped_with_the_queue(conn: Connection) -> None:
    do(conn, "select pgmq.create('q'); create view public.waiting as select count(*) from pgmq.q_q")
    state, message = outcome(conn, "select pgmq.drop_queue('q')")
    assert state == "2BP01" and "q_q" in message
    do(conn, "drop view public.waiting")
    assert value(conn, "select pgmq.drop_queue('q')") is True


# --- purging --------------------------------------------------------------------------------------


def test_purge_counts_exactly_and_writes_little(conn: Connection) -> None:
    """case 36: the WAL of a purge does not grow with the rows."""
    do(conn, "select pgmq.create('small'), pgmq.create('large')")
    do(conn, "select pgmq.send('small', '{}')")
    do(conn, "insert into pgmq.q_large (vt, message) select now(), '{}' from generate_series(1, 30000)")
    wal = []
    for queue, count in (("small", 1), ("large", 30000)):
        start = value(conn, "select pg_current_wal_insert_lsn()")
        assert value(conn, f"select pgmq.purge_queue('{queue}')") == count
        wal.append(int(value(conn, "select pg_current_wal_insert_lsn() - %s::pg_lsn", start)))
    assert wal[1] < wal[0] + 100_000
    assert value(conn, "select pgmq.purge_queue('large')") == 0


def test_purge_counts_beyond_four_bytes(conn: Connection) -> None:
    """case 37: its result and the variable behind it are bigint."""
    query = """
        select pg_get_function_result(p.oid), p.prosrc !~* '\\m(int|int4|integer)\\M'
        from pg_proc p where p.oid = 'pgmq.purge_queue(text)'::regprocedure"""
    assert rows(conn, query) == [("bigint", True)]


def test_purge_waits_for_no_reader(house: Database, conn: Connection) -> None:
    """case 38: while a transaction has looked at the queue, it goes row by row, and readers go on."""
    do(conn, "select pgmq.create('q'), pgmq.send('q', '1') from generate_series(1, 5)")
    looker = house.connect(autocommit=False)
    do(looker, "select * from pgmq.q_q limit 1")
    do(conn, "set lock_timeout = '500ms'")
    assert value(conn, "select pgmq.purge_queue('q')") == 5
    other = house.connect(options="-c lock_timeout=500ms")
    assert column(other, "select msg_id from pgmq.read('q', 30, 1)") == []
    looker.rollback()


# --- unlogged -------------------------------------------------------------------------------------


def test_an_unlogged_queue_loses_its_messages_in_a_crash_and_not_its_archive(
    new_server: Callable[..., Server],
) -> None:
    """case 148: persistence of both tables, the flag in the list, and what a crash leaves."""
    server = new_server()
    conn = psycopg.connect(uri(server.conninfo), autocommit=True)
    do(conn, our_sql())
    do(conn, "select pgmq.create_unlogged('quick'), pgmq.create('slow')")
    for queue in ("quick", "slow"):
        do(conn, f"select pgmq.send('{queue}', '1') from generate_series(1, 600)")
        do(conn, f"select pgmq.archive('{queue}', 1), pgmq.pop('{queue}', 400), pgmq.read('{queue}', 30, 1)")
        do(conn, f"select pgmq.enable_notify_insert('{queue}', 0)")
    query = "select relname, relpersistence from pg_class where relname in ('q_quick', 'a_quick') order by 1"
    assert rows(conn, query) == [("a_quick", "p"), ("q_quick", "u")]
    assert rows(conn, "select queue_name, is_unlogged from pgmq.list_queues() order by 1") == [
        ("quick", True),
        ("slow", False),
    ]
    do(conn, "checkpoint")
    conn.close()
    server.crash()
    server.start()
    conn = psycopg.connect(uri(server.conninfo), autocommit=True)
    assert rows(conn, "select queue_name, queue_length from pgmq.metrics_all() order by 1") == [
        ("quick", 0),
        ("slow", 199),
    ]
    assert value(conn, "select count(*) from pgmq.a_quick") == 1
    # Floors are as good as before the crash, or behind it, and nothing is missed.
    assert column(conn, "select msg_id from pgmq.read('slow', 30, 1)") == [403]
    for queue in ("quick", "slow"):
        do(conn, f'listen "pgmq.q_{queue}.INSERT"')
        do(conn, f"select pgmq.send('{queue}', '2')")
        assert len(list(conn.notifies(timeout=5, stop_after=1))) == 1, "the throttle survives"
        popped = column(conn, f"select msg_id from pgmq.pop('{queue}', 300)")
        assert len(popped) == (197 if queue == "slow" else 0) + 1
        assert popped[-1] > 600, "the archive holds the ids before"
    do(conn, "select pgmq.send_batch('quick', array_fill('3'::jsonb, array[3]))")
    assert (
        value(conn, "select count(*) from pgmq.archive('quick', array(select msg_id from pgmq.q_quick))") == 3
    )
    conn.close()


def test_ids_of_queues_that_were_made_unlogged_elsewhere(conn: Connection) -> None:
    """By pgmq, or by hand: what create and compile meet, they mend, where the server knows unlogged sequences."""
    kept = "select relpersistence from pg_class where oid = 'pgmq.q_q_msg_id_seq'::regclass"
    do(conn, "select pgmq.create('q')")
    for mend in ("select pgqueue.compile('q')", "select pgmq.create('q')"):
        do(conn, "alter table pgmq.q_q set unlogged")
        if conn.info.server_version >= 150000:
            assert value(conn, kept) == "u"
        do(conn, mend)
        assert value(conn, kept) == "p", mend
        assert value(conn, "select relpersistence from pg_class where oid = 'pgmq.q_q'::regclass") == "u"
        do(conn, "alter table pgmq.q_q set logged")


def test_create_does_not_wait_for_who_grants_rights(house: Database, conn: Connection) -> None:
    """Which queues the functions by name call directly is speed alone."""
    granting = house.connect(autocommit=False)
    do(granting, "grant execute on function pgmq.read(text, integer, integer, jsonb) to pg_monitor")
    do(conn, "set lock_timeout = '200ms'")
    assert outcome(conn, "select pgmq.create('q')") == ("", "")
    granting.rollback()
    do(conn, "reset lock_timeout")
    assert value(conn, "select pgmq.send('q', '1')") == 1


# --- at once --------------------------------------------------------------------------------------


def test_first_touch_by_many_at_once(house: Database, conn: Connection) -> None:
    """case 29, case 40: create, notify and index from 8 sessions: all succeed, one queue results."""
    before = catalogue(conn)
    barrier = threading.Barrier(8)
    failures: list[str] = []

    def touch(number: int) -> None:
        mine = house.connect()
        barrier.wait(20)
        for statement in (
            "select pgmq.create('rush')",
            "select pgmq.create_fifo_index('rush')",
            "select pgmq.enable_notify_insert('rush')",
            f"select pgmq.send('rush', '{number}')",
        ):
            if failed := sqlstate(mine, statement):
                failures.append(f"{statement}: {failed}")

    threads = [threading.Thread(target=touch, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert sorted(column(conn, "select message from pgmq.read('rush', 30, 20)")) == list(range(8))
    assert column(conn, "select queue_name from pgmq.list_queues()") == ["rush"]
    assert value(conn, "select pgmq.drop_queue('rush')") is True
    assert catalogue(conn) == before
