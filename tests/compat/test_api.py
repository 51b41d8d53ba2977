"""The SQL API over messages, written once and run on pgmq and on ours: sending, reading, ending.

Groups, queues, topics: the files beside this one.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from tests.compat.conftest import Api

NOW = "vt between clock_timestamp() - interval '5 s' and clock_timestamp()"
IN_A_MINUTE = "vt between clock_timestamp() + interval '50 s' and clock_timestamp() + interval '70 s'"
MINUTE = "clock_timestamp() + interval '1 minute'"

# Every overload, by position, by name and with literals that have no type, as documentation shows them.
SENDS = {
    "msg": ("""pgmq.send('q', '{"a": 1}')""", None, NOW),
    "msg typed": ("""pgmq.send('q'::text, '{"a": 1}'::jsonb)""", None, NOW),
    "msg by name": ("""pgmq.send(queue_name => 'q', msg => '{"a": 1}')""", None, NOW),
    "delay": ("""pgmq.send('q', '{"a": 1}', 60)""", None, IN_A_MINUTE),
    "delay by name": ("""pgmq.send(queue_name => 'q', msg => '{"a": 1}', delay => 60)""", None, IN_A_MINUTE),
    "no delay": ("""pgmq.send('q', '{"a": 1}', 0)""", None, NOW),
    "moment": (f"""pgmq.send('q', '{{"a": 1}}', {MINUTE})""", None, IN_A_MINUTE),
    "headers": ("""pgmq.send('q', '{"a": 1}', '{"h": 2}'::jsonb)""", {"h": 2}, NOW),
    "headers by name": ("""pgmq.send('q', '{"a": 1}', headers => '{"h": 2}')""", {"h": 2}, NOW),
    "headers, delay": ("""pgmq.send('q', '{"a": 1}', '{"h": 2}', 60)""", {"h": 2}, IN_A_MINUTE),
    "headers, moment": (f"""pgmq.send('q', '{{"a": 1}}', '{{"h": 2}}', {MINUTE})""", {"h": 2}, IN_A_MINUTE),
    "null headers": ("""pgmq.send('q', '{"a": 1}', null::jsonb)""", None, NOW),
}


@pytest.mark.parametrize(("call", "headers", "visible"), SENDS.values(), ids=SENDS.keys())
def test_send(q: Api, call: str, headers: Any, visible: str) -> None:
    assert q.value(f"select * from {call}") == 1
    query = f"select message, headers, read_ct, last_read_at, {visible}, enqueued_at <= now() from pgmq.q_q"
    assert q.row(query) == ({"a": 1}, headers, 0, None, True, True)


def test_what_a_trigger_keeps_out_is_no_row(q: Api) -> None:
    """As users do who keep doubles out of a queue."""
    q.run(
        "create function veto() returns trigger language plpgsql as $$ begin return null; end $$",
        "create trigger veto before insert on pgmq.q_q for each row execute function veto()",
    )
    assert q.rows("select * from pgmq.send('q', '1')") == []
    assert q.rows("select * from pgmq.send_batch('q', array['1', '2']::jsonb[])") == []
    q.run("drop function veto cascade")


BATCH = """array['{"a": 1}', '{"a": 2}']::jsonb[]"""
HEADERS = """array['{"h": 1}', null]::jsonb[]"""
SEND_BATCHES = {
    "msgs": (f"pgmq.send_batch('q', {BATCH})", None, NOW),
    "msgs by name": (f"pgmq.send_batch(queue_name => 'q', msgs => {BATCH})", None, NOW),
    "delay": (f"pgmq.send_batch('q', {BATCH}, 60)", None, IN_A_MINUTE),
    "moment": (f"pgmq.send_batch('q', {BATCH}, {MINUTE})", None, IN_A_MINUTE),
    "headers": (f"pgmq.send_batch('q', {BATCH}, {HEADERS})", {"h": 1}, NOW),
    "headers, delay": (f"pgmq.send_batch('q', {BATCH}, {HEADERS}, 60)", {"h": 1}, IN_A_MINUTE),
    "headers, moment": (f"pgmq.send_batch('q', {BATCH}, {HEADERS}, {MINUTE})", {"h": 1}, IN_A_MINUTE),
    "null headers": (f"pgmq.send_batch('q', {BATCH}, null::jsonb[])", None, NOW),
}


@pytest.mark.parametrize(("call", "headers", "visible"), SEND_BATCHES.values(), ids=SEND_BATCHES.keys())
def test_send_batch(q: Api, call: str, headers: Any, visible: str) -> None:
    assert q.column(f"select * from {call}") == [1, 2]
    query = f"select message, headers, {visible} from pgmq.q_q order by msg_id"
    assert q.rows(query) == [({"a": 1}, headers, True), ({"a": 2}, None, True)]


@pytest.mark.parametrize(
    "args",
    ["null::jsonb[]", "'{}'::jsonb[]", f"{BATCH}, array['{{}}']::jsonb[]", f"{BATCH}, '{{}}'::jsonb[]"],
)
def test_send_batch_refuses(q: Api, args: str) -> None:
    assert q.error(f"select pgmq.send_batch('q', {args})")[0] == "P0001"
    assert q.value("select count(*) from pgmq.q_q") == 0


@pytest.mark.parametrize("message", ["null", "7", '"text"', "[1, [2]]", "{}", '{"ü": "→"}', None])
def test_any_json_is_a_message(q: Api, message: str | None) -> None:
    q.rows("select pgmq.send('q', %s::jsonb)", message)
    assert q.value("select message from pgmq.read('q', 0, 1)") == q.value("select %s::jsonb", message)


@pytest.mark.parametrize("delay", ["null::integer", "null::timestamptz"])
def test_a_null_delay_is_refused(q: Api, delay: str) -> None:
    assert q.error(f"select pgmq.send('q', '1', {delay})")[0] == "23502"
    assert q.error(f"select pgmq.send_batch('q', {BATCH}, {delay})")[0] == "23502"


@pytest.mark.parametrize(
    ("delay", "visible"),
    [
        ("-30", True),
        ("2147483647", False),
        ("'-infinity'::timestamptz", True),
        ("'infinity'::timestamptz", False),
        ("'1999-01-01'::timestamptz", True),
        ("'2099-01-01'::timestamptz", False),
    ],
)
def test_a_delay_may_be_anything(q: Api, delay: str, visible: bool) -> None:
    q.run(f"select pgmq.send('q', '1', {delay})")
    assert len(q.rows("select * from pgmq.read('q', 30, 1)")) == int(visible)


def test_a_delayed_message_comes_when_its_time_has_come(q: Api) -> None:
    q.run("select pgmq.send('q', '1', 20)", "select pgmq.send('q', '2')")
    assert q.column("select message from pgmq.read('q', 100, 10)") == [2]
    q.travel(20)
    assert q.column("select message from pgmq.read('q', 100, 10)") == [1]


# --- read and pop ------------------------------------------------------------------------------


def test_read(q: Api) -> None:
    q.run(f"select pgmq.send_batch('q', {BATCH}, {HEADERS})")
    query = """select msg_id, read_ct, message, headers, enqueued_at <= now(),
        last_read_at between now() and clock_timestamp(), extract(epoch from vt - last_read_at)::integer = 30
        from pgmq.read('q', 30, 1)"""
    assert q.rows(query) == [(1, 1, {"a": 1}, {"h": 1}, True, True, True)]
    assert q.rows(query) == [(2, 1, {"a": 2}, None, True, True, True)]
    assert q.rows(query) == []
    q.travel(30)
    assert q.rows(query) == [(1, 2, {"a": 1}, {"h": 1}, True, True, True)]


def test_read_gives_the_oldest_first(q: Api) -> None:
    q.run("select pgmq.send('q', to_jsonb(n)) from generate_series(1, 20) n")
    assert q.ids("select msg_id from pgmq.read('q', 0, 7)") == list(range(1, 8))
    assert q.ids("select msg_id from pgmq.read('q', 50, 3)") == [1, 2, 3]
    assert q.ids("select msg_id from pgmq.read('q', 20, 100)") == list(range(4, 21))
    q.travel(50)
    assert q.ids("select msg_id from pgmq.read('q', 20, 100)") == list(range(1, 21))


@pytest.mark.parametrize(
    ("args", "count"),
    [
        ("0, 2", 2),
        ("vt => 0, qty => 2", 2),
        ("0, 0", 0),
        ("0, null", 3),
        ("0, 2147483647", 3),
        ("-30, 2", 2),
        ("0, 5, '{}'", 3),
        ("0, 5, null", 3),
        ("""0, 5, '{"a": 1}'""", 1),
        ("""0, 5, conditional => '{"b": {"c": [2]}}'""", 1),
        ("""0, 5, '{"a": 9}'""", 0),
    ],
)
def test_how_many_are_read(q: Api, args: str, count: int) -> None:
    q.run("""select pgmq.send_batch('q', array['{"a": 1}', '{"b": {"c": [1, 2]}}', '7']::jsonb[])""")
    assert len(q.rows(f"select * from pgmq.read('q', {args})")) == count


def test_what_read_refuses(q: Api) -> None:
    q.run("select pgmq.send('q', '1')")
    assert q.error("select * from pgmq.read('q', 0, -1)")[0] == "2201W"
    assert q.error("select * from pgmq.read('q', null, 1)")[0] == "23502"
    assert q.error("select * from pgmq.pop('q', -1)")[0] == "2201W"


def test_pop(q: Api) -> None:
    q.run(
        f"select pgmq.send_batch('q', {BATCH}, {HEADERS})",
        "select pgmq.send('q', '3')",
        "select pgmq.send('q', '4', 60)",
    )
    query = "select msg_id, read_ct, last_read_at, message, headers from pgmq.pop"
    assert q.rows(f"{query}('q')") == [(1, 0, None, {"a": 1}, {"h": 1})]
    assert q.rows(f"{query}('q', 0)") == []
    assert q.rows(f"{query}(queue_name => 'q', qty => 5)") == [
        (2, 0, None, {"a": 2}, None),
        (3, 0, None, 3, None),
    ]
    assert q.rows(f"{query}('q')") == []
    assert q.column("select message from pgmq.q_q") == [4]


def test_a_read_that_is_rolled_back_did_not_happen(q: Api) -> None:
    q.run("select pgmq.send('q', '1')", "begin")
    assert q.column("select msg_id from pgmq.read('q', 60, 1)") == [1]
    assert q.column("select msg_id from pgmq.read('q', 60, 1)") == []
    q.run("rollback")
    assert q.rows("select msg_id, read_ct from pgmq.read('q', 60, 1)") == [(1, 1)]


def test_what_a_transaction_sends_it_can_read_and_others_see_at_its_commit(q: Api) -> None:
    with q.database.connect() as other:
        q.run("begin")
        assert q.value("select pgmq.send('q', '1')") == 1
        assert other.execute("select * from pgmq.read('q', 0, 1)").fetchall() == []
        assert q.column("select msg_id from pgmq.read('q', 0, 1)") == [1]
        q.run("commit")
        assert other.execute("select msg_id from pgmq.read('q', 0, 1)").fetchall() == [(1,)]


def test_two_readers_never_get_the_same_message(q: Api) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2', '3']::jsonb[])")
    with q.database.connect(autocommit=False) as other:
        assert other.execute("select msg_id from pgmq.read('q', 60, 1)").fetchall() == [(1,)]
        assert q.column("select msg_id from pgmq.read('q', 60, 1)") == [2]
        assert q.column("select msg_id from pgmq.pop('q', 5)") == [3]


# --- polling -----------------------------------------------------------------------------------

POLLS = (
    "read_with_poll",
    "read_grouped_with_poll",
    "read_grouped_rr_with_poll",
    "read_grouped_head_with_poll",
)


@pytest.mark.parametrize("function", POLLS)
def test_a_poll_returns_at_once_what_is_there(q: Api, function: str) -> None:
    q.run("select pgmq.send('q', '1')")
    began = time.monotonic()
    assert q.column(f"select msg_id from pgmq.{function}('q', 60, 5)") == [1]
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("function", POLLS)
def test_a_poll_waits_as_long_as_its_window(q: Api, function: str) -> None:
    began = time.monotonic()
    window = "max_poll_seconds => 1, poll_interval_ms => 20"
    assert q.rows(f"select * from pgmq.{function}('q', 60, 5, {window})") == []
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("function", POLLS)
def test_a_poll_sees_what_is_committed_while_it_waits(q: Api, function: str) -> None:
    found: list[Any] = []
    query = f"select msg_id from pgmq.{function}('q', 60, 5, 20, 10)"
    reader = threading.Thread(target=lambda: found.extend(q.column(query)))
    reader.start()
    with q.database.connect() as other:
        while not _polls(other):
            assert reader.is_alive()
        other.execute("select pgmq.send('q', '1')")
    reader.join(timeout=10)
    assert found == [1]


def _polls(conn: psycopg.Connection[Any]) -> bool:
    """Whether some session of this database sleeps between two looks."""
    query = (
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    )
    return conn.execute(query).fetchone() != (0,)


def test_a_poll_with_a_condition(q: Api) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2']::jsonb[])")
    assert q.column("select msg_id from pgmq.read_with_poll('q', 60, 5, 1, 10, '2')") == [2]
    assert q.column("select msg_id from pgmq.read_with_poll('q', 60, 5, 1, 10, conditional => '2')") == []


# --- delete, archive, set_vt -------------------------------------------------------------------


def test_delete(q: Api) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2', '3', '4']::jsonb[])")
    assert q.value("select pgmq.delete('q', 1)") is True
    assert q.value("select pgmq.delete('q', 1)") is False
    assert q.value("select pgmq.delete('q', null::bigint)") is False
    assert q.value("select pgmq.delete(queue_name => 'q', msg_id => 2)") is True
    assert sorted(q.column("select pgmq.delete('q', array[4, 3, 3, 99, null])")) == [3, 4]
    assert q.column("select pgmq.delete('q', '{}'::bigint[])") == []
    assert q.column("select pgmq.delete('q', null::bigint[])") == []
    assert q.value("select count(*) from pgmq.q_q") == 0
    assert q.value("select count(*) from pgmq.a_q") == 0


def test_archive(q: Api) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2', '3', '4']::jsonb[])", "select pgmq.read('q', 60, 1)")
    q.run("""update pgmq.q_q set headers = '{"h": 1}' where msg_id = 1""")
    columns = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
    before = q.row(f"select {columns} from pgmq.q_q where msg_id = 1")
    assert q.value("select pgmq.archive('q', 1)") is True
    assert q.row(f"select {columns} from pgmq.a_q") == before
    assert q.value("select archived_at between now() - interval '5 s' and now() from pgmq.a_q") is True
    assert q.value("select pgmq.archive('q', 1)") is False
    assert q.value("select pgmq.archive('q', null::bigint)") is False
    assert q.value("select pgmq.archive(queue_name => 'q', msg_id => 2)") is True
    assert sorted(q.column("select pgmq.archive('q', array[4, 3, 3, 99, null])")) == [3, 4]
    assert q.column("select pgmq.archive('q', '{}'::bigint[])") == []
    assert q.column("select pgmq.archive('q', null::bigint[])") == []
    assert q.value("select count(*) from pgmq.q_q") == 0
    assert q.column("select msg_id from pgmq.a_q order by msg_id") == [1, 2, 3, 4]


SET_VTS = {
    "one, seconds": ("pgmq.set_vt('q', 2, 60)", [2]),
    "one, moment": (f"pgmq.set_vt('q', 2, {MINUTE})", [2]),
    "one by name": ("pgmq.set_vt(queue_name => 'q', msg_id => 2, vt => 60)", [2]),
    "one absent": ("pgmq.set_vt('q', 99, 60)", []),
    "many, seconds": ("pgmq.set_vt('q', array[3, 1, 1, 99, null], 60)", [1, 3]),
    "many, moment": (f"pgmq.set_vt('q', array[3, 1], {MINUTE})", [1, 3]),
    "many by name": ("pgmq.set_vt(queue_name => 'q', msg_ids => array[3, 1], vt => 60)", [1, 3]),
    "none": ("pgmq.set_vt('q', '{}'::bigint[], 60)", []),
    "null": ("pgmq.set_vt('q', null::bigint[], 60)", []),
}


@pytest.mark.parametrize(("call", "ids"), SET_VTS.values(), ids=SET_VTS.keys())
def test_set_vt(q: Api, call: str, ids: list[int]) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2', '3']::jsonb[])")
    rows = q.rows(f"select msg_id, read_ct, last_read_at, message, headers, {IN_A_MINUTE} from {call}")
    assert sorted(rows) == [(number, 0, None, number, None, True) for number in ids]
    assert q.column(f"select msg_id from pgmq.q_q where {IN_A_MINUTE} order by msg_id") == ids


@pytest.mark.parametrize("back", ["0", "-30", "clock_timestamp()", "'-infinity'::timestamptz"])
def test_set_vt_gives_a_message_back(q: Api, back: str) -> None:
    q.run("select pgmq.send_batch('q', array['1', '2']::jsonb[])", "select pgmq.read('q', 3600, 1)")
    q.run(f"select pgmq.set_vt('q', 1, {back})")
    assert q.ids("select msg_id from pgmq.read('q', 60, 5)") == [1, 2]
    assert q.column("select read_ct from pgmq.q_q order by msg_id") == [2, 1]


def test_set_vt_may_hide_for_good(q: Api) -> None:
    q.run("select pgmq.send('q', '1')", "select pgmq.set_vt('q', 1, 'infinity'::timestamptz)")
    assert q.rows("select * from pgmq.read('q', 60, 5)") == []
    assert q.error("select pgmq.set_vt('q', 1, null::integer)")[0] == "23502"
