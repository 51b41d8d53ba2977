"""pgqueue install, upgrade, uninstall, status, version, compile, maintain."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.conftest import Run
from tests.databases import Database


@pytest.fixture
def fresh(offline: Run, empty_db: Database) -> Run:
    """Run a command on an empty database."""

    def run(*words: str, code: int = 0, stdin: str | bytes | None = None, **env: str):  # type: ignore[no-untyped-def]
        return offline(*words, code=code, stdin=stdin, **{"PGQUEUE_DSN": empty_db.dsn, **env})

    return run


@pytest.fixture
def foreign(offline: Run, reference_db: Database) -> Run:
    """Run a command on a database where pgmq lives already."""

    def run(*words: str, code: int = 0, stdin: str | bytes | None = None, **env: str):  # type: ignore[no-untyped-def]
        return offline(*words, code=code, stdin=stdin, **{"PGQUEUE_DSN": reference_db.dsn, **env})

    return run


def test_from_nothing_and_back(fresh: Run, empty_db: Database) -> None:
    assert fresh("status", "--json").rows[0]["kind"] == "absent"
    installed = fresh("install")
    assert installed.out == f"pgqueue {version('pgqueue')} is installed, schema 1\n"
    assert fresh("install") == installed
    fresh("queue", "create", "orders")
    (status,) = fresh("status", "--json").rows
    assert (status["kind"], status["current"], status["queues"]) == ("pgqueue", True, 1)
    assert fresh("upgrade").out == "nothing to do: all is current\n"
    assert "all messages and archives? [y/N]" in fresh("uninstall", stdin="no\n", code=1).err
    assert fresh("status", "--json").rows == [status]
    assert fresh("uninstall", "--yes").out == "pgqueue is gone, and 1 queue\n"
    assert fresh("status").out == "installed  nothing: run pgqueue install\n"
    left = empty_db.connect().execute("select nspname from pg_namespace where nspname in ('pgmq', 'pgqueue')")
    assert left.fetchall() == []


def test_uninstalling_names_what_of_the_users_would_go(fresh: Run, empty_db: Database) -> None:
    fresh("install")
    fresh("queue", "create", "orders")
    conn = empty_db.connect()
    conn.execute("create view public.waiting as select count(*) from pgmq.q_orders")
    for words in ([], ["--yes"]):
        refused = fresh("uninstall", *words, code=1)
        assert refused.err == (
            "Error: these depend on pgqueue and would be dropped with it: view waiting; drop them,"
            " or give --cascade; nothing was done\n"
        )
    asked = fresh("uninstall", "--cascade", stdin="n\n", code=1)
    assert "all messages and archives, and view waiting? [y/N]" in asked.err
    assert conn.execute("select count from public.waiting").fetchone() == (0,)
    assert fresh("uninstall", "--cascade", "--yes").out == "pgqueue is gone, and 1 queue\n"
    assert conn.execute("select to_regclass('public.waiting')").fetchone() == (None,)


def test_archives_can_be_kept(fresh: Run, empty_db: Database) -> None:
    fresh("install")
    fresh("queue", "create", "orders")
    fresh("send", "orders", '"kept"')
    fresh("archive", "orders", "1")
    fresh("uninstall", "--yes", "--keep-archives")
    assert empty_db.connect().execute("select message from pgmq.a_orders").fetchall() == [("kept",)]
    fresh("install", code=0)


def test_an_older_installation_is_brought_up_to_date(fresh: Run, empty_db: Database) -> None:
    fresh("install")
    fresh("queue", "create", "orders")
    conn = empty_db.connect()
    definition = conn.execute("select pg_get_functiondef('pgqueue.version'::regproc)").fetchone()
    assert definition is not None
    older = definition[0].replace(f"'{version('pgqueue')}'", "'0.0.1'")
    conn.execute(older.encode())
    assert fresh("status", "--json").rows[0]["current"] is False
    planned = fresh("upgrade", "--dry-run").out.splitlines()
    assert planned
    assert all(line.startswith("would do: ") for line in planned)
    assert fresh("status", "--json").rows[0]["package_version"] == "0.0.1"
    done = fresh("upgrade", "--json").rows
    assert [f"would do: {step['step']}" for step in done] == planned
    assert all(step["done"] for step in done)
    assert fresh("status", "--json").rows[0]["current"] is True


NEEDING = [
    ["queue", "list"],
    ["queue", "create", "x"],
    ["queue", "show", "x"],
    ["queue", "drop", "x", "--yes"],
    ["queue", "metrics"],
    ["send", "x", "1"],
    ["read", "x"],
    ["peek", "x"],
    ["compile"],
    ["compile", "x"],
    ["maintain"],
    ["upgrade"],
    ["upgrade", "--dry-run"],
    ["uninstall", "--yes"],
]


@pytest.mark.parametrize("words", NEEDING, ids=" ".join)
def test_without_an_installation_the_advice_is_to_install(fresh: Run, words: list[str]) -> None:
    assert fresh(*words, code=1).err == (
        "Error: pgqueue is not installed in this database: run `pgqueue install`.\n"
    )


@pytest.mark.parametrize("words", [["install"], ["upgrade"], ["uninstall", "--yes"]], ids=" ".join)
def test_where_pgmq_lives_nothing_is_touched(foreign: Run, reference_db: Database, words: list[str]) -> None:
    conn = reference_db.connect()
    conn.execute("select pgmq.create('orders')")
    catalogue = (
        "select count(*), sum(xmin::text::bigint) from pg_proc where pronamespace = 'pgmq'::regnamespace"
    )
    before = conn.execute(catalogue).fetchall()
    assert "pgqueue adopt" in foreign(*words, code=1).err
    assert conn.execute(catalogue).fetchall() == before
    assert "pgqueue adopt" in foreign("status").out
    assert conn.execute("select to_regnamespace('pgqueue')").fetchone() == (None,)


def test_the_messages_of_pgmqs_own_schema_can_be_handled(foreign: Run) -> None:
    foreign("queue", "create", "orders")
    foreign("send", "orders", "1")
    assert foreign("read", "orders", "--json").rows[0]["message"] == 1
    assert "not installed" in foreign("peek", "orders", code=1).err
    assert foreign("queue", "metrics", "nope", code=1).err == 'Error: queue "nope" does not exist\n'


def test_versions_with_and_without_a_database(run: Run, offline: Run, fresh: Run) -> None:
    own = {"package": version("pgqueue"), "schema": 1, "pgmq": "1.13.1"}
    assert offline("version", "--json").rows == [own]
    database = {"database_schema": 1, "database_package": version("pgqueue"), "database_pgmq": "1.13.1"}
    assert run("version", "--json").rows == [{**own, **database}]
    assert fresh("version", "--json").rows == [{**own, "database_schema": None}]
    assert "database_schema  none" in fresh("version").out


def test_compiling(run: Run, db: Database) -> None:
    run("queue", "create", "orders")
    run("queue", "create", "ü" * 30)
    rows = run("compile", "--json").rows
    assert {row["queue_name"]: row["compiled"] for row in rows} == {"orders": True, "ü" * 30: False}
    assert run("compile", "orders", "--json").rows == [{"queue_name": "orders", "compiled": True}]
    assert run("compile", "nope", code=1).err == 'Error: queue "nope" does not exist\n'


def test_maintaining_once(run: Run) -> None:
    assert run("maintain").out == "nothing to do\n"
    run(
        "queue",
        "create",
        "parted",
        "--partitioned",
        "--partition-interval",
        "10",
        "--retention-interval",
        "1000",
    )
    assert run("maintain").out == "nothing to do\n"
    run("send", "parted", "-", stdin="1\n" * 200)
    rows = {row["table_name"]: row for row in run("maintain", "--json").rows}
    assert set(rows) == {"a_parted", "q_parted"}
    assert rows["q_parted"]["rows_moved"] > 0
    assert len(run("peek", "parted", "--qty", "500", "--json").rows) == 200


def test_a_problem_of_upkeep_is_a_failure(run: Run, db: Database) -> None:
    """A table that somebody holds; the rest is done all the same."""
    run(
        "queue",
        "create",
        "parted",
        "--partitioned",
        "--partition-interval",
        "10",
        "--retention-interval",
        "20",
    )
    run("send", "parted", "-", stdin="1\n" * 200)
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_parted in access share mode")
    done = run("maintain", "--json", code=1)
    problems = {row["table_name"]: row["problem"] for row in done.rows}
    assert problems == {"a_parted": None, "q_parted": "canceling statement due to lock timeout"}
    assert done.err == "Error: q_parted: canceling statement due to lock timeout\n"


def test_maintaining_for_ever_ends_with_ctrl_c(db: Database, bare: None) -> None:
    command = [sys.executable, "-u", "-m", "pgqueue.cli.main", "maintain", "--every", "50ms", "--dsn", db.dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "nothing to do\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_maintaining_for_ever_outlives_a_lost_connection(db: Database, bare: None) -> None:
    command = [sys.executable, "-u", "-m", "pgqueue.cli.main", "maintain", "--every", "50ms", "--dsn", db.dsn]
    admin = db.connect(user=db.superuser)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        admin.execute("select pgmq.create_partitioned('parted', '10', '1000')")
        admin.execute("select pgmq.send('parted', '1') from generate_series(1, 200)")
        ends = (
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'pgqueue'"
        )
        admin.execute(ends)
        assert "q_parted" in process.stdout.readline() + process.stdout.readline() + process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


@pytest.mark.parametrize("every", ["0", "-1", "soon", "1d", "9999999999s"])
def test_a_pause_is_a_length_of_time(run: Run, every: str) -> None:
    run("maintain", "--every", every, code=2)
