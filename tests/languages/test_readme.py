"""The README, pasted: every block but those of the console is run, in order, on one database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import Database
from tests.languages.conftest import environment, require

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

# What the reader does once for a machine, and the tests have done in their own way.
DONE_BEFORE = ("python3 -m venv ", "pip install ", "export PGQUEUE_DSN=")


def command(language: str, text: str) -> list[str]:
    """How a block is run."""
    if language == "sh":
        lines = [line for line in text.splitlines() if not line.startswith(DONE_BEFORE)]
        return ["bash", "-euc", "\n".join(lines)]
    if language == "sql":
        return ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", text]
    if language == "python":
        return [sys.executable, "-W", "error", "-c", text]
    return ["node", "-e", text]


def test_the_readme_works_as_it_is_pasted(empty_db: Database, node_modules: Path) -> None:
    require("psql", "--version", advice="apt-get install postgresql-client-15")
    blocks = [found for found in BLOCK.findall((ROOT / "README.md").read_text()) if found[0] != "console"]
    assert {language for language, _ in blocks} == {"sh", "sql", "python", "js"}
    path = f"{Path(sys.executable).parent}:{environment(empty_db)['PATH']}"
    where = environment(empty_db, PGQUEUE_DSN=empty_db.dsn, NODE_PATH=str(node_modules), PATH=path)

    def paste() -> None:
        for language, text in blocks:
            done = subprocess.run(
                command(language, text), env=where, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"

    paste()
    with empty_db.connect() as conn:
        archived = conn.execute("select message ->> 'to' from pgmq.a_mail order by msg_id").fetchall()
        shipped = conn.execute("select order_id from shipped").fetchall()
    assert [to for (to,) in archived] == [f"{who}@example.org" for who in ("ann", "cyd", "dee")]
    assert shipped == [(7,)]
    paste()  # nobody's first attempt is the only one


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()))
def test_the_readme_points_at_files_that_are_there(target: str) -> None:
    assert (ROOT / target).exists()
