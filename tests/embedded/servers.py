"""What the tests of the embedded Postgres share: who they are, and how they look at folders and processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgqueue.embedded import binaries, folder, postmaster, sockets

ROOT = os.geteuid() == 0
NOBODY = 65534
MARKER = folder.MARKER

needs_root = pytest.mark.skipif(not ROOT, reason="only root can become another user")
Run = Callable[..., subprocess.CompletedProcess[str]]

# In a child: what is imported late lies below a folder that the other uid may not be able to enter.
AS_USER = """
import encodings.idna, fcntl, json, os, pwd, signal, sys, tempfile
from pathlib import Path
from pgqueue.embedded import Embedded, binaries, folder, postmaster, resolve
from pgqueue.errors import EmbeddedError
programs, uid, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
binaries.candidates = lambda: iter([Path(programs)])
if uid != os.geteuid():
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
"""


def end_servers(path: Path) -> None:
    for pid in postmasters(path):
        os.kill(pid, signal.SIGQUIT)
        os.kill(pid, signal.SIGCONT)  # one that a failed test left stopped
        until(lambda pid=pid: not postmaster.lives(pid))  # type: ignore[misc]
    for marker in path.rglob(MARKER):
        shutil.rmtree(sockets.short_folder(marker.parent), ignore_errors=True)


def postmasters(path: Path) -> list[int]:
    """The pids of the servers at work anywhere below `path`, by what they are rather than what they wrote."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        work, pid = _working_folder(process.name), int(process.name)
        if work.startswith(f"{path}/") and postmaster.lives(pid) and _working_folder(_parent(pid)) != work:
            found.append(pid)
    return found


def _working_folder(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _parent(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(query).fetchone()
        return None if row is None else row[0]


def state(path: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything about a folder that a refusal must not change."""
    found = [path, *sorted(path.rglob("*"))]
    return [
        (str(one), one.lstat().st_mode, one.lstat().st_uid, one.read_bytes() if one.is_file() else b"")
        for one in found
    ]


def programs_below(path: Path, mode: int = 0o700) -> Path:
    """A copy of Postgres's programs in a folder of that mode."""
    source = binaries.find().folder.parent
    copy = path / source.parent.name / source.name
    shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = source.parent.with_name(f"{source.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, path / libraries.name)
    path.chmod(mode)
    return copy / "bin"


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
