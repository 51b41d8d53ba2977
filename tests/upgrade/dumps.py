"""Dumps of databases by pg_dump: made, stripped of what is by chance, and played into another database."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.databases import Database
from tests.servers import binaries

#: Lines that differ from one dump to the next, or only say which program made it.
NOISE = re.compile(
    r"^(\\(un)?restrict .*|-- Dumped (from|by) .*|SET transaction_timeout = 0;)\n", re.MULTILINE
)


def program(name: str) -> str:
    """The path of one of Postgres's programs, of the major version that the tests run on."""
    if os.environ.get("PGQUEUE_TEST_DSN"):
        found = shutil.which(name)
        assert found, f"no {name} on PATH"
        return found
    return str(Path(binaries(os.environ.get("PGQUEUE_TEST_PG", "embedded"))) / name)


def run(name: str, *words: str, stdin: str | None = None) -> str:
    """What one of Postgres's programs prints; fails with what it says on stderr."""
    done = subprocess.run([program(name), *words], input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return done.stdout


def dump(database: Database, *options: str, user: str | None = None) -> str:
    """A dump as its owner makes it, without noise."""
    return NOISE.sub("", run("pg_dump", "-d", database.dsn_for(user) if user else database.dsn, *options))


def play(database: Database, script: str) -> None:
    """Runs a script as the database's owner, as psql does, and stops at the first error."""
    run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database.dsn, "-f", "-", stdin=script)
