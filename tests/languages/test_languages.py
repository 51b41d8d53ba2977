"""The same round in other languages, each with its usual driver: create, send, read, archive, delete, pop.

The programs are files beside this one. They learn the server from libpq's variables and print a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.databases import Database
from tests.languages.conftest import HERE, environment, require

EXPECTED = {"sent": [1, 2, 3], "read": [1, 2], "to": "Łukasz", "archived": True, "deleted": True, "popped": 3}


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
