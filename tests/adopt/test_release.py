"""Who drops a queue, or detaches its archive, while queues leave the extension."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgqueue.adopt import columns, indexes, refusals, swap, waiting
from pgqueue.adopt.survey import survey
from pgqueue.errors import InTheWay
from tests.adopt import layouts
from tests.databases import Database
from tests.sql.asking import Connection, do, value
from tests.sql.sessions import Session

OLD = "1.4.4"


@pytest.fixture
def conn(old_db: Database) -> Connection:
    conn = old_db.connect()
    layouts.build(conn, OLD, "extension")
    return conn


@pytest.fixture
def releasing(old_db: Database) -> Iterator[Session]:
    with closing(Session(old_db.dsn)) as session:
        yield session


@pytest.fixture
def client(old_db: Database) -> Iterator[Session]:
    with closing(Session(old_db.dsn)) as session:
        yield session


@pytest.mark.parametrize("left", ["table pgmq.q_x", "table pgmq.a_x"])
def test_a_queue_is_dropped_while_it_is_released(
    conn: Connection, releasing: Session, client: Session, left: str
) -> None:
    columns.tolerate_release(conn, survey(conn))
    releasing.ask(f"begin; alter extension pgmq drop {left}")
    client.start("select pgmq.drop_queue('x', false)")
    assert not client.settles(releasing), "it waits for the one that releases"
    releasing.ask("commit")
    assert client.finish() == [("t",)]
    assert value(conn, "select count(*) from pg_class where relname ~ '^[qa]_x'") == 0


def test_an_archive_is_detached_while_it_is_released(
    conn: Connection, releasing: Session, client: Session
) -> None:
    columns.tolerate_release(conn, survey(conn))
    releasing.ask("begin; alter extension pgmq drop table pgmq.a_x")
    client.start("select pgmq.detach_archive('x')")
    assert not client.settles(releasing)
    releasing.ask("commit")
    client.finish()
    assert value(conn, "select to_regclass('pgmq.a_x') is not null")


def test_the_extension_goes_while_a_queue_is_dropped(
    conn: Connection, releasing: Session, client: Session
) -> None:
    columns.tolerate_release(conn, survey(conn))
    releasing.ask("begin")
    for left in ("q_x", "a_x", "meta"):
        releasing.ask(f"alter extension pgmq drop table pgmq.{left}")
    releasing.ask("drop extension pgmq")
    client.start("select pgmq.drop_queue('x', false)")
    assert not client.settles(releasing)
    releasing.ask("commit")
    assert client.finish() == [("t",)]
    assert value(conn, "select count(*) from pg_class where relname ~ '^[qa]_x'") == 0


def test_a_queue_is_dropped_after_the_look_at_what_there_is(conn: Connection, client: Session) -> None:
    """A query's rows are those of its snapshot, the names in them those of now: none, for what has gone."""
    do(conn, "select pgmq.create('y'); create view seen as select * from pgmq.read('x', 0, 1)")
    found = survey(conn)
    with conn.transaction():
        do(conn, "set transaction isolation level repeatable read")
        assert value(conn, "select count(*) from pg_class where relname ~ '^[qa]_y$'") == 2, "the snapshot"
        client.ask("select pgmq.drop_queue('y', false); drop view seen")
        assert {one.table for one in indexes.indexes(conn).values()} >= {"q_x", "a_x"}
        assert all(one.definition for one in indexes.indexes(conn).values())
        assert list(refusals.dependents(conn, found)) == []
        assert swap.release_queues(conn) > 0
    assert not survey(conn).owned_relations


def test_release_waits_for_who_is_inside_the_old_functions(
    conn: Connection, client: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old drop_queue fails on what has left."""
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    client.ask("begin; select pgmq.list_queues()")
    with pytest.raises(InTheWay, match="functions of pgmq"):
        columns.tolerate_release(conn, survey(conn))
    client.ask("commit")
    columns.tolerate_release(conn, survey(conn))
    do(conn, "alter extension pgmq drop table pgmq.q_x")
    assert value(conn, "select pgmq.drop_queue('x', false)") is True
