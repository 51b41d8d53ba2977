"""A queue that notifies can be emptied, altered and dropped in the very transaction that sent to it: the
notification is decided at commit, and a trigger that waits for it would make Postgres refuse."""

import psycopg
import pytest


@pytest.mark.parametrize("kind", ["create('q')", "create_partitioned('q')"])
@pytest.mark.parametrize(
    "call",
    [
        "pgmq.purge_queue('q')",
        "pgmq.create_fifo_index('q')",
        "pgmq.enable_notify_insert('q', 10)",
        "pgmq.disable_notify_insert('q')",
        "pgqueue.maintain()",
        "pgmq.drop_queue('q')",
    ],
)
def test_after_a_send_in_the_same_transaction(conn: psycopg.Connection, kind: str, call: str) -> None:
    """The call goes through, and whoever listens hears of the message that was sent."""
    conn.execute(f"select pgmq.{kind}")
    conn.execute("select pgmq.enable_notify_insert('q', 0)")
    conn.execute('listen "pgmq.q_q.INSERT"')
    with conn.transaction():
        conn.execute("select pgmq.send('q', '1')")
        conn.execute(f"select * from {call}")
    heard = [n.channel for n in conn.notifies(timeout=5, stop_after=1)]
    assert heard == ["pgmq.q_q.INSERT"]
