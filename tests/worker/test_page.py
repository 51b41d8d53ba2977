"""The Python of the page on the worker, run from top to bottom; then the test that it shows."""

from __future__ import annotations

import ast
import re
import sys
from types import ModuleType

import pytest

from pgqueue import Client
from pgqueue.testing.queue import CleanQueue
from tests.databases import Database
from tests.sql.asking import Connection, column
from tests.worker.running import ROOT

PAGE = ROOT / "docs" / "worker.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run(db: Database, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGQUEUE_DSN", db.dsn)
    page = ModuleType("worker_page")
    monkeypatch.setitem(sys.modules, "worker_page", page)
    text = PAGE.read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 5
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        tree = ast.increment_lineno(ast.parse(block[1]), line)
        exec(compile(tree, str(PAGE), "exec", dont_inherit=True), vars(page))
    assert column(conn, "select order_id from invoice") == [18]
    with Client(db.dsn) as client:

        def make_queue(name: str) -> CleanQueue:
            client.create(name)
            queue = CleanQueue(client, name, db.dsn)
            queue.clear()
            return queue

        vars(page)["test_mail_is_tried_again"](make_queue)
