"""The benchmark in the tests: small runs on the test server, invented results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgqueue.bench.bars import BARS
from pgqueue.bench.databases import PREFIX, Databases
from pgqueue.bench.model import AGAINST, Figure, Options, Outcome, Run
from pgqueue.cli.main import main
from tests.databases import Cluster, uri

SMALL = Options(scale=0.001, clients=(2,), payload_bytes=40, turns=1, against=("pgmq",))

Bench = Callable[..., Result]


@pytest.fixture
def address(server: Cluster) -> Iterator[str]:
    """Where the superuser of the test server connects. No database of a benchmark may be left at the end."""
    yield uri(server.conninfo)
    assert left_behind(server) == []


def left_behind(server: Cluster) -> list[str]:
    """The databases of benchmarks."""
    query = "select datname from pg_database where starts_with(datname, %s)"
    return [name for (name,) in server._admin.execute(query, [PREFIX]).fetchall()]


@pytest.fixture
def databases(address: str) -> Iterator[Databases]:
    """Databases of a run, dropped with the test."""
    with Databases(address) as made:
        yield made


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """bench("check", path): the command in this process, with no server named."""
    for name in list(os.environ):
        if name.startswith("PG") or name == "DATABASE_URL":
            monkeypatch.delenv(name)

    def invoke(*words: str | Path) -> Result:
        result = CliRunner().invoke(main, ["bench", *map(str, words)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def invented(workload: str = "cycle", values: dict[tuple[str, str, str], float] | None = None) -> Run:
    """A run of one workload whose figures are such that every bar is just met, but for those given."""
    medians: dict[tuple[str, str, str], float] = {}
    for bar in BARS:
        if bar.workload != workload:
            continue
        what, beside = ((one.case, one.side, one.measure) if one else None for one in (bar.what, bar.beside))
        assert what is not None
        if beside is None:
            medians.setdefault(what, bar.limit)
        else:
            base = medians.setdefault(beside, 100.0)
            medians.setdefault(what, base + bar.limit if bar.excess else base * bar.limit)
    medians |= values or {}
    return Run(
        started_at="2030-01-31T09:00:00+00:00",
        seconds=61.0,
        versions={"pgqueue": "0.1.0", "pgmq": "1.13.0"},
        server={"version": "15.18", "cores": "2", "fsync": "on"},
        options=Options(against=AGAINST),
        workloads={workload: Outcome(61.0)},
        figures=tuple(
            Figure(workload, *key, "µs", (median - 1, median, median + 2)) for key, median in medians.items()
        ),
    )
