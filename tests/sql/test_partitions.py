"""Partitioned queues: cut, filled, kept up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from itertools import pairwise

import pytest

from tests.databases import Database
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.sessions import Session


@pytest.fixture
def conn(shared: Connection) -> Connection:
    do(shared, "drop table if exists pgmq.a_p_old")
    return shared


@pytest.fixture
def open_session(house: Database) -> Iterator[Callable[[], Session]]:
    """A function that opens a session; they are closed with the test."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(Session(house.dsn)))


def send(conn: Connection, number: int, queue: str = "p") -> None:
    do(conn, "select pgmq.send(%s, to_jsonb(g)) from generate_series(1, %s) g", queue, number)


def maintain(conn: Connection) -> dict[str, tuple[int, int, int, str | None]]:
    """What upkeep did, by table: made, dropped, moved, problem."""
    return {table: tuple(rest) for table, *rest in rows(conn, "select * from pgqueue.maintain()")}  # type: ignore[misc]


def partitions(conn: Connection, table: str) -> list[str]:
    """Names of the partitions of a table without the table's, in the order of their bounds."""
    query = """
        select substr(c.relname, length(%s) + 1) from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = format('pgmq.%%I', %s::text)::regclass
        order by pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', length(c.relname), c.relname"""
    return column(conn, query, table, table)


SPILLED = "select default_partition_length from pgmq.metrics('p')"


# --- cut by number --------------------------------------------------------------------------------


def test_a_burst_past_the_last_partition_breaks_nothing(conn: Connection) -> None:
    """case 61: rows land, the metric shows them, upkeep puts things right and goes on, retention works."""
    do(conn, "select pgmq.create_partitioned('p', '10', '50', 2)")
    assert partitions(conn, "q_p") == ["$p0", "$p10", "$p20", "$default"]
    send(conn, 100)
    assert value(conn, SPILLED) == 71
    done = maintain(conn)
    assert done["q_p"] == (2, 5, 71, None), (
        "up to 120 made ahead; those before 50 dropped, with what was in them"
    )
    assert value(conn, SPILLED) == 0
    assert partitions(conn, "q_p") == [f"$p{first}" for first in range(50, 121, 10)] + ["$default"]
    assert column(conn, "select msg_id from pgmq.read('p', 0, 100)") == list(range(50, 101))
    assert maintain(conn)["q_p"] == (0, 0, 0, None)


def test_rows_that_move_stay_what_they_are(conn: Connection) -> None:
    """case 62: ids, leases, bodies, headers; and the next id goes on."""
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    do(conn, "select pgmq.send('p', to_jsonb(g), jsonb_build_object('h', g)) from generate_series(1, 60) g")
    do(conn, "select pgmq.read('p', 3600, 40)")
    do(conn, "select pgmq.set_vt('p', 55, 60)")
    before = rows(conn, "select * from pgmq.q_p order by msg_id")
    assert maintain(conn)["q_p"][2] == 41
    assert rows(conn, "select * from pgmq.q_p order by msg_id") == before
    where = "select count(*) from pgmq.q_p m where m.tableoid::regclass::text like '%default%'"
    assert value(conn, where) == 0
    assert value(conn, "select pgmq.send('p', '1')") == 61
    assert column(conn, "select msg_id from pgmq.read('p', 0, 100)") == [n for n in range(41, 62) if n != 55]


def test_read_order_across_partitions_and_spill(conn: Connection) -> None:
    """In the order of ids, also while some lie in the default partition."""
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    send(conn, 35)
    assert column(conn, "select msg_id from pgmq.read('p', 0, 100)") == list(range(1, 36))
    send(conn, 5)
    maintain(conn)
    send(conn, 30)
    for vt in (0, 0, -10):
        assert column(conn, f"select msg_id from pgmq.read('p', {vt}, 100)") == list(range(1, 71))
    assert column(conn, "select msg_id from pgmq.pop('p', 100)") == list(range(1, 71))


