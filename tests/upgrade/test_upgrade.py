"""Upgrading: a second migration, invented here, since there is only one so far."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import psycopg
import pytest

from pgqueue import migrate
from pgqueue.errors import NotInstalled
from pgqueue.script import Migration, functions_sql, install_sql, migrations
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, outcome, rows, value
from tests.sql.calls import calls, outcomes
from tests.upgrade.dumps import dump

SECOND = Migration(
    len(migrations()) + 1,
    "add_colour",
    """
    alter table pgqueue.policy add column colour text;
    do $$
    declare
        v_queue record;
    begin
        for v_queue in select m.queue_name from pgmq.meta m loop
            execute format('alter table pgmq.%I add column colour text', 'q_' || lower(v_queue.queue_name));
        end loop;
    end
    $$;
    """,
)
BROKEN = Migration(SECOND.id + 1, "break", "create table pgqueue.halfway (a int); select 1 / 0;")
STEPS = (*migrations(), SECOND)


@pytest.fixture
def session(db: Database) -> Connection:
    """A connection as migrate takes it."""
    return db.connect(autocommit=False)


def furnish(conn: Connection) -> None:
    do(
        conn,
        """
        select pgmq.create('orders'), pgmq.create_unlogged('quick');
        select pgmq.create_partitioned('parts', '10', '1000');
        select pgmq.create_fifo_index('orders'), pgmq.enable_notify_insert('orders', 0);
        select pgmq.create('plain'), pgqueue.decompile('plain'), pgmq.create(repeat('é', 30));
        select pgmq.bind_topic('a.#', 'orders');
        select pgmq.send(m.queue_name, to_jsonb(g)) from pgmq.meta m, generate_series(1, 600) g;
        select pgmq.pop(m.queue_name, 300), pgmq.read(m.queue_name, 3600, 100) from pgmq.meta m;
        select pgmq.archive(m.queue_name, 550) from pgmq.meta m;
        """,
    )


def state(conn: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Messages with their leases, and archives, of every queue."""
    columns = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
    found = {}
    for queue in column(conn, "select queue_name from pgmq.meta"):
        for kind in ("q", "a"):
            found[f"{kind} {queue}"] = rows(
                conn, f'select {columns} from pgmq."{kind}_{queue}" order by msg_id'
            )
    return found


def test_messages_and_leases_survive(db: Database, conn: Connection, session: Connection) -> None:
    """case 17: it is applied, everything is kept, every queue compiled anew; a second time is nothing."""
    furnish(conn)
    before = state(conn)
    done = migrate.upgrade(session, steps=STEPS)
    assert done == (f"migration {SECOND.id:04d} add_colour", "functions", "compile 5 queues")
    assert state(conn) == before
    assert value(conn, "select checksum from pgqueue.migration where name = 'add_colour'") == SECOND.checksum
    assert column(conn, "select colour from pgmq.q_orders limit 1") == [None]
    for queue in column(conn, "select queue_name from pgmq.meta"):
        assert value(conn, "select msg_id from pgmq.read(%s, 60, 1)", queue) == 401
        assert value(conn, "select pgmq.send(%s, '1')", queue) == 601
    assert value(conn, "select to_regproc('pgqueue.\"plain$read\"') is null"), "decompiled stays so"
    once = dump(db)
    assert migrate.upgrade(session, steps=STEPS) == ()
    assert dump(db) == once


def test_a_dry_run_tells_and_changes_nothing(db: Database, conn: Connection, session: Connection) -> None:
    furnish(conn)
    before = dump(db)
    told = migrate.upgrade(session, steps=STEPS, dry_run=True)
    assert told[0] == f"migration {SECOND.id:04d} add_colour"
    assert dump(db) == before
    assert migrate.upgrade(session, dry_run=True) == ()


def test_a_migration_that_fails_changes_nothing(db: Database, conn: Connection, session: Connection) -> None:
    """The whole upgrade is rolled back, the migrations before it too."""
    furnish(conn)
    before = dump(db)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.upgrade(session, steps=(*STEPS, BROKEN))
    session.rollback()
    assert dump(db) == before
    assert migrate.upgrade(session, steps=STEPS) != ()


def test_functions_that_were_touched_are_made_anew(
    db: Database, conn: Connection, session: Connection
) -> None:
    """case 22, case 23, case 24, case 25: replaced, whoever patched them; missing ones come back."""
    furnish(conn)
    statements = calls(conn, "pgmq", "pgqueue")
    usual = outcomes(conn, statements)
    whole = dump(db, "--schema-only")
    do(
        conn,
        """
        create or replace function pgmq.pop(queue_name text, qty integer default 1)
        returns setof pgmq.message_record language sql as 'select null::pgmq.message_record';
        create or replace function pgqueue."orders$read"(vt integer, qty integer)
        returns setof pgmq.message_record language sql as 'select null::pgmq.message_record';
        drop function pgqueue._claim, pgmq.metrics_all;
        drop function pgqueue."orders$due";
        revoke execute on all functions in schema pgqueue from public;
        """,
    )
    do(conn, "update pgqueue.migration set name = 'initial'")
    migrate.upgrade(session, steps=(*migrations(), Migration(SECOND.id, "nothing", "select 1")))
    assert dump(db, "--schema-only") == whole
    assert outcomes(conn, statements) == usual


