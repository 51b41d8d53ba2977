"""Order within groups: the right values of public reports, with the index over groups and without."""

from __future__ import annotations

import threading

import pytest

from tests.databases import Database
from tests.sql.asking import Connection, column, do, rows, value


@pytest.fixture(params=["indexed", "not indexed", "generic"])
def conn(shared: Connection, request: pytest.FixtureRequest) -> Connection:
    do(shared, "select pgmq.create('q')")
    if request.param == "indexed":
        do(shared, "select pgmq.create_fifo_index('q')")
    if request.param == "generic":
        do(shared, "select pgqueue.decompile('q')")
    return shared


def send(conn: Connection, groups: str) -> None:
    """A message for each letter, in the group of that letter."""
    for group in groups:
        do(conn, "select pgmq.send('q', '1', jsonb_build_object('x-pgmq-group', %s::text))", group)


def test_no_message_of_a_group_overtakes(conn: Connection) -> None:
    """case 54: while the first of A is out, nothing of A comes until it is gone or back; others go on."""
    send(conn, "AABB")
    assert column(conn, "select msg_id from pgmq.read_grouped_head('q', 60, 1)") == [1]
    for way in ("read_grouped", "read_grouped_rr", "read_grouped_head"):
        assert column(conn, f"select msg_id from pgmq.{way}('q', 0, 1)") == [3], way
    do(conn, "select pgmq.set_vt('q', 1, 0)")
    assert column(conn, "select msg_id from pgmq.read_grouped_head('q', 60, 1)") == [1]
    do(conn, "select pgmq.archive('q', 1)")
    assert column(conn, "select msg_id from pgmq.read_grouped_head('q', 60, 1)") == [2]


def test_one_group_fills_a_round_robin(conn: Connection) -> None:
    """case 56"""
    send(conn, "AAAAA")
    assert column(conn, "select msg_id from pgmq.read_grouped_rr('q', 60, 3)") == [1, 2, 3]


def test_round_robin_takes_turns(conn: Connection) -> None:
    send(conn, "AAABBC")
    assert column(conn, "select msg_id from pgmq.read_grouped_rr('q', 60, 5)") == [1, 4, 6, 2, 5]


def test_heads_of_many_groups(conn: Connection) -> None:
    """case 57: the first of each group and nothing more of it."""
    send(conn, "AAAB")
    assert column(conn, "select msg_id from pgmq.read_grouped_head('q', 60, 2)") == [1, 4]
    assert column(conn, "select msg_id from pgmq.read_grouped_head('q', 60, 2)") == []


def test_a_hidden_head_hides_its_group(conn: Connection) -> None:
    """case 59"""
    send(conn, "AAB")
    do(conn, "select pgmq.set_vt('q', 1, 60)")
    for way in ("read_grouped", "read_grouped_rr", "read_grouped_head"):
        assert column(conn, f"select msg_id from pgmq.{way}('q', 0, 9)") == [3], way


WAYS = ["read_grouped", "read_grouped_rr", "read_grouped_head"]


@pytest.mark.parametrize("way", WAYS)
def test_a_head_that_is_due_after_many_others_of_its_group(conn: Connection, way: str) -> None:
    """All leases have ended, the head's last. No other stands for the group, and none that is sent goes first."""
    send(conn, "A" * 150)
    do(
        conn,
        "update pgmq.q_q set enqueued_at = now() - interval '1 hour',"
        " vt = now() - interval '1 second' * case msg_id when 1 then 1 else 60 end",
    )
    assert value(conn, f"select min(msg_id) from pgmq.{way}('q', 0, 1)") == 1
    send(conn, "BC")
    assert value(conn, f"select min(msg_id) from pgmq.{way}('q', 0, 1)") == 1


@pytest.mark.parametrize("way", WAYS)
def test_groups_whose_messages_are_due_are_not_outnumbered_for_ever(
    house: Database, conn: Connection, way: str
) -> None:
    """150 groups with a lease that has ended: a reader holds 120 of them, and new groups come all the time."""
    groups = "select array_agg(jsonb_build_object('x-pgmq-group', g::text)) from generate_series(1, 150) g"
    do(
        conn,
        f"select pgmq.send_batch('q', array_fill('1'::jsonb, array[300]), h.h || h.h) from ({groups}) h (h)",
    )
    do(conn, "update pgmq.q_q set enqueued_at = now() - interval '1 hour', vt = now() - interval '1 minute'")
    holder = house.connect(autocommit=False)
    held = column(holder, "select msg_id from pgmq.read_grouped_head('q', 600, 120)")
    assert held == list(range(1, 121))
    for _ in range(200):  # One read in 16 looks at all groups first; by chance, none in 200: 1 in 400,000
        send(conn, "N")
        if value(conn, f"select min(msg_id) from pgmq.{way}('q', 600, 1)") == 121:
            break
    else:
        pytest.fail("none of the 30 free groups")
    holder.rollback()


