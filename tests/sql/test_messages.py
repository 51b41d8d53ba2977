"""Sending, reading, archiving, deleting: the right values of public reports, for each kind of queue."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from tests.databases import Database
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value


@pytest.fixture(params=["compiled", "generic", "partitioned"])
def conn(shared: Connection, request: pytest.FixtureRequest) -> Connection:
    """A connection to a database with a queue q, compiled or not."""
    create = "create_partitioned('q', '10', '1000000')" if request.param == "partitioned" else "create('q')"
    do(shared, f"select pgmq.{create}")
    if request.param == "generic":
        do(shared, "select pgqueue.decompile('q')")
    return shared


@pytest.fixture
def plain(shared: Connection) -> Connection:
    do(shared, "select pgmq.create('q')")
    return shared


def send(conn: Connection, number: int = 1) -> list[int]:
    return column(conn, "select pgmq.send('q', to_jsonb(g)) from generate_series(1, %s) g", number)


def read(conn: Connection, vt: int = 30, qty: int = 1) -> list[int]:
    return column(conn, "select msg_id from pgmq.read('q', %s, %s)", vt, qty)


# --- unknown queues -------------------------------------------------------------------------------

ON_NOPE = [
    *("send('nope', '1')", "send_batch('nope', array['1']::jsonb[])", "read('nope', 0, 1)", "pop('nope')"),
    *(
        "read_with_poll('nope', 0, 1, 0)",
        "read_grouped('nope', 0, 1)",
        "delete('nope', 1)",
        "archive('nope', 1)",
    ),
    *("delete('nope', array[1]::bigint[])", "archive('nope', array[1]::bigint[])", "set_vt('nope', 1, 0)"),
    *("set_vt('nope', array[1]::bigint[], 0)", "metrics('nope')", "purge_queue('nope')"),
    *("create_fifo_index('nope')", "disable_notify_insert('nope')", "read('nope', 0, 1, '{\"a\": 1}')"),
]


@pytest.mark.parametrize("call", ON_NOPE)
def test_an_unknown_queue_is_one_error(shared: Connection, call: str) -> None:
    """case 39"""
    assert outcome(shared, f"select pgmq.{call}") == ("42P01", 'queue "nope" does not exist')
    with pytest.raises(psycopg.Error) as refused:
        do(shared, f"select pgmq.{call}")
    assert refused.value.diag.message_detail == 'relation "pgmq.q_nope" does not exist', "pgmq's words"


@pytest.mark.parametrize("call", ["bind_topic('a', 'nope')", "enable_notify_insert('nope')"])
def test_an_unknown_queue_where_pgmq_has_a_code_of_its_own(shared: Connection, call: str) -> None:
    """case 39, case 43"""
    assert outcome(shared, f"select pgmq.{call}") == ("P0001", 'queue "nope" does not exist')


def test_the_name_in_an_error_is_as_it_was_given(shared: Connection) -> None:
    for name in ("Nope", 'no"pe', "%I", "n" * 50, "é" * 40):
        assert outcome(shared, "select pgmq.send(%s, '1')", name) == (
            "42P01",
            f'queue "{name}" does not exist',
        )


# --- bodies ---------------------------------------------------------------------------------------

BODIES: list[Any] = [{"a": 1}, [1, [2]], "text", "", 7, -0.5, True, None, {"deep": {"k": [None]}}, "ünï 🐘"]


def test_any_json_comes_back_as_it_was(conn: Connection) -> None:
    """case 96, case 146: every kind of value is delivered, none holds up the rest; SQL null is not null."""
    for body in BODIES:
        do(conn, "select pgmq.send('q', %s::jsonb, %s::jsonb)", json.dumps(body), json.dumps({"h": body}))
    do(conn, "select pgmq.send('q', null::jsonb)")
    found = rows(conn, "select msg_id, message, headers, message is null from pgmq.read('q', 30, 20)")
    assert found == [
        *((number, body, {"h": body}, False) for number, body in enumerate(BODIES, 1)),
        (len(BODIES) + 1, None, None, True),
    ]


def test_jsonb_normalises(conn: Connection) -> None:
    """case 147: jsonb orders keys and drops doubles; for bytes as they were, send a JSON string of them."""
    do(conn, """select pgmq.send('q', '{"b": 1, "a": 1.00, "b": 2}')""")
    assert value(conn, "select message::text from pgmq.read('q', 30, 1)") == '{"a": 1.00, "b": 2}'
    text = ' {"b": 1,  "a": 2} '
    do(conn, "select pgmq.send('q', to_jsonb(%s::text))", text)
    assert value(conn, "select message #>> '{}' from pgmq.pop('q')") == text
    assert sqlstate(conn, "select pgmq.send('q', to_jsonb(%s::text))", "\\u0000") == ""
    assert sqlstate(conn, """select pgmq.send('q', '"\\u0000"')""") == "22P05", "jsonb holds no zero byte"


LITERALS = {
    "send('q', '{}')": "",
    "send('q', '{}', 5)": "",
    "send('q', '{}', now() + '1 hour')": "",
    "send('q', '{}', '{}'::jsonb)": "",
    "send('q', '{}', '{}', 5)": "",
    "send('q', '{}', '{}', now())": "",
    "send('q', '{}', headers => '{}')": "",
    "send('q', '{}', delay => 5)": "",
    "send(queue_name => 'q', msg => '{}', headers => '{}', delay => 5)": "",
    "send('q', '{}', null::jsonb)": "",
    "send('q', '{}', null::jsonb, 0)": "",
    "send('q', '{}', null, 5)": "",
    "send('q', '{}', '{}')": "42725",
    "send('q', '{}', null)": "42725",
    "send('q', '{}', '{}', '5')": "42725",
    "send_batch('q', array['{}']::jsonb[])": "",
    "send_batch('q', array['{}']::jsonb[], 5)": "",
    "send_batch('q', array['{}']::jsonb[], array['{}']::jsonb[])": "",
    "send_batch('q', array['{}']::jsonb[], array['{}']::jsonb[], 5)": "",
    "send_batch('q', array['{}']::jsonb[], null::jsonb[], 0)": "",
    "send_batch('q', array[]::jsonb[])": "P0001",
}


def test_which_calls_resolve(plain: Connection, reference_db: Database) -> None:
    """case 87, case 144: which of the overloads plain literals find; as in pgmq, since the signatures are."""
    reference = reference_db.connect()
    do(reference, "select pgmq.create('q')")
    for call, state in LITERALS.items():
        assert sqlstate(plain, f"select pgmq.{call}") == state, call
        assert sqlstate(reference, f"select pgmq.{call}") == state, call


# --- delays ---------------------------------------------------------------------------------------


def test_a_batch_is_delayed_as_a_message_is(conn: Connection) -> None:
    """case 115: none is visible at once, all from the moment on that was asked for."""
    do(conn, "select pgmq.send_batch('q', array['1', '2', '3']::jsonb[], 2)")
    assert read(conn, qty=5) == []
    apart = "select extract(epoch from vt - clock_timestamp()) from pgmq.q_q"
    assert all(1.5 < float(seconds) <= 2 for seconds in column(conn, apart))
    do(
        conn,
        """update pgmq.q_q
           set vt = vt - interval '2 seconds', enqueued_at = enqueued_at - interval '2 seconds'""",
    )
    assert read(conn, qty=5) == [1, 2, 3]


def test_a_message_can_be_sent_for_a_moment(conn: Connection) -> None:
    """case 117: past, present, future, with a zone: vt is that instant, whatever the session's zone."""
    moments = [
        datetime(2001, 1, 1, tzinfo=timezone.utc),
        datetime.now(timezone.utc),
        datetime.now(timezone(timedelta(hours=5, minutes=30))) + timedelta(days=2),
    ]
    do(conn, "set timezone = 'America/St_Johns'")
    for moment in moments:
        do(conn, "select pgmq.send('q', '1', %s::timestamptz)", moment)
    assert column(conn, "select vt from pgmq.q_q order by msg_id") == moments
    do(conn, "set timezone = 'UTC'")
    assert read(conn, qty=5) == [1, 2]


