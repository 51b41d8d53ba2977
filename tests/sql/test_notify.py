"""Notifications: the right values of public reports."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

from tests.databases import Database, our_sql, uri
from tests.servers import Server
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.sessions import Session


@pytest.fixture
def conn(shared: Connection) -> Connection:
    do(shared, "select pgmq.create('q'), pgmq.enable_notify_insert('q', 0)")
    return shared


@pytest.fixture
def listener(house: Database, conn: Connection) -> Connection:
    ears = house.connect()
    do(ears, 'listen "pgmq.q_q.INSERT"')
    return ears


def heard(listener: Connection, timeout: float = 0.2, enough: int | None = None) -> list[str]:
    return [note.channel for note in listener.notifies(timeout=timeout, stop_after=enough)]


def test_a_commit_wakes_and_a_rollback_does_not(
    house: Database, conn: Connection, listener: Connection
) -> None:
    """case 41: the wake-up comes at once; a send that is rolled back gives none."""
    sender = house.connect(autocommit=False)
    do(sender, "select pgmq.send('q', '1')")
    assert heard(listener) == []
    sender.rollback()
    assert heard(listener) == []
    do(sender, "select pgmq.send('q', '1')")
    sender.commit()
    start = time.monotonic()
    assert heard(listener, 10, 1) == ["pgmq.q_q.INSERT"]
    assert time.monotonic() - start < 8


def test_the_throttle_lets_the_first_through_and_few_after(conn: Connection, listener: Connection) -> None:
    """case 42: with 300 ms between, sends over 1.2 seconds wake at least once, and at most five times."""
    do(conn, "select pgmq.update_notify_insert('q', 300)")
    do(conn, "select pgmq.send('q', '1')")
    assert heard(listener, 10, 1) == ["pgmq.q_q.INSERT"]
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        do(conn, "select pgmq.send('q', '1')")
    assert 1 <= len(heard(listener)) <= 5


def test_enabling_switches_a_disabled_trigger_on(conn: Connection, listener: Connection) -> None:
    trigger = "trigger trigger_notify_queue_insert_listeners"
    do(conn, f"alter table pgmq.q_q disable {trigger}")
    do(conn, "select pgmq.enable_notify_insert('q', 0); select pgmq.send('q', '1')")
    assert heard(listener, 10, 1) == ["pgmq.q_q.INSERT"]


def test_the_list_follows_each_step(conn: Connection) -> None:
    """case 43"""
    throttles = "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()"
    assert rows(conn, throttles) == [("q", 0)]
    do(conn, "select pgmq.update_notify_insert('q', 700)")
    assert rows(conn, throttles) == [("q", 700)]
    do(conn, "select pgmq.enable_notify_insert('q')")
    assert rows(conn, throttles) == [("q", 250)]
    do(conn, "select pgmq.disable_notify_insert('q')")
    assert rows(conn, throttles) == []
    state, message = outcome(conn, "select pgmq.update_notify_insert('q', 1)")
    assert state == "P0001" and "does not have notify_insert enabled" in message
    for call in ("enable_notify_insert('nope')", "update_notify_insert('nope', 1)"):
        assert outcome(conn, f"select pgmq.{call}") == ("P0001", 'queue "nope" does not exist')


def test_when_listeners_were_told_is_listed(conn: Connection) -> None:
    told = "select last_notified_at from pgmq.list_notify_insert_throttles()"
    assert value(conn, told).year == 1970
    do(conn, "select pgmq.send('q', '1')")
    assert value(conn, f"select clock_timestamp() - ({told}) < interval '10 s'") is True


def test_pgmqs_column_says_when_within_a_minute(house: Database, conn: Connection) -> None:
    """Clients read it. Nobody waits for its row, and no sender fails for it."""
    told = "select last_notified_at from pgmq.notify_insert_throttle"
    late = "update pgmq.notify_insert_throttle set last_notified_at = now() - interval '61 s'"
    is_late = f"select clock_timestamp() - ({told}) > interval '1 minute'"
    do(conn, "select pgmq.send('q', '1')")
    assert value(conn, is_late) is False
    first = value(conn, told)
    do(conn, "select pgmq.send('q', '2')")
    assert value(conn, told) == first, "written once a minute"
    do(conn, late)
    with house.connect(autocommit=False) as other:
        do(other, "select from pgmq.notify_insert_throttle for update")
        do(house.connect(options="-c lock_timeout=2s"), "select pgmq.send('q', '3')")
    repeatable = house.connect(autocommit=False)
    do(repeatable, "set transaction isolation level repeatable read")
    do(repeatable, "select pgmq.send('q', '4')")
    do(conn, late)
    repeatable.commit()
    assert value(conn, is_late) is True
    do(conn, "select pgmq.send('q', '5')")
    assert value(conn, is_late) is False


def test_capitals_notify_on_the_tables_channel(conn: Connection, listener: Connection) -> None:
    """case 8: the channel has the table's name, in lower case."""
    do(conn, "select pgmq.create('Loud'), pgmq.enable_notify_insert('LOUD', 0)")
    do(listener, 'listen "pgmq.q_loud.INSERT"')
    do(conn, "select pgmq.send('Loud', '1')")
    assert heard(listener, 10, 1) == ["pgmq.q_loud.INSERT"]


