"""What cannot be adopted is told, and nothing is changed."""

from __future__ import annotations

import pytest

from pgqueue.adopt import refusals, waiting
from pgqueue.errors import CannotAdopt, InTheWay
from tests.adopt import layouts
from tests.adopt.pictures import MADE, picture, take_over
from tests.databases import Database
from tests.sql.asking import do, value


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("create view pgmq.q_seen as select * from pgmq.q_x", "pgqueue reads tables alone: q_seen"),
        ('alter table pgmq.q_x rename to "q_a$b"', r"rename them first: a\$b"),
        (
            "create table pgmq.q_x_ready_idx (i integer)",
            "names that our indexes need are taken: q_x_ready_idx",
        ),
        ("alter table pgmq.q_x alter message type json", r"pgmq\.q_x\.message is json"),
        ("create view v as select * from pgmq.pop('x')", "view public.v uses function pgmq.pop"),
        ("create table t (m pgmq.message_record)", "table public.t uses type pgmq.message_record"),
        ("alter type pgmq.metrics_result add attribute more integer", "more.*--accept-newer"),
    ],
    ids=["view", "name", "taken", "column", "dropped function", "type", "newer"],
)
def test_refused(old_db: Database, made: str, reason: str) -> None:
    conn = old_db.connect(user=old_db.superuser)
    layouts.build(conn, "1.5.1", "sql")
    do(conn, made)
    before = picture(conn, MADE)
    with pytest.raises(CannotAdopt, match=reason):
        take_over(old_db, user=old_db.superuser)
    assert picture(conn, MADE) == before


def test_nothing_there(old_db: Database) -> None:
    with pytest.raises(CannotAdopt, match="run `pgqueue install`"):
        take_over(old_db)


def test_not_the_owner(old_db: Database) -> None:
    """Of the extension, and of one table: each is named."""
    conn = old_db.connect(user=old_db.superuser)
    layouts.build(conn, "1.13.0", "extension", queues=["x"])
    role = old_db.create_role()
    do(conn, f"grant create on database {old_db.name} to {role}; grant all on schema pgmq to {role}")
    with pytest.raises(CannotAdopt, match="does not own the extension pgmq, which belongs to postgres"):
        take_over(old_db, user=role)
    other = old_db.connect()
    do(conn, "drop extension pgmq cascade; drop schema pgmq cascade")
    layouts.build(other, "1.13.0", "sql", queues=["x"])
    do(conn, "alter table pgmq.q_x owner to postgres")
    with pytest.raises(
        CannotAdopt, match=r"app_owner does not own table pgmq\.q_x, which belongs to postgres"
    ):
        take_over(old_db)


def test_newer_and_older_extensions(old_db: Database) -> None:
    conn = old_db.connect(user=old_db.superuser)
    layouts.build(conn, "1.13.0", "extension")
    for version, reason in (("1.14.0", "newer than"), ("1.2.0", "older than"), ("two", "no version known")):
        do(conn, "update pg_extension set extversion = %s where extname = 'pgmq'", version)
        with pytest.raises(CannotAdopt, match=reason):
            take_over(old_db, user=old_db.superuser)
    do(conn, "update pg_extension set extversion = '1.14.0' where extname = 'pgmq'")
    take_over(old_db, user=old_db.superuser, accept_newer=True)
    assert value(conn, "select count(*) from pgqueue.migration") > 0


def test_no_room(old_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    conn = old_db.connect()
    layouts.build(conn, "1.13.0", "sql")
    do(conn, "select pgmq.send_batch('x', array_fill('{}'::jsonb, array[1000]))")
    monkeypatch.setattr(refusals, "free_bytes", lambda conn: 100)
    with pytest.raises(CannotAdopt, match="100 are free where the server keeps its data"):
        take_over(old_db)


def test_an_open_transaction_is_named(old_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is old is refused at once; one that stays is waited for, then named. It goes on afterwards."""
    conn = old_db.connect()
    layouts.build(conn, "1.4.4", "sql")
    monkeypatch.setattr(waiting, "PATIENCE", 0.5)
    holder = old_db.connect(autocommit=False)
    do(holder, "select pgmq.send('x', '1', 0)")
    pid = holder.info.backend_pid
    with pytest.raises(InTheWay, match=f"in the way is pid {pid} of app_owner, idle in transaction"):
        take_over(old_db)
    assert value(conn, "select count(*) from pgmq.send('x', '2', 0)") == 1, "nobody queues behind us"
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    with pytest.raises(CannotAdopt, match=f"an open transaction holds tables of pgmq: pid {pid}"):
        take_over(old_db)
    holder.rollback()
    monkeypatch.setattr(waiting, "PATIENCE", 20.0)
    take_over(old_db)
    assert value(conn, "select count(*) from pgqueue.migration") > 0


def test_two_at_once(old_db: Database) -> None:
    """Of two adoptions one goes on, the other is told who is at it."""
    conn = old_db.connect()
    layouts.build(conn, "1.13.0", "sql")
    told = []

    def second(step: object, done: int, total: int) -> None:
        if not told:
            with pytest.raises(CannotAdopt, match=r"another `pgqueue adopt` is at work here, pid \d+"):
                take_over(old_db)
            told.append(True)

    take_over(old_db, watch=second)
    assert told == [True]