def test_who_may_call_what_is_left_as_it_was(db: Database, conn: Connection, session: Connection) -> None:
    """Of pgmq's functions; one that comes anew may be called by all. Ours in schema pgqueue are needed by all."""
    guest = db.connect(user=db.create_role())
    do(conn, "grant usage on schema pgmq to public")
    do(conn, "revoke execute on function pgmq.list_queues() from public; drop function pgmq.metrics_all")
    do(conn, "update pgqueue.migration set name = 'initial'")
    migrate.upgrade(session, steps=(*migrations(), Migration(SECOND.id, "nothing", "select 1")))
    allowed = "select has_function_privilege(%s, 'execute')"
    assert value(guest, allowed, "pgmq.list_queues()") is False
    assert value(guest, allowed, "pgmq.metrics_all()") is True
    assert value(guest, allowed, "pgqueue.fetch(text,integer,integer,bigint[],integer[],boolean)") is True


def test_upgraded_is_as_fresh(server: Cluster, db: Database, conn: Connection) -> None:
    """case 18, case 125: after an upgrade the dump is the one of a fresh installation, queues included."""
    fresh = server.create_database()
    try:
        for database in (db, fresh):
            migrate.install(database.connect(autocommit=False))
            do(database.connect(), "select pgmq.create('before')")
            if database is db:
                migrate.upgrade(database.connect(autocommit=False), steps=STEPS)
        do(fresh.connect(), SECOND.sql)
        assert dump(db, "--schema-only") == dump(fresh, "--schema-only")
    finally:
        fresh.drop()


IDENTITIES = """
    select c.relname, c.relreplident from pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relname in ('meta', 'notify_insert_throttle', 'topic_bindings')
    order by 1"""


def test_an_upgrade_brings_what_older_installations_lack(
    db: Database, conn: Connection, session: Connection
) -> None:
    """Replica identities, but none that somebody chose otherwise; triggers in place of row security."""
    furnish(conn)
    whole = dump(db, "--schema-only")
    for table in ("meta", "topic_bindings"):
        do(conn, f"alter table pgmq.{table} replica identity default")
    do(conn, "alter table pgmq.notify_insert_throttle replica identity full")
    for table, policy in (("partitioning", "owner"), ("tick", "sender")):
        do(
            conn,
            f"drop trigger guard on pgqueue.{table}; alter table pgqueue.{table} enable row level security",
        )
        do(conn, f"create policy {policy} on pgqueue.{table} using (false)")
    steps = (*migrations(), Migration(SECOND.id, "nothing", "select 1"))
    migrate.upgrade(session, steps=steps)
    assert rows(conn, IDENTITIES) == [("meta", "i"), ("notify_insert_throttle", "f"), ("topic_bindings", "i")]
    do(
        conn,
        "alter table pgmq.notify_insert_throttle"
        " replica identity using index notify_insert_throttle_queue_name_key",
    )
    assert dump(db, "--schema-only") == whole


def test_an_upgrade_waits_for_nobody_who_holds_a_list(
    db: Database, conn: Connection, session: Connection
) -> None:
    """A dump holds every table for hours: behind who waits for a strong lock, all would wait."""
    do(conn, "alter table pgmq.meta replica identity default")
    looker = db.connect(autocommit=False)
    do(looker, "select * from pgmq.meta")
    told: list[str] = []
    session.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    steps = (*migrations(), Migration(SECOND.id, "nothing", "select 1"))
    start = time.monotonic()
    migrate.upgrade(session, steps=steps)
    assert time.monotonic() - start < 10
    assert "no replica identity yet" in told[-1]
    assert value(conn, "select relreplident from pg_class where oid = 'pgmq.meta'::regclass") == "d"
    looker.rollback()
    do(conn, "delete from pgqueue.migration where name = 'nothing'")
    migrate.upgrade(session, steps=steps)
    assert value(conn, "select relreplident from pg_class where oid = 'pgmq.meta'::regclass") == "i"


def test_callers_go_on_while_it_upgrades(db: Database, conn: Connection) -> None:
    """Sends and reads during upgrades succeed: functions are replaced, never dropped and made."""
    do(conn, "select pgmq.create('orders'), pgmq.create_fifo_index('orders')")
    stop = threading.Event()
    failures: list[str] = []
    calls_made = [0]

    def use() -> None:
        mine = db.connect()
        while not stop.is_set():
            for call in (
                "send('orders', '1')",
                "read('orders', 0, 1)",
                "pop('orders')",
                "read_grouped('orders', 0, 1)",
            ):
                calls_made[0] += 1
                if failed := outcome(mine, f"select pgmq.{call}")[1]:
                    failures.append(failed)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    session = db.connect(autocommit=False)
    for number in range(5):
        steps = [Migration(SECOND.id + n, f"n{n}", "select 1") for n in range(number + 1)]
        do(conn, "delete from pgqueue.migration where id > 1")
        migrate.upgrade(session, steps=(*migrations(), *steps))
    stop.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert calls_made[0] > 100