@pytest.mark.parametrize("way", WAYS)
def test_a_free_group_among_thousands_that_are_not(conn: Connection, way: str) -> None:
    """An empty answer means that none is free."""
    groups = "select jsonb_build_object('x-pgmq-group', g::text) as h from generate_series(1, 3000) g"
    do(
        conn,
        f"insert into pgmq.q_q (vt, message, headers) select now() + interval '1 hour', '1', h from ({groups}) g",
    )
    do(conn, f"insert into pgmq.q_q (vt, message, headers) select now(), '2', h from ({groups}) g")
    send(conn, "F")
    assert column(conn, f"select msg_id from pgmq.{way}('q', 0, 5)") == [6001]


def test_the_highest_id(conn: Connection) -> None:
    last = 2**63 - 1
    do(
        conn,
        "insert into pgmq.q_q (msg_id, vt, message) overriding system value"
        " select %s - g, now(), '{}' from generate_series(0, 63) g",
        last,
    )
    for way in WAYS:
        assert column(conn, f"select msg_id from pgmq.{way}('q', 0, 100)")[0] == last - 63, way


def test_many_small_groups_that_are_due(shared: Connection) -> None:
    """Heads are looked up many at a time: with one at a time, 139,000 buffers here."""
    do(shared, "select pgmq.create('q'), pgmq.create_fifo_index('q')")
    do(
        shared,
        "insert into pgmq.q_q (vt, enqueued_at, message, headers, read_ct)"
        " select now() - interval '1 second' * g / 100, now() - interval '1 hour', '{}',"
        " jsonb_build_object('x-pgmq-group', g), 1 from generate_series(1, 1000) g",
    )
    do(shared, "analyze pgmq.q_q")
    buffers = []
    for _ in range(5):
        explain = "explain (analyze, buffers, format json) select * from pgmq.read_grouped('q', 0, 100)"
        plan = value(shared, explain)[0]["Plan"]
        assert plan["Actual Rows"] == 100
        buffers.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    assert min(buffers) < 45_000


def test_order_by_key_with_parallel_workers(house: Database, conn: Connection) -> None:
    """case 53: three keys, four workers; within a key the order of work is the order of sending."""
    send(conn, "ABCABCBBACCCABAB" * 5)
    done: list[tuple[str, int]] = []

    def work() -> None:
        mine = house.connect()
        query = "select msg_id, headers ->> 'x-pgmq-group' from pgmq.read_grouped_with_poll('q', 60, 2, 1, 5)"
        while batch := rows(mine, query):
            for msg_id, key in batch:
                done.append((key, msg_id))
                do(mine, "select pgmq.delete('q', %s)", msg_id)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(done) == 80
    for key in "ABC":
        ids = [msg_id for group, msg_id in done if group == key]
        assert ids == sorted(ids), key


def test_the_index_is_made_once(shared: Connection) -> None:
    """case 60: twice is once; and a grouped read uses it."""
    do(shared, "select pgmq.create('q'), pgmq.create_fifo_index('q'), pgmq.create_fifo_index('q')")
    do(shared, "select pgmq.create_fifo_indexes_all()")
    index = "select count(*) from pg_indexes where tablename = 'q_q' and indexname like '%fifo%'"
    assert value(shared, index) == 1
    used = "select sum(idx_scan), sum(seq_scan) from pg_stat_xact_user_tables where relname = 'q_q'"
    do(shared, "select pgmq.send('q', '1')")
    with shared.transaction():
        ((indexes, scans),) = rows(shared, used)
        assert len(column(shared, "select msg_id from pgmq.read_grouped('q', 60, 1)")) == 1
        ((indexes_after, scans_after),) = rows(shared, used)
    assert indexes_after > indexes and scans_after == scans
