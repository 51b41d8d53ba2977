"""The examples of the worker do what they print."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.databases import Database
from tests.sql.asking import Connection, column, rows, value
from tests.worker.running import ROOT


def run(example: str, dsn: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", f"examples/{example}.py"],
        cwd=ROOT,
        env={**os.environ, "PGQUEUE_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING queue " in done.stderr  # of what fails on purpose
    return done.stdout.splitlines()


def test_the_worker_with_retries(empty_db: Database) -> None:
    printed = run("worker_retries", empty_db.dsn)
    assert printed[-2:] == [
        "set aside after 3: broken: ValueError: cannot write to broken",
        "sent to ada, busy, flaky, holiday",
    ]
    assert sorted(printed[:-2]) == [
        "sent to ada, delivery 1",
        "sent to busy, delivery 2",
        "sent to flaky, delivery 3",
        "sent to holiday, delivery 1",
    ]
    conn = empty_db.connect()
    discarded = (
        "select headers ->> 'x-pgqueue-discarded' from pgmq.a_mail where headers ? 'x-pgqueue-discarded'"
    )
    assert column(conn, discarded) == ["there is no such address"]
    assert value(conn, "select count(*) from pgmq.q_mail") == 0


def test_the_table_of_jobs(empty_db: Database) -> None:
    assert run("jobs_table", empty_db.dsn) == [
        "first | done | 1 | FIRST",
        "second time | done | 2 | SECOND TIME",
        "never | failed | 3 | RuntimeError: no luck with 'never'",
    ]
    conn: Connection = empty_db.connect()
    assert rows(conn, "select state, count(*) from job group by 1 order by 1") == [("done", 2), ("failed", 1)]
    assert value(conn, "select count(*) from pgmq.q_jobs") == 0
