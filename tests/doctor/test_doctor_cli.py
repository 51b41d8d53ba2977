"""pgqueue doctor: what people see, what programs get, and the exit code for monitoring."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from pgqueue.doctor import Limits, checks
from pgqueue.doctor.checks import OF_INSTALLATION, OF_ONE_QUEUE, OF_QUEUES
from pgqueue.doctor.checks.reads import long_read
from pgqueue.doctor.reading import MOST_DUE
from pgqueue.script import package_version
from tests.cli.conftest import Run
from tests.databases import Database
from tests.doctor.conftest import Patient


@pytest.fixture
def ill(theirs: Patient) -> Patient:
    """A pgmq with a finding of each severity but unseen, and a long read."""
    theirs.do(
        "select pgmq.create('mail')",
        "drop table pgmq.a_mail",
        "select pgmq.send('x', '1') from generate_series(1, 1200)",
        "select pgmq.read('x', 60, 1151)",
        "grant usage on schema pgmq to public",
    )
    return theirs


def test_a_healthy_installation(run: Run) -> None:
    run("queue", "create", "orders")
    done = run("doctor")
    assert done.err == ""
    assert done.out.startswith(f"pgqueue {package_version()}, in database ")
    assert "orders  about 0   0 rows" in done.out
    assert "adopted" not in done.out
    assert done.out.endswith("\nnothing found: all is well\n")
    assert [row["record"] for row in run("doctor", "--json", "--fail-on", "info").rows] == [
        "installation",
        "read",
    ]


def test_what_people_see(offline: Run, ill: Patient) -> None:
    done = offline("doctor", "--dsn", ill.database.dsn, code=1)
    assert done.err == "unwell: 1 error, 1 warning, 1 info\n"
    assert "pgmq 1.13.0 to 1.13.1 by its functions, without the extension, in database" in done.out
    assert "A read of x walks 1,152 rows" in done.out and "; adopted by pgqueue, 1 row." in done.out
    shown = done.out[done.out.index("error: mail:") :].splitlines()
    assert shown[:4] == [
        "error: mail: there is no archive pgmq.a_mail  [archive_missing]",
        "    archive() fails, so consumers that archive never get rid of a message",
        "        select pgmq.create('mail');",
        "",
    ]
    assert [line.split(":")[0] for line in shown if line and not line.startswith(" ")] == [
        "error",
        "warning",
        "info",
    ]


def test_what_programs_get(offline: Run, ill: Patient) -> None:
    rows = offline("doctor", "--json", "--dsn", ill.database.dsn, code=1).rows
    assert rows[0]["record"] == "installation"
    assert (rows[0]["kind"], rows[0]["version"], rows[0]["queues"]) == ("sql", "1.13.0 to 1.13.1", 2)
    reads = {row["queue"]: row for row in rows if row["record"] == "read"}
    assert all(len(str(one["milliseconds"]).partition(".")[2]) <= 3 for one in reads.values())
    assert (reads["x"]["rows"], reads["x"]["adopted_rows"], reads["x"]["at_most"]) == (1152, 1, False)
    found = [(row["severity"], row["check"], row["queue"]) for row in rows if row["record"] == "finding"]
    assert found == [
        ("error", "archive_missing", "mail"),
        ("warning", "long_read", "x"),
        ("info", "schema_open", None),
    ]


@pytest.mark.parametrize(
    ("queue", "fail_on", "code"),
    [
        (None, "never", 0),
        (None, "error", 1),
        ("mail", "error", 1),
        ("x", "error", 0),
        ("x", "warning", 1),
        ("X", "warning", 1),
    ],
)
def test_exit_codes(offline: Run, ill: Patient, queue: str | None, fail_on: str, code: int) -> None:
    words = ["--queue", queue] if queue else []
    done = offline("doctor", *words, "--fail-on", fail_on, "--json", "--dsn", ill.database.dsn, code=code)
    if queue:
        assert {row["queue"] for row in done.rows[1:]} == {queue.lower()}


def test_what_cannot_be_seen_can_fail_too(offline: Run, theirs: Patient) -> None:
    stranger = theirs.database.dsn_for(theirs.database.create_role())
    said = offline("doctor", "--dsn", stranger).out
    assert " unseen:" in said and "[]" not in said
    offline("doctor", "--fail-on", "unseen", "--dsn", stranger, code=1)


def test_where_it_cannot_examine_anything(offline: Run, empty_db: Database, theirs: Patient) -> None:
    none = offline("doctor", "--dsn", empty_db.dsn, code=1)
    assert (
        none.err == "Error: neither pgqueue nor pgmq is installed in this database: run `pgqueue install`.\n"
    )
    nope = offline("doctor", "--queue", "nope", "--dsn", theirs.database.dsn, code=1)
    assert nope.err == 'Error: queue "nope" does not exist\n'
    gone = offline("doctor", "--dsn", "host=/nowhere", code=1)
    assert gone.err.startswith("Error: ") and gone.out == ""
    offline("doctor", "--fail-on", "fatal", code=2)


def test_what_is_alike_is_shown_a_few_times(offline: Run, theirs: Patient) -> None:
    theirs.do(*(f"select pgmq.create('q{number:02}')" for number in range(25)))
    theirs.do(*(f"drop table pgmq.a_q{number:02}" for number in range(9)))
    done = offline("doctor", "--dsn", theirs.database.dsn, code=1)
    assert done.out.count("[archive_missing]") == 3
    assert "… and 6 more of archive_missing: pgqueue doctor --json has them all" in done.out
    assert "… and 6 queues more, whose reads walk 0 rows or less" in done.out
    rows = offline("doctor", "--json", "--dsn", theirs.database.dsn, code=1).rows
    assert len([row for row in rows if row["record"] == "finding"]) == 9


def test_a_name_cannot_play_with_the_terminal(offline: Run, theirs: Patient) -> None:
    theirs.do("select pgmq.create(E'a\\x1b[2J')", 'drop table pgmq."a_a\x1b[2j"')
    done = offline("doctor", "--dsn", theirs.database.dsn, code=1)
    assert "\x1b" not in done.out


CHECKS = [check.__name__ for check in (*OF_INSTALLATION, *OF_QUEUES, *OF_ONE_QUEUE, long_read)]


def test_every_check_is_named_once_and_tested() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert len(set(CHECKS)) == len(CHECKS)
    assert [name for name in CHECKS if f'"{name}"' not in tests] == []


def test_every_check_is_registered() -> None:
    """A function that yields findings and is not in a list would never run."""
    found = {
        name
        for module in vars(checks).values()
        if isinstance(module, ModuleType) and module.__name__.startswith(checks.__name__)
        for name, one in vars(module).items()
        if inspect.isgeneratorfunction(one) and one.__module__ == module.__name__ and name[0] != "_"
    }
    assert found == set(CHECKS)


def test_the_page_shows_what_is_there(offline: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    assert set(re.findall(r"  \[(\w+)\]$", page, re.M)) <= set(CHECKS)
    assert "default `warning`; or `error`, `unseen`, `info`, `never`" in page
    assert "[error|warning|unseen|info|never]" in offline("doctor", "--help").out
    assert (Limits().lock_ms, Limits().statement_ms, Limits().count_ms) == (200, 5000, 1000)
    assert "waits 0.2 seconds for a lock and runs 5 seconds at most" in page
    assert f"at most {MOST_DUE} that are due again. Counting stops after a second" in page
