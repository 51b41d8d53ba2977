"""Leaving: all of it or all but the archives, in steps that can be broken off."""

from __future__ import annotations

import psycopg
import pytest

from pgqueue import migrate
from pgqueue.dependents import dependents
from pgqueue.errors import Refused
from pgqueue.script import uninstall_sql
from tests.databases import Database
from tests.sql.asking import Connection, column, do, rows, sqlstate, value
from tests.upgrade.dumps import dump, play


@pytest.fixture
def session(db: Database) -> Connection:
    """A connection as migrate takes it."""
    return db.connect(autocommit=False)


def furnish(conn: Connection) -> None:
    do(
        conn,
        """
        select pgmq.create('orders'), pgmq.create_unlogged('quick');
        select pgmq.create_partitioned('parts', '10', '10000');
        select pgmq.create_fifo_index('orders'), pgmq.enable_notify_insert('orders', 0);
        select pgmq.create('plain'), pgqueue.decompile('plain'), pgmq.create(repeat('é', 30));
        select pgmq.bind_topic('a.#', 'orders'), pgmq.create('turned');
        select pgmq.send(m.queue_name, to_jsonb(g)) from pgmq.meta m, generate_series(1, 50) g;
        select pgmq.archive(m.queue_name, 7), pgmq.archive(m.queue_name, 49) from pgmq.meta m;
        select pgmq.convert_archive_partitioned('turned');
        """,
    )


SCHEMAS = "select nspname from pg_namespace where nspname in ('pgmq', 'pgqueue')"


def test_nothing_stays(db: Database, conn: Connection, session: Connection) -> None:
    do(conn, "create table public.mine as select 1 as a")
    public = dump(db, "-n", "public")
    furnish(conn)
    steps: list[tuple[int, int]] = []
    assert migrate.uninstall(session, progress=lambda done, of: steps.append((done, of))) == 6
    assert steps == [(6, 6)]
    assert column(conn, SCHEMAS) == []
    assert dump(db, "-n", "public") == public
    assert value(conn, "select count(*) from pg_default_acl") == 0
    assert migrate.status(session).kind == "absent"
    migrate.install(session)
    assert rows(conn, "select * from pgmq.list_queues()") == []


def test_archives_can_be_kept(db: Database, conn: Connection, session: Connection) -> None:
    """case 71: they stay, readable, under their names; and a later installation's queues take them up."""
    furnish(conn)
    names = column(
        conn,
        "select tablename from pg_tables where schemaname = 'pgmq' and tablename ~ '^a_' order by 1",
    )
    before = {name: rows(conn, f'select * from pgmq."{name}" order by 1') for name in names}
    assert sum(len(found) for name, found in before.items() if "$" not in name) == 12
    assert migrate.uninstall(session, keep_archives=True) == 6
    assert column(conn, SCHEMAS) == ["pgmq"]
    kept = column(
        conn,
        "select c.relname from pg_class c where relnamespace = 'pgmq'::regnamespace and relkind <> 'i'"
        " and relkind <> 'I' order by 1",
    )
    assert kept == names
    assert {name: rows(conn, f'select * from pgmq."{name}" order by 1') for name in names} == before
    assert column(conn, "select proname from pg_proc where pronamespace = 'pgmq'::regnamespace") == []
    assert migrate.status(session).kind == "absent"
    migrate.install(session)
    do(conn, "select pgmq.create('orders'), pgmq.send('orders', '1') from generate_series(1, 60)")
    assert value(conn, "select min(msg_id) from pgmq.q_orders") == 50, "after those of the archive"
    assert value(conn, "select pgmq.archive('orders', 60)") is True
    assert column(conn, "select msg_id from pgmq.a_orders order by 1") == [7, 49, 60]
    assert migrate.uninstall(session, keep_archives=True) == 1
    assert column(conn, "select msg_id from pgmq.a_orders order by 1") == [7, 49, 60]


