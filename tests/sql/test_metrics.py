"""Metrics and lists: the right values of public reports."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import psycopg
import pytest

from tests.databases import Database, our_sql, uri
from tests.servers import Server
from tests.sql.asking import Connection, column, do, outcome, rows, value


@pytest.fixture
def conn(shared: Connection) -> Connection:
    return shared


def test_what_is_visible_is_counted_apart(conn: Connection) -> None:
    """case 122: five messages, two of them hidden."""
    do(conn, "select pgmq.create('q'), pgmq.send('q', '1'), pgmq.send('q', '1')")
    do(conn, "select pgmq.send('q', '1', 60), pgmq.send('q', '1'), pgmq.send('q', '1')")
    do(conn, "select pgmq.read('q', 60, 1)")
    query = "select queue_length, queue_visible_length, total_messages, default_partition_length"
    assert rows(conn, f"{query} from pgmq.metrics('q')") == [(5, 3, 5, None)]
    assert rows(conn, "select total, ready, waiting from pgqueue.counts('q')") == [(5, 3, 2)]


def test_what_is_sent_in_a_transaction_is_visible_in_it(conn: Connection) -> None:
    """case 126"""
    do(conn, "select pgmq.create('q')")
    with conn.transaction():
        do(conn, "select pgmq.send('q', '1')")
        assert value(conn, "select queue_visible_length from pgmq.metrics('q')") == 1


def test_ages_and_totals(conn: Connection) -> None:
    do(conn, "select pgmq.create('q')")
    ages = (
        "select newest_msg_age_sec, oldest_msg_age_sec, total_messages, queue_length from pgmq.metrics('q')"
    )
    assert rows(conn, ages) == [(None, None, 0, 0)]
    do(conn, "select pgmq.send('q', '1') from generate_series(1, 3)")
    do(conn, "update pgmq.q_q set enqueued_at = now() - msg_id * interval '100 s'")
    assert rows(conn, ages) == [(100, 300, 3, 3)]
    do(conn, "select pgmq.pop('q', 3)")
    assert rows(conn, ages) == [(None, None, 3, 0)]


def test_a_plain_queue_named_like_a_partition_is_none(conn: Connection) -> None:
    """case 63"""
    do(conn, "select pgmq.create('foo'), pgmq.create('foo_default')")
    do(conn, "select pgmq.send('foo_default', '1') from generate_series(1, 3)")
    query = "select queue_name, queue_length, default_partition_length from pgmq.metrics_all() order by 1"
    assert rows(conn, query) == [("foo", 0, None), ("foo_default", 3, None)]
    do(conn, "select pgmq.create_partitioned('bar', '10', '100'), pgmq.create('bar_default')")
    do(conn, "select pgmq.send('bar_default', '1') from generate_series(1, 3)")
    assert value(conn, "select default_partition_length from pgmq.metrics('bar')") == 0


def test_a_monitor_can_read_metrics(db: Database) -> None:
    """case 106, case 113: pg_monitor, where there is that role; for queues made later too."""
    owner = db.connect()
    admin = db.connect(user=db.superuser)
    role = db.create_role("watcher")
    do(admin, f"grant pg_monitor to {role}")
    do(owner, "select pgmq.create('later'), pgmq.send('later', '1')")
    watcher = db.connect(user=role)
    assert rows(watcher, "select queue_name, queue_length from pgmq.metrics_all()") == [("later", 1)]
    assert column(watcher, "select queue_name from pgmq.list_queues()") == ["later"]


def test_metrics_on_a_standby(new_server: Callable[..., Server]) -> None:
    """An unlogged queue cannot be read there: it is left out of the whole, and says why if asked for."""
    server = new_server()
    with psycopg.connect(uri(server.conninfo), autocommit=True) as conn:
        do(conn, our_sql())
        do(conn, "select pgmq.create('q'), pgmq.create_unlogged('u'), pgmq.create_partitioned('p')")
        do(conn, "select pgmq.send('q', '1')")
    server.shut_down()
    signal = server.data / "standby.signal"
    signal.touch()
    shutil.chown(signal, server.data.owner())
    server.start()
    with psycopg.connect(uri(server.conninfo), autocommit=True) as conn:
        assert value(conn, "select pg_is_in_recovery()") is True
        query = "select queue_name, queue_length, total_messages from pgmq.metrics_all() order by 1"
        assert rows(conn, query) == [("p", 0, 0), ("q", 1, 1)]
        assert rows(conn, query.replace("metrics_all()", "metrics('q')")) == [("q", 1, 1)]
        assert outcome(conn, "select * from pgmq.metrics('u')") == (
            "0A000",
            "cannot access temporary or unlogged relations during recovery",
        )


@pytest.mark.scale
def test_metrics_of_a_large_queue(conn: Connection) -> None:
    """case 121: exact counts read the queue; counts(approximate) does not, and is there for that."""
    do(conn, "select pgmq.create('q')")
    do(conn, "insert into pgmq.q_q (vt, message) select now(), '{}' from generate_series(1, 1000000)")
    do(conn, "vacuum analyze pgmq.q_q")
    plan = value(conn, "explain (analyze, buffers, format json) select * from pgqueue.counts('q', true)")[0]
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 500
    ((total,),) = rows(conn, "select total from pgqueue.counts('q', true)")
    assert 900_000 < total < 1_100_000
