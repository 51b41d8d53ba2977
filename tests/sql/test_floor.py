"""The floor spares reads the dead rows that an old snapshot keeps. It loses
nothing and delays nothing longer than a second.

That is a second of the server's clock, not of this machine's speed: the first read that begins more than a
second after a message became visible gives it, though newer ones are there at every read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.databases import Database, our_sql, uri
from tests.servers import Server
from tests.sql.sessions import Session

Connection = psycopg.Connection[Any]

SECOND = 1_000_000
SENT = 300


def value(conn: Connection, sql: str, *args: object) -> Any:
    row = conn.execute(sql.encode(), args).fetchone()
    return row[0] if row else None


def read(conn: Connection, qty: int = 1, vt: int = 3600) -> list[int]:
    """Ids that a read of queue x gives. From 256 on, each read looks after the floor."""
    return [row[0] for row in conn.execute("select msg_id from pgmq.read('x', %s, %s)", [vt, qty])]


def pop(conn: Connection, qty: int = 1) -> list[int]:
    return [row[0] for row in conn.execute("select msg_id from pgmq.pop('x', %s)", [qty])]


def send(conn: Connection, count: int = 1) -> list[int]:
    sql = "select pgmq.send_batch('x', array_fill('{}'::jsonb, array[%s]))"
    return [row[0] for row in conn.execute(sql, [count])]


def floors(conn: Connection) -> tuple[int | None, int | None, int | None]:
    """Lowest id, lowest vt, and when this was last walked, the latter two in microseconds."""
    row = conn.execute(
        """select pg_sequence_last_value('pgqueue."x$floor_id"'),
            pg_sequence_last_value('pgqueue."x$floor_vt"'), pg_sequence_last_value('pgqueue."x$walk"')"""
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def floor_id(conn: Connection) -> int:
    found = floors(conn)[0]
    assert found is not None
    return found


def set_stamp(conn: Connection, offset_us: int) -> int:
    """As if the floor had last been walked at this distance from now; the stamp."""
    now = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
    return int(value(conn, f"""select setval('pgqueue."x$walk"', {now} + %s)""", offset_us))


def use_floor(conn: Connection) -> None:
    """Makes queue x, consumes SENT messages and puts the floor above them, walked just now."""
    conn.execute("select pgmq.create('x')")
    gone = send(conn, SENT)
    conn.execute("select pgmq.delete('x', %s)", [gone])
    raise_floor(conn)


def raise_floor(conn: Connection) -> int:
    """Puts the floor at the lowest message visible, a new one if there is no other; where it is now."""
    [msg_id] = send(conn)
    if floors(conn)[2] is not None:
        set_stamp(conn, 0)
    conn.execute("""select from pgqueue."x$floor"(clock_timestamp(), 256)""")
    conn.execute("select pgmq.delete('x', %s)", [msg_id])
    return floor_id(conn)


@pytest.fixture
def queue(conn: Connection) -> Connection:
    """A connection; queue x is empty, and its floor in use."""
    use_floor(conn)
    return conn


def in_a_second(conn: Connection, *msg_ids: int) -> None:
    """Reads one by one until these came, with newer ones always there.

    Fails where a read that begins more than a second from now gives another, though one of these is left.
    """
    left = set(msg_ids)
    visible_at = value(conn, "select clock_timestamp()")
    while left:
        newer = send(conn)
        late = value(conn, "select clock_timestamp() > %s::timestamptz + interval '1 second'", visible_at)
        given = set(read(conn))
        assert given, "nothing came, though messages are there"
        assert not late or given <= left, f"a second later {given} came instead of one of {left}"
        left -= given
        conn.execute("select pgmq.delete('x', %s)", [newer])


# --- where the floor is ---------------------------------------------------------------------------


def test_it_is_used_once_there_is_something_to_gain(conn: Connection) -> None:
    conn.execute("select pgmq.create('x')")
    send(conn, 200)
    assert read(conn, 256) and floors(conn) == (None, None, None)
    send(conn, 100)
    assert pop(conn, 256) and floors(conn) == (None, None, None), "lowest visible: 201"
    [last] = send(conn)
    assert read(conn, 256) == [last] and floor_id(conn) == last


def test_it_is_at_the_lowest_message_visible(queue: Connection, db: Database) -> None:
    first, second = send(queue, 2)
    assert read(queue, 256) == [first, second]
    assert floor_id(queue) == first
    other = db.connect(autocommit=False)
    [third] = send(queue)
    assert read(other) == [third]
    [fourth] = send(queue)
    assert read(queue, 256) == [fourth]
    assert floor_id(queue) == third, "a message that another reader holds is visible"


def test_an_idle_queue_stays_where_it_was(queue: Connection) -> None:
    before = floor_id(queue)
    set_stamp(queue, -2 * SECOND)
    assert read(queue) == []
    assert floor_id(queue) == before


# --- nothing lost, nothing late -------------------------------------------------------------------


def test_a_sender_that_commits_late(queue: Connection, db: Database) -> None:
    slow = db.connect(autocommit=False)
    [low] = send(slow)
    assert raise_floor(queue) > low
    slow.commit()
    in_a_second(queue, low)


def test_a_reader_that_rolls_back(queue: Connection, db: Database) -> None:
    """Its own takings are gone to itself, and after a thousand of them it moves the floor past them."""
    ids = send(queue, 1600)
    slow = db.connect(autocommit=False)
    for _ in range(6):
        assert len(pop(slow, 256)) == 256
    assert floor_id(queue) > ids[1000]
    slow.rollback()
    in_a_second(queue, *ids[:3])


def test_a_reader_that_sees_fewer_takings_leaves_the_floor(queue: Connection, db: Database) -> None:
    ids = send(queue, 900)
    slow = db.connect(autocommit=False)
    for _ in range(3):
        assert len(pop(slow, 256)) == 256
    assert floor_id(queue) <= ids[0]
    slow.rollback()
    assert read(queue, 900) == ids


MOMENTS = {
    "now": "clock_timestamp()",
    "past": "clock_timestamp() - interval '30 seconds'",
    "long past": "clock_timestamp() - interval '1 day'",
    "epoch": "'1970-01-01 00:00:00+00'",
    "before the epoch": "'1960-01-01'",
    "-infinity": "'-infinity'",
}


def set_vt(conn: Connection, msg_ids: list[int], moment: str) -> None:
    sql = f"select pgmq.set_vt('x', %s, ({MOMENTS.get(moment, moment)})::timestamptz)"
    if len(msg_ids) == 1:
        conn.execute(sql.encode(), msg_ids)
    else:
        conn.execute(sql.encode(), [msg_ids])


@pytest.mark.parametrize("batch", [False, True])
def test_set_vt_back(queue: Connection, db: Database, batch: bool) -> None:
    """The next read of anybody gives what set_vt has made visible, whatever lies above."""
    other = db.connect()
    for moment in MOMENTS:
        low = send(queue, 2)
        assert read(queue, 2) == low
        assert raise_floor(queue) > low[-1]
        low = low[: 1 + batch]
        newer = send(queue)
        set_vt(queue, low, moment)
        assert read(other, 3) == [*low, *newer], moment


def pass_by(conn: Connection, moment: str) -> None:
    while value(conn, "select clock_timestamp() <= %s::timestamptz", moment):
        pass


@pytest.mark.parametrize("batch", [False, True])
def test_set_vt_into_the_next_second(queue: Connection, db: Database, batch: bool) -> None:
    """The floor lies ahead of it, and is lowered."""
    low = send(queue, 2)
    assert read(queue, 2) == low
    assert raise_floor(queue) > low[-1]
    low = low[: 1 + batch]
    newer = send(queue)
    set_vt(queue, low, "clock_timestamp() + interval '0.3 seconds'")
    pass_by(queue, value(queue, "select max(vt)::text from pgmq.q_x where msg_id = any(%s)", low))
    assert read(db.connect(), 3) == [*low, *newer]


def test_a_lease_of_no_time(queue: Connection) -> None:
    """It leaves the message visible: the next read gives it again, whatever the floor knows of others."""
    sent = send(queue, 8)
    pass_by(queue, value(queue, "select max(vt + interval '1.1 seconds')::text from pgmq.q_x"))
    assert read(queue) == sent[:1]
    raise_floor(queue)
    assert [read(queue, vt=0) for _ in range(6)] == [[sent[1]]] * 6
    assert [read(queue, vt=-5) for _ in range(3)] == [[sent[1]]] * 3


@pytest.mark.parametrize("partitioned", [False, True])
def test_ids_at_both_ends(conn: Connection, partitioned: bool) -> None:
    """Written by hand. Reads go on from wherever the floor is, also in a transaction that has written."""
    conn.execute(
        "select pgmq.create_partitioned('x', '10', '1000')" if partitioned else "select pgmq.create('x')"
    )
    ends = [-9223372036854775807, -5, 0, 7, 9223372036854775806]
    for low in (-9223372036854775808, 0, 9223372036854775807):
        conn.execute("truncate pgmq.q_x")
        conn.execute(
            "insert into pgmq.q_x (msg_id, vt, message) overriding system value"
            " select i, now(), '{}' from unnest(%s) i",
            [ends],
        )
        with conn.transaction():
            conn.execute("create temp table if not exists written ()")
            conn.execute("""select setval('pgqueue."x$floor_id"', %s)""", [low])
            set_stamp(conn, -SECOND * 5)
            assert sorted(read(conn, 300, vt=0)) == ends
        assert sorted(read(conn, 300)) == ends


def test_a_lease_of_a_second_ends_in_time(queue: Connection) -> None:
    """The floor lies ahead, but never as far as a lease that is given now ends."""
    low = send(queue)
    assert read(queue, vt=1) == low
    assert raise_floor(queue) > low[-1]
    newer = send(queue)
    pass_by(queue, value(queue, "select max(vt)::text from pgmq.q_x where msg_id = any(%s)", low))
    assert read(queue, 2) == [*low, *newer]


@pytest.mark.parametrize("moment", ["now", "long past", "-infinity"])
def test_set_vt_back_that_commits_late(queue: Connection, db: Database, moment: str) -> None:
    low = send(queue)
    assert read(queue) == low
    slow = db.connect(autocommit=False)
    set_vt(slow, low, moment)
    assert raise_floor(queue) > low[0]
    slow.commit()
    in_a_second(queue, *low)


@pytest.mark.parametrize(
    "call",
    [
        "send('x', '1', '-infinity'::timestamptz)",
        "send_batch('x', array['1']::jsonb[], '-infinity'::timestamptz)",
    ],
)
def test_sent_for_ever_ago_comes_first(queue: Connection, call: str) -> None:
    """It waits below all leases that have ended, and comes before what was ready when it was sent."""
    first = value(queue, f"select pgmq.{call}::bigint")
    send(queue)
    assert read(queue) == [first]


def test_it_comes_into_use_where_every_reader_has_written(conn: Connection) -> None:
    """At the start, by transactions that may roll back; and rises where that saves a long walk."""
    conn.execute("select pgmq.create('x')")
    last = 0
    for _ in range(5):
        conn.execute("select pgmq.delete('x', %s)", [send(conn, SENT)])
        with conn.transaction():
            conn.execute("select pg_current_xact_id()")
            [last] = send(conn)
            assert read(conn, 256) == [last]
            conn.execute("select pgmq.delete('x', %s)", [[last]])
    assert floors(conn)[2] is not None
    send(conn, SENT)
    assert last - 1000 <= floor_id(conn) <= last


def test_who_may_see_some_rows_only_leaves_the_floor(queue: Connection, db: Database) -> None:
    """Row security hides the others' messages from it: they must come as before."""
    roles = [db.create_role(), db.create_role()]
    for number, role in enumerate(roles):
        queue.execute(f"grant usage on schema pgmq, pgqueue to {role}".encode())
        queue.execute(
            f"grant all on pgmq.q_x to {role}; grant all on all sequences in schema pgqueue to {role}".encode()
        )
        queue.execute(
            f"create policy of_{number} on pgmq.q_x to {role} using (message = '{number}'::jsonb)".encode()
        )
    queue.execute("alter table pgmq.q_x enable row level security")
    queue.execute("insert into pgmq.q_x (vt, message) select now(), '0' from generate_series(1, 20)")
    first, second = (db.connect(user=role) for role in roles)
    for _ in range(50):
        queue.execute("select pgmq.send('x', '1')")
        set_stamp(queue, -2 * SECOND)
        assert len(read(second, 200)) == 1
    queue.execute("insert into pgmq.q_x (vt, message) select now(), '0' from generate_series(1, 20)")
    assert len(read(first, 20)) == 20, "the old ones first"
    assert max(read(first, 20)) == value(queue, "select max(msg_id) from pgmq.q_x where message = '0'")