def test_negative_seconds_are_taken(conn: Connection) -> None:
    """case 120: on purpose as in pgmq, whose clients use them: a lease of -30 leaves it visible."""
    assert value(conn, "select pgmq.send('q', '1', -5)") == 1
    assert read(conn, vt=-5) == [1]
    assert rows(conn, "select msg_id, read_ct from pgmq.read('q', 30, 1)") == [(1, 2)]
    assert column(conn, "select msg_id from pgmq.set_vt('q', 1, -30)") == [1]
    assert read(conn) == [1]


@pytest.mark.parametrize("conditional", ["{}", '{"a": 1}'])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_quantity_below_zero_is_refused(conn: Connection, conditional: str, compiled: bool) -> None:
    """Also on an empty queue, where a plan may end before it looks at the quantity."""
    if not compiled:
        do(conn, "select pgqueue.decompile('q')")
    for _ in range(2):
        assert sqlstate(conn, "select pgmq.read('q', 0, -1, %s::jsonb)", conditional) == "2201W"
        do(conn, "select pgmq.send('q', '1')")
        do(conn, "delete from pgmq.q_q")
        do(conn, "analyze pgmq.q_q")


# --- visibility -----------------------------------------------------------------------------------


def test_visibility_is_changed_both_ways(conn: Connection) -> None:
    """case 100, case 103: 0 gives back now, 60 hides, a missing id gives no row; the next read counts 2."""
    send(conn)
    assert read(conn, vt=60) == [1]
    assert read(conn) == []
    assert column(conn, "select msg_id from pgmq.set_vt('q', 1, 0)") == [1]
    assert rows(conn, "select msg_id, read_ct from pgmq.read('q', 60, 1)") == [(1, 2)]
    do(conn, "select pgmq.set_vt('q', 1, 0)")
    do(conn, "select pgmq.set_vt('q', 1, 60)")
    assert read(conn) == []
    assert rows(conn, "select * from pgmq.set_vt('q', 99, 0)") == []


