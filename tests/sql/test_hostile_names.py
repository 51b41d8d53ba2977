"""Hostile names: nothing executes, nothing redirects, and what can be made can be dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.errors import BadName
from pgqueue.names import object_name, tidy
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.catalogue import catalogue
from tests.sql.odd_names import ODD


def legal(name: str) -> bool:
    try:
        tidy(name)
    except BadName:
        return False
    return True


@pytest.fixture(scope="module")
def house(server: Cluster, template: str) -> Iterator[Database]:
    """A database with a canary and a neighbour, which the tests of this module share."""
    database = server.create_database(template)
    do(
        database.connect(),
        """
        create table public.canary as select 1 as alive;
        select pgmq.create('neighbour'), pgmq.enable_notify_insert('neighbour');
        select pgmq.bind_topic('n.#', 'neighbour');
        select pgmq.send_batch('neighbour', array['1', '2', '3']::jsonb[]);
        select pgmq.archive('neighbour', 3);
        """,
    )
    yield database
    database.drop()


@pytest.fixture
def conn(house: Database) -> Iterator[Connection]:
    """A connection; the test may leave queues behind, if it fails."""
    conn = house.connect()
    yield conn
    do(conn, "select pgmq.drop_queue(queue_name) from pgmq.meta where queue_name <> 'neighbour'")


def surroundings(conn: Connection) -> tuple[object, ...]:
    """All that a call on another queue must leave as it is."""
    return (
        rows(conn, "select * from public.canary"),
        rows(conn, "select * from pgmq.q_neighbour order by msg_id"),
        rows(conn, "select * from pgmq.a_neighbour order by msg_id"),
        rows(conn, "select count(*) from pg_class where relnamespace = 'public'::regnamespace"),
        catalogue(conn),
    )


def live(conn: Connection, name: str) -> None:
    """The whole life of a queue by its name; each answer is this queue's own."""
    body, header = {"of": name}, {"x-pgmq-group": name}
    send = "select pgmq.send(%s, to_jsonb(%s::json), to_jsonb(%s::json))"
    for number in (1, 2, 3, 4, 5):
        assert value(conn, send, name, _json(body), _json(header)) == number
    batch = "select * from pgmq.send_batch(%s, array[to_jsonb(%s::json), null])"
    assert column(conn, batch, name, _json(body)) == [6, 7]
    assert rows(conn, "select msg_id, message, headers from pgmq.read(%s, 0, 1)", name) == [(1, body, header)]
    poll = "select msg_id from pgmq.read_with_poll(%s, 0, 2, 1, 10, to_jsonb(%s::json))"
    assert column(conn, poll, name, _json(body)) == [1, 2]
    for way in ("read_grouped", "read_grouped_rr", "read_grouped_head"):
        assert column(conn, f"select msg_id from pgmq.{way}(%s, 0, 1)", name) == [1]
        assert column(conn, f"select msg_id from pgmq.{way}_with_poll(%s, 0, 1, 1, 10)", name) == [1]
    assert column(conn, "select msg_id from pgqueue.peek(%s, 3, 4)", name) == [5, 6, 7]
    assert column(conn, "select msg_id from pgmq.pop(%s)", name) == [1]
    assert column(conn, "select msg_id from pgmq.set_vt(%s, 2, 60)", name) == [2]
    many = "select msg_id from pgmq.set_vt(%s, array[2, 3]::bigint[], 0)"
    assert sorted(column(conn, many, name)) == [2, 3]
    assert value(conn, "select pgmq.delete(%s, 2)", name) is True
    assert column(conn, "select pgmq.delete(%s, array[2, 3]::bigint[])", name) == [3]
    assert value(conn, "select pgmq.archive(%s, 4)", name) is True
    assert column(conn, "select pgmq.archive(%s, array[4, 5]::bigint[])", name) == [5]
    assert column(conn, "select msg_id from pgqueue.fetch(%s, 30, 1, array[6]::bigint[])", name) == [7]
    do(conn, "select pgqueue.complete(%s, 7, 1)", name)
    metrics = rows(conn, "select queue_name, queue_length, total_messages from pgmq.metrics(%s)", name)
    assert metrics == [(name, 0, 7)]
    assert rows(conn, "select * from pgqueue.counts(%s)", name) == [(0, 0, 0)]
    do(conn, "select pgmq.send(%s, '1')", name)
    assert value(conn, "select pgmq.purge_queue(%s)", name) == 1


