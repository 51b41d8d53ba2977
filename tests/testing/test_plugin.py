"""The pytest plugin, as a project of its own would use it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgqueue import Client
from pgqueue.testing.queue import CleanQueue
from pgqueue.testing.server import destroy_orphans
from tests.databases import Database
from tests.worker.running import until

TESTS = """
from datetime import timedelta

import pytest

from pgqueue import AsyncClient, Worker
from pgqueue.errors import BadValue


@pytest.mark.parametrize("turn", range(20))
def test_a_queue_is_clean(queue, turn):
    assert queue.send({"turn": turn}) == 1
    assert queue.send("later", delay=600) == 2
    assert [m.message for m in queue.read(qty=5)] == [{"turn": turn}]
    assert queue.archive(1)
    assert queue.metrics().queue_length == 1


def test_time_passes_when_it_is_told(queue):
    queue.send("now")
    queue.send("later", delay=60)
    first = queue.read_one(vt=30)
    assert queue.read_one() is None
    queue.travel(29.5)
    assert queue.read_one() is None
    queue.travel(timedelta(seconds=0.5))
    again = queue.read_one(vt=300)
    assert (again.msg_id, again.read_ct) == (1, 2)
    assert queue.read_one() is None
    queue.travel(30)
    assert queue.read_one(vt=300).message == "later"
    assert 55 < queue.metrics().oldest_msg_age_sec < 100
    queue.travel(269)
    assert queue.read_one() is None
    queue.travel(2)
    assert [m.msg_id for m in queue.read(qty=9, vt=0)] == [1]
    queue.travel(30)
    assert [m.read_ct for m in queue.read(qty=9, vt=0)] == [4, 2]
    with pytest.raises(BadValue):
        queue.travel(-1)


def test_a_retry_takes_no_time(make_queue):
    mail, seen = make_queue("mail"), []
    worker = Worker(mail.dsn)

    @worker.handler("mail")
    def handle(message):
        seen.append(message.read_ct)
        if message.read_ct < 4:
            raise ValueError

    mail.send("letter")
    for hours in range(4):
        worker.run(until_empty=True)
        mail.travel(3600)
    assert seen == [1, 2, 3, 4]
    assert mail.metrics().queue_length == 0


def test_names_are_as_they_are_everywhere(make_queue):
    queue = make_queue('Mail "2"')
    queue.send(1, delay=5)
    queue.travel(5)
    assert queue.read_one().message == 1


async def test_code_that_is_async(make_queue, pgqueue_dsn):
    mail = make_queue("mail")
    async with AsyncClient(pgqueue_dsn) as client:
        assert await client.queue("mail").send("letter") == 1
    assert mail.read_one().message == "letter"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with tests in it."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    (tmp_path / "tmp").mkdir(mode=0o755)
    return tmp_path


def start(project: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "TMPDIR": "/tmp"}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True)


def servers(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"pgqueue-test-{pid}-*"))


def test_its_fixtures_do_what_they_say_and_leave_nothing(project: Path) -> None:
    """On a private server that two workers share, who make a database each."""
    run = start(project, "-n", "2")
    printed, _ = run.communicate(timeout=100)
    assert run.returncode == 0, printed
    assert servers(run.pid) == []


def test_messages_that_travel_are_not_below_the_floor(db: Database) -> None:
    """Readers know since when there can be messages that are due; travelling changes that."""
    conn = db.connect()
    with Client(db.dsn) as client:
        client.create("orders")
        queue = CleanQueue(client, "orders", db.dsn)
        queue.send("late", delay=3600)
        queue.send("now")
        in_half_an_hour = "(extract(epoch from clock_timestamp()) * 1000000 + %s)::bigint"
        for sequence, ahead in (("floor_vt", 1_800_000_000), ("walk", 0)):
            conn.execute(f"""select setval('pgqueue."orders${sequence}"', {in_half_an_hour})""", [ahead])
        queue.travel(3600)
        assert [m.message for m in queue.pop()] == ["late"], "its id is the lower one"
        assert [m.message for m in queue.pop()] == ["now"]


def test_a_test_takes_under_30_ms_after_the_first(project: Path, db: Database) -> None:
    """On any server: the best of twenty, since the machine is shared."""
    admin = db.dsn_for(db.superuser)
    run = start(project, "-k", "clean", "--durations=0", "-vvv", f"--pgqueue-dsn={admin}")
    printed, _ = run.communicate(timeout=100)
    assert run.returncode == 0, printed
    times = {}
    for seconds, turn in re.findall(r"([\d.]+)s (?:setup|call) +\S+\[(\d+)\]", printed):
        times[turn] = times.get(turn, 0) + float(seconds)
    assert len(times) == 20
    assert min(times.values()) < 0.03, times
    print(sorted(times.values()))
    sql = "select count(*) from pg_database where datname like 'pgqueue_test_%'"
    assert db.connect(user=db.superuser).execute(sql).fetchone() == (0,)


def test_the_server_of_a_killed_run_is_removed_by_the_next(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import os, signal\ndef test_killed(queue):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = start(project)
    run.communicate(timeout=100)
    assert run.returncode == -signal.SIGKILL
    assert len(servers(run.pid)) == 1
    destroy_orphans()  # which the next run begins with
    until(lambda: servers(run.pid) == [], "the end of the orphan")


def test_loading_it_costs_next_to_nothing() -> None:
    """It is loaded by every pytest run where pgqueue is installed."""
    heavy = "[name for name in ('psycopg', 'asyncio', 'jinja2') if name in sys.modules]"
    code = f"import sys, pgqueue.testing.plugin; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