def test_visibility_is_set_to_a_moment(conn: Connection) -> None:
    """case 118: one message and several, to an instant."""
    send(conn, 2)
    moment = datetime(2033, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=-3)))
    assert column(conn, "select vt from pgmq.set_vt('q', 1, %s::timestamptz)", moment) == [moment]
    both = "select msg_id, vt from pgmq.set_vt('q', array[1, 2, 99]::bigint[], %s::timestamptz)"
    assert sorted(rows(conn, both, moment)) == [(1, moment), (2, moment)]


def test_many_timeouts_are_one_statement(plain: Connection) -> None:
    """case 77: a thousand ids in one call, not one by one."""
    do(plain, "insert into pgmq.q_q (vt, message) select now(), '1' from generate_series(1, 1000)")
    do(plain, "create sequence statements")
    do(
        plain,
        """
        create function count_one() returns trigger language plpgsql as $$
        begin perform nextval('statements'); return null; end $$;
        create trigger count_one after update on pgmq.q_q for each statement execute function count_one()""",
    )
    do(plain, "select pgmq.set_vt('q', array(select generate_series(1, 1000)::bigint), 90)")
    assert value(plain, "select last_value from statements") == 1
    assert value(plain, "select count(*) from pgmq.q_q where vt > now() + interval '80 seconds'") == 1000


@pytest.mark.parametrize("moment", ["-infinity", "0044-03-15 BC", "1969-12-31", "4713-01-01 BC"])
def test_a_message_of_long_ago_does_not_starve(conn: Connection, moment: str) -> None:
    """Made visible from a time before 1970 on, it comes as soon as the others that are due."""
    send(conn, 600)
    do(conn, "select pgmq.pop('q', 400)")
    do(conn, "select pgmq.read('q', -10, 20)")
    do(conn, "select pgmq.set_vt('q', 410, %s::timestamptz)", moment)
    for _ in range(3):
        assert 410 in read(conn, vt=-5, qty=30)
    assert sorted(column(conn, "select msg_id from pgmq.pop('q', 1000)")) == list(range(401, 601))