def test_a_full_walk_of_another_is_not_undone(queue: Connection, db: Database) -> None:
    """A session looked at the floor, and is held up; it must not raise what a full walk has lowered since."""
    send(queue)
    floor = raise_floor(queue)
    newer = send(queue)
    assert read(queue) == [floor]
    with closing(Session(db.dsn)) as slow, closing(Session(db.dsn)) as holder:
        slow.ask("select 1")
        holder.ask("begin; lock table pgmq.q_x in access exclusive mode")
        set_stamp(queue, -SECOND // 10)
        slow.start("""select from pgqueue."x$floor"(clock_timestamp(), 256)""")
        assert not slow.settles(holder)
        set_stamp(queue, 0)
        queue.execute("""select setval('pgqueue."x$floor_id"', %s)""", [floor - 100])
        holder.ask("commit")
        slow.finish()
    assert floor_id(queue) == floor - 100
    assert raise_floor(queue) == newer[0]


def test_visible_for_long_and_held_by_a_reader(queue: Connection, db: Database) -> None:
    """It stays visible to all while one reader holds it, and so the floor stays below it."""
    slow = db.connect(autocommit=False)
    for moment in MOMENTS:
        low = send(queue)
        assert read(queue) == low
        set_vt(queue, low, moment)
        assert pop(slow) == low
        raise_floor(queue)
        set_stamp(queue, -2 * SECOND)
        newer = send(queue)
        assert read(queue) == newer
        raise_floor(queue)
        newer = send(queue)
        slow.rollback()
        assert read(queue, 2) == [*low, *newer], moment


def test_a_short_lease_that_commits_late(queue: Connection, db: Database) -> None:
    """Its end lies before the lowest that others saw among those that had ended."""
    [low] = send(queue)
    slow = db.connect(autocommit=False)
    assert read(slow, vt=-60) == [low]
    raise_floor(queue)
    slow.commit()
    in_a_second(queue, low)


def test_a_lease_that_ends_before_it_began(queue: Connection, db: Database) -> None:
    """A negative timeout: the next read of anybody gives the message again."""
    low = send(queue)
    queue.execute("update pgmq.q_x set enqueued_at = enqueued_at - interval '1 hour'")
    raise_floor(queue)
    assert read(queue, vt=-60) == low
    newer = send(queue)
    assert read(db.connect(), vt=-60) == low
    assert read(queue, 2) == [*low, *newer]


@pytest.mark.parametrize("call", ["read", "read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_a_lease_that_ends_at_once_and_makes_ready(queue: Connection, call: str) -> None:
    """Set to always, a message waits; leased for no time within a second of its sending, it is a ready one again."""
    queue.execute("select pgmq.create_fifo_index('x')")
    for _ in range(5):  # a second may pass
        queue.execute("delete from pgmq.q_x")
        low = send(queue)
        set_vt(queue, low, "-infinity")
        raise_floor(queue)
        assert [row[0] for row in queue.execute(f"select msg_id from pgmq.{call}('x', 0, 1)".encode())] == low
        newer = send(queue)
        if value(
            queue, "select vt - enqueued_at < interval '1 second' from pgmq.q_x where msg_id = %s", low[0]
        ):
            break
    assert read(queue, 2) == [*low, *newer]


@pytest.mark.parametrize("compiled", [True, False])
def test_of_many_due_messages_the_longest_due_go_first(queue: Connection, compiled: bool) -> None:
    """In the order of their ids only while there are no more than 32 + qty of them."""
    if not compiled:
        queue.execute("select pgqueue.decompile('x')")
    ids = send(queue, 100)
    queue.execute(
        """update pgmq.q_x set enqueued_at = now() - interval '1 hour',
        vt = now() - interval '1 second' * (1 + msg_id - (select min(msg_id) from pgmq.q_x))"""
    )
    set_stamp(queue, -2 * SECOND)  # not by set_vt, so that the floor knows nothing of it
    for longest_due in reversed(ids[33:]):
        assert read(queue) == [longest_due]
    assert read(queue, 2) == [ids[0], ids[1]]
    ready = send(queue)
    assert read(queue, 40) == [*ids[2:33], *ready]


def test_a_queue_that_is_empty_after_each_read(queue: Connection, db: Database) -> None:
    other = db.connect()
    for turn in range(200):
        sent = send(queue, 1 + turn % 3)
        assert read(other if turn % 2 else queue, 256 if turn % 5 else 3) == sent
        assert read(queue) == []
        queue.execute("select pgmq.delete('x', %s)", [sent])


def test_an_empty_answer_means_that_nothing_is_there(queue: Connection) -> None:
    """Whatever the floor says, and however lately it was walked."""
    low = send(queue, 2)
    queue.execute("select pgmq.set_vt('x', %s, 0)", [low[1]])
    for floor_sets in ('"x$floor_id"', '"x$floor_vt"'):
        queue.execute(f"select setval('pgqueue.{floor_sets}', 9000000000000000)".encode())
    set_stamp(queue, 0)
    assert sorted(read(queue) + read(queue)) == low
    assert read(queue) == []


def test_a_stamp_in_the_future(queue: Connection) -> None:
    """The clock was set back: the floor is an hour ahead, and is not trusted."""
    ready, due = send(queue, 2)
    queue.execute("update pgmq.q_x set enqueued_at = enqueued_at - interval '1 hour'")
    queue.execute("update pgmq.q_x set vt = enqueued_at where msg_id = %s", [ready])
    newer = send(queue)
    queue.execute("""select setval('pgqueue."x$floor_id"', %s)""", newer)
    queue.execute(
        """select setval('pgqueue."x$floor_vt"', last_value + 3600000000) from pgqueue."x$floor_vt" """
    )
    set_stamp(queue, 3600 * SECOND)
    assert read(queue, 2) == [ready, due]
    assert floor_id(queue) == ready
    stamp = floors(queue)[2]
    assert stamp is not None and stamp <= set_stamp(queue, 0)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_old_snapshot_neither_moves_the_floor_nor_claims_the_walk(
    queue: Connection, db: Database, isolation: str
) -> None:
    old = db.connect()
    old.execute(f"begin isolation level {isolation}".encode())
    value(old, "select 1 from pgmq.q_x")
    [unseen] = send(queue)
    raise_floor(queue)
    for offset in (-2 * SECOND, 0, 3600 * SECOND):
        set_stamp(queue, offset)
        before = floors(queue)
        assert read(old, 256) == []
        [own] = send(old)
        assert read(old, 256) == [own]
        assert floors(queue) == before
    old.execute("commit")
    set_stamp(queue, -2 * SECOND)
    assert read(queue) == [unseen]


def test_values_that_nobody_could_have_set_in_earnest(queue: Connection, db: Database) -> None:
    """Anyone may write the sequences: nothing fails, and all comes within a second."""
    [low] = send(queue)
    for number in (-(2**62), -1, 0, 2**62, 2**63 - 1):
        for sequence in ('"x$floor_id"', '"x$floor_vt"', '"x$walk"'):
            if number < 0 and sequence == '"x$floor_vt"':
                continue  # the server refuses it: test_rights.py
            queue.execute(f"select setval('pgqueue.{sequence}', %s)".encode(), [number])
            in_a_second(queue, low)
            queue.execute("select pgmq.set_vt('x', %s, 0)", [low])
            raise_floor(queue)


@pytest.mark.parametrize("end", ["shut_down", "crash"])
def test_a_restart(new_server: Callable[..., Server], end: str) -> None:
    """The floor outlives a restart, or is forgotten; messages below it come."""
    server = new_server(synchronous_commit="on")
    dsn = uri(server.conninfo)
    with psycopg.connect(dsn, autocommit=True) as conn, psycopg.connect(dsn) as slow:
        conn.execute(our_sql().encode())
        use_floor(conn)
        low = send(slow, 2)
        assert raise_floor(conn) > low[1]
        slow.commit()
        newer = send(conn)
    getattr(server, end)()
    server.start()
    with psycopg.connect(dsn, autocommit=True) as conn:
        in_a_second(conn, *low, *newer)


# --- dead rows that an old snapshot keeps ---------------------------------------------------------


CYCLES = """
create procedure test.cycles(count integer) language plpgsql as $$
declare
    v_msg_id bigint;
begin
    for i in 1..count loop
        perform pgmq.send('x', '{}');
        commit;
        select msg_id into v_msg_id from pgmq.read('x', 30, 1);
        commit;
        perform pgmq.delete('x', v_msg_id);
        commit;
    end loop;
end $$
"""


def buffers_of_a_read(conn: Connection) -> int:
    """Shared buffers that a read of one message touches; the middle of nine, as one in 256 does more."""
    seen = []
    for _ in range(9):
        send(conn)
        row = value(conn, "explain (analyze, buffers, format json) select msg_id from pgmq.read('x', 30, 1)")
        seen.append(row[0]["Plan"]["Shared Hit Blocks"] + row[0]["Plan"]["Shared Read Blocks"])
        conn.execute("delete from pgmq.q_x")
    return int(sorted(seen)[4])


def buffers_while_pinned(db: Database, rounds: int) -> list[int]:
    """Buffers of a read at first, and after each thousand further cycles of send, read and delete."""
    with db.connect() as conn, db.connect() as old:
        conn.execute("create schema test")
        conn.execute(CYCLES.encode())
        conn.execute("select pgmq.create('x')")
        conn.execute("call test.cycles(600)")
        old.execute("begin isolation level repeatable read")
        old.execute("select from pgmq.q_x")
        seen = [buffers_of_a_read(conn)]
        for _ in range(rounds):
            conn.execute("call test.cycles(1000)")
            seen.append(buffers_of_a_read(conn))
        return seen


def test_an_old_snapshot_does_not_slow_reads(db: Database, reference_db: Database) -> None:
    """pgmq's reads walk past every row that died since."""
    ours, theirs = buffers_while_pinned(db, 3), buffers_while_pinned(reference_db, 3)
    print(f"buffers of a read: {ours}, pgmq's: {theirs}")
    assert max(ours) < 60
    assert theirs[-1] > 2 * theirs[0] > 0


def test_leases_that_ended_get_no_dearer_as_they_are_drained(conn: Connection) -> None:
    """With nothing else in the queue: the dead ones before what is still due are walked past only at first."""
    conn.execute("select pgmq.create('x')")
    conn.execute(
        """
        insert into pgmq.q_x (enqueued_at, vt, message)
        select now() - interval '1 hour', now() - interval '1 ms' * (n::bigint * 7919 % 100003), '{}'
        from generate_series(1, 12000) n"""
    )
    conn.execute("vacuum analyze pgmq.q_x")

    def buffers() -> int:
        row = value(conn, "explain (analyze, buffers, format json) select pgmq.read('x', 300, 1)")
        return int(row[0]["Plan"]["Shared Hit Blocks"] + row[0]["Plan"]["Shared Read Blocks"])

    first = sorted(buffers() for _ in range(9))[4]
    for _ in range(110):
        assert len(read(conn, 100)) == 100
    last = sorted(buffers() for _ in range(9))[4]
    print(f"buffers of a read: {first}, then {last}")
    assert last < first + 15
