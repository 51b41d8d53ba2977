"""`make demo`: it says the truth, works twice, and leaves nothing behind however it ends."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqueue.embedded import Embedded

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(
    params=["clone", "a clone whose path is too long for a socket's name, " + "and has spaces " * 4]
)
def clone(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the examples in it, which is all of a clone that the demo uses; short and long."""
    folder = tmp_path / str(request.param).strip()
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def start(clone: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(clone / "examples" / "demo.py")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_nothing_runs(clone: Path) -> None:
    server = Embedded(clone / ".demo")
    assert not server.status().running
    sockets = Path(conninfo_to_dict(server.dsn)["host"])
    assert sockets == server.folder or not sockets.exists()
    assert {path.name for path in clone.iterdir()} == {"examples", ".demo"}


def test_it_works_twice_and_counts_right(clone: Path) -> None:
    events = (EXAMPLES / "orders.ndjson").read_text().splitlines()
    reviews = sum('"order.reviewed"' in line for line in events)
    for _ in range(2):
        demo = start(clone)
        output, errors = demo.communicate(timeout=60)
        assert (demo.returncode, errors) == (0, "")
        counts = [int(count) for count in re.findall(r"\d+", output.splitlines()[-1])]
        assert output.splitlines()[-1].startswith("demo ok: ")
        assert counts == [len(events) + 3, len(events) + 3, len(events) - reviews + 2]
        assert_nothing_runs(clone)


def test_a_failure_stops_the_server(clone: Path) -> None:
    orders = clone / "examples" / "orders.ndjson"
    orders.write_text(orders.read_text() + "no JSON\n")
    demo = start(clone)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert errors.splitlines()[-1].startswith("demo failed: ")
    assert "Traceback" not in errors
    assert_nothing_runs(clone)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_stops_the_server(clone: Path, number: signal.Signals) -> None:
    demo = start(clone)
    assert demo.stdout is not None
    assert "$ pgqueue install" in demo.stdout.readline()
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert errors.splitlines()[-1] == "demo stopped"
    assert "Traceback" not in errors
    assert_nothing_runs(clone)
