"""The pages of docs/, read as their readers would: every block of Python, SQL and shell is run, in order."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from tests.databases import Database
from tools import docstring_lists, sql_reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: What the reader does once for a machine, and the tests have done in their own way.
DONE_BEFORE = ("python3 -m venv ", "pip install ", "export PGQUEUE_DSN=")

#: Pages on an empty database, and on one where pgqueue is installed.
FROM_NOTHING = ["index.md"]
INSTALLED = ["driver.md", "transactions.md", "sql.md"]
#: They have tests of their own.
ELSEWHERE = {
    "worker.md": "test_saved_blocks.py",
    "performance.md": "tests/bench",
    "migrate-from-pgmq.md": "tests/adopt",
    "doctor.md": "tests/doctor",
}


class Page:
    """A page, whose blocks share a module and a database."""

    def __init__(self, name: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = DOCS / name
        self.text = self.path.read_text(encoding="utf-8")
        self.dsn = dsn
        self.module = ModuleType("__main__")  # as if its reader had pasted it
        monkeypatch.setenv("PGQUEUE_DSN", dsn)
        monkeypatch.setitem(sys.modules, "__main__", self.module)  # dataclasses look for it

    def run(self) -> None:
        """Run all blocks."""
        kinds: dict[str, Callable[[str, int], None]] = {
            "python": self._python,
            "sql": self._sql,
            "sh": self._sh,
        }
        blocks = list(BLOCK.finditer(self.text))
        assert len(blocks) > 3
        for block in blocks:
            if block[1] in kinds:
                kinds[block[1]](block[2], self.text.count("\n", 0, block.start(2)))

    def _python(self, text: str, line: int) -> None:
        tree = ast.increment_lineno(ast.parse(text), line)
        exec(compile(tree, str(self.path), "exec", dont_inherit=True), vars(self.module))

    def _sql(self, text: str, line: int) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(text.encode())

    def _sh(self, text: str, line: int) -> None:
        commands = [one for one in text.splitlines() if not one.startswith(DONE_BEFORE)]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", "\n".join(commands)],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"line {line}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", FROM_NOTHING)
def test_a_page_that_begins_with_nothing(
    empty_db: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    Page(name, empty_db.dsn, monkeypatch).run()


@pytest.mark.parametrize("name", INSTALLED)
def test_a_page(db: Database, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    Page(name, db.dsn, monkeypatch).run()


#: What each of the roles of sql.md is there to do.
DUTIES = {
    "shop_sender": ["pgmq.send('orders', '1')", "pgmq.send_batch('orders', array['2', '3', '4']::jsonb[])"],
    "shop_watcher": [
        "pgqueue.peek('orders')",
        "pgqueue.counts('orders')",
        "pgmq.metrics('orders')",
        "pgmq.list_queues()",
    ],
    "shop_consumer": [
        "pgmq.read('orders', 30, 1)",
        "pgqueue.fetch('orders', 30, 1, array[1], array[1], true)",
        "pgmq.set_vt('orders', 2, 0)",
        "pgmq.archive('orders', array[2]::bigint[])",
        "pgmq.read_grouped('orders', 30, 1)",
        "pgqueue.complete('orders', 3, 1)",
        "pgmq.pop('orders')",
        "pgmq.purge_queue('orders')",
    ],
}


@pytest.mark.parametrize("compiled", [True, False])
def test_the_rights_it_advises_are_enough(db: Database, compiled: bool) -> None:
    owner = db.connect()
    owner.execute("select pgmq.create('orders')")
    if not compiled:
        owner.execute("select pgqueue.decompile('orders')")
    text = (DOCS / "sql.md").read_text(encoding="utf-8")
    (recipe,) = [block[2] for block in BLOCK.finditer(text) if block[1] == "postgresql"]
    with db.connect(user=db.superuser, autocommit=False) as conn:  # roles are the cluster's: rolled back
        conn.execute(recipe.encode())
        for role, calls in DUTIES.items():
            conn.execute(f"set local role {role}".encode())
            for call in calls:
                assert conn.execute(f"select {call}".encode()).fetchall()
            conn.execute("reset role")
        conn.rollback()


def pages() -> Iterator[tuple[str, set[str]]]:
    """Every page, and the languages of its blocks."""
    for path in sorted(DOCS.glob("*.md")):
        yield path.name, {kind for kind, _ in BLOCK.findall(path.read_text(encoding="utf-8"))}


def test_no_page_is_left_out() -> None:
    with_blocks = {name for name, kinds in pages() if kinds & {"python", "sql", "sh"}}
    assert with_blocks <= {*FROM_NOTHING, *INSTALLED, *ELSEWHERE}


def test_the_reference_of_sql_is_complete() -> None:
    known = {"pgmq.read": ["pgmq.read(…)"], "pgqueue.fetch": ["pgqueue.fetch(…)"]}
    marks = "<!-- functions: read{} -->\nold\n<!-- end -->"
    text = marks.format(", pgqueue.fetch")
    assert sql_reference.page(text, known) == text.replace(
        "old", "```text\npgmq.read(…)\npgqueue.fetch(…)\n```"
    )
    with pytest.raises(ValueError, match=r"nothing of pgqueue\.fetch"):
        sql_reference.page(marks.format(""), known)
    with pytest.raises(KeyError):
        sql_reference.page(marks.format(", pgqueue.fetch, gone"), known)


def test_lines_about_parameters_become_a_list() -> None:
    text = "Send it.\n\nmessage: a body.\n    Any.\nheaders, delay: more\nand more.\nRaises X.\nnote: this"
    assert docstring_lists.listed(text, {"message", "headers", "delay"}) == (
        "Send it.\n\n- `message`: a body.  \n    Any.\n- `headers`, `delay`: more\nand more.\n\nRaises X.\nnote: this"
    )
