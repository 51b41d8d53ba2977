"""Queues, partitions and views of roles that do not own the installation."""

from __future__ import annotations

import pytest

from pgqueue import migrate
from pgqueue.script import Migration, migrations
from tests.databases import Database
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.calls import DENIED, RIGHTS_OF_A_CREATOR, calls, furnish, outcomes

# --- queues of another role -----------------------------------------------------------------------


@pytest.fixture
def maker(db: Database, conn: Connection) -> Connection:
    """A connection of a role that may create queues, and owns nothing of the installation."""
    role = db.create_role("maker")
    for grant in RIGHTS_OF_A_CREATOR.values():
        do(conn, grant.format(role))
    return db.connect(user=role)


OWNERS = """
    select distinct pg_get_userbyid(p.proowner) from pg_proc p
    where p.pronamespace = 'pgqueue'::regnamespace and p.proname like 'mine$%%'"""


def test_compiled_functions_belong_to_the_installations_owner(conn: Connection, maker: Connection) -> None:
    do(maker, "select pgmq.create('mine'), pgmq.send('mine', '{}')")
    assert column(conn, OWNERS) == [conn.info.user]
    assert value(conn, "select tableowner from pg_tables where tablename = 'q_mine'") == maker.info.user
    assert value(maker, 'select msg_id from pgqueue."mine$read"(0, 1)') == 1
    do(maker, "select pgmq.create_fifo_index('mine'), pgqueue.compile('mine')")
    assert column(conn, OWNERS) == [conn.info.user]
    assert value(maker, "select pgmq.drop_queue('mine')") is True
    assert column(conn, OWNERS) == []


def test_the_owner_upgrades_queues_of_others(db: Database, conn: Connection, maker: Connection) -> None:
    do(maker, "select pgmq.create('mine'), pgmq.create_partitioned('parts', '10', '100')")
    do(maker, "select pgmq.send('mine', '{}'), pgmq.send('parts', '{}')")
    do(
        conn,
        """create or replace function pgqueue."mine$pop"(qty integer default 1)
           returns setof pgmq.message_record language plpgsql as 'begin raise exception $x$stale$x$; end'""",
    )
    steps = (*migrations(), Migration(len(migrations()) + 1, "nothing", "select 1"))
    migrate.upgrade(db.connect(autocommit=False), steps=steps)
    assert value(maker, "select msg_id from pgmq.pop('mine')") == 1
    assert column(conn, OWNERS) == [conn.info.user]


def test_who_may_compile(db: Database, conn: Connection, maker: Connection) -> None:
    """The owner of the queue's table and those who may create; not one who may only use it."""
    do(maker, "select pgmq.create('mine')")
    role = db.create_role("user")
    do(conn, f"grant usage on schema pgmq to {role}")
    do(maker, f"grant all on pgmq.q_mine, pgmq.a_mine to {role}")
    assert outcome(db.connect(user=role), "select pgqueue.compile('mine')") == (
        DENIED,
        'permission denied for queue "mine"',
    )
    do(conn, f"revoke create on schema pgmq from {maker.info.user}")
    assert value(maker, "select pgqueue.compile('mine')") is True
    assert value(conn, "select pgqueue.compile('mine')") is True


def test_only_the_installations_owner_decompiles(conn: Connection, maker: Connection) -> None:
    do(maker, "select pgmq.create('mine')")
    assert sqlstate(maker, "select pgqueue.decompile('mine')") == DENIED
    do(conn, "select pgqueue.decompile('mine')")
    assert value(maker, "select pgqueue.compile('mine')") is False, "the owner's switch stays"
    assert value(conn, "select pgqueue.compile('mine')") is True


# --- rows of partitioning -------------------------------------------------------------------------


def test_a_stranger_cannot_touch_how_others_tables_are_cut(db: Database, conn: Connection) -> None:
    do(conn, "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100')")
    before = rows(conn, "select * from pgqueue.partitioning order by 1")
    assert len(before) == 2
    stranger = db.connect(user=db.create_role())
    insert = "insert into pgqueue.partitioning values (%s, 'msg_id', '1', '0', 1)"
    for table in ("q_orders", "q_parts", "q_nope", "meta"):
        assert sqlstate(stranger, insert, table) == DENIED, table
    do(stranger, "update pgqueue.partitioning set span = '1', retention = '0'")
    do(stranger, "update pgqueue.partitioning set table_name = 'q_mine' where table_name = 'q_parts'")
    do(stranger, "delete from pgqueue.partitioning")
    assert rows(conn, "select * from pgqueue.partitioning order by 1") == before
    for statement in (
        "truncate pgqueue.partitioning",
        "alter table pgqueue.partitioning disable trigger guard",
        "drop trigger guard on pgqueue.partitioning",
        "insert into pgqueue.policy values ('orders', false)",
        "select * from pgqueue.policy",
        "delete from pgqueue.migration",
    ):
        assert sqlstate(stranger, statement) == DENIED, statement


