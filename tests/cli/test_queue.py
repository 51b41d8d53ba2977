"""pgqueue queue."""

from __future__ import annotations

from tests.cli.conftest import Run, Shell
from tests.databases import Database


def test_a_queue_is_made_listed_and_dropped(run: Run) -> None:
    assert run("queue", "list").out == "no queues\n"
    assert run("queue", "create", "orders").out == "queue orders is ready\n"
    run("queue", "create", "orders")
    (listed,) = run("queue", "list", "--json").rows
    assert listed["queue_name"] == "orders"
    assert listed["is_partitioned"] is False
    header, line = run("queue", "list").out.splitlines()
    assert header.split() == ["queue_name", "is_partitioned", "is_unlogged", "created_at"]
    assert line.split()[:3] == ["orders", "no", "no"]
    assert run("queue", "drop", "orders", "--yes").out == "queue orders is dropped\n"
    assert run("queue", "list", "--json").out == ""


def test_the_kinds_of_queue(run: Run) -> None:
    run("queue", "create", "quick", "--unlogged")
    run("queue", "create", "parted", "--partitioned", "--partition-interval", "50")
    run(
        "queue",
        "create",
        "daily",
        "--partitioned",
        "--partition-interval",
        "1 day",
        "--retention-interval",
        "9 days",
    )
    rows = {row["queue_name"]: row for row in run("queue", "list", "--json").rows}
    assert rows["quick"]["is_unlogged"] is True
    assert rows["parted"]["is_partitioned"] is True
    assert rows["daily"]["is_partitioned"] is True


def test_kinds_that_exclude_each_other(run: Run) -> None:
    run("queue", "create", "x", "--unlogged", "--partitioned", code=2)
    run("queue", "create", "x", "--partition-interval", "50", code=2)
    assert run("queue", "list", "--json").out == ""


def test_names_that_are_refused(run: Run) -> None:
    for name in ("x" * 48, "", " ", "a'b", "a;b", "a$b"):
        assert "queue name" in run("queue", "create", name, code=1).err
    run("queue", "create", "Foo")
    assert "collides" in run("queue", "create", "foo", code=1).err


def test_dropping_asks(run: Run) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "1")
    refused = run("queue", "drop", "orders", stdin="n\n", code=1)
    assert refused.err.startswith("drop queue orders, its 1 message and its archive? [y/N] ")
    run("queue", "drop", "orders", stdin="\n", code=1)
    assert len(run("queue", "list", "--json").rows) == 1
    run("queue", "drop", "orders", stdin="y\n")
    assert run("queue", "list", "--json").rows == []


def test_with_nobody_to_ask_nothing_is_dropped(shell: Shell) -> None:
    done = shell("pgqueue queue create orders; pgqueue queue drop orders < /dev/null")
    assert done.code == 1
    assert "--yes" in done.err
    assert len(shell("pgqueue queue list --json").rows) == 1


def test_a_queue_is_shown_with_all_that_is_known(run: Run, db: Database) -> None:
    run("queue", "create", "Orders")
    run("send", "orders", "1")
    conn = db.connect()
    conn.execute("select pgmq.bind_topic('logs.#', 'Orders')")
    conn.execute("select pgmq.enable_notify_insert('Orders', 500)")
    (shown,) = run("queue", "show", "orders", "--json").rows
    assert shown["queue_name"] == "Orders"
    assert shown["queue_length"] == 1
    assert shown["topics"] == ["logs.#"]
    assert shown["notify_throttle_ms"] == 500
    lines = dict(line.split(maxsplit=1) for line in run("queue", "show", "Orders").out.splitlines())
    assert lines["queue_length"].strip() == "1"
    assert lines["topics"].strip() == "logs.#"


def test_names_are_folded_as_postgres_folds_them(run: Run) -> None:
    """Python's own lower case of İ has two characters."""
    run("queue", "create", "İstanbul")
    for name in ("İstanbul", "istanbul"):
        (shown,) = run("queue", "show", name, "--json").rows
        assert shown["queue_length"] == 0
        run("doctor", "--queue", name)


def test_purging_counts(run: Run) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "-", stdin="1\n2\n3\n")
    assert run("queue", "purge", "orders", "--yes").out == "3 messages deleted from orders\n"
    assert run("queue", "purge", "orders", "--yes", "--json").rows == [{"queue_name": "orders", "purged": 0}]


def test_purging_asks(run: Run) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "1")
    refused = run("queue", "purge", "orders", stdin="n\n", code=1)
    assert refused.err.startswith("delete all messages of queue orders, 1 message? [y/N] ")
    assert len(run("peek", "orders", "--json").rows) == 1
    assert run("queue", "purge", "orders", stdin="y\n").out == "1 message deleted from orders\n"


def test_metrics_of_one_queue_or_of_all(run: Run) -> None:
    assert run("queue", "metrics").out == "no queues\n"
    run("queue", "create", "b")
    run("queue", "create", "a")
    run("send", "b", "-", stdin="1\n2\n")
    run("read", "b")
    (one,) = run("queue", "metrics", "b", "--json").rows
    assert (one["queue_length"], one["queue_visible_length"], one["total_messages"]) == (2, 1, 2)
    assert [row["queue_name"] for row in run("queue", "metrics", "--json").rows] == ["a", "b"]
    lines = dict(line.split(maxsplit=1) for line in run("queue", "metrics", "b").out.splitlines())
    assert lines["queue_length"].strip() == "2"
    assert lines["queue_visible_length"].strip() == "1"
    assert len(run("queue", "metrics").out.splitlines()) == 3, "off a terminal a line each"


def test_an_unknown_queue_is_one_line(run: Run) -> None:
    for words in (["show"], ["drop", "--yes"], ["purge", "--yes"], ["metrics"]):
        done = run("queue", words[0], "nope", *words[1:], code=1)
        assert done.err == 'Error: queue "nope" does not exist\n'
        assert done.out == ""


def test_a_name_cannot_move_the_terminal(run: Run, db: Database) -> None:
    """Neither colours nor new lines of a name reach the screen; rich's markup is text."""
    name = "a\x1b[31m\n[bold]x"
    db.connect().execute("select pgmq.create(%s)", [name])
    out = run("queue", "list").out
    assert "\x1b" not in out
    assert "a\\x1b[31m [bold]x" in out
    assert run("queue", "list", "--json").rows[0]["queue_name"] == name
    assert "\x1b" not in run("read", name + "\x1b", code=1).err
