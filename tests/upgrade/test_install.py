"""Installing: as whom, where, how often, how many at once; and where not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgqueue import adopt, migrate
from pgqueue.errors import ForeignInstallation, TooNew
from pgqueue.script import adopt_sql, install_sql, migrations, package_version, queue_sql, uninstall_sql
from tests.databases import Cluster, Database, our_sql
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.calls import calls, furnish, outcomes
from tests.upgrade.dumps import dump, play, run

CURRENT = "select m.id, m.name from pgqueue.migration m order by m.id"


def works(conn: Connection) -> bool:
    """Whether a queue can be made, used and dropped."""
    do(conn, "select pgmq.create('works'), pgmq.send('works', '1')")
    read = column(conn, "select msg_id from pgmq.read('works', 0, 1)")
    return read == [1] and value(conn, "select pgmq.drop_queue('works')") is True


def test_a_plain_owner_installs(empty_db: Database) -> None:
    """case 19, case 20, case 21: no superuser, no extension; afterwards one function tells the versions."""
    conn = empty_db.connect(autocommit=False)
    assert migrate.status(conn).kind == "absent"
    migrate.install(conn)
    found = migrate.status(conn)
    assert (found.kind, found.current, found.pending) == ("pgqueue", True, ())
    other = empty_db.connect()
    version = "select schema_version, package_version, pgmq_version from pgqueue.version()"
    assert rows(other, version) == [(migrations()[-1].id, package_version(), "1.13.1")]
    assert rows(other, CURRENT) == [(step.id, step.name) for step in migrations()]
    assert works(other)
    assert value(other, "select count(*) from pg_extension where extname <> 'plpgsql'") == 0


def test_installing_twice_changes_nothing(empty_db: Database) -> None:
    conn = empty_db.connect(autocommit=False)
    migrate.install(conn)
    do(empty_db.connect(), "select pgmq.create('kept'), pgmq.send('kept', '1')")
    once = dump(empty_db)
    migrate.install(conn)
    assert dump(empty_db) == once
    play(empty_db, our_sql())
    assert dump(empty_db) == once


def test_an_empty_search_path_does_not_matter(empty_db: Database) -> None:
    """case 112: neither for installing, nor for any function afterwards."""
    admin = empty_db.connect(user=empty_db.superuser)
    do(admin, f"alter database \"{empty_db.name}\" set search_path = ''")
    migrate.install(empty_db.connect(autocommit=False))
    without = empty_db.connect()
    assert works(without)
    do(without, "select pgmq.create('orders'), pgmq.send('orders', '1')")
    usual = empty_db.connect(options="-c search_path=public")
    statements = calls(usual, "pgmq", "pgqueue")
    found = outcomes(without, statements)
    assert found == outcomes(usual, statements)
    assert list(found.values()).count("") > 100


def test_what_we_run_is_ascii() -> None:
    """A server of another encoding could not take any other character, even in a comment."""
    scripts = {
        "install": install_sql(),
        "adopt": adopt_sql(),
        "uninstall": uninstall_sql(),
        "queue": queue_sql("orders", grouped=True),
        **{step.name: step.sql for step in migrations()},
        **{file.name: file.read_text() for file in Path(adopt.__file__).parent.glob("*.sql")},
    }
    assert len(scripts) > 5
    assert {name for name, script in scripts.items() if not script.isascii()} == set()


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP"])
def test_a_database_of_another_encoding(server: Cluster, encoding: str) -> None:
    """By our command, and by a plain psql, which speaks the database's encoding."""
    ways = (
        lambda db: migrate.install(db.connect(autocommit=False, client_encoding="utf8")),
        lambda db: play(db, our_sql()),
    )
    for install in ways:
        database = server.create_database(encoding=encoding)
        try:
            install(database)
            assert works(database.connect())
        finally:
            database.drop()