def test_two_upgrade_at_once(db: Database, conn: Connection) -> None:
    furnish(conn)
    done: list[object] = []

    def upgrade() -> None:
        try:
            done.append(migrate.upgrade(db.connect(autocommit=False), steps=STEPS))
        except psycopg.Error as error:
            done.append(error)

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one for one in done if not isinstance(one, tuple)] == []
    assert value(conn, "select count(*) from pgqueue.migration where name = 'add_colour'") == 1


def test_nothing_to_upgrade_is_said(empty_db: Database) -> None:
    session = empty_db.connect(autocommit=False)
    for action in (migrate.upgrade, migrate.uninstall):
        with pytest.raises(NotInstalled):
            action(session)
        session.rollback()


def test_install_brings_an_older_package_up_to_date(
    db: Database, conn: Connection, session: Connection
) -> None:
    do(
        conn,
        """create or replace function pgqueue.version(
               out schema_version integer, out package_version text, out pgmq_version text)
           language sql as $$ select 1, '0.0.1', '1.13.1' $$""",
    )
    assert migrate.status(session).current is False
    migrate.install(session)
    assert migrate.status(session).current is True


def test_status_tells_what_is_there(conn: Connection, session: Connection) -> None:
    """case 21"""
    furnish(conn)
    found = migrate.status(session)
    assert (found.kind, found.queues, found.compiled_queues) == ("pgqueue", 5, 3)
    assert found.schema_version == found.newest_schema_version == migrations()[-1].id


# --- released migrations --------------------------------------------------------------------------

CHECKSUMS = Path(__file__).with_name("checksums.txt")


def test_released_migrations_never_change() -> None:
    """checksums.txt has a line for each: one is added with a migration, and none is ever changed."""
    listed = [
        line.split() for line in CHECKSUMS.read_text().splitlines() if line and not line.startswith("#")
    ]
    assert [(f"{step.id:04d}_{step.name}", step.checksum) for step in migrations()] == [
        (name, checksum) for name, checksum in listed
    ]


def test_names_of_migrations_are_well_formed() -> None:
    folder = Path(__file__).resolve().parents[2] / "sql" / "templates" / "migrations"
    for file in folder.iterdir():
        assert re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", file.name), file.name
        assert "{{" not in file.read_text() and "{%" not in file.read_text(), "history includes no macro"


def test_the_installations_checksums_are_the_migrations(conn: Connection) -> None:
    assert rows(conn, "select id, name, checksum, breaking from pgqueue.migration order by id") == [
        (step.id, step.name, step.checksum, step.breaking) for step in migrations()
    ]


def test_the_functions_part_is_what_an_installation_ends_with() -> None:
    assert functions_sql() in install_sql()


# --- many queues ----------------------------------------------------------------------------------


def make_queues(conn: Connection, count: int) -> float:
    """Makes queues q1 … at the server's default settings; how many seconds that took."""
    start = time.monotonic()
    for first in range(1, count + 1, 100):
        do(conn, "select pgmq.create('q' || g) from generate_series(%s::int, %s::int) g", first, first + 99)
    return time.monotonic() - start


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_two_thousand_queues_are_upgraded_and_removed(
    db: Database, conn: Connection, session: Connection
) -> None:
    """At default max_locks_per_transaction; drop schema cascade would run out of locks at half of that."""
    assert value(conn, "show max_locks_per_transaction") == "64"
    made = make_queues(conn, 2000)
    do(conn, "select pgmq.send('q77', '1')")
    start = time.monotonic()
    assert migrate.upgrade(session, steps=(*migrations(), Migration(SECOND.id, "nothing", "select 1")))
    upgraded = time.monotonic() - start
    assert value(conn, "select msg_id from pgmq.read('q77', 60, 1)") == 1
    do(conn, "delete from pgqueue.migration where name = 'nothing'")
    start = time.monotonic()
    assert migrate.uninstall(session) == 2000
    removed = time.monotonic() - start
    assert value(conn, "select to_regnamespace('pgmq') is null and to_regnamespace('pgqueue') is null")
    print(f"2,000 queues: made in {made:.1f} s, upgraded in {upgraded:.1f} s, removed in {removed:.1f} s")


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_a_thousand_queues_are_upgraded_in_a_minute(conn: Connection, session: Connection) -> None:
    make_queues(conn, 1000)
    start = time.monotonic()
    migrate.upgrade(session, steps=(*migrations(), Migration(SECOND.id, "nothing", "select 1")))
    seconds = time.monotonic() - start
    print(f"1,000 queues upgraded in {seconds:.1f} s")
    assert seconds < 60