def test_nothing_to_return_is_no_row(conn: Connection) -> None:
    """case 104"""
    assert rows(conn, "select * from pgmq.pop('q')") == []
    assert rows(conn, "select * from pgmq.read('q', 30, 1)") == []
    assert rows(conn, "select * from pgmq.set_vt('q', 1, 0)") == []
    assert rows(conn, "select * from pgmq.set_vt('q', array[1]::bigint[], 0)") == []
    assert rows(conn, "select * from pgmq.delete('q', array[1]::bigint[])") == []
    assert value(conn, "select pgmq.delete('q', 1)") is False
    assert value(conn, "select pgmq.archive('q', 1)") is False


def test_at_least_once_and_not_before_its_time(conn: Connection) -> None:
    """case 101, case 149: who dies before the delete leaves the message to the next, after its time."""
    send(conn)
    before = datetime.now(timezone.utc)
    ((vt,),) = rows(conn, "select vt from pgmq.read('q', 30, 1)")
    assert before + timedelta(seconds=29) < vt < before + timedelta(seconds=40)
    assert read(conn) == []
    do(conn, "update pgmq.q_q set vt = clock_timestamp() - interval '1 ms'")
    assert rows(conn, "select msg_id, read_ct from pgmq.read('q', 30, 1)") == [(1, 2)]


def test_a_late_worker_cannot_take_what_is_anothers(conn: Connection) -> None:
    """case 102: delete is pgmq's; fetch and complete compare the delivery, and leave another's alone."""
    send(conn, 2)
    ((_, mine),) = rows(conn, "select msg_id, read_ct from pgmq.read('q', 0, 1)")
    ((_, theirs),) = rows(conn, "select msg_id, read_ct from pgmq.read('q', 30, 1)")
    assert (mine, theirs) == (1, 2)
    assert outcome(conn, "select pgqueue.complete('q', 1, 1)")[0] == "PQ001"
    fetch = "select msg_id from pgqueue.fetch('q', 30, 1, array[1]::bigint[], array[%s])"
    assert column(conn, fetch, mine) == [2]
    assert column(conn, "select msg_id from pgqueue.peek('q')") == [1, 2]
    do(conn, "select pgqueue.complete('q', 1, 2)")
    assert column(conn, "select msg_id from pgmq.a_q") == [1]


# --- reads ----------------------------------------------------------------------------------------


def test_a_window_of_nothing_looks_once(conn: Connection) -> None:
    """case 52"""
    send(conn, 5)
    for function in ("read", "read_grouped", "read_grouped_rr", "read_grouped_head"):
        assert len(column(conn, f"select msg_id from pgmq.{function}_with_poll('q', 0, 1, 0)")) == 1, function


def test_a_poll_gives_what_comes_meanwhile(house: Database, conn: Connection) -> None:
    other = house.connect()
    timer = threading.Timer(0.3, lambda: do(other, "select pgmq.send('q', '1')"))
    timer.start()
    assert column(conn, "select msg_id from pgmq.read_with_poll('q', 30, 1, 20, 20)") == [1]
    timer.join()


def test_peek_changes_nothing(conn: Connection) -> None:
    """case 132: the same rows twice, and a read count of 1 after the read; visible or not."""
    send(conn, 3)
    read(conn, vt=60)
    once = rows(conn, "select * from pgqueue.peek('q')")
    assert [row[0] for row in once] == [1, 2, 3]
    assert rows(conn, "select * from pgqueue.peek('q')") == once
    assert rows(conn, "select msg_id, read_ct from pgmq.read('q', 30, 1)") == [(2, 1)]


def test_reading_what_contains_something(conn: Connection) -> None:
    """case 133: only matches, in order, the others untouched; nested, arrays, null."""
    bodies = [
        '{"t": "a", "n": 1}',
        '{"t": "b"}',
        '{"t": "a", "n": 2}',
        '{"o": {"k": [1, 2]}}',
        '{"t": null}',
        "[7]",
    ]
    for body in bodies:
        do(conn, "select pgmq.send('q', %s::jsonb)", body)
    where = "select msg_id from pgmq.read('q', 0, 10, %s::jsonb)"
    for condition, found in (
        ('{"t": "a"}', [1, 3]),
        ('{"o": {"k": [2]}}', [4]),
        ('{"t": null}', [5]),
        ("[7]", [6]),
        ('{"t": "zzz"}', []),
        ("{}", [1, 2, 3, 4, 5, 6]),
    ):
        assert column(conn, where, condition) == found, condition
    assert column(conn, "select read_ct from pgqueue.peek('q')") == [2, 1, 2, 2, 2, 2]


