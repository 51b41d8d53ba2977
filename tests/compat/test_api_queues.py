"""The SQL API over queues, once for pgmq and ours: making, listing, measuring, notifying."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.compat.conftest import Api

CREATES = {"create": False, "create_non_partitioned": False, "create_unlogged": True}


@pytest.mark.parametrize(("function", "unlogged"), CREATES.items())
def test_create(api: Api, function: str, unlogged: bool) -> None:
    api.run(f"select pgmq.{function}('mine')")
    api.run(f"select pgmq.{function}(queue_name => 'mine')")
    query = "select queue_name, is_partitioned, is_unlogged, created_at <= now() from pgmq.list_queues()"
    assert api.rows(query) == [("mine", False, unlogged, True)]
    persistence = (
        "select relname::text, relpersistence = 'u' from pg_class where oid in (%s::regclass, %s::regclass)"
    )
    found = dict(api.rows(persistence, "pgmq.q_mine", "pgmq.a_mine"))
    assert found == {"q_mine": unlogged, "a_mine": False}
    assert api.value("select pgmq.send('mine', '1')") == 1


def test_an_existing_queue_stays_as_it_is(q: Api) -> None:
    q.run("select pgmq.send('q', '1')", "select pgmq.create('q')", "select pgmq.create_unlogged('q')")
    assert q.value("select count(*) from pgmq.q_q") == 1
    assert q.column("select is_unlogged from pgmq.list_queues()") == [False]


NAMES = [
    "with space",
    "with-hyphen",
    "dots.in.it",
    'quo"ted',
    "ünï→",
    "per%cent",
    "n" * 47,
    "_",
    "select",
    "1",
]


@pytest.mark.parametrize("name", NAMES)
def test_names(api: Api, name: str) -> None:
    api.rows("select pgmq.create(%s)", name)
    assert api.column("select queue_name from pgmq.list_queues()") == [name]
    assert api.value("select * from pgmq.send(%s, '{}'::jsonb)", name) == 1
    assert api.column("select * from pgmq.send_batch(%s, array['1']::jsonb[])", name) == [2]
    assert api.column("select msg_id from pgmq.read(%s, 60, 1)", name) == [1]
    assert api.column("select msg_id from pgmq.pop(%s)", name) == [2]
    assert api.column("select msg_id from pgmq.set_vt(%s, 1, 0)", name) == [1]
    assert api.value("select pgmq.archive(%s, 1)", name) is True
    assert api.value("select pgmq.delete(%s, 1)", name) is False
    assert api.row("select queue_name, total_messages from pgmq.metrics(%s)", name) == (name, 2)
    assert api.value("select pgmq.purge_queue(%s)", name) == 0
    assert api.value("select pgmq.drop_queue(%s)", name) is True
    assert api.rows("select * from pgmq.list_queues()") == []


def test_a_queue_is_found_whatever_the_capitals(api: Api) -> None:
    api.run("select pgmq.create('MixedCase')")
    assert api.value("select pgmq.send('mixedcase', '1')") == 1
    assert api.value("select pgmq.send('MIXEDCASE', '1')") == 2
    assert api.ids("select msg_id from pgmq.read('MixedCase', 60, 5)") == [1, 2]
    assert api.column("select queue_name from pgmq.list_queues()") == ["MixedCase"]


BAD_NAMES = ["bad$name", "semi;colon", "dash--dash", "apo'strophe", "n" * 48]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("function", CREATES)
def test_names_that_are_refused(api: Api, function: str, name: str) -> None:
    assert api.error(f"select pgmq.{function}(%s)", name)[0] == "P0001"
    assert api.rows("select * from pgmq.list_queues()") == []


def test_validate_queue_name(api: Api) -> None:
    assert api.value("select pgmq.validate_queue_name(%s)", "n" * 47) == ""
    sqlstate, message = api.error("select pgmq.validate_queue_name(%s)", "n" * 48)
    assert sqlstate == "P0001"
    assert "47 characters" in message


@pytest.mark.parametrize(
    ("name", "prefix", "table"),
    [
        ("mine", "q", "q_mine"),
        ("Mixed Case", "a", "a_mixed case"),
        ("x", "", "_x"),
        (None, "q", None),
        ("x", None, None),
    ],
)
def test_format_table_name(api: Api, name: str | None, prefix: str | None, table: str | None) -> None:
    assert api.value("select pgmq.format_table_name(%s, %s)", name, prefix) == table


@pytest.mark.parametrize("name", BAD_NAMES[:-1])
def test_format_table_name_refuses(api: Api, name: str) -> None:
    assert api.error("select pgmq.format_table_name(%s, 'q')", name)[0] == "P0001"


CALLS_ON_A_QUEUE = [
    "pgmq.send('nope', '1')",
    "pgmq.send('nope', '1', 5)",
    "pgmq.send('nope', '1', '{}'::jsonb)",
    "pgmq.send('nope', '1', '{}', now())",
    "pgmq.send_batch('nope', array['1']::jsonb[])",
    "pgmq.send_batch('nope', array['1']::jsonb[], array['{}']::jsonb[], 5)",
    "pgmq.read('nope', 0, 1)",
    "pgmq.read('nope', 0, 1, '{\"a\": 1}')",
    "pgmq.read_with_poll('nope', 0, 1, 1, 10)",
    "pgmq.read_grouped('nope', 0, 1)",
    "pgmq.read_grouped_rr('nope', 0, 1)",
    "pgmq.read_grouped_head('nope', 0, 1)",
    "pgmq.read_grouped_with_poll('nope', 0, 1, 1, 10)",
    "pgmq.read_grouped_rr_with_poll('nope', 0, 1, 1, 10)",
    "pgmq.read_grouped_head_with_poll('nope', 0, 1, 1, 10)",
    "pgmq.pop('nope')",
    "pgmq.delete('nope', 1)",
    "pgmq.delete('nope', array[1])",
    "pgmq.archive('nope', 1)",
    "pgmq.archive('nope', array[1])",
    "pgmq.set_vt('nope', 1, 0)",
    "pgmq.set_vt('nope', 1, now())",
    "pgmq.set_vt('nope', array[1], 0)",
    "pgmq.set_vt('nope', array[1], now())",
    "pgmq.metrics('nope')",
    "pgmq.purge_queue('nope')",
    "pgmq.create_fifo_index('nope')",
]


@pytest.mark.parametrize("call", CALLS_ON_A_QUEUE)
def test_an_unknown_queue(api: Api, call: str) -> None:
    sqlstate, message = api.error(f"select * from {call}")
    assert sqlstate == "42P01"
    if not api.is_reference:
        assert message == 'queue "nope" does not exist'


@pytest.mark.parametrize("call", CALLS_ON_A_QUEUE)
def test_a_null_queue(api: Api, call: str) -> None:
    call = call.replace("'nope'", "null")
    assert api.error(f"select * from {call}")[0] == "22004"


@pytest.mark.parametrize("call", CALLS_ON_A_QUEUE)
def test_a_name_with_bad_characters(api: Api, call: str) -> None:
    call = call.replace("nope", "no$pe")
    assert api.error(f"select * from {call}")[0] == "P0001"


# --- drop, purge, metrics ------------------------------------------------------------


def test_drop_queue(q: Api) -> None:
    q.run("select pgmq.send('q', '1'), pgmq.archive('q', 1), pgmq.send('q', '2')")
    q.run("select pgmq.bind_topic('a.*', 'q'), pgmq.enable_notify_insert('q'), pgmq.create('other')")
    assert q.value("select pgmq.drop_queue('q')") is True
    assert q.column("select queue_name from pgmq.list_queues()") == ["other"]
    assert q.rows("select * from pgmq.list_topic_bindings()") == []
    assert q.rows("select * from pgmq.list_notify_insert_throttles()") == []
    assert q.row("select to_regclass('pgmq.q_q'), to_regclass('pgmq.a_q')") == (None, None)
    q.run("select pgmq.create('q')")
    assert q.value("select pgmq.send('q', '1')") == 1


def test_drop_of_an_unknown_queue(api: Api) -> None:
    assert api.value("select pgmq.drop_queue('nope')") is False
    assert api.notices == ["NOTICE: pgmq queue `nope` does not exist"]


@pytest.mark.parametrize("flag", ["true", "false", "partitioned => false"])
def test_drop_queue_with_the_old_argument(q: Api, flag: str) -> None:
    assert q.value(f"select pgmq.drop_queue('q', {flag})") is True
    assert [note for note in q.notices if note.startswith("WARNING") and "deprecated" in note]
    assert q.rows("select * from pgmq.list_queues()") == []


def test_purge_queue(q: Api) -> None:
    q.run("select pgmq.send('q', to_jsonb(n)) from generate_series(1, 5) n", "select pgmq.archive('q', 1)")
    assert q.value("select pgmq.purge_queue('q')") == 4
    assert q.value("select pgmq.purge_queue(queue_name => 'q')") == 0
    assert q.value("select count(*) from pgmq.a_q") == 1
    assert q.value("select pgmq.send('q', '1')") == 6


METRICS = """select queue_name, queue_length, newest_msg_age_sec, oldest_msg_age_sec, total_messages,
    scrape_time between now() - interval '5 s' and now(), queue_visible_length,
    default_partition_length from """


def test_metrics(q: Api) -> None:
    assert q.row(METRICS + "pgmq.metrics('q')") == ("q", 0, None, None, 0, True, 0, None)
    q.run("select pgmq.send('q', '1')")
    q.travel(100)
    q.run("select pgmq.send('q', '2', 60)", "select pgmq.send('q', '3')", "select pgmq.delete('q', 3)")
    name, length, newest, oldest, *rest = q.row(METRICS + "pgmq.metrics(queue_name => 'q')")
    assert (name, length, rest) == ("q", 2, [3, True, 1, None])
    assert newest < 50
    assert 99 <= oldest < 150


def test_who_may_not_read_the_sequence_gets_no_metrics(q: Api) -> None:
    role = q.database.create_role()
    q.run(f"grant usage on schema pgmq to {role}", f"grant select on pgmq.q_q, pgmq.meta to {role}")
    with q.database.connect(user=role) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege) as denied:
        conn.execute("select pgmq.metrics('q')")
    assert denied.value.diag.message_primary == "permission denied for sequence q_q_msg_id_seq"


def test_metrics_all(api: Api) -> None:
    assert api.rows("select * from pgmq.metrics_all()") == []
    api.run("select pgmq.create('One'), pgmq.create_unlogged('two')", "select pgmq.send('One', '1')")
    rows = api.rows("select queue_name, queue_length, total_messages from pgmq.metrics_all()")
    assert sorted(rows) == [("One", 1, 1), ("two", 0, 0)]


def test_fifo_indexes(q: Api) -> None:
    q.run("select pgmq.create('other')")
    before = q.value("select count(*) from pg_indexes where schemaname = 'pgmq'")
    q.run("select pgmq.create_fifo_index('q')", "select pgmq.create_fifo_index(queue_name => 'q')")
    assert (
        q.value("select count(*) from pg_indexes where tablename = 'q_q' and indexname = 'q_q_fifo_idx'") == 1
    )
    q.run("select pgmq.create_fifo_indexes_all()", "select pgmq.create_fifo_indexes_all()")
    assert q.value("select count(*) from pg_indexes where schemaname = 'pgmq'") == before + 2


def test_acquire_queue_lock(q: Api) -> None:
    q.run("begin", "select pgmq.acquire_queue_lock('q')")
    with q.database.connect(autocommit=False) as other:
        other.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("select pgmq.acquire_queue_lock(queue_name => 'q')")
        other.rollback()
        q.run("commit")
        other.execute("select pgmq.acquire_queue_lock('q')")


def test_detach_archive(q: Api) -> None:
    q.run("select pgmq.detach_archive(queue_name => 'q')")
    assert [note for note in q.notices if note.startswith("WARNING") and "deprecated" in note]
    assert q.value("select count(*) from pgmq.a_q") == 0


# --- notification ------------------------------------------------------------


def heard(conn: psycopg.Connection[Any], seconds: float = 0.0) -> list[tuple[str, str]]:
    return [(note.channel, note.payload) for note in conn.notifies(timeout=seconds, stop_after=1)]


def test_a_listener_is_told(q: Api) -> None:
    q.run("select pgmq.enable_notify_insert('q')", 'listen "pgmq.q_q.INSERT"', "select pgmq.send('q', '1')")
    assert heard(q.conn) == [("pgmq.q_q.INSERT", "")]


def test_another_session_is_told_at_commit(q: Api) -> None:
    q.run("select pgmq.enable_notify_insert(queue_name => 'q', throttle_interval_ms => 0)")
    with q.database.connect() as listener:
        listener.execute('listen "pgmq.q_q.INSERT"')
        q.run("begin", "select pgmq.send('q', '1')", "select pgmq.send('q', '2')")
        assert heard(listener) == []
        q.run("commit")
        assert heard(listener, 5) == [("pgmq.q_q.INSERT", "")]
        assert heard(listener) == []


def test_nobody_is_told_of_what_is_rolled_back(q: Api) -> None:
    q.run("select pgmq.enable_notify_insert('q', 0)", 'listen "pgmq.q_q.INSERT"')
    q.run("begin", "select pgmq.send('q', '1')", "rollback")
    assert heard(q.conn) == []


def test_a_throttle(q: Api) -> None:
    q.run("select pgmq.enable_notify_insert('q', 3600000)", 'listen "pgmq.q_q.INSERT"')
    throttles = "select queue_name, throttle_interval_ms, last_notified_at > now() - interval '5 s'"
    throttles += " from pgmq.list_notify_insert_throttles()"
    assert q.rows(throttles) == [("q", 3600000, False)]
    q.run("select pgmq.send('q', '1')")
    assert len(heard(q.conn)) == 1
    assert q.rows(throttles) == [("q", 3600000, True)]
    q.run("select pgmq.send('q', '2')")
    assert heard(q.conn) == []
    q.run("select pgmq.update_notify_insert('q', 0)")
    assert q.rows(throttles) == [("q", 0, False)]
    for message in "34":
        q.rows("select pgmq.send('q', %s::jsonb)", message)
        assert len(heard(q.conn)) == 1


def test_notification_is_switched_off(q: Api) -> None:
    q.run("select pgmq.disable_notify_insert('q')")
    q.run("select pgmq.enable_notify_insert('q', 0)", 'listen "pgmq.q_q.INSERT"')
    q.run("select pgmq.disable_notify_insert(queue_name => 'q')", "select pgmq.send('q', '1')")
    assert heard(q.conn) == []
    assert q.rows("select * from pgmq.list_notify_insert_throttles()") == []


def test_a_trigger_made_by_hand_lets_messages_through(q: Api) -> None:
    """Users call pgmq's trigger function from triggers of their own, before the row too."""
    call = "for each row execute function pgmq.notify_queue_listeners()"
    q.run(f"create trigger mine before insert on pgmq.q_q {call}")
    assert q.value("select pgmq.send('q', '1')") == 1
    assert q.column("select msg_id from pgmq.q_q") == [1]


