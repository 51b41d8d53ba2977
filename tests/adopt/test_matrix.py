"""Some cells of the matrix: a pgmq is adopted while clients are at it, and given back (all: make adopt-matrix)."""

from __future__ import annotations

import pytest

from tests.adopt.matrix import Cell, run
from tests.databases import Cluster, Database


@pytest.mark.chaos
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(Cell("1.4.4", "extension"), id="1.4.4"),
        pytest.param(Cell("1.9.0", "sql"), id="1.9.0-sql"),
        pytest.param(Cell("1.5.1", "extension", upgraded=True), id="1.5.1-upgraded"),
        pytest.param(Cell("1.13.0", "extension"), id="1.13.0"),
    ],
)
def test_clients_notice_nothing(old_db: Database, cell: Cell) -> None:
    """How long a statement waited is for the matrix to judge, on a machine that does nothing else."""
    outcome = run(old_db, cell)
    assert [*outcome.problems, *outcome.report.faults()] == []
    assert outcome.back and outcome.report.handled > 150


@pytest.mark.chaos
def test_a_queue_under_pg_partman(partman: Cluster) -> None:
    """A trigger changed on the partitions first would meet senders and readers half-way."""
    database = partman.create_database()
    outcome = run(database, Cell("1.13.0", "extension", partitioned=True))
    database.drop()
    assert [*outcome.problems, *outcome.report.faults()] == []
    assert outcome.back