def test_pop_takes_several(house: Database, conn: Connection) -> None:
    """case 137: in the order of ids; from four sessions at once none comes twice."""
    send(conn, 5)
    assert column(conn, "select msg_id from pgmq.pop('q', 3)") == [1, 2, 3]
    send(conn, 400)
    popped: list[int] = []

    def take() -> None:
        mine = house.connect()
        while batch := column(mine, "select msg_id from pgmq.pop('q', 7)"):
            popped.extend(batch)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    rest = column(conn, "select msg_id from pgmq.pop('q', 1000)")  # what two readers held from each other
    assert sorted(popped + rest) == list(range(4, 406))


@pytest.mark.parametrize("index", ["msg_id desc", "vt, msg_id desc", "(message ->> 'k'), vt, msg_id"])
def test_messages_come_by_id_whatever_index_there_is(conn: Connection, index: str) -> None:
    do(conn, f"create index on pgmq.q_q ({index})")
    send(conn, 12)
    do(conn, "analyze pgmq.q_q")
    assert read(conn, 0, 4) == [1, 2, 3, 4], "ready"
    assert read(conn, 0, 4) == [1, 2, 3, 4], "leases that have ended"
    assert column(conn, "select msg_id from pgmq.read('q', 0, 4, '{}')") == [1, 2, 3, 4]
    assert column(conn, "select msg_id from pgmq.pop('q', 4)") == [1, 2, 3, 4]
    assert column(conn, "select msg_id from pgmq.pop('q', 4)") == [5, 6, 7, 8]
    assert column(conn, "select msg_id from pgqueue.fetch('q', 30, 4)") == [9, 10, 11, 12]


def test_a_batch_pages_by_id(conn: Connection) -> None:
    """case 124: messages of one batch share their time, and have rising ids of their own."""
    ids = column(conn, "select pgmq.send_batch('q', array(select to_jsonb(g) from generate_series(1, 40) g))")
    assert ids == list(range(1, 41))
    assert value(conn, "select count(distinct enqueued_at) from pgmq.q_q") == 1
    pages = [column(conn, "select msg_id from pgqueue.peek('q', 30, %s)", after) for after in (0, 30, 40)]
    assert [len(page) for page in pages] == [30, 10, 0]
    assert column(conn, "select message from pgqueue.peek('q', 40)") == list(range(1, 41)), (
        "in the order given"
    )


def test_never_more_than_asked_for(conn: Connection) -> None:
    """case 78: also under plans that run a sub-select again, and with statistics of an empty table."""
    do(conn, "analyze pgmq.q_q")
    send(conn, 60)
    do(conn, "set enable_hashjoin = off; set enable_mergejoin = off; set enable_material = off")
    do(conn, "set enable_memoize = off; set enable_hashagg = off; set plan_cache_mode = force_custom_plan")
    for _ in range(20):
        assert len(read(conn, vt=30)) == 1
    assert value(conn, "select count(*) from pgmq.q_q where read_ct > 0") == 20
    do(conn, "reset all")


def test_an_old_snapshot_gets_a_known_error_or_the_next_row(house: Database, conn: Connection) -> None:
    """case 139: under repeatable read, if another took the row since: 40001; a new transaction goes on."""
    send(conn, 2)
    old = house.connect(autocommit=False)
    do(old, "set transaction isolation level repeatable read")
    assert value(old, "select count(*) from pgmq.q_q") == 2
    assert read(conn) == [1]
    state = sqlstate(old, "select msg_id from pgmq.read('q', 30, 1)")
    assert state == "40001"
    old.rollback()
    assert column(old, "select msg_id from pgmq.read('q', 30, 1)") == [2]
    old.rollback()


# --- in a transaction -----------------------------------------------------------------------------


