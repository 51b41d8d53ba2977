"""The Python of the driver's pages, run from top to bottom."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.databases import Database

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["driver.md", "transactions.md"])
async def test_the_blocks_of_a_page_run(db: Database, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PGQUEUE_DSN", db.dsn)
    text = (DOCS / name).read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 3
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        tree = ast.increment_lineno(ast.parse(block[1]), line)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        done = eval(compile(tree, str(DOCS / name), "exec", flags, dont_inherit=True), vars(page))
        if inspect.isawaitable(done):
            await done
