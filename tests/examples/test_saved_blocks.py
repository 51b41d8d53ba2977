"""Blocks of the pages saved to files: those of docs/worker.md to the files that it names, and started as it says; a
type checker sees them too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import Database
from tests.examples.test_pages import BLOCK, DOCS
from tests.sql.asking import column

PGQUEUE = str(Path(sys.executable).parent / "pgqueue")
IDS = "select last_value from pgmq.q_{}_msg_id_seq"


def blocks(page: str, language: str = "python") -> list[str]:
    """The blocks of a page in one language."""
    return [
        text for kind, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if kind == language
    ]


def run(folder: Path, db: Database, *command: str) -> str:
    """Run Python in a folder; what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PGQUEUE_DSN": db.dsn, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with shop/jobs.py and test_jobs.py."""
    *jobs, test = blocks("worker.md")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text("\n\n".join(jobs))
    (tmp_path / "test_jobs.py").write_text(test)
    return tmp_path


def test_the_file_of_the_page(shop: Path, db: Database) -> None:
    assert "17\n" in run(shop, db, "-m", "shop.jobs")
    conn = db.connect()
    assert column(conn, "select order_id from invoice") == [18]
    assert column(conn, "select message ->> 'to' from pgmq.q_mail order by msg_id") == ["busy", "holiday"]
    for statement in blocks("worker.md", "sql"):
        conn.execute(statement.encode())

    for options in (["--until-empty"], ["--queues", "orders", "--concurrency", "4", "--until-empty"]):
        run(shop, db, PGQUEUE, "worker", "shop.jobs:worker", *options)
    for queue, sent in (("orders", 1), ("mail", 4), ("paid", 1)):
        assert column(conn, IDS.format(queue)) == [sent], "importing it sends nothing"


def test_the_test_of_the_page(shop: Path, db: Database) -> None:
    server = f"--pgqueue-dsn={db.dsn_for(db.superuser)}"
    assert "1 passed" in run(shop, db, "-m", "pytest", "-p", "no:cacheprovider", server)


def test_each_first_block_is_a_program(tmp_path: Path, db: Database) -> None:
    worker = blocks("index.md")[-1]
    for number, text in enumerate(
        [worker, blocks("worker.md")[0], blocks("index.md")[0], blocks("driver.md")[0]]
    ):
        (tmp_path / f"program{number}.py").write_text(text)
        assert run(tmp_path, db, f"program{number}.py")
    run(tmp_path, db, PGQUEUE, "worker", "program0:worker", "--until-empty")
    assert column(db.connect(), IDS.format("tasks")) == [2], "importing it sends nothing"


def test_the_pages_satisfy_a_strict_type_checker(shop: Path, db: Database) -> None:
    files = ["shop/jobs.py", "test_jobs.py"]
    for page in ("index", "driver", "transactions"):
        (shop / f"{page}.py").write_text("\n\n".join(blocks(f"{page}.md")))
        files.append(f"{page}.py")
    run(shop, db, "-m", "mypy", "--strict", "--explicit-package-bases", *files)