@pytest.mark.parametrize("length", [49, 50])
def test_the_limit_covers_the_channel(conn: Connection, length: int) -> None:
    """case 12: a name that fits in a table and not in a channel is told when notifications are asked for."""
    name = "é" * (length // 2) + "n" * (length % 2)
    assert len(name.encode()) == length
    do(conn, "select pgmq.create(%s)", name)
    state, message = outcome(conn, "select pgmq.enable_notify_insert(%s)", name)
    if length <= 49:
        assert state == ""
    else:
        assert state == "P0001" and message.endswith("is too long for a notification channel")
        assert rows(conn, "select 1 from pgmq.list_notify_insert_throttles() where queue_name <> 'q'") == []


def test_senders_do_not_wait_for_each_other(house: Database, conn: Connection, listener: Connection) -> None:
    """The second goes through, and wakes the listener, while the first is open: nothing is decided."""
    do(conn, "select pgmq.update_notify_insert('q', 3600000)")
    first = house.connect(autocommit=False)
    do(first, "select pgmq.send('q', '1')")
    second = house.connect(options="-c lock_timeout=2s")
    do(second, "select pgmq.send('q', '2')")
    assert heard(listener, 10, 1) == ["pgmq.q_q.INSERT"]
    first.commit()
    assert heard(listener) == [], "within the hour"


def test_nobody_hears_of_a_message_that_becomes_visible(conn: Connection, listener: Connection) -> None:
    """case 44: as in pgmq a delayed message is told when it is sent, and not again: clients poll as well."""
    do(conn, "select pgmq.send('q', '1', 1)")
    assert heard(listener, 10, 1) == ["pgmq.q_q.INSERT"]
    do(conn, "update pgmq.q_q set vt = now()")
    assert heard(listener) == []
    assert column(conn, "select msg_id from pgmq.read('q', 30, 1)") == [1]


def test_reads_and_archives_do_not_notify(conn: Connection, listener: Connection) -> None:
    do(conn, "select pgmq.send('q', '1')")
    assert len(heard(listener, 10, 1)) == 1
    do(conn, "select pgmq.read('q', 0, 1), pgmq.set_vt('q', 1, 0), pgmq.archive('q', 1)")
    assert heard(listener) == []


def test_a_partitioned_queue_notifies(conn: Connection, listener: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('parts', '10', '100'), pgmq.enable_notify_insert('parts', 0)")
    do(listener, 'listen "pgmq.q_parts.INSERT"')
    do(conn, "select pgmq.send('parts', '1')")
    assert heard(listener, 10, 1) == ["pgmq.q_parts.INSERT"]
    do(conn, "select pgmq.send('parts', '1') from generate_series(1, 99)")
    heard(listener)
    do(conn, "select pgqueue.maintain()")
    assert heard(listener) == [], "rows that are moved are no news"
    assert sqlstate(conn, "select pgmq.disable_notify_insert('parts')") == ""


@pytest.mark.parametrize("what", ["all tables", "tables in schema pgmq, tables in schema pgqueue"])
def test_a_publication_of_all_tables_is_in_nobodys_way(db: Database, what: str) -> None:
    """Rows without a replica identity could not be changed: sends would fail, and lists not be kept."""
    if db.cluster.version < 15 and "schema" in what:
        pytest.skip("publications hold whole schemas from 15 on")
    conn = db.connect()
    do(conn, "select pgmq.create('q'), pgmq.create('other'), pgmq.create_unlogged('u')")
    do(db.connect(user=db.superuser), f"create publication everything for {what}")
    do(conn, 'listen "pgmq.q_q.INSERT"')
    for statement in (
        "select pgmq.enable_notify_insert(q, 0) from unnest(array['q', 'other', 'u']) q",
        "select pgmq.bind_topic('a.#', 'q'), pgmq.bind_topic('#', 'other')",
        "select pgmq.send(q, '1') from unnest(array['q', 'other', 'u']) q",
        "select pgmq.read(q, 0, 1) from unnest(array['q', 'other', 'u']) q",
        "select pgmq.archive('q', 1), pgmq.delete('u', 1)",
        "select pgmq.update_notify_insert('q', 10), pgmq.disable_notify_insert('other')",
        "select pgqueue.decompile('q'), pgqueue.compile('q')",
        "select pgmq.unbind_topic('a.#', 'q')",
        "select pgmq.drop_queue(q) from unnest(array['q', 'other', 'u']) q",
    ):
        assert outcome(conn, statement) == ("", ""), statement
    assert heard(conn, timeout=5, enough=1) == ["pgmq.q_q.INSERT"]
    assert rows(conn, "select queue_name from pgmq.notify_insert_throttle") == []


def test_what_notifies_cannot_be_prepared(new_server: Callable[..., Server]) -> None:
    """Postgres prepares no transaction with a NOTIFY in it; one that sends to silent queues it does."""
    server = new_server(max_prepared_transactions="2")
    with psycopg.connect(uri(server.conninfo), autocommit=True) as conn:
        do(conn, our_sql())
        do(conn, "select pgmq.create('loud'), pgmq.create('silent'), pgmq.enable_notify_insert('loud', 0)")
        for queue, state in (("loud", "0A000"), ("silent", "")):
            do(conn, "begin")
            do(conn, f"select pgmq.send('{queue}', '1')")
            assert sqlstate(conn, f"prepare transaction '{queue}'") == state, queue
        do(conn, "commit prepared 'silent'")
        assert column(conn, "select queue_name from pgmq.metrics_all() where queue_length > 0") == ["silent"]


def test_disabling_meets_nobody_half_way(house: Database, conn: Connection) -> None:
    """On a partitioned queue a sender locks the table and then a partition; whoever drops the trigger too."""
    do(conn, "select pgmq.create_partitioned('parts', '10', '100'), pgmq.enable_notify_insert('parts', 0)")
    sender, other, observer = Session(house.dsn), Session(house.dsn), Session(house.dsn)
    sender.ask("begin; lock table only pgmq.q_parts in row exclusive mode")
    other.start("select pgmq.disable_notify_insert('parts')")
    assert not other.settles(observer)
    sender.ask("select pgmq.send('parts', '1'); commit")
    other.finish()
    for session in (sender, other, observer):
        session.close()
    assert rows(conn, "select 1 from pgmq.list_notify_insert_throttles() where queue_name = 'parts'") == []


def test_a_table_made_by_hand_becomes_a_queue_in_the_transaction_that_has_sent_to_it(
    conn: Connection,
) -> None:
    """Postgres builds no index while the notify trigger of a message waits for the commit."""
    do(conn, "create table pgmq.q_hand (like pgmq.q_q including defaults including identity)")
    do(conn, "insert into pgmq.meta values ('hand', false, false); select pgmq.enable_notify_insert('hand')")
    with conn.transaction():
        do(conn, "select pgmq.send('hand', '1'), pgmq.create('hand')")
    assert value(conn, "select msg_id from pgmq.read('hand', 30, 1)") == 1