def test_a_message_stands_or_falls_with_the_transaction(house: Database, conn: Connection) -> None:
    """case 89: rolled back there is none, committed there is one; in between only the sender sees it."""
    sender = house.connect(autocommit=False)
    do(sender, "select pgmq.send('q', '1')")
    assert read(conn) == []
    sender.rollback()
    assert value(conn, "select count(*) from pgmq.q_q") == 0
    do(sender, "select pgmq.send('q', '2')")
    sender.commit()
    assert column(conn, "select message from pgmq.read('q', 30, 1)") == [2]


def test_calls_without_a_search_path(conn: Connection) -> None:
    """case 112: every call works with an empty search path."""
    do(conn, "set search_path = ''")
    send(conn, 3)
    assert read(conn) == [1]
    assert value(conn, "select pgmq.archive('q', 1)") is True
    assert value(conn, "select pgmq.delete('q', 2)") is True
    assert column(conn, "select msg_id from pgmq.pop('q')") == [3]
    for call in ("create('r')", "create_partitioned('s', '1 day', '1 week')", "create_unlogged('u')"):
        do(conn, f"select pgmq.{call}")
    for call in (
        "create_fifo_index('r')",
        "enable_notify_insert('r')",
        "bind_topic('a', 'r')",
        "metrics_all()",
    ):
        do(conn, f"select pgmq.{call}")
    for call in ("send_topic('a', '1')", "test_routing('a')", "list_queues()", "purge_queue('r')"):
        do(conn, f"select pgmq.{call}")
    do(conn, "select pgqueue.maintain(), pgqueue.compile('r'), pgqueue.counts('r'), pgqueue.version()")
    do(conn, "select pgmq.convert_archive_partitioned('r'), pgmq.drop_queue('r')")
    do(conn, "drop table pgmq.a_r_old; reset search_path")


# --- archives -------------------------------------------------------------------------------------


def test_an_archive_keeps_all_of_a_message(conn: Connection) -> None:
    """case 70: exact counts, the original body and headers, and how often and when it was read."""
    do(conn, """select pgmq.send('q', '{"n": 1}', '{"h": 2}'::jsonb)""")
    (before,) = rows(conn, "select * from pgmq.read('q', 30, 1)")
    assert value(conn, "select pgmq.archive('q', 1)") is True
    columns = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
    assert rows(conn, f"select {columns} from pgmq.a_q") == [before]
    assert value(conn, "select archived_at between enqueued_at and clock_timestamp() from pgmq.a_q") is True
    assert value(conn, "select pgmq.archive('q', 1)") is False
    assert value(conn, "select count(*) from pgmq.a_q") == 1


def test_archiving_many_goes_by_the_index(plain: Connection) -> None:
    """case 76: 500 ids of 100,000 rows cost what 500 rows cost."""
    do(plain, "insert into pgmq.q_q (vt, message) select now(), '1' from generate_series(1, 50000)")
    do(plain, "analyze pgmq.q_q")
    scanned = "select seq_tup_read from pg_stat_xact_user_tables where relname = 'q_q'"
    ids = "array(select g * 99 + {} from generate_series(1, 500) g)::bigint[]"
    with plain.transaction():
        before = value(plain, scanned)
        archived = "select count(*) from pgmq.archive('q', {})"
        assert value(plain, archived.format(ids.format(0))) == 500
        assert value(plain, scanned) == before
    plan = value(plain, "explain (analyze, buffers, format json) " + archived.format(ids.format(1)))[0][
        "Plan"
    ]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500 * 30
    assert value(plain, "select count(*) from pgmq.a_q") == 1000


def test_reading_one_ready_message_behind_many_delayed(plain: Connection) -> None:
    """case 79, case 80: the cost is that of one message, whatever waits."""
    do(plain, "insert into pgmq.q_q (vt, message) select now() + '1 day', '1' from generate_series(1, 50000)")
    send(plain)
    do(plain, "select msg_id from pgmq.read('q', 0, 1)")
    plan = value(plain, "explain (analyze, buffers, format json) select * from pgmq.read('q', 30, 1)")[0][
        "Plan"
    ]
    assert plan["Actual Rows"] == 1
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200
