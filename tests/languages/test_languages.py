"""The same round in other languages, each with its usual driver: create, send, read, archive, delete, pop.

The programs are files beside this one. They learn the server from libpq's variables and print a line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.databases import Database

HERE = Path(__file__).resolve().parent
NODE_FOLDER = HERE.parent.parent / ".cache" / "node"

EXPECTED = {"sent": [1, 2, 3], "read": [1, 2], "to": "Łukasz", "archived": True, "deleted": True, "popped": 3}


def environment(db: Database, **more: str) -> dict[str, str]:
    """The variables from which libpq, and the drivers that follow it, learn the server."""
    given = conninfo_to_dict(db.dsn)
    where = {"PGHOST": given["host"], "PGUSER": given["user"], "PGDATABASE": given["dbname"]}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**inherited, **{name: str(value) for name, value in where.items()}, **more}


def require(*probe: str, advice: str) -> None:
    """Skips the test where the language or its driver is absent."""
    if shutil.which(probe[0]) is None:
        pytest.skip(f"no {probe[0]} here: {advice}")
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip(f"{probe[0]} has no Postgres driver here: {advice}")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Where the packages of package.json are installed: once, by the test process that comes first."""
    require("node", "--version", advice="apt-get install nodejs")
    require("npm", "--version", advice="apt-get install npm")
    NODE_FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    stamp = NODE_FOLDER / "node_modules" / ".installed"
    with open(NODE_FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            (NODE_FOLDER / "package.json").write_text(wanted)
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
            subprocess.run(["npm", "install", *quiet], cwd=NODE_FOLDER, check=True, stdin=subprocess.DEVNULL)
            stamp.write_text(wanted)
    return NODE_FOLDER / "node_modules"


@pytest.fixture
def play(db: Database) -> Callable[..., None]:
    """Runs a program of this folder on a database of its own, and checks what it printed and what it left."""

    def run(*command: str, **variables: str) -> None:
        done = subprocess.run(
            command, cwd=HERE, env=environment(db, **variables), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout) == EXPECTED
        with db.connect() as conn:
            metrics = conn.execute("select queue_length, total_messages from pgmq.metrics('shop')").fetchone()
            archived = conn.execute("select msg_id, read_ct, message from pgmq.a_shop").fetchall()
        assert metrics == (0, 3)
        assert archived == [(1, 1, {"to": "Łukasz", "n": 1})]

    return run


def test_psql(play: Callable[..., None]) -> None:
    require("psql", "--version", advice="apt-get install postgresql-client-15")
    play("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-f", "round.sql", PGCLIENTENCODING="UTF8")


@pytest.mark.parametrize("program", ["round_pg.js", "round_pgmq_js.js"])
def test_node(play: Callable[..., None], node_modules: Path, program: str) -> None:
    play("node", program, NODE_PATH=str(node_modules))


def test_ruby(play: Callable[..., None]) -> None:
    require("ruby", "-e", 'require "pg"', advice="apt-get install ruby-pg")
    play("ruby", "-Eutf-8", "round.rb")


def test_perl(play: Callable[..., None]) -> None:
    require("perl", "-MDBD::Pg", "-e", "1", advice="apt-get install libdbd-pg-perl")
    play("perl", "round.pl")


def test_php(play: Callable[..., None]) -> None:
    advice = "apt-get install php-cli php-pgsql"
    require("php", "-r", 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);', advice=advice)
    play("php", "round.php")