def test_an_owner_cuts_his_own_tables_alone(conn: Connection, maker: Connection) -> None:
    do(conn, "select pgmq.create_partitioned('theirs', '10', '100')")
    do(maker, "select pgmq.create_partitioned('mine', '10', '100')")
    theirs = rows(conn, "select * from pgqueue.partitioning where table_name ~ '_theirs$' order by 1")
    upsert = "insert into pgqueue.partitioning values ('{}', 'msg_id', '20', '0', 1)"
    upsert += " on conflict (table_name) do update set {}"
    for statement in (
        upsert.format("q_theirs", "span = '1'"),
        upsert.format("q_theirs", "table_name = 'q_mine'"),
        upsert.format("q_mine", "table_name = 'a_theirs'"),
        "update pgqueue.partitioning set table_name = 'q_theirs' where table_name = 'q_mine'",
    ):
        assert sqlstate(maker, statement) == DENIED, statement
    do(maker, upsert.format("q_mine", "span = excluded.span"))
    do(maker, "update pgqueue.partitioning set premake = 9")
    found = rows(
        conn, "select table_name, span, premake from pgqueue.partitioning where table_name ~ '_mine$'"
    )
    assert sorted(found) == [("a_mine", "10", 9), ("q_mine", "20", 9)]
    assert column(maker, "select table_name from pgqueue.maintain()") == ["a_mine", "q_mine"]
    assert rows(conn, "select * from pgqueue.partitioning where table_name ~ '_theirs$' order by 1") == theirs
    assert value(maker, "select pgmq.drop_queue('mine')") is True
    assert column(conn, "select table_name from pgqueue.partitioning order by 1") == ["a_theirs", "q_theirs"]


def test_upkeep_runs_no_trigger_of_another_owner(db: Database, conn: Connection, maker: Connection) -> None:
    """Who may create a queue may put a trigger on its partitions: upkeep by the owner runs none."""
    do(conn, f"create table public.canary (who text); grant insert on public.canary to {maker.info.user}")
    do(maker, "select pgmq.create_partitioned('bait', '10', '1000')")
    do(
        maker,
        """
        create function pg_temp.spring() returns trigger language plpgsql as $$
        begin
            insert into public.canary values (current_user);
            return null;
        end $$;
        create trigger spring after delete on pgmq."q_bait$default" execute function pg_temp.spring();
        select pgmq.send('bait', '{}') from generate_series(1, 99);
        """,
    )
    do(maker, f'grant all on pgmq.q_bait, pgmq."q_bait$default" to {conn.info.user}')
    found = rows(
        conn, "select table_name, rows_moved, problem from pgqueue.maintain() where table_name = 'q_bait'"
    )
    assert found == [("q_bait", 0, f"belongs to {maker.info.user}, who is to maintain it")]
    assert rows(conn, "select * from public.canary") == []
    assert value(maker, "select rows_moved from pgqueue.maintain() where table_name = 'q_bait'") > 0
    assert column(conn, "select who from public.canary") == [maker.info.user] * value(
        conn, "select count(*) from public.canary"
    )


# --- views in place of tables ---------------------------------------------------------------------


@pytest.fixture
def canary(conn: Connection, maker: Connection) -> str:
    """A table that shows whether the view pgmq.q_trap, in the place of a queue's table, was looked at."""
    do(conn, "create table public.canary (who text); grant insert on public.canary to public")
    do(
        maker,
        """
        create function pgmq.spring() returns bigint language plpgsql as $$
        begin
            insert into public.canary values (current_user);
            return 1;
        end $$;
        create view pgmq.q_trap as
            select pgmq.spring() as msg_id, 1 as read_ct, now() as enqueued_at, now() as last_read_at,
                   now() as vt, '{}'::jsonb as message, '{}'::jsonb as headers;
        create view pgmq.a_trap as select * from pgmq.q_trap;
        grant all on pgmq.q_trap, pgmq.a_trap to public;
        insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ('trap', false, false);
        """,
    )
    return "public.canary"


