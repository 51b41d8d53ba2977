"""What people built around a pgmq lives on: views, functions, triggers, keys, row security, rights, pg_partman."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.adopt.survey import survey
from tests.adopt import layouts
from tests.adopt.pictures import take_back, take_over
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, row, rows, sqlstate, value

AROUND = """
create schema app;
create view app.waiting as select msg_id, message from pgmq.q_x;
create view app.metrics as select * from pgmq.metrics_all();
create view app.queues as select queue_name from pgmq.list_queues();
create table app.log (msg_id bigint);
create function app.note() returns trigger language plpgsql as
    'begin insert into app.log values (new.msg_id); return new; end';
create trigger note after insert on pgmq.q_x for each row execute function app.note();
create table app.done (msg_id bigint references pgmq.a_x (msg_id));
create function app.take(queue text) returns setof pgmq.message_record language plpgsql as
    'begin return query select * from pgmq.read(queue, 30, 1); end';
create function app.last(queue text) returns bigint language plpgsql as
    'declare m pgmq.message_record; begin select * into m from pgmq.read(queue, 30, 1); return m.msg_id; end';
revoke execute on function app.take from public;
"""


def lives_on(conn: Connection) -> None:
    do(conn, "delete from app.log")
    new = value(conn, "select pgmq.send('x', '{\"n\": 1}', 0)")
    assert column(conn, "select msg_id from app.log") == [new]
    assert new in column(conn, "select msg_id from app.waiting")
    assert "x" in column(conn, "select queue_name from app.metrics")
    assert "x" in column(conn, "select queue_name from app.queues")
    assert len(rows(conn, "select msg_id from app.take('x')")) == 1
    assert value(conn, "select app.last('x')") is not None
    taken = value(conn, "select min(msg_id) from pgmq.q_x")
    do(conn, "select pgmq.archive('x', %s::bigint)", taken)
    do(conn, "insert into app.done values (%s)", taken)


@pytest.mark.parametrize("version", ["1.4.4", "1.9.0", "1.13.0"])
def test_objects_of_users(old_db: Database, version: str) -> None:
    conn = old_db.connect()
    layouts.build(conn, version, "extension")
    do(conn, AROUND)
    do(conn, "select pgmq.send('x', '{}', 0) from generate_series(1, 9)")
    old_session = old_db.connect()
    assert value(old_session, "select app.last('x')") == 1
    rights = value(conn, "select proacl::text from pg_proc where proname = 'take'")
    take_over(old_db)
    lives_on(conn)
    assert value(old_session, "select app.last('x')") is not None, "a session that knew the old type"
    assert value(conn, "select proacl::text from pg_proc where proname = 'take'") == rights
    take_back(old_db)
    lives_on(conn)


@pytest.mark.parametrize("version", ["1.5.1", "1.13.0"])
def test_roles_can_do_what_they_could(old_db: Database, version: str) -> None:
    """A sender, a reader and a maker of queues need no further grant; who was shut out stays so."""
    conn = old_db.connect()
    layouts.build(conn, version, "sql")
    sender, reader, maker, stranger = (old_db.create_role(name) for name in ("s", "r", "m", "n"))
    do(conn, "revoke execute on all functions in schema pgmq from public")
    for role in (sender, reader, maker):
        do(
            conn,
            f"grant usage on schema pgmq to {role}; grant execute on all functions in schema pgmq to {role}",
        )
    do(
        conn,
        f"grant select, insert on pgmq.q_x to {sender}; grant select, update, delete on pgmq.q_x to {reader}",
    )
    do(conn, f"grant insert on pgmq.a_x to {reader}; grant select on pgmq.a_x to {reader}")
    do(conn, f"grant create on schema pgmq to {maker}; grant select, insert on pgmq.meta to {maker}")
    do(conn, f"grant usage on schema pgmq to {stranger}")
    for name, way in (("before", None), ("forth", take_over), ("back", take_back)):
        if way:
            way(old_db, user=old_db.superuser)
        send, read, make, out = (old_db.connect(user=role) for role in (sender, reader, maker, stranger))
        new = value(send, "select pgmq.send('x', '{}', 0)")
        assert sqlstate(send, "select pgmq.delete('x', 1::bigint)") == "42501"
        assert column(read, "select msg_id from pgmq.read('x', 30, 1)") == [new]
        assert value(read, "select pgmq.archive('x', %s::bigint)", new) is True
        assert sqlstate(read, "select pgmq.send('x', '{}', 0)") == "42501"
        do(make, f"select pgmq.create('{name}')")
        assert sqlstate(out, "select pgmq.send('x', '{}', 0)") == "42501"
        assert sqlstate(out, "select pgmq.list_queues()") == "42501", "functions that were closed stay closed"


def test_row_security_and_other_owners(old_db: Database) -> None:
    """By a superuser: a table that belongs to another stays his, and his policies hold."""
    superuser = old_db.connect(user=old_db.superuser)
    layouts.build(old_db.connect(), "1.13.0", "sql")
    role = old_db.create_role()
    do(superuser, f"alter table pgmq.q_x owner to {role}; grant usage on schema pgmq to {role}")
    do(
        superuser,
        "alter table pgmq.q_x enable row level security; alter table pgmq.q_x force row level security",
    )
    do(superuser, "create policy own on pgmq.q_x using (message ->> 'for' = current_user) with check (true)")
    do(superuser, f"grant all on pgmq.a_x to {role}")
    take_over(old_db, user=old_db.superuser)
    do(superuser, "select pgmq.send('x', jsonb_build_object('for', %s::text)), pgmq.send('x', '{}')", role)
    theirs = old_db.connect(user=role)
    assert column(theirs, "select msg_id from pgmq.read('x', 30, 10)") == [1]
    query = "select relowner::regrole::text from pg_class where oid = 'pgmq.q_x'::regclass"
    assert value(superuser, query) == role


@pytest.fixture
def kept_up(partman: Cluster) -> Iterator[Database]:
    """A database with pg_partman."""
    database = partman.create_database()
    do(
        database.connect(user=database.superuser),
        "create schema partman; create extension pg_partman schema partman",
    )
    yield database
    database.drop()


@pytest.mark.parametrize("version", ["1.4.4", "1.13.0"])
def test_queues_under_pg_partman(kept_up: Database, version: str) -> None:
    """They stay under it, and all functions work on them; a queue that is dropped leaves nothing in its table."""
    conn = kept_up.connect(user=kept_up.superuser)
    layouts.build(conn, version, "extension", partitioned=["p"])
    do(conn, "select pgmq.send('p', '{}', 0) from generate_series(1, 250)")
    config = "select parent_table, partition_interval, retention, premake from partman.part_config order by 1"
    before = rows(conn, config)
    assert [queue.partman for queue in survey(conn).queues if queue.name == "p"] == [True]
    take_over(kept_up, user=kept_up.superuser)
    assert rows(conn, config) == before
    assert value(conn, "select count(*) from pgqueue.partitioning") == 0
    do(conn, "select pgqueue.maintain()")
    do(conn, "select partman.run_maintenance()")
    do(conn, "select pgmq.send('p', '{}') from generate_series(1, 100)")
    assert column(conn, "select msg_id from pgmq.read('p', 30, 3)") == [1, 2, 3]
    assert value(conn, "select pgmq.archive('p', 1::bigint)") is True
    assert value(conn, "select pgmq.delete('p', 2::bigint)") is True
    assert column(conn, "select msg_id from pgmq.pop('p')") == [4]
    assert row(conn, "select queue_length from pgmq.metrics('p')") == (347,)
    lacking = """select count(*) from pg_partition_tree('pgmq.q_p') t where t.isleaf and 2 <> (
        select count(*) from pg_index i where i.indrelid = t.relid and i.indisvalid and i.indpred is not null)"""
    assert value(conn, lacking) == 0, "new partitions have our indexes too"
    take_back(kept_up, user=kept_up.superuser)
    assert rows(conn, config) == before
    assert column(conn, "select msg_id from pgmq.read('p', 30, 1)") == [5]
    take_over(kept_up, user=kept_up.superuser)
    assert value(conn, "select pgmq.drop_queue('p')") is True
    assert rows(conn, config) == []
