"""pgqueue adopt, as a command."""

from __future__ import annotations

import psycopg
import pytest
from click.testing import CliRunner, Result

from pgqueue import migrate
from pgqueue.cli.main import main
from pgqueue.dependents import dependents
from tests.adopt import layouts
from tests.adopt.pictures import MADE, picture
from tests.databases import Database
from tests.sql.asking import do, value


def run(db: Database, *words: str, typed: str = "") -> Result:
    return CliRunner().invoke(main, ["adopt", *words, "--dsn", db.dsn], input=typed)


def test_the_plan_changes_nothing(old_db: Database) -> None:
    """What is there, each step with its lock; also when the question is answered with no."""
    conn = old_db.connect()
    layouts.build(conn, "1.4.4", "extension", queues=["x", "y"])
    before = picture(conn, MADE)
    done = run(old_db, "--dry-run")
    assert done.exit_code == 0, done.output
    for line in (
        "found: pgmq 1.4.4, as an extension",
        "found: 2 queues: 2 plain",
        "step 2: add the columns that 2 queues lack, empty, no row rewritten",
        "step 3: release 4 tables and sequences of queues from the extension, 100 at a time",
        "step 4: drop the extension, its objects released, and put our functions in the place of pgmq's",
        "  lock: share row exclusive on pgmq.meta",
        "step 5: compile 2 queues",
    ):
        assert line in done.output
    assert done.output.splitlines()[-1].startswith("note: ") and "PG_INIT_EXTENSION=false" in done.output
    assert run(old_db, typed="n\n").exit_code == 1
    assert run(old_db).exit_code == 1, "nobody answered"
    assert picture(conn, MADE) == before


def test_each_step_is_told_once_by_its_number(old_db: Database) -> None:
    """And clients that create the extension are remembered at the end."""
    layouts.build(old_db.connect(), "1.4.4", "extension", queues=["x", "y"])
    done = run(old_db, "--yes")
    assert done.exit_code == 0, done.output
    keys = ["indexes", "columns", "release", "swap", "compile", "tidy"]
    told = [f"done: step {number}, {key}" for number, key in enumerate(keys, 1)]
    assert done.stderr.splitlines() == told
    *_, taken, note = done.stdout.splitlines()
    assert taken == "pgqueue has taken over"
    for word in ("PG_INIT_EXTENSION=false", "init_extension=False", "skipExtensionCreation"):
        assert word in note


@pytest.mark.parametrize("version", ["1.3.3", "1.4.4", "1.13.0"])
def test_an_adopted_pgmq_leaves_nothing_that_uninstalling_stumbles_over(
    old_db: Database, version: str
) -> None:
    conn = old_db.connect()
    layouts.build(conn, version, "extension", queues=["x", "y"])
    assert run(old_db, "--yes").exit_code == 0
    with psycopg.connect(old_db.dsn) as session:
        for keep in (True, False):
            assert dependents(session, keep_archives=keep) == ()
        migrate.uninstall(session, keep_archives=True)
    assert value(conn, "select to_regnamespace('pgqueue') is null")


def test_there_and_back(old_db: Database) -> None:
    conn = old_db.connect()
    layouts.build(conn, "1.13.0", "sql")
    done = run(old_db, "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "pgqueue has taken over", "no extension was adopted"
    assert run(old_db, "--yes").exit_code == 1
    do(conn, "select pgmq.create_partitioned('cut', '10', '100')")
    done = run(old_db, "--back", typed="y\n")
    assert done.exit_code == 0, done.output
    assert "note: queue cut is partitioned by pgqueue: without it nobody makes new partitions" in done.output
    assert "pgmq has its queues back, and pgqueue is gone" in done.output
    assert value(conn, "select to_regnamespace('pgqueue') is null")
    assert run(old_db, "--back", "--yes").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [["--extension"], ["--back", "--accept-newer"], ["--back", "--sql", "/nowhere.sql"]],
    ids=lambda words: " ".join(words),
)
def test_words_that_do_not_go_together(old_db: Database, words: list[str]) -> None:
    assert run(old_db, *words).exit_code == 2


def test_install_points_here(old_db: Database) -> None:
    layouts.build(old_db.connect(), "1.13.0", "extension")
    done = CliRunner().invoke(main, ["install", "--dsn", old_db.dsn])
    assert done.exit_code == 1 and "pgqueue adopt" in done.output
