"""A sender's commit wakes listeners, whatever other senders do, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.databases import Database, our_sql, uri
from tests.servers import Server

Connection = psycopg.Connection[Any]

CHANNEL = "pgmq.q_x.INSERT"
#: Milliseconds: not throttled; as by default; longer than any test.
INTERVALS = (0, 250, 600_000)


class Listener:
    """Hears of one channel. To hear of nothing takes no waiting: a fence comes after all that went before."""

    def __init__(self, dsn: str, channel: str = CHANNEL) -> None:
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.channel = channel
        self.conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        self.conn.execute("listen fence")

    def wakes(self) -> None:
        """Waits for one notification of the channel."""
        [heard] = self.conn.notifies(timeout=20, stop_after=1) or [None]
        assert heard is not None and heard.channel == self.channel, heard

    def count(self) -> int:
        """How many notifications there were since."""
        self.conn.execute("notify fence")
        count = 0
        for heard in self.conn.notifies(timeout=20):
            if heard.channel == "fence":
                return count
            count += heard.channel == self.channel
        raise AssertionError("the fence did not come")

    def close(self) -> None:
        self.conn.close()


@pytest.fixture
def listener(db: Database, conn: Connection) -> Any:
    conn.execute("select pgmq.create('x')")
    listener = Listener(db.dsn)
    yield listener
    listener.close()


def enable(conn: Connection, interval_ms: int, queue: str = "x") -> None:
    conn.execute("select pgmq.enable_notify_insert(%s, %s)", [queue, interval_ms])


def send(conn: Connection, queue: str = "x") -> None:
    conn.execute("select pgmq.send(%s, '{}')", [queue])


@pytest.mark.parametrize("interval", INTERVALS)
def test_senders_do_not_wait_for_each_other(
    db: Database, conn: Connection, listener: Listener, interval: int
) -> None:
    """The second's commit wakes the listener while the first stays open (in pgmq the second waits)."""
    enable(conn, interval)
    first, second = db.connect(autocommit=False), db.connect(autocommit=False)
    for sender in (first, second):
        sender.execute("set lock_timeout = '5s'")
        send(sender)
    assert listener.count() == 0
    second.commit()
    listener.wakes()
    assert first.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    send(first)
    before = conn.execute("select clock_timestamp()").fetchone()
    first.commit()
    heard = listener.count()
    assert before is not None
    if interval == 0:
        assert heard == 1
    elif interval == INTERVALS[-1]:
        assert heard == 0


def test_what_is_rolled_back_wakes_nobody(db: Database, conn: Connection, listener: Listener) -> None:
    enable(conn, 0)
    sender = db.connect(autocommit=False)
    send(sender)
    sender.rollback()
    with sender.transaction():
        with sender.transaction(force_rollback=True):
            send(sender)
        sender.execute("select 1")
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("select pgmq.send('x', '{}'), 1 / (select 0)")
    assert listener.count() == 0
    send(conn)
    listener.wakes()


def test_a_transaction_wakes_once(db: Database, conn: Connection, listener: Listener) -> None:
    """Not throttled, and yet: listeners hear of its commit once."""
    enable(conn, 0)
    with conn.transaction():
        conn.execute("select pgmq.send_batch('x', array_fill('{}'::jsonb, array[50]))")
        send(conn)
    assert listener.count() == 1


@pytest.mark.parametrize("interval", [100, 250])
def test_a_throttle_counts_by_the_clock(conn: Connection, listener: Listener, interval: int) -> None:
    """case 42: the first message at once, then at most one wake-up in an interval, however many are sent."""
    enable(conn, interval)
    sent = 0
    elapsed = 0.0
    began = server_clock(conn)
    send(conn)
    listener.wakes()
    while elapsed < 1000:
        send(conn)
        sent += 1
        elapsed = server_clock(conn) - began
    heard = 1 + listener.count()
    assert sent > 10
    assert 2 <= heard <= elapsed / interval + 1


def server_clock(conn: Connection) -> float:
    """Milliseconds."""
    row = conn.execute("select date_part('epoch', clock_timestamp()) * 1000").fetchone()
    assert row is not None
    return float(row[0])


def test_a_clock_set_back_does_not_silence(conn: Connection, listener: Listener) -> None:
    enable(conn, 250)
    future = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint + 3600000000"
    conn.execute(f"""select setval('pgqueue."x$notified"', {future})""".encode())
    send(conn)
    listener.wakes()


@pytest.mark.parametrize("name", ["Orders", "ÄPFEL", "a queue", 'quote"d', "50%"])
def test_odd_names(db: Database, conn: Connection, name: str) -> None:
    """The channel is that of the table, in lower case."""
    conn.execute("select pgmq.create(%s)", [name])
    enable(conn, 0, name)
    listener = Listener(db.dsn, f"pgmq.q_{name.lower()}.INSERT")
    send(conn, name)
    listener.wakes()
    listener.close()


@pytest.mark.parametrize("sizes", [("100", "10000"), ("1 day", "10 days")])
def test_a_partitioned_queue_wakes_on_its_own_channel(
    db: Database, conn: Connection, sizes: tuple[str, str]
) -> None:
    """Not on that of the partition where the row lands."""
    conn.execute("select pgmq.create_partitioned('x', %s, %s)", sizes)
    listener = Listener(db.dsn)
    enable(conn, 0)
    send(conn)
    listener.wakes()
    listener.close()


def test_after_a_crash(new_server: Callable[..., Server]) -> None:
    """Wake-ups go on; pgmq's throttle is emptied by a crash, and its queues fall silent for good."""
    server = new_server(synchronous_commit="on")
    dsn = uri(server.conninfo)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(our_sql().encode())
        for queue, interval in (("x", 0), ("y", 600_000)):
            conn.execute("select pgmq.create(%s)", [queue])
            enable(conn, interval, queue)
            send(conn, queue)
    server.crash()
    server.start()
    with psycopg.connect(dsn, autocommit=True) as conn:
        listener, throttled = Listener(dsn), Listener(dsn, "pgmq.q_y.INSERT")
        send(conn)
        listener.wakes()
        send(conn, "y")
        assert throttled.count() == 0, "the throttle remembers"
        conn.execute("select pgmq.update_notify_insert('y', 1)")
        send(conn, "y")
        throttled.wakes()
        listener.close()
        throttled.close()
