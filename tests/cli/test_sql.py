"""pgqueue sql, and what else needs no database."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.databases import Database, our_sql


def test_the_installation_is_what_is_checked_in(offline: Run) -> None:
    assert offline("sql", "install").out == our_sql()


def test_without_its_transaction(offline: Run) -> None:
    lines = offline("sql", "install", "--no-transaction").out.splitlines()
    assert "begin;" not in lines
    assert "commit;" not in lines


def test_the_printed_installation_installs(offline: Run, empty_db: Database) -> None:
    conn = empty_db.connect()
    conn.execute(offline("sql", "install").out.encode())
    conn.execute("select pgmq.create('orders')")
    conn.execute(offline("sql", "uninstall").out.encode())
    assert conn.execute("select to_regnamespace('pgmq'), to_regnamespace('pgqueue')").fetchone() == (
        None,
        None,
    )


def test_a_migration(offline: Run) -> None:
    assert offline("sql", "migration", "1").out
    assert "the last is" in offline("sql", "migration", "99", code=1).err
    offline("sql", "migration", "0", code=2)
    offline("sql", "migration", "first", code=2)


def test_a_queue(offline: Run) -> None:
    assert '"orders$send"' in offline("sql", "queue", "orders").out
    assert "unlogged" in offline("sql", "queue", "orders", "--unlogged").out
    assert "too long" in offline("sql", "queue", "x" * 48, code=1).err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(offline: Run, shell: str) -> None:
    assert "_PGQUEUE_COMPLETE" in offline("completion", shell).out


def test_completion_knows_the_words(offline: Run) -> None:
    env = {"_PGQUEUE_COMPLETE": "bash_complete", "COMP_WORDS": "pgqueue queue cr", "COMP_CWORD": "2"}
    from click.testing import CliRunner

    from pgqueue.cli.main import main

    result = CliRunner(env=env).invoke(main, [], prog_name="pgqueue")
    assert result.output == "plain,create\n"
