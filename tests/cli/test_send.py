"""pgqueue send."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Shell


@pytest.fixture
def orders(run: Run) -> Run:
    """`run`, with a queue orders."""
    run("queue", "create", "orders")
    return run


def bodies(run: Run) -> list[object]:
    return [row["message"] for row in run("peek", "orders", "--qty", "100000", "--json").rows]


def test_one_message_gives_its_id(orders: Run) -> None:
    assert orders("send", "orders", '{"order": 17}').out == "1\n"
    assert orders("send", "orders", '"text"', "--json").rows == [{"msg_id": 2}]
    assert bodies(orders) == [{"order": 17}, "text"]


def test_headers_and_delay_go_with_it(orders: Run) -> None:
    orders("send", "orders", "1", "--headers", '{"x-pgmq-group": "a"}', "--delay", "60")
    orders("send", "orders", "-", "--headers", '{"b": 1}', "--delay", "2040-01-01T00:00:00Z", stdin="2\n3\n")
    first, second, third = orders("peek", "orders", "--json").rows
    assert first["headers"] == {"x-pgmq-group": "a"}
    late = datetime.fromisoformat(first["vt"]) - datetime.fromisoformat(first["enqueued_at"])
    assert timedelta(seconds=59) < late < timedelta(seconds=61)
    assert second["headers"] == third["headers"] == {"b": 1}
    assert datetime.fromisoformat(third["vt"]).year in (2039, 2040)


def test_a_file_is_sent_line_by_line(orders: Run, tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\n   \n"\xc3\xbc"\n3')
    assert orders("send", "orders", "--file", str(file)).out == "3 messages sent to orders, ids 1 to 3\n"
    assert bodies(orders) == [{"n": 1}, "ü", 3]


@pytest.mark.parametrize("words", [["-"], ["--file", "-"]])
def test_standard_input_is_a_file_too(orders: Run, words: list[str]) -> None:
    assert orders("send", "orders", *words, "--json", stdin="1\n2\n").rows == [{"msg_id": 1}, {"msg_id": 2}]
    assert orders("send", "orders", *words, stdin="").out == "0 messages sent to orders\n"
    assert orders("send", "orders", *words, stdin="1").out == "1 message sent to orders, ids 3 to 3\n"


def lines(number: int, bad: int = 0) -> str:
    return "".join(f'{{"n": {n}}}\n' if n != bad else "{oops}\n" for n in range(1, number + 1))


def test_a_bad_line_is_named_and_nothing_is_sent(orders: Run) -> None:
    done = orders("send", "orders", "-", "--batch", "100", stdin=lines(1000, bad=900), code=1)
    assert done.err == (
        "Error: line 900 is not JSON: Expecting property name enclosed in double quotes, column 2;"
        " nothing was sent\n"
    )
    assert bodies(orders) == []


def test_a_bad_line_leaves_the_batches_before_it_if_asked(orders: Run) -> None:
    words = ["send", "orders", "-", "--batch", "100", "--commit-each-batch"]
    done = orders(*words, stdin=lines(1000, bad=900), code=1)
    assert done.err.endswith("; before it 800 messages went out\n")
    assert len(bodies(orders)) == 800
    ids = [row["msg_id"] for row in orders(*words, "--json", stdin=lines(250)).rows]
    assert ids == list(range(801, 1051))


def test_ids_are_told_only_once_they_are_committed(orders: Run) -> None:
    done = orders("send", "orders", "-", "--batch", "1", "--json", stdin=lines(9, bad=9), code=1)
    assert done.out == ""


def test_many_lines_go_in_few_statements(orders: Run) -> None:
    orders("send", "orders", "-", stdin=lines(2500))
    assert bodies(orders) == [{"n": n} for n in range(1, 2501)]


def test_large_messages_make_batches_of_their_own(orders: Run) -> None:
    """20 MB in lines of 2 MB: no statement grows with the file."""
    large = '"' + "x" * 2_000_000 + '"\n'
    assert orders("send", "orders", "-", stdin=large * 10).out.startswith("10 messages")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"hello", "Expecting value, column 1"),
        (b'{"a": 1} {"b": 2}', "Extra data, column 10"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b"-Infinity", "-Infinity is no JSON number"),
        (b'"\\u0000"', "\\u0000"),
        (b'{"\\u0000": 1}', "\\u0000"),
        (b'["\\ud800"]', "surrogate"),
        (b'"\xff"', "not UTF-8 (byte 2)"),
        ("1".encode("utf-16"), "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b"'x'", "Expecting value"),
    ],
)
def test_what_is_not_json_is_told_with_its_line(orders: Run, line: bytes, said: str) -> None:
    done = orders("send", "orders", "-", stdin=b"1\n" + line + b"\n", code=1)
    assert done.err.startswith("Error: line 2 ")
    assert said in done.err
    assert bodies(orders) == []


def test_what_only_postgres_refuses_is_told_with_its_lines(orders: Run) -> None:
    done = orders("send", "orders", "-", "--batch", "2", stdin="1\n2\n3\n1e400000\n", code=1)
    assert done.err == "Error: lines 3 to 4: value overflows numeric format; nothing was sent\n"


def test_backslashes_are_no_nuls(orders: Run) -> None:
    orders("send", "orders", r'"\\u0000 \\ud800 \ud83d\ude00"')
    assert bodies(orders) == ["\\u0000 \\ud800 \U0001f600"]


@pytest.mark.parametrize("message", ["", "hello", "{", "'x'", "NaN", "1 2", '{"a"\n:}'])
def test_a_message_that_is_not_json_is_one_line(orders: Run, message: str) -> None:
    assert "the message is not JSON" in orders("send", "orders", message, code=1).err
    assert bodies(orders) == []


def test_a_message_that_postgres_cannot_store(orders: Run) -> None:
    done = orders("send", "orders", '"\\u0000"', code=1)
    assert (
        done.err == "Error: the message holds \\u0000 or half a surrogate pair, which Postgres cannot store\n"
    )


@pytest.mark.parametrize("headers", ["[]", "5", "{", "null"])
def test_headers_are_an_object(orders: Run, headers: str) -> None:
    assert "headers" in orders("send", "orders", "1", "--headers", headers, code=1).err


def test_either_a_message_or_a_file(orders: Run, tmp_path: Path) -> None:
    orders("send", "orders", code=2)
    orders("send", "orders", "1", "--file", str(tmp_path / "x"), code=2)
    assert "No such file" in orders("send", "orders", "--file", str(tmp_path / "x"), code=1).err
    assert "directory" in orders("send", "orders", "--file", str(tmp_path), code=1).err


def test_an_unknown_queue_takes_no_file(run: Run) -> None:
    done = run("send", "nope", "-", stdin="1\n", code=1)
    assert done.err == 'Error: queue "nope" does not exist; nothing was sent\n'


def test_a_pipe_is_a_file(orders: Run, shell: Shell) -> None:
    """One whose size is not known."""
    done = shell("pgqueue send orders --file <(printf '1\\n2\\n'; printf 3)")
    assert done.out == "3 messages sent to orders, ids 1 to 3\n"
