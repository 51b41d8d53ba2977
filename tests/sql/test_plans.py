"""Plans are fixed, not hoped for: what a call costs does not depend on what the queue holds, or held once.

Costs are buffers touched, hit or read, by the whole call; one that walks the table or the messages in flight
touches hundreds and thousands. No time is judged.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.databases import Database

Connection = psycopg.Connection[Any]

ROWS = 20_000
MANY_ROWS = 300_000


def insert(conn: Connection, count: int, vt: str) -> None:
    """Messages enqueued an hour ago, to be visible from vt on (an expression over n)."""
    conn.execute(
        f"""insert into pgmq.q_x (enqueued_at, vt, message, headers)
        select now() - interval '1 hour', {vt}, '{{"payload": "some forty bytes of a message"}}',
            jsonb_build_object('x-pgmq-group', 'g' || n % 50)
        from generate_series(1, {count}) n""".encode()
    )


def ready(conn: Connection, count: int) -> None:
    insert(conn, count, "now() - interval '1 hour'")


def waiting(conn: Connection, count: int) -> None:
    """In flight or delayed, in no order of their ids."""
    insert(conn, count, "now() + interval '1 hour' + interval '1 ms' * (n::bigint * 7919 % 100003)")


def due(conn: Connection, count: int) -> None:
    """Leases that have ended, in no order of their ids."""
    insert(conn, count, "now() - interval '1 minute' - interval '1 ms' * (n::bigint * 7919 % 100003)")


# --- what a queue can look like ------------------------------------------------------------------------


def empty(conn: Connection, count: int) -> None:
    pass


def filled(conn: Connection, count: int) -> None:
    """Full, while statistics and plans know it empty."""
    ready(conn, count)


def flying(conn: Connection, count: int) -> None:
    waiting(conn, count)


def flying_and_counted(conn: Connection, count: int) -> None:
    """As autovacuum may find it: analysed, and never vacuumed."""
    waiting(conn, count)
    conn.execute("analyze pgmq.q_x")


def flying_and_analysed(conn: Connection, count: int) -> None:
    waiting(conn, count)
    conn.execute("vacuum analyze pgmq.q_x")


def expired(conn: Connection, count: int) -> None:
    due(conn, count)


def expired_and_analysed(conn: Connection, count: int) -> None:
    due(conn, count)
    conn.execute("vacuum analyze pgmq.q_x")


def stale(conn: Connection, count: int) -> None:
    """Statistics of a full queue, most of which has gone since."""
    ready(conn, count)
    conn.execute("analyze pgmq.q_x")
    conn.execute("delete from pgmq.q_x where msg_id % 10 <> 0")


def emptied(conn: Connection, count: int) -> None:
    """Emptied, vacuumed and analysed: to read it through looks cheap; then full again."""
    ready(conn, count)
    conn.execute("delete from pgmq.q_x")
    conn.execute("vacuum analyze pgmq.q_x")
    ready(conn, count)


def mixed(conn: Connection, count: int) -> None:
    waiting(conn, count)
    due(conn, count)
    ready(conn, count)
    conn.execute("analyze pgmq.q_x")


def one_due(conn: Connection, count: int) -> None:
    """A lease that has ended behind all that is ready."""
    ready(conn, count)
    due(conn, 1)


def drained(conn: Connection, count: int) -> None:
    """All but the last message gone: it keeps the pages, and statistics know many of them with one row."""
    ready(conn, count)
    conn.execute("delete from pgmq.q_x where msg_id < (select max(msg_id) from pgmq.q_x)")
    conn.execute("vacuum analyze pgmq.q_x")


def drained_and_filled(conn: Connection, count: int) -> None:
    drained(conn, count)
    ready(conn, count)


def drained_and_flying(conn: Connection, count: int) -> None:
    drained(conn, count)
    waiting(conn, count)


def drained_and_expired(conn: Connection, count: int) -> None:
    drained(conn, count)
    due(conn, count)


SHAPES = (
    empty,
    filled,
    flying,
    flying_and_counted,
    flying_and_analysed,
    expired,
    expired_and_analysed,
    stale,
    emptied,
    drained_and_filled,
    drained_and_flying,
    drained_and_expired,
    mixed,
    one_due,
)


# --- what is called ------------------------------------------------------------------------------------

#: How many buffers each may touch: half as many again as were seen. {a}, {b}, {c} are ids that are there, if any is.
CALLS = {
    "pgmq.send('x', '{}')": 18,
    "pgmq.send_batch('x', array['{}', '{}', '{}']::jsonb[])": 36,
    "pgmq.read('x', 30, 1)": 42,
    "pgmq.read('x', 30, 10)": 215,
    "pgmq.pop('x')": 40,
    "pgqueue.fetch('x', 30, 1, array[{a}])": 62,
    "pgmq.set_vt('x', {a}, 0)": 26,
    "pgmq.set_vt('x', array[{a}, {b}, {c}], 60)": 55,
    "pgmq.delete('x', {a})": 13,
    "pgmq.delete('x', array[{a}, {b}, {c}])": 26,
    "pgmq.archive('x', {b})": 18,
    "pgmq.archive('x', array[{a}, {b}, {c}])": 42,
}
#: Where many leases have ended, 32 + qty of them are looked at.
ENDED = (expired, expired_and_analysed, drained_and_expired, mixed)
CALLS_WHERE_ENDED = CALLS | {
    "pgmq.read('x', 30, 1)": 112,
    "pgmq.read('x', 30, 10)": 395,
    "pgmq.pop('x')": 105,
    "pgqueue.fetch('x', 30, 1, array[{a}])": 120,
}


def buffers(conn: Connection, call: str, place: int = 2) -> int:
    """Shared buffers that the call touches: the middle of five, or another place, each with other messages."""
    seen = []
    for _ in range(5):
        found = [row[0] for row in conn.execute("select msg_id from pgmq.q_x order by msg_id desc limit 3")]
        a, b, c = (*found, 1, 2, 3)[:3]
        text = call.replace("{a}", str(a)).replace("{b}", str(b)).replace("{c}", str(c))
        row = conn.execute(f"explain (analyze, buffers, format json) select {text}".encode()).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        seen.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return int(sorted(seen)[place])


def costs(conn: Connection) -> dict[str, int]:
    return {call: buffers(conn, call) for call in CALLS}


def connect(db: Database) -> Connection:
    """A session that waits for its commits to be written: before, an index cannot be told of dead rows."""
    return db.connect(options="-c synchronous_commit=on")


def spoiled(db: Database) -> Connection:
    """A session that made its plans when all looked worst: the queue emptied, vacuumed and analysed."""
    conn = connect(db)
    conn.execute("select pgmq.create('x')")
    ready(conn, 5000)
    conn.execute("delete from pgmq.q_x")
    conn.execute("vacuum analyze pgmq.q_x")
    for _ in range(7):
        costs(conn)
    return conn


def check(db: Database, count: int, compiled: bool) -> None:
    """Every call in every shape of so many messages, in a new session and in one with the worst plans."""
    with spoiled(db) as old:
        if not compiled:
            old.execute("select pgqueue.decompile('x')")
        seen = []
        for shape in SHAPES:
            allowed = CALLS_WHERE_ENDED if shape in ENDED else CALLS
            old.execute("truncate pgmq.q_x")
            old.execute("analyze pgmq.q_x")
            with connect(db) as maker, connect(db) as fresh:
                shape(maker, count)
                costs(fresh)
                for session, touched in (("old", costs(old)), ("new", costs(fresh))):
                    seen += [(shape.__name__, session, call, touched[call], allowed[call]) for call in CALLS]
    print(*seen, sep="\n")
    assert [one for one in seen if one[-2] > one[-1]] == []


@pytest.mark.parametrize("compiled", [True, False])
def test_what_a_call_touches(db: Database, compiled: bool) -> None:
    check(db, ROWS, compiled)


@pytest.mark.scale
def test_what_a_call_touches_among_many(db: Database) -> None:
    check(db, MANY_ROWS, compiled=True)


#: How many buffers a read of groups may touch: half as many again as were seen. Up to some 400 messages are asked
#: whether they are their group's head, and twice where the floor moves.
GROUPED = {
    empty: 60,
    filled: 300,
    flying: 60,
    expired: 2200,
    stale: 9000,
    drained_and_filled: 300,
    drained_and_flying: 60,
    drained_and_expired: 2200,
}


@pytest.mark.parametrize("call", ["read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_what_a_read_of_groups_touches(db: Database, call: str) -> None:
    """More would be a walk over the queue for each message.

    The least of five is judged: the first call after many deletes meets them all, and one in 16 walks over groups too.
    """
    seen = {}
    with connect(db) as conn:
        conn.execute("select pgmq.create('x'), pgmq.create_fifo_index('x')")
        for shape in GROUPED:
            conn.execute("truncate pgmq.q_x")
            shape(conn, ROWS)
            seen[shape] = buffers(conn, f"pgmq.{call}('x', 30, 5)", place=0)
    print(*(f"{touched:5} {shape.__name__}" for shape, touched in seen.items()), sep="\n")
    assert {shape.__name__ for shape, touched in seen.items() if touched > GROUPED[shape]} == set()
