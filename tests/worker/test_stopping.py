"""What ends a worker: signals, and what is left behind."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pgqueue import Client
from pgqueue.cli.main import main
from tests.databases import Database
from tests.sql.asking import Connection, do, rows, value
from tests.worker.running import Process, until

SLOW = "tests.worker.programs.slow"
QUEUES = ["loop", "threads", "transactions"]
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def queues(client: Client) -> Client:
    for queue in QUEUES:
        client.create(queue)
    return client


@contextmanager
def start(db: Database, queue: str, running: int, **environment: str) -> Iterator[Process]:
    """A worker that has begun with so many messages of the queue."""
    with Process(SLOW, db.dsn, "--queues", queue, **environment) as process:
        until(lambda: process.printed().count("begun") == running or process.ended, "the handlers")
        yield process


def left(conn: Connection, queue: str) -> list[tuple[Any, ...]]:
    """What is in the queue: message, deliveries, whether it can be read now, headers."""
    return rows(
        conn, f"select message, read_ct, vt <= clock_timestamp(), headers from pgmq.q_{queue} order by 1"
    )


@pytest.mark.parametrize(("queue", "number"), [("loop", signal.SIGTERM), ("threads", signal.SIGINT)])
def test_what_runs_may_end_and_the_rest_is_given_back_at_once(
    db: Database, queues: Client, conn: Connection, queue: str, number: signal.Signals
) -> None:
    """Of four messages taken two run; two more were never taken."""
    queues.queue(queue).send_many([1.0, 1.1, 2.0, 2.1, 3.0, 3.1])
    with start(db, queue, 2) as process:
        process.send(number)
        until(lambda: value(conn, f"select count(*) from pgmq.q_{queue} where vt <= now()") == 4, "them back")
        assert not process.ended
        code, printed = process.wait()
    assert (code, printed.count("ended")) == (0, 2)
    assert value(conn, f"select count(*) from pgmq.a_{queue}") == 2
    given_back = {"x-pgqueue-uncounted": 1}
    assert left(conn, queue) == [
        (2.0, 1, True, given_back),
        (2.1, 1, True, given_back),
        (3.0, 0, True, None),
        (3.1, 0, True, None),
    ]


@pytest.mark.parametrize("queue", QUEUES)
def test_what_outlasts_the_grace_period_is_given_back(
    db: Database, queues: Client, conn: Connection, queue: str
) -> None:
    queues.queue(queue).send_many([60, 61])
    do(conn, "create table made (msg_id bigint)")
    with start(db, queue, 2, GRACE="0.2") as process:
        process.send(signal.SIGTERM)
        code, printed = process.wait(10)
    assert (code, "ended" in printed) == (0, False)
    given_back = {"x-pgqueue-uncounted": 1}
    assert left(conn, queue) == [(60, 1, True, given_back), (61, 1, True, given_back)]
    assert value(conn, "select count(*) from made") == 0, "rolled back"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_now(db: Database, queues: Client, number: signal.Signals) -> None:
    queues.queue("threads").send(60)
    with start(db, "threads", 1) as process:
        process.send(number)
        until(lambda: "stopping" in process.printed(), "its word")
        process.send(number)
        assert process.wait(10)[0] == 128 + number


def test_an_idle_worker_ends_at_once(db: Database, queues: Client, conn: Connection) -> None:
    sql = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    with Process(SLOW, db.dsn) as process:
        until(lambda: value(conn, sql), "its ear")
        process.send(signal.SIGTERM)
        assert process.wait(10)[0] == 0


# --- the command -----------------------------------------------------------------------------------


def test_the_command_ends_when_all_is_done(db: Database, queues: Client, conn: Connection) -> None:
    queues.queue("loop").send_many([0, 0, 0])
    with Process(SLOW, db.dsn, "--until-empty", "--concurrency", "1") as process:
        assert process.wait()[0] == 0
    assert value(conn, "select count(*) from pgmq.a_loop") == 3


def test_the_command_handles_one(db: Database, queues: Client, conn: Connection) -> None:
    queues.queue("loop").send_many([0, 0, 0])
    with Process(SLOW, db.dsn, "--once", "--queues", " threads, loop,") as process:
        assert process.wait()[0] == 0
    assert value(conn, "select count(*) from pgmq.a_loop") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere", "does not name a worker: write MODULE:WORKER"),
        ("no_such_module:worker", "there is no module no_such_module"),
        ("tests.worker.programs.none:worker", "there is no module tests.worker.programs.none"),
        ("json:dumps", "json has dumps, which is no Worker; its Workers: none"),
        ("json:nothing", "json has no variable nothing; its Workers: none"),
        (f"{SLOW}:wrker", "has no variable wrker; its Workers: worker"),
        (f"{SLOW}:worker --queues ,", "--queues names no queue"),
    ],
)
def test_what_names_no_worker_is_refused_in_one_line(text: str, words: str) -> None:
    result = CliRunner(env={"PGQUEUE_DSN": "postgresql:///x"}).invoke(main, ["worker", *text.split()])
    assert result.exit_code == 1
    assert words in result.stderr and len(result.stderr.splitlines()) == 1


def test_it_says_that_it_takes_messages_once_it_does(db: Database, queues: Client) -> None:
    with Process(SLOW, db.dsn, "--until-empty") as process:
        code, printed = process.wait()
    assert (code, printed.count("takes messages")) == (0, 1)
    queues.drop_queue("loop")
    with Process(SLOW, db.dsn, "--until-empty") as process:
        code, printed = process.wait()
    assert code == 1
    assert 'queue "loop" does not exist' in printed and "takes messages" not in printed


def run_module(text: str, folder: Path, patch: pytest.MonkeyPatch, *words: str) -> Result:
    """`pgqueue worker` on a module of that text, in its folder and this process."""
    number = len(list(folder.glob("jobs_*.py")))
    (folder / f"jobs_{number}.py").write_text(text)
    patch.chdir(folder)
    patch.setattr("sys.path", ["", *sys.path])
    patch.setattr(
        "sys.modules", {name: one for name, one in sys.modules.items() if not name.startswith("jobs_")}
    )
    return CliRunner().invoke(main, ["worker", f"jobs_{number}:worker", *words])


def test_a_fault_in_the_module_is_shown_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the frames of ours that lead to it."""
    result = run_module("import no_such_dependency\n", tmp_path, monkeypatch)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "jobs_0.py" in lines[1]
    assert "pgqueue" not in result.stderr and "importlib" not in result.stderr
    assert lines[-1] == "ModuleNotFoundError: No module named 'no_such_dependency'"


