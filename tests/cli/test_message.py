"""pgqueue read, pop, peek, archive, delete, set-vt."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from tests.cli.conftest import Run
from tests.databases import Database


@pytest.fixture
def orders(run: Run) -> Run:
    """`run`, with three messages in the queue orders."""
    run("queue", "create", "orders")
    run("send", "orders", "-", stdin='{"n": 1}\n"two"\nnull\n')
    return run


def test_reading_hides_for_a_time(orders: Run) -> None:
    (first,) = orders("read", "orders", "--json").rows
    assert list(first) == ["msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers"]
    assert (first["msg_id"], first["read_ct"], first["message"]) == (1, 1, {"n": 1})
    hidden = datetime.fromisoformat(first["vt"]) - datetime.fromisoformat(first["last_read_at"])
    assert hidden == timedelta(seconds=30)
    rest = orders("read", "orders", "--qty", "9", "--vt", "5", "--json").rows
    assert [row["message"] for row in rest] == ["two", None]
    assert orders("read", "orders").out == "no messages\n"
    assert orders("read", "orders", "--json").out == ""


def test_no_style_of_dates_is_in_the_way(orders: Run) -> None:
    for command in ("peek", "read", "pop"):
        (row, *_) = orders(command, "orders", "--json", PGOPTIONS="-c datestyle=German").rows
        assert datetime.fromisoformat(row["vt"]).tzinfo is not None
    assert row["message"] == "two"
    assert '"orders"' in orders("queue", "list", "--json", PGOPTIONS="-c datestyle=German").out
    orders("doctor", "--fail-on", "warning", PGOPTIONS="-c datestyle=German")


def test_a_table_for_people(orders: Run) -> None:
    orders("send", "orders", "4", "--headers", '{"x-pgmq-group": "a"}')
    header, *lines = orders("peek", "orders").out.splitlines()
    assert header.split() == ["msg_id", "read_ct", "vt", "message", "headers"]
    assert '{"n": 1}' in lines[0]
    assert '{"x-pgmq-group": "a"}' in lines[3]


def test_one_message_is_shown_from_top_to_bottom(orders: Run) -> None:
    for command in ("read", "pop"):
        lines = [line.split(maxsplit=1) for line in orders(command, "orders").out.splitlines()]
        assert [name for name, _ in lines] == ["msg_id", "read_ct", "vt", "message"]
    assert lines[3][1].strip() == '"two"'


def test_seconds_are_whole_and_not_negative(orders: Run) -> None:
    assert "'abc' is not a whole number of seconds" in orders("read", "orders", "--vt", "abc", code=2).err
    assert "-1 is not in the range x>=0" in orders("read", "orders", "--vt", "-1", code=2).err.replace(
        "0<=x<=2147483647", "x>=0"
    )
    assert orders("read", "orders", "--vt", "0", "--json").rows[0]["msg_id"] == 1


def test_a_long_message_stays_on_its_line(orders: Run) -> None:
    """Off a terminal, that is: what reads us there goes by lines."""
    orders("send", "orders", '"' + "long " * 200 + '"')
    assert len(orders("peek", "orders", COLUMNS="40").out.splitlines()) == 5


def test_json_keeps_every_digit(run: Run) -> None:
    run("queue", "create", "orders")
    exact = '{"big": ' + "9" * 5000 + ', "small": 0.10000000000000000000000000000000000001}'
    run("send", "orders", exact)
    assert f'"message": {exact}, ' in run("read", "orders", "--json").out


def test_polling_waits_for_a_message(orders: Run) -> None:
    orders("read", "orders", "--qty", "9")
    started = time.monotonic()
    assert orders("read", "orders", "--poll", "300ms", "--json").out == ""
    assert time.monotonic() - started >= 0.3
    orders("send", "orders", '"late"', "--delay", "1")
    assert [row["message"] for row in orders("read", "orders", "--poll", "30", "--json").rows] == ["late"]


def test_pop_takes_them_away(orders: Run) -> None:
    assert [row["msg_id"] for row in orders("pop", "orders", "--qty", "2", "--json").rows] == [1, 2]
    assert [row["msg_id"] for row in orders("peek", "orders", "--json").rows] == [3]


def test_peek_pages_and_changes_nothing(orders: Run) -> None:
    assert [
        row["msg_id"] for row in orders("peek", "orders", "--qty", "1", "--after", "1", "--json").rows
    ] == [2]
    assert [row["read_ct"] for row in orders("peek", "orders", "--json").rows] == [0, 0, 0]


def test_archive_and_delete_say_what_they_found(orders: Run, db: Database) -> None:
    done = orders("archive", "orders", "1", "99", "98", "1")
    assert done.out == "1 of 3 messages archived\n"
    assert done.err == "not in queue orders: 99, 98\n"
    assert db.connect().execute("select msg_id from pgmq.a_orders").fetchall() == [(1,)]
    done = orders("delete", "orders", "2", "1", "--json")
    assert done.rows == [{"msg_id": 2, "deleted": True}, {"msg_id": 1, "deleted": False}]
    assert [row["msg_id"] for row in orders("peek", "orders", "--json").rows] == [3]


@pytest.mark.parametrize("command", ["archive", "delete"])
def test_none_of_them_found_is_a_failure(orders: Run, command: str) -> None:
    done = orders(command, "orders", *[str(n) for n in range(50, 65)], code=1)
    assert done.err == ("Error: not in queue orders: 50, 51, 52, 53, 54, 55, 56, 57, 58, 59 and 5 more\n")
    assert len(orders("peek", "orders", "--json").rows) == 3


def test_ids_come_from_a_pipe(orders: Run) -> None:
    assert orders("delete", "orders", "-", stdin="1\n2 3\n\n").out == "3 of 3 messages deleted\n"
    assert "line 2" in orders("delete", "orders", "-", stdin="1\nx\n", code=1).err
    assert "line 1" in orders("delete", "orders", "-", stdin=b"9223372036854775808\n", code=1).err
    assert "line 1" in orders("delete", "orders", "-", stdin=b"\xff\n", code=1).err


def test_set_vt_hides_and_gives_back(orders: Run) -> None:
    rows = orders("set-vt", "orders", "1", "3", "--vt", "2040-01-31T09:00:00+01:00", "--json").rows
    assert [row["msg_id"] for row in rows] == [1, 3]
    moment = datetime(2040, 1, 31, 8, tzinfo=timezone.utc)
    assert {datetime.fromisoformat(row["vt"]) for row in rows} == {moment}
    assert [row["msg_id"] for row in orders("read", "orders", "--qty", "9", "--json").rows] == [2]
    done = orders("set-vt", "orders", "2", "77", "--vt", "-30")
    assert done.err == "not in queue orders: 77\n"
    assert [row["read_ct"] for row in orders("read", "orders", "--json").rows] == [2]
    orders("set-vt", "orders", "77", "--vt", "0", code=1)


@pytest.mark.parametrize(
    "words",
    [
        ["read", "orders", "--qty", "0"],
        ["read", "orders", "--qty", "many"],
        ["read", "orders", "--vt", "2147483648"],
        ["read", "orders", "--poll", "soon"],
        ["read", "orders", "--poll", "0"],
        ["read"],
        ["peek", "orders", "--after", "9223372036854775808"],
        ["archive", "orders"],
        ["archive", "orders", "one"],
        ["delete", "orders", "9223372036854775808"],
        ["delete", "orders", "9" * 5000],
        ["set-vt", "orders", "1"],
        ["set-vt", "orders", "1", "--vt", "2030-01-01T00:00:00"],
        ["set-vt", "orders", "1", "--vt", "tomorrow"],
        ["send", "orders", "1", "--delay", "99999999999"],
        ["nonsense"],
    ],
)
def test_wrong_words_are_usage_errors(orders: Run, words: list[str]) -> None:
    assert "Usage:" in orders(*words, code=2).err
    assert len(orders("peek", "orders", "--json").rows) == 3


@pytest.mark.parametrize(
    "words",
    [
        ["read"],
        ["pop"],
        ["peek"],
        ["archive", "1"],
        ["delete", "1"],
        ["set-vt", "1", "--vt", "0"],
        ["send", "1"],
    ],
)
def test_an_unknown_queue_is_one_line(run: Run, words: list[str]) -> None:
    assert run(words[0], "nope", *words[1:], code=1).err == 'Error: queue "nope" does not exist\n'