@pytest.mark.parametrize("keep", [False, True])
def test_broken_off_and_run_again(
    conn: Connection, session: Connection, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    """Each step is a transaction: what is left still works, and a second run does the rest."""
    furnish(conn)
    monkeypatch.setattr(migrate, "QUEUES_A_STEP", 2)

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate.uninstall(session, keep_archives=keep, progress=interrupt)
    session.rollback()
    left = column(conn, "select queue_name from pgmq.list_queues() order by 1")
    assert len(left) == 4
    for queue in left:
        assert value(conn, "select pgmq.send(%s, '1')", queue) == 51
    assert migrate.status(session).queues == 4
    steps: list[tuple[int, int]] = []
    assert migrate.uninstall(session, keep_archives=keep, progress=lambda a, b: steps.append((a, b))) == 4
    assert steps == [(2, 4), (4, 4)]
    assert column(conn, SCHEMAS) == (["pgmq"] if keep else [])


def test_a_queue_in_use_stops_it_in_order(db: Database, conn: Connection, session: Connection) -> None:
    furnish(conn)
    reader = db.connect(autocommit=False)
    do(reader, "select pgmq.read('orders', 30, 1)")
    do(session, "set lock_timeout = '100ms'")
    session.commit()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        migrate.uninstall(session)
    session.rollback()
    reader.rollback()
    assert migrate.status(session).queues == 6
    assert migrate.uninstall(session) == 6


ODD_ROWS = ["it's", "a;b", "$body$", "", "nope", "x" * 100, "q_orders"]


def test_odd_rows_in_the_list_do_not_stop_it(conn: Connection, session: Connection) -> None:
    """Rows that somebody wrote into pgmq.meta by hand, for which there is no queue and could be none."""
    furnish(conn)
    for name in ODD_ROWS:
        do(conn, "insert into pgmq.meta values (%s, false, false)", name)
    migrate.uninstall(session)
    assert column(conn, SCHEMAS) == []


USERS = """
    create view public.waiting as select count(*) from pgmq.q_orders;
    create view public.on_that as select * from public.waiting;
    create table public.orders (
        id bigint references pgmq.q_orders (msg_id),
        gone boolean default pgmq.delete('orders', 1::bigint)
    );
    create function public.first(m pgmq.message_record) returns bigint language sql as 'select m.msg_id';
    create table public.log (last pgmq.message_record, at timestamptz);
    create function public.note() returns trigger language plpgsql as 'begin return new; end';
    create trigger audit after insert on pgmq.q_orders for each row execute function public.note();
    create view pgmq.mine as select 1 as a;
    create function pgmq.own() returns int language sql as 'select 1';
    create view public.old as select * from pgmq.a_orders;
"""
USED = [
    "column last of table log",
    "constraint orders_id_fkey on table orders",
    "default value for column gone of table orders",
    "function first(pgmq.message_record)",
    "function pgmq.own()",
    "trigger audit on table pgmq.q_orders",
    "view on_that",
    "view waiting",
]
OF_ARCHIVES = ["view old", "view pgmq.mine"]


@pytest.mark.parametrize("keep", [False, True])
def test_what_is_not_ours_is_not_dropped(conn: Connection, session: Connection, keep: bool) -> None:
    """What the user built on ours stops it by name before anything goes; told to, it takes that along."""
    furnish(conn)
    before = migrate.status(session)
    do(conn, USERS)
    with pytest.raises(Refused) as caught:
        migrate.uninstall(session, keep_archives=keep)
    assert dependents(session, keep_archives=keep) == tuple(sorted(USED + ([] if keep else OF_ARCHIVES)))
    for name in USED:
        assert name in str(caught.value)
    assert migrate.status(session) == before
    assert value(conn, "select count(*) from public.waiting") == 1
    assert migrate.uninstall(session, keep_archives=keep, cascade=True) == 6
    assert column(conn, SCHEMAS) == (["pgmq"] if keep else [])
    left = "relnamespace = 'public'::regnamespace and relkind in ('v', 'r', 'c')"
    assert column(conn, f"select relname from pg_class where {left} order by 1") == [
        "log",
        *(["old"] if keep else []),
        "orders",
    ]
    assert column(conn, "select proname from pg_proc where pronamespace = 'public'::regnamespace") == ["note"]


@pytest.mark.parametrize("keep", [False, True])
def test_what_merely_lies_beside_it_does_not_stop_it(
    conn: Connection, session: Connection, keep: bool
) -> None:
    """A publication, statistics, an index, a row policy and functions that only call ours."""
    furnish(conn)
    do(
        conn,
        """
        create statistics public.stats on msg_id, vt from pgmq.q_orders;
        create index mine on pgmq.q_orders (enqueued_at);
        create policy everybody on pgmq.q_orders using (true);
        create function public.push() returns bigint language sql as $$ select pgmq.send('orders', '1') $$;
        """,
    )
    assert dependents(session, keep_archives=keep) == ()
    assert migrate.uninstall(session, keep_archives=keep) == 6


def test_many_users_are_counted(conn: Connection, session: Connection) -> None:
    for number in range(12):
        do(conn, f"create view public.v{number:02} as select * from pgmq.meta")
    with pytest.raises(Refused, match="view v09 and 2 more") as caught:
        migrate.uninstall(session)
    assert "v10" not in str(caught.value)


def test_the_printed_script_removes_few_queues(db: Database, conn: Connection) -> None:
    furnish(conn)
    play(db, uninstall_sql())
    assert column(conn, SCHEMAS) == []


def test_only_the_owner_uninstalls(db: Database, conn: Connection) -> None:
    furnish(conn)
    stranger = db.connect(user=db.create_role(), autocommit=False)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        migrate.uninstall(stranger)
    stranger.rollback()
    assert sqlstate(conn, "select pgmq.read('orders', 30, 1)") == ""