def furnish(conn: Connection, name: str) -> None:
    """Topics, notifications and the index over groups, by the queue's name."""
    do(conn, "select pgmq.bind_topic('t.*', %s)", name)
    assert column(conn, "select queue_name from pgmq.test_routing('t.x')") == [name]
    assert column(conn, "select queue_name from pgmq.list_topic_bindings(%s)", name) == [name]
    assert value(conn, "select pgmq.send_topic('t.x', '0')") == 1
    assert column(conn, "select queue_name from pgmq.send_batch_topic('t.x', array['0']::jsonb[])") == [name]
    assert value(conn, "select pgmq.purge_queue(%s)", name) == 2
    assert value(conn, "select pgmq.unbind_topic('t.*', %s)", name) is True
    do(conn, "select pgmq.create_fifo_index(%s)", name)
    channel = f"pgmq.q_{tidy(name).name}.INSERT"
    enabled = sqlstate(conn, "select pgmq.enable_notify_insert(%s, 0)", name)
    assert enabled == ("" if len(channel.encode()) <= 63 else "P0001")
    if not enabled:
        do(conn, "select pgmq.update_notify_insert(%s, 0)", name)
        throttles = "select queue_name from pgmq.list_notify_insert_throttles()"
        assert set(column(conn, throttles)) == {name, "neighbour"}
        do(conn, 'listen "' + channel.replace('"', '""') + '"')
        do(conn, "select pgmq.send(%s, '0')", name)
        assert [note.channel for note in conn.notifies(timeout=5, stop_after=1)] == [channel]
        do(conn, "select pgmq.disable_notify_insert(%s)", name)
        assert value(conn, "select pgmq.purge_queue(%s)", name) == 1


def _json(value: object) -> str:
    import json

    return json.dumps(value)


LEGAL = [name for name in ODD if legal(name)]
REFUSED = [name for name in ODD if not legal(name)]


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("create", ["create", "create_unlogged", "create_partitioned", "uncompiled"])
def test_a_legal_name_lives_and_leaves_nothing(conn: Connection, create: str, part: int) -> None:
    """case 2, case 5, case 6, case 12: every function works with the name, on this queue alone."""
    for name in LEGAL[part :: 6 if create == "create" else 30]:
        before = surroundings(conn)
        do(conn, f"select pgmq.{'create' if create == 'uncompiled' else create}(%s)", name)
        assert name in column(conn, "select queue_name from pgmq.list_queues()")
        if create == "uncompiled":
            do(conn, "select pgqueue.decompile(%s)", name)
        live(conn, name)
        furnish(conn, name)
        do(conn, "select pgmq.convert_archive_partitioned(%s)", name)
        do(conn, "select pgqueue.maintain()")
        if create != "create_partitioned":
            old = object_name("a_", tidy(name).name, "_old").replace('"', '""')
            do(conn, f'drop table pgmq."{old}"')
        assert value(conn, "select pgmq.drop_queue(%s)", name) is True
        assert surroundings(conn) == before, repr(name)
        assert value(conn, "select pgmq.drop_queue(%s)", name) is False


#: Functions that take a queue's name, and the rest of their arguments.
CALLS = {
    "pgmq.create": "",
    "pgmq.create_non_partitioned": "",
    "pgmq.create_unlogged": "",
    "pgmq.create_partitioned": ", '10', '100'",
    "pgmq.convert_archive_partitioned": ", '10', '100'",
    "pgmq.create_fifo_index": "",
    "pgmq.drop_queue": "",
    "pgmq.purge_queue": "",
    "pgmq.detach_archive": "",
    "pgmq.send": ", '1'",
    "pgmq.send_batch": ", array['1']::jsonb[]",
    "pgmq.read": ", 0, 1",
    "pgmq.read_with_poll": ", 0, 1, 0",
    "pgmq.read_grouped": ", 0, 1",
    "pgmq.read_grouped_rr": ", 0, 1",
    "pgmq.read_grouped_head": ", 0, 1",
    "pgmq.pop": "",
    "pgmq.delete": ", 1",
    "pgmq.archive": ", 1",
    "pgmq.set_vt": ", 1, 0",
    "pgmq.metrics": "",
    "pgmq.enable_notify_insert": "",
    "pgmq.update_notify_insert": ", 0",
    "pgmq.disable_notify_insert": "",
    "pgmq.format_table_name": ", 'q'",
    "pgmq.validate_queue_name": "",
    "pgqueue.compile": "",
    "pgqueue.decompile": "",
    "pgqueue.peek": "",
    "pgqueue.counts": "",
    "pgqueue.fetch": ", 0, 1",
    "pgqueue.complete": ", 1, 1",
}
CHARACTERS = "queue name contains invalid characters: $, ;, --, or \\'"


def test_a_refused_name_is_refused_by_all(conn: Connection) -> None:
    """case 4, case 6, case 7: the same answer from every function; nothing changes, nothing executes."""
    before = surroundings(conn)
    for name in REFUSED:
        for function, rest in CALLS.items():
            state, message = outcome(conn, f"select {function}(%s{rest})", name)
            what = f"{function} of {name!r}: {state} {message}"
            if any(mark in name for mark in ("$", ";", "--", "'")):
                assert message == CHARACTERS or f'"{name}"' in message, what
                assert state == "P0001", what
            elif function in ("pgmq.drop_queue", "pgmq.convert_archive_partitioned", "pgmq.detach_archive"):
                assert state == "", what
            elif ("create" in function and "fifo" not in function) or "validate" in function:
                assert state == "P0001" and ("too long" in message or "empty or blank" in message), what
            elif function != "pgmq.format_table_name":
                assert state in ("42P01", "P0001") and message == f'queue "{name}" does not exist', what
    assert surroundings(conn) == before


