"""Topics: the right values of public reports."""

from __future__ import annotations

import pytest

from tests.databases import Database
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value


@pytest.fixture
def conn(shared: Connection) -> Connection:
    do(shared, "select pgmq.create('errors'), pgmq.create('all'), pgmq.create('Other')")
    return shared


def lengths(conn: Connection) -> dict[str, int]:
    return dict(rows(conn, "select queue_name, queue_length from pgmq.metrics_all()"))


def test_a_pattern_routes_to_many_queues(conn: Connection) -> None:
    """case 127: counts as bound; and when one queue refuses, none has the message."""
    do(conn, "select pgmq.bind_topic('logs.*.error', 'errors'), pgmq.bind_topic('logs.#', 'all')")
    assert value(conn, "select pgmq.send_topic('logs.api.error', '1')") == 2
    assert value(conn, "select pgmq.send_topic('logs.db.info', '1')") == 1
    assert value(conn, "select pgmq.send_topic('nothing.here', '1')") == 0
    assert lengths(conn) == {"errors": 1, "all": 2, "Other": 0}
    do(conn, "alter table pgmq.q_errors add check (message <> '13')")
    assert sqlstate(conn, "select pgmq.send_topic('logs.api.error', '13')") == "23514"
    assert lengths(conn) == {"errors": 1, "all": 2, "Other": 0}


def test_a_hash_needs_its_dot(conn: Connection, reference_db: Database) -> None:
    """case 128: compatible with what pgmq does, whatever its manual says: logs.# does not match logs."""
    reference = reference_db.connect()
    do(reference, "select pgmq.create('all')")
    found = []
    for side in (reference, conn):
        do(side, "select pgmq.bind_topic('logs.#', 'all'), pgmq.bind_topic('#.x.#', 'all')")
        keys = ("logs", "logs.a", "logs.a.b", "logs.", "x", "a.x", "x.b", "a.x.b")
        query = "select pattern, compiled_regex from pgmq.test_routing(%s)"
        found.append({key: rows(side, query, key) for key in keys if not key.endswith(".")})
    assert found[0] == found[1]
    assert found[1]["logs"] == []
    assert len(found[1]["logs.a.b"]) == 1


def test_a_batch_by_topic(conn: Connection) -> None:
    """case 129: three messages to two queues are six rows; as many headers as messages, or none."""
    do(conn, "select pgmq.bind_topic('a.*', 'errors'), pgmq.bind_topic('a.#', 'all')")
    batch = "select queue_name, msg_id from pgmq.send_batch_topic('a.b', array['1', '2', '3']::jsonb[]{})"
    assert rows(conn, batch.format("")) == [(q, n) for q in ("all", "errors") for n in (1, 2, 3)]
    state, message = outcome(conn, batch.format(", array['{}', '{}']::jsonb[]"))
    assert (state, message) == ("P0001", "headers array length (2) must match msgs array length (3)")
    do(conn, "select pgmq.send_batch_topic('a.b', array['4']::jsonb[], array['{\"h\": 1}']::jsonb[], 60)")
    assert rows(conn, "select message, headers, vt > now() from pgmq.q_all where msg_id = 4") == [
        (4, {"h": 1}, True)
    ]


def test_two_patterns_of_one_queue_deliver_once(conn: Connection) -> None:
    """case 130: one message, several consumers, a copy each; and not two."""
    for pattern in ("a.*", "a.#", "#"):
        do(conn, "select pgmq.bind_topic(%s, 'all'), pgmq.bind_topic(%s, 'errors')", pattern, pattern)
    do(conn, "select pgmq.bind_topic('a.b', 'Other')")
    assert value(conn, "select pgmq.send_topic('a.b', '1')") == 3
    assert lengths(conn) == {"errors": 1, "all": 1, "Other": 1}


def test_a_queue_that_comes_later_gets_what_comes_later(conn: Connection) -> None:
    """case 131: a new consumer gets nothing of before; only archives keep it."""
    do(conn, "select pgmq.bind_topic('a', 'all'), pgmq.send_topic('a', '1')")
    do(conn, "select pgmq.bind_topic('a', 'errors'), pgmq.send_topic('a', '2')")
    assert column(conn, "select message from pgmq.read('errors', 30, 9)") == [2]


def test_bindings_follow_their_queue(conn: Connection) -> None:
    """Bound twice it is one; the queue's own spelling is kept; they go when the queue goes."""
    do(conn, "select pgmq.bind_topic('a', 'OTHER'), pgmq.bind_topic('a', 'Other')")
    assert rows(conn, "select pattern, queue_name from pgmq.list_topic_bindings()") == [("a", "Other")]
    assert column(conn, "select pattern from pgmq.list_topic_bindings('other')") == ["a"]
    assert value(conn, "select pgmq.unbind_topic('b', 'Other')") is False
    assert value(conn, "select pgmq.unbind_topic('a', 'other')") is True
    do(conn, "select pgmq.bind_topic('a', 'Other'), pgmq.drop_queue('Other')")
    assert rows(conn, "select * from pgmq.list_topic_bindings()") == []
    assert value(conn, "select pgmq.send_topic('a', '1')") == 0


@pytest.mark.parametrize("pattern", ["a.b", "a-b_c.D", "x.*", "#", "*.#.z"])
def test_a_pattern_is_no_regular_expression(conn: Connection, pattern: str) -> None:
    do(conn, "select pgmq.bind_topic(%s, 'all')", pattern)
    assert column(conn, "select queue_name from pgmq.test_routing('aXb')") == (
        ["all"] if pattern == "#" else []
    )


@pytest.mark.parametrize(
    "pattern", ["a..b", ".a", "a.", "a.**", "##", "*#", "a b", "a'b", "a;b", "(a|b)", "a\\d", ""]
)
def test_odd_patterns_are_refused(conn: Connection, pattern: str) -> None:
    assert sqlstate(conn, "select pgmq.bind_topic(%s, 'all')", pattern) == "P0001"
    assert rows(conn, "select * from pgmq.topic_bindings") == []
