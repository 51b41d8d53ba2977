"""The SQL API over topics, written once and run on pgmq and on ours."""

from __future__ import annotations

import pytest

from tests.compat.conftest import Api

IN_A_MINUTE = "vt between clock_timestamp() + interval '50 s' and clock_timestamp() + interval '70 s'"
NOW = "vt between clock_timestamp() - interval '5 s' and clock_timestamp()"
MINUTE = "clock_timestamp() + interval '1 minute'"


@pytest.fixture
def topics(api: Api) -> Api:
    """Queues one, Two, three; orders.* goes to one and Two, orders.# to Two, # to none."""
    api.run("select pgmq.create('one'), pgmq.create('Two'), pgmq.create('three')")
    api.run("select pgmq.bind_topic('orders.*', 'one')", "select pgmq.bind_topic('orders.*', 'Two')")
    api.run("select pgmq.bind_topic(pattern => 'orders.#', queue_name => 'Two')")
    return api


def test_bind_topic(topics: Api) -> None:
    topics.run("select pgmq.bind_topic('orders.*', 'one')")
    query = "select pattern, queue_name, bound_at <= now(), compiled_regex from pgmq.list_topic_bindings"
    rows = [
        ("orders.#", "Two", True, r"^orders\..*$"),
        ("orders.*", "Two", True, r"^orders\.[^.]+$"),
        ("orders.*", "one", True, r"^orders\.[^.]+$"),
    ]
    assert topics.rows(f"{query}()") == rows
    assert topics.rows(f"{query}('Two')") == rows[:2]
    assert topics.rows(f"{query}(queue_name => 'one')") == rows[2:]
    assert topics.rows(f"{query}('nope')") == []


def test_unbind_topic(topics: Api) -> None:
    assert topics.value("select pgmq.unbind_topic('orders.*', 'Two')") is True
    assert topics.value("select pgmq.unbind_topic('orders.*', 'Two')") is False
    assert topics.value("select pgmq.unbind_topic(pattern => 'a', queue_name => 'nope')") is False
    assert topics.column("select pattern from pgmq.list_topic_bindings()") == ["orders.#", "orders.*"]


def test_test_routing(topics: Api) -> None:
    query = "select pattern, queue_name, compiled_regex from pgmq.test_routing"
    assert sorted(topics.rows(f"{query}('orders.eu')")) == [
        ("orders.#", "Two", r"^orders\..*$"),
        ("orders.*", "Two", r"^orders\.[^.]+$"),
        ("orders.*", "one", r"^orders\.[^.]+$"),
    ]
    assert topics.rows(f"{query}(routing_key => 'orders.eu.x')") == [("orders.#", "Two", r"^orders\..*$")]
    assert topics.rows(f"{query}('orders')") == []


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("a.b", ["a.b"], ["a.bc", "xa.b", "a-b", "A.b"]),
        ("a.*", ["a.b", "a.b-c_d"], ["a", "a.b.c"]),
        ("*.b", ["a.b"], ["b", "a.a.b"]),
        ("a.#", ["a.b", "a.b.c"], ["a", "b.a.c"]),
        ("#", ["a", "a.b.c"], []),
        ("#.c", ["a.c", "a.b.c"], ["c"]),
        ("*.*", ["a.b"], ["a", "a.b.c"]),
        ("a.*.#", ["a.b.c", "a.b.c.d"], ["a.b"]),
    ],
)
def test_patterns(api: Api, pattern: str, matches: list[str], others: list[str]) -> None:
    api.run("select pgmq.create('q')")
    api.rows("select pgmq.bind_topic(%s, 'q')", pattern)
    found = [key for key in matches + others if api.rows("select * from pgmq.test_routing(%s)", key)]
    assert found == matches


SENDS = {
    "msg": ("""pgmq.send_topic('orders.eu', '{"a": 1}')""", None, NOW),
    "msg by name": ("""pgmq.send_topic(routing_key => 'orders.eu', msg => '{"a": 1}')""", None, NOW),
    "delay": ("""pgmq.send_topic('orders.eu', '{"a": 1}', 60)""", None, IN_A_MINUTE),
    "headers, delay": ("""pgmq.send_topic('orders.eu', '{"a": 1}', '{"h": 2}', 60)""", {"h": 2}, IN_A_MINUTE),
    "headers": ("""pgmq.send_topic('orders.eu', '{"a": 1}', '{"h": 2}', 0)""", {"h": 2}, NOW),
}


@pytest.mark.parametrize(("call", "headers", "visible"), SENDS.values(), ids=SENDS.keys())
def test_send_topic(topics: Api, call: str, headers: object, visible: str) -> None:
    """Once to each queue, however many of its patterns match."""
    assert topics.value(f"select {call}") == 2
    for queue in ("one", "two"):
        assert topics.rows(f"select msg_id, message, headers, {visible} from pgmq.q_{queue}") == [
            (1, {"a": 1}, headers, True)
        ]
    assert topics.value("select count(*) from pgmq.q_three") == 0