def test_a_name_that_is_null_is_refused_by_all(conn: Connection) -> None:
    """case 15"""
    for function, rest in CALLS.items():
        if function not in (
            "pgmq.format_table_name",
            "pgmq.detach_archive",
            "pgmq.convert_archive_partitioned",
        ):
            state, message = outcome(conn, f"select {function}(null{rest})")
            assert state in ("22004", "P0001"), f"{function}: {state} {message}"


# --- names that could meet ------------------------------------------------------------------------

LONG = "é" * 30
MEETING = [
    ("orders", "Orders"),
    ("i", "İ"),
    ("é", "É"),
    ("orders", "orders_ready_idx"),
    ("orders", "orders_waiting_idx"),
    ("orders", "orders_fifo_idx"),
    ("orders", "orders_pkey"),
    ("orders", "orders_msg_id_seq"),
    ("orders", "orders_msg_id_idx"),
    ("orders", "orders_default"),
    ("orders", "orders_old"),
    ("orders", "q_orders"),
    (LONG, LONG + "n"),
    (LONG, "é" * 29 + "è"),
    (LONG + "n", LONG + "m"),
    ("n" * 47, "n" * 46),
    ("n" * 46 + "a", "n" * 46 + "b"),
    (LONG, __import__("hashlib").md5(LONG.encode()).hexdigest()),
]
WAYS = [("create", "create"), ("create_partitioned", "create"), ("create", "create_partitioned")]


PARTIAL = """
    select count(*) from pg_index i
    where i.indrelid = format('pgmq.%%I', 'q_' || %s)::regclass and i.indpred is not null"""


@pytest.mark.parametrize(
    "pair", [*MEETING, *[(b, a) for a, b in MEETING]], ids=lambda pair: "-".join(pair)[:40]
)
def test_names_that_could_meet(conn: Connection, pair: tuple[str, str]) -> None:
    """case 10, case 13, case 14: the second is another queue or is refused; the first keeps its own."""
    first, second = pair
    empty = surroundings(conn)
    for one, other in WAYS if len(first) < 9 else WAYS[:1]:
        do(conn, f"select pgmq.{one}(%s)", first)
        do(conn, "select pgmq.create_fifo_index(%s)", first)
        do(conn, "select pgmq.send(%s, '\"first\"') from generate_series(1, 3)", first)
        do(conn, "select pgmq.archive(%s, 3)", first)
        before = surroundings(conn), mine(conn, first)
        state, message = outcome(conn, f"select pgmq.{other}(%s)", second)
        if state == "":
            assert sqlstate(conn, "select pgmq.create_fifo_index(%s)", second) in ("", "42P07")
            do(conn, "select pgmq.send(%s, '\"second\"') from generate_series(1, 2)", second)
            assert column(conn, "select message from pgmq.read(%s, 0, 9)", second) == ["second"] * 2
            assert mine(conn, first) == before[1]
            assert value(conn, PARTIAL, tidy(second).name) == 2, "both indexes that reads need"
            assert len(column(conn, "select queue_name from pgmq.metrics_all()")) == 3
            assert value(conn, "select pgmq.drop_queue(%s)", second) is True
        else:
            assert state in ("42710", "42P07", "42809"), (state, message)
            assert "pgmq." in message or "collides" in message, message
        assert (surroundings(conn), mine(conn, first)) == before
        assert value(conn, "select pgmq.drop_queue(%s)", first) is True
        assert surroundings(conn) == empty


def mine(conn: Connection, name: str) -> list[tuple[object, ...]]:
    """What a queue and its archive hold, and how it counts."""
    query = "select queue_length, total_messages, default_partition_length from pgmq.metrics(%s)"
    return [*rows(conn, "select * from pgqueue.peek(%s, 100)", name), *rows(conn, query, name)]


def test_the_old_archive_of_a_queue_is_taken_by_no_other(conn: Connection) -> None:
    """pgmq.a_NAME_old, which convert_archive_partitioned leaves, is no archive of a queue NAME_old."""
    do(conn, "select pgmq.create('shop'), pgmq.send('shop', '1'), pgmq.archive('shop', 1)")
    do(conn, "select pgmq.convert_archive_partitioned('shop')")
    for create in ("create", "create_unlogged", "create_partitioned"):
        state, message = outcome(conn, f"select pgmq.{create}('shop_old')")
        assert state == "42P07" and "a_shop_old" in message, message
    assert value(conn, "select count(*) from pgmq.a_shop_old") == 1
    do(conn, "drop table pgmq.a_shop_old; select pgmq.create('shop_old')")
    assert sqlstate(conn, "select pgmq.drop_queue('shop_old'), pgmq.drop_queue('shop')") == ""
