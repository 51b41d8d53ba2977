"""Dump and restore, by a plain owner: queues are ordinary tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue import migrate
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, rows, value
from tests.sql.catalogue import catalogue
from tests.upgrade.dumps import dump, play, run

LONG = "é" * 30  # not compiled, and its objects have hashed names
EDGE = "ü" * 23 + "n"  # 47 bytes: the longest that is compiled

QUEUES = f"""
    select pgmq.create('plain'), pgmq.create_unlogged('quick'), pgmq.create('Capitals');
    select pgmq.create_partitioned('byid', '10', '100000', 2);
    select pgmq.create_partitioned('bytime', '1 hour', '10 years');
    select pgmq.create('loud'), pgmq.enable_notify_insert('loud', 0);
    select pgmq.create('grouped'), pgmq.create_fifo_index('grouped');
    select pgmq.create('generic'), pgqueue.decompile('generic');
    select pgmq.create('{LONG}'), pgmq.create('{EDGE}'), pgmq.create('quo"ted %I \\');
    select pgmq.create('turned'), pgmq.send('turned', '0'), pgmq.archive('turned', 1);
    select pgmq.convert_archive_partitioned('turned');
    select pgmq.bind_topic('a.#', 'plain'), pgmq.bind_topic('#.b', 'Capitals');
    select pgmq.send(m.queue_name, to_jsonb(g), jsonb_build_object('x-pgmq-group', g % 3))
    from pgmq.meta m, generate_series(1, 600) g;
    select pgmq.pop(m.queue_name, 300), pgmq.read(m.queue_name, 3600, 7) from pgmq.meta m;
    select pgmq.archive(m.queue_name, array[500, 501]::bigint[]) from pgmq.meta m;
    select pgmq.set_vt(m.queue_name, 510, 7200) from pgmq.meta m;