READERS = ["read('p', 3600, 1)", "fetch('p', 3600, 1)", "pop('p', 1)"]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_opens_the_partitions_near_the_floor_alone(conn: Connection, reader: str) -> None:
    """Of a hundred full ones; once a second it looks into all, so what counts is the least of nine."""
    do(conn, "select pgmq.create_partitioned('p', '1000', '1000000', 100)")
    do(conn, "insert into pgmq.q_p (vt, message) select now(), '{}' from generate_series(1, 100000)")
    do(conn, "vacuum analyze pgmq.q_p")
    schema = "pgqueue" if reader.startswith("fetch") else "pgmq"
    seen = []
    for _ in range(9):
        plan = value(conn, f"explain (analyze, buffers, format json) select * from {schema}.{reader}")[0][
            "Plan"
        ]
        seen.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    assert min(seen) < 40


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_asks_once_for_the_floor_and_once_for_messages(
    house: Database, conn: Connection, reader: str
) -> None:
    """Whatever else it asks of the table opens each of a hundred partitions, if only to begin."""
    do(conn, "select pgmq.create_partitioned('p', '1000', '1000000', 100)")
    do(conn, "insert into pgmq.q_p (vt, message) select now(), '{}' from generate_series(1, 100000)")
    schema = "pgqueue" if reader.startswith("fetch") else "pgmq"
    statements: list[str] = []
    with house.connect(user=house.superuser) as observer:
        do(observer, "load 'auto_explain'; set auto_explain.log_min_duration = 0")
        do(observer, "set auto_explain.log_nested_statements = on; set auto_explain.log_level = notice")
        observer.add_notice_handler(lambda note: statements.append(note.message_primary or ""))
        seen = []
        for _ in range(9):
            statements.clear()
            do(observer, f"select from {schema}.{reader}")
            seen.append(sum("q_p" in one for one in statements))
    print(*statements, sep="\n\n")
    assert min(seen) == (3 if schema == "pgqueue" else 2), "of fetch, one is for what is done"