def test_a_handler_that_makes_no_sense_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from pgqueue import Worker\nworker = Worker()\n@worker.handler('x', vt=0)\ndef one(message):\n    pass\n"
    result = run_module(text, tmp_path, monkeypatch)
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: .*jobs_0\.py:3: .*vt.*\n", result.stderr)


def test_a_module_beside_the_package_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which it has the name, and more."""
    monkeypatch.setattr("pgqueue.cli.worker.__file__", str(tmp_path / "jobs" / "cli" / "worker.py"))
    text = "from pgqueue.errors import Refused\n\nraise Refused('not today')\n"
    result = run_module(text, tmp_path, monkeypatch)
    assert re.fullmatch(r"Error: .*jobs_0\.py:3: not today\n", result.stderr)


def test_the_server_of_the_command(
    db: Database, queues: Client, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGQUEUE_DSN", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    text = "from pgqueue import Worker\nworker = Worker({})\n@worker.handler('loop')\ndef one(message):\n    pass\n"
    queues.queue("loop").send(1)
    refused = run_module(text.format("'postgresql:///x'"), tmp_path, monkeypatch, "--dsn", db.dsn)
    assert "was given its server in Python" in refused.stderr
    assert run_module(text.format(""), tmp_path, monkeypatch, "--until-empty", "--dsn", db.dsn).exit_code == 0
    assert value(conn, "select count(*) from pgmq.a_loop") == 1