"""


@pytest.fixture
def copy(server: Cluster) -> Iterator[Database]:
    """An empty database to restore into."""
    database = server.create_database()
    yield database
    database.drop()


def state(conn: Connection) -> dict[str, object]:
    """All that a restored queue must have kept."""
    found: dict[str, object] = {
        "queues": sorted(rows(conn, "select * from pgmq.list_queues()")),
        "bindings": sorted(rows(conn, "select * from pgmq.list_topic_bindings()")),
        "throttles": rows(conn, "select * from pgmq.list_notify_insert_throttles()"),
        "partitioning": sorted(rows(conn, "select * from pgqueue.partitioning")),
        "metrics": sorted(
            rows(
                conn,
                """select queue_name, queue_length, queue_visible_length, total_messages,
                       default_partition_length
                   from pgmq.metrics_all()""",
            )
        ),
        "catalogue": catalogue(conn),
    }
    for table in column(
        conn, "select tablename from pg_tables where schemaname = 'pgmq' and tablename ~ '^[qa]_'"
    ):
        found[table] = rows(conn, 'select * from pgmq."' + table.replace('"', '""') + '" order by msg_id')
    return found


def differing(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """What is not the same, each with what it was and what it is; of sets only the members."""
    found: dict[str, object] = {}
    for what in before.keys() | after.keys():
        one, other = before.get(what), after.get(what)
        if isinstance(one, set) and isinstance(other, set):
            one, other = one - other, other - one
        if one != other:
            found[what] = (one, other)
    return found


def restore(source: Database, copy: Database, how: str, folder: Path) -> None:
    if how == "plain":
        play(copy, dump(source))
        return
    archive = folder / "dump"
    format_ = {"custom": "c", "directory": "d", "parallel": "d"}[how]
    run("pg_dump", "-d", source.dsn, "-F", format_, "-f", str(archive))
    jobs = ["-j", "2"] if how == "parallel" else []
    run("pg_restore", "--exit-on-error", "--no-owner", *jobs, "-d", copy.dsn, str(archive))


@pytest.mark.parametrize("how", ["plain", "custom", "parallel"])
def test_a_restored_database_goes_on(
    db: Database, conn: Connection, copy: Database, how: str, tmp_path: Path
) -> None:
    """case 26, case 140: same queues, counts, next ids and leases; functions work, notifications fire."""
    do(conn, QUEUES)
    before = state(conn)
    restore(db, copy, how, tmp_path)
    restored = copy.connect()
    assert differing(before, state(restored)) == {}
    for queue in column(restored, "select queue_name from pgmq.meta"):
        (first,) = column(restored, "select msg_id from pgmq.read(%s, 60, 1)", queue)
        assert first == (309 if queue == "turned" else 308), "leases are kept, and the floor hides nothing"
        assert value(restored, "select pgmq.send(%s, '1')", queue) == (602 if queue == "turned" else 601)
        assert value(restored, "select pgmq.archive(%s, %s)", queue, first) is True
    for queue in ("loud", "plain"):
        do(restored, f'listen "pgmq.q_{queue}.INSERT"')
        do(restored, f"select pgmq.send('{queue}', '1')")
        heard = list(restored.notifies(timeout=5 if queue == "loud" else 0.2, stop_after=1))
        assert [note.channel for note in heard] == (["pgmq.q_loud.INSERT"] if queue == "loud" else [])
    assert value(restored, "select pgmq.send_topic('a.b', '1')") == 2
    assert column(restored, "select msg_id from pgmq.read_grouped('grouped', 60, 1)") != []
    assert [
        problem for problem in column(restored, "select problem from pgqueue.maintain()") if problem
    ] == []


def test_restored_queues_can_be_dropped(
    db: Database, conn: Connection, copy: Database, tmp_path: Path
) -> None:
    """case 142: each, leaving nothing; and the whole can be upgraded and removed."""
    empty = catalogue(conn)
    do(conn, QUEUES)
    restore(db, copy, "plain", tmp_path)
    restored = copy.connect()
    session = copy.connect(autocommit=False)
    assert migrate.status(session).current
    migrate.install(session)
    for queue in column(restored, "select queue_name from pgmq.meta"):
        assert value(restored, "select pgmq.drop_queue(%s)", queue) is True
    do(restored, "drop table pgmq.a_turned_old")
    assert catalogue(restored) == empty
    migrate.uninstall(session)
    assert column(restored, "select nspname from pg_namespace where nspname ~ '^pg(mq|queue)$'") == []


@pytest.mark.parametrize("part", ["--schema-only", "--data-only"])
def test_parts_can_be_dumped(db: Database, conn: Connection, part: str) -> None:
    """case 141: each exits 0, with each kind of queue."""
    do(conn, QUEUES)
    text = dump(db, part)
    assert ("CREATE TABLE" in text) == (part == "--schema-only")
    assert ("COPY pgmq.q_plain" in text) == (part == "--data-only")


def test_a_role_that_may_read_all_dumps_all(db: Database, conn: Connection, copy: Database) -> None:
    """As backups run: no owner, no superuser, under no privilege but to read."""
    do(conn, QUEUES)
    before = state(conn)
    role = db.create_role("backup")
    do(db.connect(user=db.superuser), f"grant pg_read_all_data to {role}")
    play(copy, dump(db, user=role))
    assert differing(before, state(copy.connect())) == {}


def test_a_schema_is_replayed_without_messages(db: Database, conn: Connection, copy: Database) -> None:
    """case 26: a dump of the schema alone, played into an empty database: the tables, and an empty list."""
    do(conn, QUEUES)
    play(copy, dump(db, "--schema-only"))
    restored = copy.connect()
    assert rows(restored, "select * from pgmq.list_queues()") == []
    do(restored, "select pgmq.create('plain')")
    assert value(restored, "select pgmq.send('plain', '1')") == 1
    assert column(restored, "select msg_id from pgmq.read('plain', 60, 1)") == [1]


def test_messages_alone_go_into_an_installation(db: Database, conn: Connection, copy: Database) -> None:
    """case 26: schema and messages in two dumps, one after the other, are the whole."""
    do(conn, QUEUES)
    before = state(conn)
    play(copy, dump(db, "--schema-only"))
    play(copy, dump(db, "--data-only"))
    assert differing(before, state(copy.connect())) == {}


def test_one_queue_is_copied_by_its_tables(db: Database, conn: Connection, copy: Database) -> None:
    """case 27: only some tables restored into an installation: create takes them up."""
    do(conn, QUEUES)
    migrate.install(copy.connect(autocommit=False))
    play(copy, dump(db, "-t", "pgmq.q_plain", "-t", "pgmq.a_plain"))
    restored = copy.connect()
    do(restored, "select pgmq.create('plain')")
    query = "select queue_length, queue_visible_length, total_messages from pgmq.metrics('plain')"
    assert rows(restored, query) == rows(conn, query)
    assert value(restored, "select pgmq.send('plain', '1')") == 601
    assert column(restored, "select queue_name from pgmq.list_queues()") == ["plain"]