def test_enabling_again_starts_anew(q: Api) -> None:
    for _ in range(2):
        q.run(
            "select pgmq.enable_notify_insert('q', 3600000)",
            'listen "pgmq.q_q.INSERT"',
            "select pgmq.send('q', '1')",
        )
        assert len(heard(q.conn)) == 1
    assert len(q.rows("select * from pgmq.list_notify_insert_throttles()")) == 1


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("enable_notify_insert('nope')", "P0001"),
        ("enable_notify_insert('q', -1)", "P0001"),
        ("enable_notify_insert('q', null)", "23502"),
        ("update_notify_insert('nope', 0)", "P0001"),
        ("update_notify_insert('q', -1)", "P0001"),
        ("update_notify_insert('q', 0)", "P0001"),
        ("notify_queue_listeners()", "0A000"),
    ],
)
def test_what_notification_refuses(q: Api, call: str, sqlstate: str) -> None:
    assert q.error(f"select pgmq.{call}")[0] == sqlstate


# --- all of it ------------------------------------------------------------

# Partitions: the reference cannot without pg_partman; tests/sql has ours.
ELSEWHERE = {"create_partitioned", "convert_archive_partitioned"}


def test_every_function_is_called_somewhere_here(api: Api) -> None:
    public = "select distinct proname::text from pg_proc where pronamespace = 'pgmq'::regnamespace"
    functions = set(api.column(public + " and left(proname, 1) <> '_'")) - ELSEWHERE
    suite = "".join(path.read_text() for path in Path(__file__).parent.glob("test_api*.py"))
    assert {name for name in functions if not re.search(rf"\b{name}\b", suite)} == set()
