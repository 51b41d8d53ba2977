"""The embedded Postgres: real servers in folders of their own, as root and as an ordinary user.

What needs another uid is run only by root; everything else runs as whoever runs the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded
from tests.embedded.servers import AS_USER, Run, end_servers, programs_below


@pytest.fixture
def place() -> Iterator[Path]:
    """A short open folder for the folders of servers; whatever runs in it is stopped afterwards."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    end_servers(path)
    path.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture
def home(place: Path) -> Path:
    """The folder of a server that is not there yet."""
    return place / "pg"


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A copy of Postgres's programs that every uid can read."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    yield programs_below(path, 0o755)
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def pattern() -> Iterator[Path]:
    """The folder of a server that was made and stopped."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    path.chmod(0o755)
    Embedded(path / "pg").start()
    Embedded(path / "pg").stop()
    yield path / "pg"
    shutil.rmtree(path)


@pytest.fixture
def embedded(pattern: Path, home: Path) -> Embedded:
    """A server that was made, holds nothing, and does not run; its folder is `home`."""
    subprocess.run(["cp", "-a", pattern, home], check=True)
    return Embedded(home)


@pytest.fixture
def run(programs: Path) -> Run:
    """A function that runs a program in a process of its own, as `uid`, with HOME in `place`."""

    def child(
        code: str, place: Path, uid: int | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        uid = os.geteuid() if uid is None else uid
        command = [sys.executable, "-c", AS_USER + code, str(programs), str(uid), str(place)]
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environ = {**kept, "HOME": str(place), **environment}
        return subprocess.run(
            command, capture_output=True, text=True, env=environ, timeout=60, check=False, cwd="/"
        )

    return child