BATCH = """array['{"a": 1}', '{"a": 2}']::jsonb[]"""
HEADERS = """array['{"h": 1}', null]::jsonb[]"""
BATCHES = {
    "msgs": (f"pgmq.send_batch_topic('orders.eu', {BATCH})", None, NOW),
    "by name": (f"pgmq.send_batch_topic(routing_key => 'orders.eu', msgs => {BATCH})", None, NOW),
    "headers": (f"pgmq.send_batch_topic('orders.eu', {BATCH}, {HEADERS})", {"h": 1}, NOW),
    "delay": (f"pgmq.send_batch_topic('orders.eu', {BATCH}, 60)", None, IN_A_MINUTE),
    "moment": (f"pgmq.send_batch_topic('orders.eu', {BATCH}, {MINUTE})", None, IN_A_MINUTE),
    "headers, delay": (f"pgmq.send_batch_topic('orders.eu', {BATCH}, {HEADERS}, 60)", {"h": 1}, IN_A_MINUTE),
    "headers, moment": (
        f"pgmq.send_batch_topic('orders.eu', {BATCH}, {HEADERS}, {MINUTE})",
        {"h": 1},
        IN_A_MINUTE,
    ),
}


@pytest.mark.parametrize(("call", "headers", "visible"), BATCHES.values(), ids=BATCHES.keys())
def test_send_batch_topic(topics: Api, call: str, headers: object, visible: str) -> None:
    rows = topics.rows(f"select queue_name, msg_id from {call}")
    assert sorted(rows) == [("Two", 1), ("Two", 2), ("one", 1), ("one", 2)]
    for queue in ("one", "two"):
        query = f"select message, headers, {visible} from pgmq.q_{queue} order by msg_id"
        assert topics.rows(query) == [({"a": 1}, headers, True), ({"a": 2}, None, True)]


def test_a_key_that_matches_nothing(topics: Api) -> None:
    assert topics.value("select pgmq.send_topic('nothing', '1')") == 0
    assert topics.rows(f"select * from pgmq.send_batch_topic('nothing', {BATCH})") == []


def test_all_queues_or_none(topics: Api) -> None:
    topics.run("alter table pgmq.q_two add constraint refuses check (message <> '7')")
    assert topics.error("select pgmq.send_topic('orders.eu', '7')")[0] == "23514"
    assert topics.error("select pgmq.send_batch_topic('orders.eu', array['1', '7']::jsonb[])")[0] == "23514"
    assert topics.value("select count(*) from pgmq.q_one") == 0


BAD_PATTERNS = ["", None, ".a", "a.", "a..b", "a.**", "a.##", "a.*#", "a.#*", "a b", "a!", "ü", "x" * 256]
BAD_KEYS = ["", None, ".a", "a.", "a..b", "a.*", "#", "a b", "a!", "ü", "x" * 256]


@pytest.mark.parametrize("pattern", BAD_PATTERNS)
def test_patterns_that_are_refused(topics: Api, pattern: str | None) -> None:
    assert topics.error("select pgmq.validate_topic_pattern(%s)", pattern)[0] == "P0001"
    assert topics.error("select pgmq.bind_topic(%s, 'one')", pattern)[0] == "P0001"


@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_are_refused(topics: Api, key: str | None) -> None:
    assert topics.error("select pgmq.validate_routing_key(%s)", key)[0] == "P0001"
    assert topics.error("select pgmq.send_topic(%s, '1')", key)[0] == "P0001"
    assert topics.error("select pgmq.send_batch_topic(%s, array['1']::jsonb[])", key)[0] == "P0001"
    assert topics.error("select * from pgmq.test_routing(%s)", key)[0] == "P0001"


@pytest.mark.parametrize("text", ["a", "a.b-c_d.E9", "x" * 255])
def test_what_is_allowed(api: Api, text: str) -> None:
    assert api.value("select pgmq.validate_routing_key(%s)", text) is True
    assert api.value("select pgmq.validate_topic_pattern(%s)", text) is True


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("bind_topic('a', 'nope')", "P0001"),
        ("bind_topic('a', '')", "P0001"),
        ("bind_topic('a', null)", "P0001"),
        ("unbind_topic('', 'one')", "P0001"),
        ("unbind_topic(null, 'one')", "P0001"),
        ("unbind_topic('a', '')", "P0001"),
        ("unbind_topic('a', null)", "P0001"),
        ("send_topic('orders.eu', null)", "P0001"),
        ("send_topic('orders.eu', '1', -1)", "P0001"),
        ("send_topic('orders.eu', '1', null::integer)", "23502"),
        ("send_batch_topic('orders.eu', null::jsonb[])", "P0001"),
        ("send_batch_topic('orders.eu', '{}'::jsonb[])", "P0001"),
        ("send_batch_topic('orders.eu', array['1']::jsonb[], '{}'::jsonb[])", "P0001"),
        ("send_batch_topic('orders.eu', array['1']::jsonb[], null::timestamptz)", "23502"),
    ],
)
def test_what_topics_refuse(topics: Api, call: str, sqlstate: str) -> None:
    assert topics.error(f"select pgmq.{call}")[0] == sqlstate
    assert topics.value("select count(*) from pgmq.q_one") == 0
