"""The command line in the tests: `run` in this process, `shell` as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from click.testing import CliRunner

from pgqueue.cli.main import main
from tests.databases import Database


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What --json printed."""
        return [json.loads(line) for line in self.out.splitlines()]


class Run(Protocol):
    """run("queue", "list"): checks the exit code, 0 unless told otherwise."""

    def __call__(self, *words: str, code: int = 0, stdin: str | bytes | None = None, **env: str) -> Done: ...


Shell = Callable[[str], Done]
"""shell("pgqueue queue list | head -1"): a line of bash; asserts that nothing ends in a traceback."""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable that names a server or a colour, or has Python write at once what a user's would collect."""
    for name in list(os.environ):
        if name.startswith("PG") or name in ("DATABASE_URL", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED"):
            monkeypatch.delenv(name)


@pytest.fixture
def offline(bare: None) -> Run:
    """Run a command in this process, with no server named."""

    def run(*words: str, code: int = 0, stdin: str | bytes | None = None, **env: str) -> Done:
        result = CliRunner(env=env).invoke(main, words, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        if code == 1:
            assert result.stderr.count("\n") == 1, f"one clear line, not {result.stderr!r}"
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def run(offline: Run, db: Database) -> Run:
    """Run a command in this process on this test's own database."""

    def run(*words: str, code: int = 0, stdin: str | bytes | None = None, **env: str) -> Done:
        return offline(*words, code=code, stdin=stdin, **{"PGQUEUE_DSN": db.dsn, **env})

    return run


@pytest.fixture
def shell(bare: None, db: Database) -> Shell:
    """Run a line of bash, in which `pgqueue` is the command, on this test's own database."""
    command = f'pgqueue() {{ "{sys.executable}" -m pgqueue.cli.main "$@"; }}\n'

    def run(script: str) -> Done:
        env = {**os.environ, "PGQUEUE_DSN": db.dsn}
        done = subprocess.run(
            ["bash", "-c", command + script], env=env, capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run