@pytest.mark.parametrize("reader", READERS)
def test_all_that_lies_near_the_floor_is_held(house: Database, conn: Connection, reader: str) -> None:
    """Then the reader looks everywhere; and there again once it is free."""
    schema = "pgqueue" if reader.startswith("fetch") else "pgmq"
    call = f"select msg_id from {schema}.{reader}"
    do(conn, "select pgmq.create_partitioned('p', '1000', '1000000', 10)")
    send(conn, 6000)
    assert value(conn, call) == 1
    with house.connect(autocommit=False) as other:
        do(other, "select from pgmq.q_p where msg_id <= 4000 for update")
        assert [value(conn, call) for _ in range(3)] == [4001, 4002, 4003]
        other.rollback()
    assert [value(conn, call) for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("reader", ["read('p', 3600, 30)", "fetch('p', 3600, 30)", "pop('p', 30)"])
def test_a_gap_above_the_floor(conn: Connection, reader: str) -> None:
    """Fewer than asked for means that there are no more, as in pgmq."""
    call = f"select msg_id from {'pgqueue' if reader.startswith('fetch') else 'pgmq'}.{reader}"
    do(conn, "select pgmq.create_partitioned('p', '1000', '1000000', 10)")
    send(conn, 41)
    assert value(conn, "select msg_id from pgmq.pop('p')") == 1
    do(conn, "select setval('pgmq.q_p_msg_id_seq', 500000)")
    send(conn, 25)
    assert column(conn, call) == list(range(2, 32))
    assert column(conn, call) == [*range(32, 42), *range(500001, 500021)]
    assert column(conn, call) == list(range(500021, 500026))


def test_a_queue_partitioned_by_time(conn: Connection) -> None:
    """Its ids say nothing of where a message lies."""
    do(conn, "select pgmq.create_partitioned('p', '1 hour', '1 day')")
    send(conn, 300)
    assert "v_to" not in value(conn, "select prosrc from pg_proc where proname = 'p$read'")
    assert column(conn, "select msg_id from pgmq.read('p', 60, 200)") == list(range(1, 201))
    assert column(conn, "select msg_id from pgmq.pop('p', 200)") == list(range(201, 301))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_partitioned_queue_does_all_that_a_queue_does(conn: Connection, compiled: bool) -> None:
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    if not compiled:
        do(conn, "select pgqueue.decompile('p')")
    send(conn, 40)
    assert value(conn, "select pgmq.archive('p', 1)") is True
    assert sorted(column(conn, "select pgmq.archive('p', array[2, 15, 39, 99]::bigint[])")) == [2, 15, 39]
    assert value(conn, "select pgmq.delete('p', 3)") is True
    assert sorted(column(conn, "select pgmq.delete('p', array[4, 16, 40, 99]::bigint[])")) == [4, 16, 40]
    do(conn, "select pgmq.create_fifo_index('p')")
    assert column(conn, "select msg_id from pgmq.read_grouped('p', 60, 3)") == [5, 6, 7]
    query = "select queue_length, queue_visible_length, total_messages from pgmq.metrics('p')"
    assert rows(conn, query) == [(32, 29, 40)]
    assert value(conn, "select count(*) from pgmq.a_p") == 4
    assert value(conn, "select pgmq.purge_queue('p')") == 32


ODD_CUTS = {
    "('p', '0')": "22023",
    "('p', '-5')": "22023",
    "('p', 'often')": "22023",
    "('p', '')": "22023",
    "('p', '10', '1 day')": "22023",
    "('p', '1 day', '10')": "",  # ten seconds, as Postgres reads an interval
    "('p', '1 day', '-1 day')": "22023",
    "('p', '0 seconds', '1 day')": "22023",
    "('p', '1 month 1 day', '1 year')": "22023",
    "('p', '99999999999999999999')": "22023",
    "('p', '10', '100', 0)": "P0001",
    "('p', null)": "22004",
    "('p', '10', null)": "22004",
    "('p', '10; drop table pgmq.meta', '1')": "22023",
}


@pytest.mark.parametrize("arguments", ODD_CUTS)
def test_what_cannot_be_cut_by_is_refused(conn: Connection, arguments: str) -> None:
    state, message = outcome(conn, f"select pgmq.create_partitioned{arguments}")
    assert state == ODD_CUTS[arguments], message
    assert ("p" in column(conn, "select queue_name from pgmq.meta")) == (state == "")


# --- cut by time ----------------------------------------------------------------------------------

SPANS = [
    "1 second",
    "90 seconds",
    "15 minutes",
    "1 hour",
    "5 hours",
    "1 day",
    "36 hours",
    "1 week",
    "1 month",
]
SPANS += ["3 months", "1 year", "hourly", "daily", "weekly", "monthly", "P1D", "1 day 02:03:04", "1.5 hours"]
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia"]


@pytest.mark.parametrize("span", SPANS)
def test_a_queue_is_cut_by_any_span_in_any_zone(conn: Connection, span: str) -> None:
    """case 65: works with each; ids stay unique; zone, date style and interval style change nothing."""
    ends = set()
    for number, zone in enumerate(ZONES):
        do(conn, f"set timezone = '{zone}'")
        do(conn, f"set datestyle = '{['ISO, MDY', 'SQL, DMY', 'German', 'Postgres, MDY'][number % 4]}'")
        do(conn, f"set intervalstyle = '{['postgres', 'sql_standard', 'iso_8601'][number % 3]}'")
        do(conn, f"select pgmq.create_partitioned('p', '{span}', '1 year', 3)")
        do(conn, "select pgmq.send_batch('p', array['1', '2']::jsonb[])")
        assert [done[3] for done in maintain(conn).values()] == [None, None]
        do(conn, "reset datestyle")
        assert value(conn, SPILLED) == 0
        assert column(conn, "select msg_id from pgmq.read('p', 0, 9)") == [1, 2]
        assert value(conn, "select count(*) from pgmq.archive('p', array[1, 2]::bigint[])") == 2
        if span not in ("1 second", "90 seconds"):
            ends.add(tuple(partitions(conn, "q_p")))
        do(conn, "select pgmq.drop_queue('p')")
    assert len(ends) <= 1 + ("minutes" in span), "the same cut from every zone"
    do(conn, "reset all")


BOUNDS = "select suffix, lower::timestamptz, upper::timestamptz from pgqueue._partition_bounds('q_p', %s, %s)"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Sao_Paulo"])
@pytest.mark.parametrize("span", ["1 hour", "1 day", "1 week", "1 month"])
def test_cuts_meet_across_a_change_of_clocks(conn: Connection, zone: str, span: str) -> None:
    """Without gap or overlap, in hours that a zone has twice or not at all."""
    do(conn, f"set timezone = '{zone}'")
    do(conn, f"select pgmq.create_partitioned('p', '{span}', '1 year', 1)")
    for start in ("2026-03-28 22:00+00", "2026-10-24 22:00+00", "2027-12-31 22:30+00", "2028-02-28 23:30+00"):
        found = rows(conn, BOUNDS, start, 30)
        at = datetime.fromisoformat(start + ":00" if start.endswith("+00") else start)
        assert found[0][1] <= at < found[0][2]
        assert all(one[2] == next_[1] for one, next_ in pairwise(found))
        assert len({suffix for suffix, _, _ in found}) == 31
        assert [suffix for suffix, _, _ in found] == sorted(suffix for suffix, _, _ in found)
    do(conn, "reset timezone")


def test_time_goes_by(conn: Connection) -> None:
    """case 65: rows that outran their partitions are moved, and those past their retention go."""
    do(conn, "select pgmq.create_partitioned('p', '1 hour', '1 day', 2)")
    do(
        conn,
        """insert into pgmq.q_p (enqueued_at, vt, message)
                select now() + g * interval '1 hour', now(), to_jsonb(g) from generate_series(-50, 20) g""",
    )
    assert value(conn, SPILLED) == 68
    made, dropped, moved, problem = maintain(conn)["q_p"]
    assert (moved, problem) == (68, None)
    assert 26 <= dropped <= 27 and made == 0
    left = column(conn, "select message from pgmq.q_p order by enqueued_at")
    assert left[-1] == 20 and left[0] in (-24, -25)
    assert value(conn, SPILLED) == 0


def test_the_archive_is_cut_by_when_it_was_archived(conn: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('p', '1 day', '2 days', 1)")
    do(conn, "select pgmq.send('p', '1'), pgmq.send('p', '2')")
    do(conn, "update pgmq.q_p set enqueued_at = now() - interval '30 days' where msg_id = 1")
    assert value(conn, "select count(*) from pgmq.archive('p', array[1, 2]::bigint[])") == 2
    assert [done[3] for done in maintain(conn).values()] == [None, None]
    assert value(conn, "select count(*) from pgmq.a_p") == 2, "kept by the time of archiving"
    do(conn, "update pgmq.a_p set archived_at = now() - interval '5 days' where msg_id = 1")
    maintain(conn)
    assert column(conn, "select msg_id from pgmq.a_p") == [2]


# --- upkeep among others --------------------------------------------------------------------------


def test_two_upkeeps_at_once(house: Database, conn: Connection) -> None:
    for queue in ("p", "r"):
        do(conn, f"select pgmq.create_partitioned('{queue}', '10', '100000', 2)")
        send(conn, 200, queue)
    found: list[tuple[int, int, int, str | None]] = []

    def keep_up() -> None:
        found.extend(maintain(house.connect()).values())

    threads = [threading.Thread(target=keep_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [problem for _, _, _, problem in found if problem] == []
    assert sum(moved for _, _, moved, _ in found) == 2 * (200 - 29)
    assert value(conn, "select count(*) from pgmq.q_p") == 200


def test_a_consumer_in_the_way_is_a_problem_told(house: Database, conn: Connection) -> None:
    """Rows of an open transaction: upkeep soon gives up, says so, breaks nothing; later it succeeds."""
    do(
        conn,
        "select pgmq.create_partitioned(q, '10', '100000', 1) from unnest(array['a', 'p']) q",
    )
    for queue in ("a", "p"):
        send(conn, 60, queue)
    consumer = house.connect(autocommit=False)
    held = column(consumer, "select msg_id from pgmq.read('a', 60, 5)")
    before = rows(conn, "select * from pgmq.q_a order by msg_id")
    done = maintain(conn)
    made, dropped, moved, problem = done["q_a"]
    assert (made, dropped, moved) == (0, 0, 0) and problem is not None and "lock timeout" in problem
    assert done["q_p"][2:] == (41, None), "and the others are kept up"
    assert rows(conn, "select * from pgmq.q_a order by msg_id") == before
    assert column(consumer, "select msg_id from pgmq.read('a', 60, 1)") == [6]
    consumer.commit()
    assert maintain(conn)["q_a"][2:] == (41, None)
    assert column(conn, "select msg_id from pgmq.read('a', 0, 99)") == list(range(7, 61))
    assert held == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("compiling", [False, True])
def test_upkeep_of_many_ends_nobody(
    house: Database, conn: Connection, open_session: Callable[[], Session], compiling: bool
) -> None:
    """A caller uses several queues in one transaction; upkeep holds the one that it comes to next."""
    queues = ["x", "y1", "y2", "y3", "y4"]
    for queue in queues:
        do(conn, f"select pgmq.create_partitioned('{queue}', '10', '1000000')")
        send(conn, 100, queue)
    caller, upkeep = open_session(), open_session()
    caller.ask("begin")
    for queue in queues[1:]:
        caller.ask(
            f"select pgqueue.compile('{queue}')" if compiling else f"select pgmq.read('{queue}', 30, 1)"
        )
    upkeep.start("select table_name, problem from pgqueue.maintain() where problem is not null")
    assert not upkeep.settles(caller)
    caller.start("select pgmq.archive('x', 1)")
    assert caller.finish() == [("t",)]
    problems = upkeep.finish()
    assert problems and all("lock timeout" in (problem or "") for _, problem in problems)
    caller.ask("commit")
    assert [done[3] for done in maintain(conn).values()] == [None] * 10


def test_a_default_partition_that_was_dropped_is_made_again(conn: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    do(conn, 'drop table pgmq."q_p$default"')
    assert maintain(conn)["q_p"] == (1, 0, 0, None)
    send(conn, 60)
    assert maintain(conn)["q_p"][2:] == (41, None)


def test_a_partition_that_was_detached_stays_so(conn: Connection) -> None:
    """What belongs into it stays in the default partition, and all else is kept up."""
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 3)")
    do(conn, 'alter table pgmq.q_p detach partition pgmq."q_p$p20"')
    send(conn, 80)
    told = '"q_p$p20" is no partition of q_p: messages of its range stay in the default one'
    assert maintain(conn)["q_p"][2:] == (41, told)
    assert value(conn, 'select count(*) from pgmq."q_p$default"') == 10
    assert maintain(conn)["q_p"][2:] == (0, told)
    assert sorted(column(conn, "select msg_id from pgmq.read('p', 60, 100)")) == list(range(1, 81))
    do(conn, 'drop table pgmq."q_p$p20"')
    assert maintain(conn)["q_p"][2:] == (10, None)


def test_nothing_is_lost_while_all_go_on(house: Database, conn: Connection) -> None:
    """Senders, consumers and upkeep at once: each message is delivered once, and upkeep's problems pass."""
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    stop = threading.Event()
    taken: list[int] = []
    failures: list[str] = []

    def produce() -> None:
        mine = house.connect()
        for _ in range(150):
            if state := sqlstate(mine, "select pgmq.send('p', '1')"):
                failures.append(f"send: {state}")

    def consume() -> None:
        mine = house.connect()
        while not stop.is_set() or value(mine, "select count(*) from pgmq.q_p"):
            taken.extend(column(mine, "select msg_id from pgmq.pop('p', 5)"))

    def keep_up() -> None:
        mine = house.connect()
        while not stop.is_set():
            maintain(mine)

    producers = [threading.Thread(target=produce) for _ in range(2)]
    others = [threading.Thread(target=target) for target in (consume, consume, keep_up)]
    for thread in [*producers, *others]:
        thread.start()
    for thread in producers:
        thread.join(60)
    stop.set()
    for thread in others:
        thread.join(60)
    assert failures == []
    assert sorted(taken) == list(range(1, 301))
    assert maintain(conn)["q_p"][3] is None


def test_upkeep_gives_way_to_who_uses_two_queues(house: Database, conn: Connection) -> None:
    """A transaction holds the later queue and wants the earlier: upkeep, which has that, gives way."""
    do(conn, "select pgmq.create_partitioned(q, '10', '100000', 1) from unnest(array['a', 'p']) q")
    for queue in ("a", "p"):
        send(conn, 60, queue)
    consumer = house.connect(autocommit=False)
    assert column(consumer, "select msg_id from pgmq.pop('p')") == [1]
    upkeep = house.connect()
    found: dict[str, tuple[int, int, int, str | None]] = {}
    thread = threading.Thread(target=lambda: found.update(maintain(upkeep)))
    thread.start()
    waits = "select exists (select from pg_locks where pid = %s and not granted)"
    while thread.is_alive() and not value(conn, waits, upkeep.info.backend_pid):
        pass
    assert column(consumer, "select msg_id from pgmq.pop('a')") == [1]
    consumer.commit()
    thread.join(20)
    assert found["q_a"][2:] == (41, None)
    assert "lock timeout" in (found["q_p"][3] or "")


def test_partitions_belong_to_their_queue_whoever_made_them(db: Database) -> None:
    """Upkeep by a superuser leaves the owner able to go on, and to drop."""
    owner, admin = db.connect(), db.connect(user=db.superuser)
    do(owner, "select pgmq.create_partitioned('p', '10', '50', 1)")
    send(owner, 60)
    assert maintain(admin)["q_p"] == (1, 1, 41, None)
    query = "select distinct tableowner from pg_tables where schemaname = 'pgmq' and tablename like '_\\_p%'"
    assert column(owner, query) == [owner.info.user]
    send(owner, 60)
    assert maintain(owner)["q_p"][1:] == (6, 41, None)


@pytest.mark.parametrize("on", ["table", "partitions"])
@pytest.mark.parametrize("identity", ["full", "nothing"])
def test_new_partitions_have_the_replica_identity_of_the_others(
    conn: Connection, on: str, identity: str
) -> None:
    """One without would stop every read of a queue that is published."""
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    query = "select c.oid::regclass from pg_class c where c.relname ~ '^[qa]_p' and c.relkind = any(%s)"
    for table in column(conn, query, ["p"] if on == "table" else ["r"]):
        do(conn, f"alter table {table} replica identity {identity}")
    send(conn, 60)
    do(conn, "select pgmq.archive('p', array[5, 55]::bigint[])")
    if on == "table":
        do(conn, 'drop table pgmq."a_p$default"')
    found = maintain(conn)
    assert found["q_p"][:3] == (1, 0, 40) and found["a_p"][0] > 1
    late = """
        select c.relname from pg_class c
        where c.relname ~ '^[qa]_p[$](p[2-9]|def)' and c.relkind = 'r' and c.relreplident <> %s"""
    old = [] if on == "partitions" else ["q_p$default"]
    assert column(conn, late, identity[0]) == old


def test_a_published_queue_is_read_once_its_partitions_have_identities(db: Database) -> None:
    """And stays so, whatever upkeep makes and moves."""
    conn = db.connect()
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    do(db.connect(user=db.superuser), "create publication everything for all tables")
    send(conn, 5)
    assert sqlstate(conn, "select pgmq.read('p', 0, 1)") == "55000"
    for table in column(conn, "select relid from pg_partition_tree('pgmq.q_p')"):
        do(conn, f"alter table {table} replica identity full")
    send(conn, 55)
    assert maintain(conn)["q_p"] == (1, 0, 41, None)
    assert value(conn, "select count(*) from pgmq.read('p', 0, 100)") == 60
    assert value(conn, "select count(*) from pgmq.archive('p', array[1, 30, 60]::bigint[])") == 3
    assert value(conn, "select count(*) from pgmq.pop('p', 100)") == 57


def test_columns_and_checks_of_the_users_move_along(conn: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('p', '10', '100000', 1)")
    do(conn, "alter table pgmq.q_p add column kind text generated always as (message ->> 'kind') stored")
    do(conn, "alter table pgmq.q_p add constraint known check (kind <> 'unheard-of')")
    do(conn, """select pgmq.send('p', '{"kind": "a"}') from generate_series(1, 60)""")
    assert maintain(conn)["q_p"] == (1, 0, 41, None)
    assert value(conn, "select count(*) from pgmq.q_p where kind = 'a'") == 60
    refused = sqlstate(conn, """select pgmq.send('p', '{"kind": "unheard-of"}')""")
    assert refused == "23514"


def test_upkeep_in_a_transaction_that_fails_leaves_all_as_it_was(house: Database, conn: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('p', '10', '50', 1)")
    send(conn, 60)
    before = partitions(conn, "q_p")
    other = house.connect(autocommit=False)
    assert maintain(other)["q_p"][2] == 41
    other.rollback()
    assert partitions(conn, "q_p") == before
    assert value(conn, "select count(*) from pgmq.q_p") == 60


def test_a_broken_partition_is_told_and_stops_no_other(conn: Connection) -> None:
    do(
        conn,
        "select pgmq.create_partitioned(q, '10', '100000', 1) from unnest(array['a', 'p']) q",
    )
    for queue in ("a", "p"):
        send(conn, 60, queue)
    do(conn, 'create table pgmq."q_a$p30" (in_the_way int)')
    done = maintain(conn)
    assert done["q_a"][2] == 31 and "q_a$p30" in (done["q_a"][3] or "")
    assert done["q_p"][2:] == (41, None)
    do(conn, 'drop table pgmq."q_a$p30"')
    assert maintain(conn)["q_a"][2:] == (10, None)


def test_without_pg_partman(conn: Connection) -> None:
    """case 66: the partition manager is not needed, and none of its tables is asked for."""
    do(conn, "select pgmq.create_partitioned('p')")
    assert column(conn, "select extname from pg_extension where extname like '%partman%'") == []
    assert rows(conn, "select is_partitioned, is_unlogged from pgmq.list_queues()") == [(True, False)]
    assert sqlstate(conn, "select pgmq.create_partitioned('p')") == "", "twice is once"
    do(conn, "select pgmq.create('plain')")
    state, message = outcome(conn, "select pgmq.create_partitioned('plain')")
    assert (state, message) == ("42P07", 'queue "plain" exists, and is not partitioned')


# --- archives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [("'1000', '100000'", "$p"), ("'1 day', '1 year'", "$p2")])
def test_an_archive_is_converted_and_nothing_is_lost(conn: Connection, cut: tuple[str, str]) -> None:
    """case 68, case 69: what was archived stays in a_NAME_old, as in pgmq; the rest goes to the new table."""
    do(conn, "select pgmq.create('p')")
    send(conn, 50)
    do(conn, "select pgmq.archive('p', array(select generate_series(1, 40))::bigint[])")
    do(conn, f"select pgmq.convert_archive_partitioned('p', {cut[0]}, 3)")
    assert value(conn, "select count(*) from pgmq.a_p_old") == 40
    assert value(conn, "select count(*) from pgmq.a_p") == 0
    assert value(conn, "select pgmq.archive('p', 41)") is True
    assert column(conn, "select msg_id from pgmq.a_p") == [41]
    columns = "msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers"
    do(conn, f"insert into pgmq.a_p ({columns}) select {columns} from pgmq.a_p_old; drop table pgmq.a_p_old")
    assert [done[3] for done in maintain(conn).values()] == [None]
    assert value(conn, "select count(*) from pgmq.a_p") == 41
    assert value(conn, SPILLED) == 0
    notices: list[str] = []
    conn.add_notice_handler(lambda note: notices.append(note.message_primary or ""))
    do(conn, f"select pgmq.convert_archive_partitioned('p', {cut[0]})")
    do(conn, "select pgmq.convert_archive_partitioned('nope')")
    assert notices == [
        'archive of queue "p" is already partitioned',
        'archive of queue "nope" does not exist',
    ]
    assert value(conn, "select count(*) from pgmq.a_p") == 41


@pytest.mark.parametrize("ahead", [3, 20])
def test_leading_partitions_are_as_many_as_asked_for(conn: Connection, ahead: int) -> None:
    """case 64"""
    do(conn, f"select pgmq.create('p'), pgmq.convert_archive_partitioned('p', '10', '100', {ahead})")
    assert len(partitions(conn, "a_p")) == 1 + ahead + 1
    assert value(conn, "select default_partition_length from pgmq.metrics('p')") == 0


def test_a_converted_archive_is_kept_up_and_dropped(conn: Connection) -> None:
    """case 33, case 67: retention of an archive without pg_partman; a plain queue's own is a later policy."""
    do(conn, "select pgmq.create('p'), pgmq.convert_archive_partitioned('p', '10', '30', 1)")
    send(conn, 100)
    do(conn, "select pgmq.archive('p', array(select generate_series(1, 100))::bigint[])")
    assert value(conn, SPILLED) == 81
    assert maintain(conn)["a_p"][1:] == (7, 81, None)
    assert value(conn, "select min(msg_id) from pgmq.a_p") == 70
    assert value(conn, "select pgmq.drop_queue('p')") is True
    assert rows(conn, "select * from pgqueue.partitioning") == []
    assert sqlstate(conn, "drop table pgmq.a_p_old") == ""


def test_metrics_for_who_may_read_the_tables_only(db: Database) -> None:
    """With rights on both tables and the sequence, and none on partitions: the queue's own spill."""
    owner = db.connect()
    do(owner, "select pgmq.create_partitioned('p', '10', '100', 1)")
    send(owner, 40)
    role = db.create_role()
    do(owner, f"grant usage on schema pgmq to {role}; grant select on pgmq.q_p, pgmq.a_p to {role}")
    do(owner, f"grant select on sequence pgmq.q_p_msg_id_seq to {role}")
    query = "select queue_length, total_messages, default_partition_length from pgmq.metrics('p')"
    assert rows(db.connect(user=role), query) == [(40, 40, 21)]