def test_backslashes_mean_the_same_in_every_session(empty_db: Database) -> None:
    """standard_conforming_strings = off: it installs, and all functions do what they do elsewhere."""
    admin = empty_db.connect(user=empty_db.superuser)
    if empty_db.cluster.version > 18:
        pytest.skip("there is no such setting any more")
    do(admin, f'alter database "{empty_db.name}" set standard_conforming_strings = off')
    play(empty_db, our_sql())
    off = empty_db.connect()
    assert works(off)
    furnish(off)
    off.execute("select pgmq.bind_topic('a.#', 'orders')")
    on = empty_db.connect(options="-c standard_conforming_strings=on")
    assert rows(on, "select compiled_regex from pgmq.list_topic_bindings() where pattern = 'a.#'") == [
        ("^a\\..*$",)
    ]
    statements = calls(on, "pgmq", "pgqueue")
    found = outcomes(off, statements)
    assert found == outcomes(on, statements)
    assert list(found.values()).count("") > 100


def test_a_database_that_holds_other_things(empty_db: Database) -> None:
    """Other schemas, objects of the same names elsewhere, and an empty schema pgmq made beforehand."""
    conn = empty_db.connect()
    do(
        conn,
        """
        create schema pgmq;
        create schema app;
        create table app.meta (a int);
        create table public.meta (b int);
        create table public.migration (c int);
        create type public.message_record as (d int);
        create function public.send(text, jsonb) returns bigint language sql as 'select 0::bigint';
        create extension if not exists pg_trgm;
        """
        if empty_db.cluster.version >= 13
        else "",
    )
    before = dump(empty_db, "-n", "app", "-n", "public")
    migrate.install(empty_db.connect(autocommit=False))
    assert works(conn)
    assert dump(empty_db, "-n", "app", "-n", "public") == before


def test_a_schema_that_somebody_made_for_us(empty_db: Database) -> None:
    """case 20: an administrator makes schema pgmq and lets the owner create in it."""
    admin = empty_db.connect(user=empty_db.superuser)
    owner = empty_db.connect()
    do(admin, f"create schema pgmq; grant usage, create on schema pgmq to {owner.info.user}")
    migrate.install(empty_db.connect(autocommit=False))
    assert works(owner)


def test_who_may_not_create_schemas_is_told(empty_db: Database) -> None:
    """case 85: nothing is half made."""
    stranger = empty_db.connect(user=empty_db.create_role(), autocommit=False)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        migrate.install(stranger)
    assert migrate.status(stranger).kind == "absent"
    assert column(empty_db.connect(), "select nspname from pg_namespace where nspname like 'pgm%'") == []


