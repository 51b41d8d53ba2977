"""The table of calls in docs/migrate-from-pgmq.md: both sides of each line are run, and give the same."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest
from pgmq import PGMQueue
from psycopg_pool import ConnectionPool

from pgqueue import Client
from tests.databases import Cluster, Database
from tests.examples.test_pages import DOCS

CODE = re.compile(r"`([^`]+)`")


def calls() -> list[tuple[str, str]]:
    """The pairs of calls, in order."""
    rows = re.findall(
        r"^\| (`pgmq\..*?) \| (.*) \|$",
        (DOCS / "migrate-from-pgmq.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return [pair for row in rows for pair in zip(*map(CODE.findall, row), strict=False)]


def plain(value: Any) -> Any:
    """What both clients say of the same thing, without instants and classes."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    for fields in (
        ("msg_id", "read_ct", "message", "headers"),
        ("queue_name", "queue_length", "queue_visible_length", "total_messages"),
        ("queue_name", "is_partitioned", "is_unlogged"),
    ):
        if hasattr(value, fields[-1]):
            return [getattr(value, field) for field in fields]
    return value


@pytest.mark.filterwarnings("ignore:list_queues.. now returns:UserWarning")  # says pgmq's client
def test_both_sides_of_each_line_do_the_same(server: Cluster, template: str, db: Database) -> None:
    other = server.create_database(template)
    try:
        with ConnectionPool[psycopg.Connection[Any]](other.dsn, min_size=1) as pool, Client(db.dsn) as client:
            theirs = {"pgmq": PGMQueue(pool=pool, init_extension=False)}
            ours = {"client": client, "orders": client.queue("orders")}
            answers = []
            for left, right in calls():
                answers.append(plain(eval(right, ours)))
                assert plain(eval(left, theirs)) == answers[-1], (left, right)
    finally:
        other.drop()
    assert len(answers) > 20
    assert [[5, 1, {"id": 5}, None]] in answers  # by pop
    assert [[6, 1, {"id": 6}, None]] in answers  # by read_grouped