def test_no_function_looks_at_a_view(db: Database, conn: Connection, canary: str) -> None:
    furnish(conn)
    assert "trap" not in column(conn, "select queue_name from pgmq.metrics_all()")
    statements = {
        signature: statement.replace("'orders'", "'trap'").replace("q_orders", "q_trap")
        for signature, statement in calls(conn, "pgmq", "pgqueue").items()
        if "$" not in signature
    }
    found = outcomes(conn, statements)
    for signature in ("send(text,jsonb)", "read(text,integer,integer,jsonb)", "metrics(text)"):
        assert found[f"pgmq.{signature}"] == "42P01", signature
    assert found["pgqueue.compile(text)"] == "42P01"
    assert outcome(conn, "select pgmq.create('trap')") == (
        "42809",
        'pgmq.q_trap is no table, so there can be no queue "trap"',
    )
    assert sqlstate(conn, "select pgmq.create_partitioned('trap')") == "42809"
    assert sqlstate(conn, "select pgmq.enable_notify_insert('trap')") in ("42809", "P0001")
    do(conn, "select pgqueue._compile_all()")
    do(conn, "select * from pgqueue.maintain()")
    migrate.compile_queues(db.connect(autocommit=False), ["orders"])
    assert rows(conn, f"select * from {canary}") == []
    assert value(conn, "select count(*) from pg_proc where proname like 'trap$%%'") == 0


def test_a_view_does_not_stop_the_owner(db: Database, conn: Connection, canary: str) -> None:
    """Upgrade, and uninstall, with such a trap."""
    steps = (*migrations(), Migration(len(migrations()) + 1, "nothing", "select 1"))
    session = db.connect(autocommit=False)
    migrate.upgrade(session, steps=steps)
    assert rows(conn, f"select * from {canary}") == []
    do(conn, "delete from pgqueue.migration where name = 'nothing'")
    migrate.uninstall(session, cascade=True)
    assert value(conn, "select to_regnamespace('pgmq') is null")
    assert rows(conn, f"select * from {canary}") == []


SPRING = """
    create function pgmq.spring() returns boolean language plpgsql as $$
    begin
        insert into public.canary values (current_user);
        return true;
    end $$;
"""
BAITS = {
    "row policy": """
        alter table pgmq.q_bait enable row level security;
        create policy trap on pgmq.q_bait using (pgmq.spring());""",
    "column type": """
        create type pgmq.moment as (at timestamptz);
        create function pgmq.at(m pgmq.moment) returns timestamptz language plpgsql as $$
        begin
            perform pgmq.spring();
            return m.at;
        end $$;
        create cast (pgmq.moment as timestamptz) with function pgmq.at(pgmq.moment) as implicit;
        alter table pgmq.q_bait drop column vt, add column vt pgmq.moment default row(now())::pgmq.moment;""",
}


def test_counting_all_queues_under_a_policy_of_the_owner_of_pgmq(conn: Connection, maker: Connection) -> None:
    """Whoever may run the functions runs that owner's code anyway."""
    do(conn, "select pgmq.create('seen'), pgmq.send('seen', '1'), pgmq.send('seen', '2')")
    do(conn, "alter table pgmq.q_seen enable row level security")
    do(conn, "create policy a_few on pgmq.q_seen using (message = '1')")
    do(conn, f"grant select on pgmq.q_seen, pgmq.q_seen_msg_id_seq to {maker.info.user}")
    counted = "select queue_name, queue_length from pgmq.metrics_all()"
    assert rows(conn, counted) == [("seen", 2)]
    assert rows(maker, counted) == [("seen", 1)]


@pytest.mark.parametrize("bait", BAITS)
def test_counting_all_queues_runs_no_code_of_their_owners(
    conn: Connection, maker: Connection, bait: str
) -> None:
    do(conn, "create table public.canary (who text); grant insert on public.canary to public")
    do(conn, "select pgmq.create('mine')")
    do(maker, "select pgmq.create('bait'), pgmq.send('bait', '1')" + ";" + SPRING + BAITS[bait])
    do(maker, "grant all on pgmq.q_bait, pgmq.q_bait_msg_id_seq to public")
    assert column(conn, "select queue_name from pgmq.metrics_all()") == ["mine"]
    assert rows(conn, "select * from public.canary") == []
    if bait == "row policy":
        do(conn, f"grant select on pgmq.q_mine, pgmq.q_mine_msg_id_seq to {maker.info.user}")
        counted = "select queue_name from pgmq.metrics_all() order by 1"
        assert column(maker, counted) == ["bait", "mine"], "the owner is under no policy of his own"