def test_without_pg_monitor(empty_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """case 20: no role but the owner is needed."""
    script = install_sql().replace("'pg_monitor'", "'nobody_of_that_name'")
    do(empty_db.connect(), script)
    assert works(empty_db.connect())


def test_where_pg_monitor_is_it_may_look(empty_db: Database) -> None:
    conn = empty_db.connect()
    do(conn, our_sql())
    do(conn, "select pgmq.create('later')")
    assert value(conn, "select has_table_privilege('pg_monitor', 'pgmq.q_later', 'select')") is True
    assert value(conn, "select has_table_privilege('pg_monitor', 'pgmq.q_later', 'insert')") is False


# --- many at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_twenty_install_at_once(empty_db: Database, isolation: str) -> None:
    """All succeed, and there is one installation; also where transactions are serializable by default."""
    admin = empty_db.connect(user=empty_db.superuser)
    do(admin, f"alter database \"{empty_db.name}\" set default_transaction_isolation = '{isolation}'")
    sessions = [empty_db.connect(autocommit=False) for _ in range(17)]
    barrier = threading.Barrier(20)
    failures: list[str] = []

    def install(how: Callable[[], None]) -> None:
        barrier.wait(30)
        try:
            how()
        except (psycopg.Error, AssertionError) as error:
            failures.append(str(error))

    ways: list[Callable[[], None]] = [lambda s=session: migrate.install(s) for session in sessions]  # type: ignore[misc]
    ways += [lambda: play(empty_db, our_sql())] * 3
    threads = [threading.Thread(target=install, args=[way]) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert failures == []
    conn = empty_db.connect()
    assert rows(conn, CURRENT) == [(step.id, step.name) for step in migrations()]
    assert works(conn)


# --- where it refuses -----------------------------------------------------------------------------


def test_pgmq_from_sql_is_left_alone(reference_db: Database) -> None:
    """case 22, case 23: found, named, nothing touched; the advice is to adopt."""
    do(reference_db.connect(), "select pgmq.create('live'), pgmq.send('live', '1')")
    before = dump(reference_db)
    conn = reference_db.connect(autocommit=False)
    assert migrate.status(conn).kind == "sql"
    for action in (migrate.install, migrate.upgrade, migrate.uninstall):
        with pytest.raises(ForeignInstallation, match=r"pgmq is installed .* from SQL.*pgqueue adopt"):
            action(conn)
        conn.rollback()
    state, message = outcome(reference_db.connect(), our_sql())
    assert (state, message) == ("42710", "pgmq is installed in this database from SQL, without the extension")
    assert dump(reference_db) == before


@pytest.fixture
def extension(server: Cluster) -> Iterator[str]:
    """The version of an extension named pgmq, which this server can create while the test runs."""
    admin = psycopg.connect(**{**server.conninfo, "autocommit": True})  # type: ignore[arg-type]
    sharedir = _share_directory(admin)
    files = {
        "pgmq.control": "default_version = '9.9.9'\nrelocatable = false\nschema = 'pgmq'\n",
        "pgmq--9.9.9.sql": "create table pgmq.meta (queue_name varchar unique);\n",
    }
    admin.close()
    if sharedir is None:
        pytest.skip("the server's extension folder is not ours to write into")
    for name, text in files.items():
        (sharedir / name).write_text(text)
        (sharedir / name).chmod(0o644)
    yield "9.9.9"
    for name in files:
        (sharedir / name).unlink()


def _share_directory(admin: Connection) -> Path | None:
    """Where this server looks for extensions, if it can be written to."""
    query = "select setting from pg_config where name = 'SHAREDIR'"
    folder = Path(str(value(admin, query))) / "extension"
    try:
        (folder / "pgqueue_probe").touch()
        (folder / "pgqueue_probe").unlink()
    except OSError:
        return None
    return folder


def test_the_extension_is_left_alone(empty_db: Database, extension: str) -> None:
    """case 16, case 85: found, named with its version, nothing touched; the advice is to adopt."""
    admin = empty_db.connect(user=empty_db.superuser)
    do(admin, "create extension pgmq")
    before = run("pg_dump", "-d", empty_db.dsn_for(empty_db.superuser))
    conn = empty_db.connect(autocommit=False)
    found = migrate.status(conn)
    assert (found.kind, found.pgmq_version) == ("extension", extension)
    for action in (migrate.install, migrate.upgrade, migrate.uninstall):
        with pytest.raises(ForeignInstallation, match=rf"extension pgmq {extension} .*pgqueue adopt"):
            action(conn)
        conn.rollback()
    state, message = outcome(admin, our_sql())
    assert (state, message) == ("42710", f"the extension pgmq {extension} is installed in this database")
    after = run("pg_dump", "-d", empty_db.dsn_for(empty_db.superuser))
    assert [line for line in after.splitlines() if "restrict" not in line] == [
        line for line in before.splitlines() if "restrict" not in line
    ]


def test_a_newer_schema_is_left_alone(empty_db: Database) -> None:
    conn = empty_db.connect(autocommit=False)
    migrate.install(conn)
    do(empty_db.connect(), "insert into pgqueue.migration values (999, 'later', now(), 'x', true)")
    before = dump(empty_db)
    for action in (migrate.install, migrate.upgrade):
        with pytest.raises(TooNew, match="has version 999, this package knows"):
            action(conn)
        conn.rollback()
    state, message = outcome(empty_db.connect(), our_sql())
    assert state == "55000" and "another schema version" in message
    assert dump(empty_db) == before


def test_an_installation_that_breaks_off_leaves_nothing(empty_db: Database) -> None:
    """One transaction: whatever fails, there is no half."""
    conn = empty_db.connect()
    script = our_sql().replace("select pgqueue._compile_all()", "select 1 / 0, pgqueue._compile_all()")
    assert sqlstate(conn, script) == "22012"
    conn.rollback()
    assert column(conn, "select nspname from pg_namespace where nspname like 'pg%q%'") == []


# --- what is installed ----------------------------------------------------------------------------


def test_psql_prints_no_surprise(empty_db: Database) -> None:
    """case 19: one documented command, which exits 0 and says what it compiled."""
    said = run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-q", "-d", empty_db.dsn, "-f", "-", stdin=our_sql())
    assert [line for line in said.splitlines() if "compiled_queues" in line] != []
    assert "ERROR" not in said and "WARNING" not in said
