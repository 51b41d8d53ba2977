"""Adopts every pgmq there is facts of, while clients are at it, and gives it back: a line each.

    python -m tests.adopt.matrix 15 18                        all of it (make adopt-matrix)
    python -m tests.adopt.matrix 18 --versions 1.4.4 1.13.0   only these
    python -m tests.adopt.matrix 15 --no-adopt                the same traffic, and nothing is done to the database

Exit code 1 if a message was lost or doubled, a statement failed or took more than a second, or an adoption
or its way back did not succeed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg

from pgqueue import migrate
from tests.adopt import layouts
from tests.adopt.ledger import Report
from tests.adopt.offering import offering
from tests.adopt.traffic import Traffic, preload
from tests.databases import Cluster, Database, uri

LIMIT = 1.0  # seconds that a statement may take
AT_ONCE = 2  # cells that run side by side
#: After an upgrade only these differ: columns in another order, bindings in another order, or nothing.
UPGRADED = ("1.3.3", "1.5.1", "1.9.0", "1.10.0", "1.11.1")
PARTITIONED = ("1.4.4", "1.9.0", "1.13.0")
MILLION = 1_000_000
MANY = 2000


@dataclass(frozen=True)
class Cell:
    """One pgmq to adopt."""

    version: str
    kind: str
    upgraded: bool = False
    partitioned: bool = False
    backlog: int = 0
    idle_queues: int = 0
    to_extension: bool = False  # on the way back

    def __str__(self) -> str:
        said = [self.kind]
        said += ["upgraded to 1.11.2"] * self.upgraded + ["partitioned"] * self.partitioned
        said += ["back to it"] * self.to_extension
        said += [f"{self.backlog:,} messages"] * bool(self.backlog)
        said += [f"{self.idle_queues:,} queues"] * bool(self.idle_queues)
        return f"{self.version:<8} {', '.join(said):<32}"


@dataclass(frozen=True)
class Outcome:
    """What came of a cell."""

    report: Report
    back: bool
    took: tuple[float, ...] = ()
    problems: list[str] = field(default_factory=list)

    def good(self) -> bool:
        return self.report.even(LIMIT) and not self.problems


def cells(partitioned: bool = False) -> Iterator[Cell]:
    """Every cell of a server; on one with pg_partman, those that need it."""
    if partitioned:
        yield from (
            Cell(version, kind, partitioned=True) for version in PARTITIONED for kind in layouts.KINDS
        )
        return
    yield from (Cell(version, kind) for version in layouts.versions() for kind in layouts.KINDS)
    yield from (Cell(version, kind, upgraded=True) for version in UPGRADED for kind in layouts.KINDS)
    yield Cell("1.13.0", "extension", to_extension=True)
    yield Cell("1.11.2", "extension", backlog=MILLION)
    yield Cell("1.5.1", "extension", idle_queues=MANY)


# --- one cell ---------------------------------------------------------------------------------------


def run(database: Database, cell: Cell, adopt: bool = True) -> Outcome:
    """Builds the cell in an empty database, starts the traffic, adopts and gives back."""
    owner = _prepare(database, cell)
    conn = database.connect(user=owner)
    topic = "orders.new" if _has_topics(cell) else None
    took, problems = [], []
    with Traffic(database.dsn_for(client_role(database)), "x", topic=topic, backlog=cell.backlog) as traffic:
        for options, expected in ((["--yes"], "pgqueue"), _way_back(cell)):
            traffic.go_on(50)
            if adopt:
                seconds, complaint = _pgqueue_adopt(database.dsn_for(owner), options)
                took.append(seconds)
                kind = migrate.status(conn).kind
                problems += [complaint] if complaint else []
                problems += [f"there is {kind}, not {expected}"] if kind != expected else []
        traffic.go_on(50)
    assert traffic.report is not None
    gone = conn.execute("select to_regnamespace('pgqueue') is null").fetchone() == (True,)
    return Outcome(traffic.report, gone and adopt and not problems, tuple(took), problems)


def _way_back(cell: Cell) -> tuple[list[str], str]:
    """Options of the way back, and what there is after it."""
    if cell.to_extension:
        return ["--back", "--extension", "--yes"], "extension"
    return ["--back", "--yes"], "sql"


def _prepare(database: Database, cell: Cell) -> str:
    """An old pgmq with a queue x and some more; the role that owns it."""
    owner = database.superuser if cell.partitioned else "app_owner"
    conn = database.connect(user=owner)
    if cell.partitioned:
        conn.execute("create schema partman")
        conn.execute("create extension pg_partman schema partman")
    notified = ["x"] if layouts.number(cell.version) >= (1, 7) else []
    topics = {"x": ["orders.*"]} if _has_topics(cell) else {}
    x = {"partitioned": ["x"], "queues": ["y"]} if cell.partitioned else {"queues": ["x", "y"]}
    layouts.build(
        conn,
        cell.version,
        cell.kind,
        upgraded=cell.upgraded,
        unlogged=["u"],
        notified=notified,
        topics=topics,
        **x,
    )
    if cell.backlog:
        preload(conn, "x", cell.backlog)
    for first in range(0, cell.idle_queues, 50):  # a transaction has locks for so many
        conn.execute(
            "select pgmq.create('idle_' || n) from generate_series(%s::integer, %s) n",
            (first + 1, first + 50),
        )
    return owner


def _has_topics(cell: Cell) -> bool:
    return layouts.number(layouts.UPGRADED_TO if cell.upgraded else cell.version) >= (1, 10)


def client_role(database: Database) -> str:
    """A role that may use the queues there are, as pgmq's documents say it, and nothing else."""
    role = database.create_role("client")
    with psycopg.connect(database.dsn_for(database.superuser), autocommit=True) as conn:
        conn.execute(f"grant usage on schema pgmq to {role}".encode())
        conn.execute(f"grant select, insert, update, delete on all tables in schema pgmq to {role}".encode())
    return role


def _pgqueue_adopt(dsn: str, options: list[str]) -> tuple[float, str]:
    """Runs the command as a user would; how long it took, and its last words if it failed."""
    command = [sys.executable, "-m", "pgqueue.cli.main", "adopt", *options, "--dsn", dsn]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    words = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
    said = f"adopt {' '.join(options)} ended with {done.returncode}: {words}"
    return time.monotonic() - began, said if done.returncode else ""


def has_partman(cluster: Cluster) -> bool:
    """Whether pg_partman can be created there."""
    with psycopg.connect(uri(cluster.conninfo)) as conn:
        found = conn.execute("select from pg_available_extensions where name = 'pg_partman'").fetchone()
    return found is not None


# --- all of them ------------------------------------------------------------------------------------

HEADING = (
    f"{'version':<8} {'kind':<32} {'server':>8} {'handled':>8} {'wait':>8} {'errors':>6} {'lost':>5} {'doubled':>7}"
    f"  {'back again':<10} took"
)


def line(cell: Cell, choice: str, outcome: Outcome) -> str:
    """A line of the table, and below it what was wrong."""
    report = outcome.report
    wait = f"{report.wait * 1000:.0f} ms"
    took = " + ".join(f"{seconds:.1f}" for seconds in outcome.took)
    text = (
        f"{cell} {choice:>8} {report.handled:>8} {wait:>8} {len(report.errors) + len(outcome.problems):>6}"
        f" {len(report.lost):>5} {len(report.doubled):>7}  {'yes' if outcome.back else 'no':<10} {took} s"
    )
    wrong = [*outcome.problems, *report.faults()]
    if report.wait > LIMIT:
        wrong.append(f"{report.slowest} took {report.wait:.1f} s")
    return "\n".join([text.rstrip(" s") if not took else text, *(f"    {fault}" for fault in wrong[:8])])


def walk(choice: str, chosen: Iterable[Cell], adopt: bool) -> bool:
    """All cells on one server; whether each was good."""
    with offering(choice) as server:
        cluster = Cluster(server.conninfo)
        if choice.startswith("debian") and not has_partman(cluster):
            print(f"{choice}: pg_partman is not there: apt-get install postgresql-15-partman")
            return False

        def one(cell: Cell) -> bool:
            database = cluster.create_database()
            try:
                outcome = run(database, cell, adopt)
            finally:
                database.drop()
            print(line(cell, choice, outcome), flush=True)
            return outcome.good()

        longest_first = sorted(chosen, key=lambda cell: (-cell.idle_queues, -cell.backlog))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            good = list(pool.map(one, longest_first))
        cluster.close()
    return all(good)


def main(arguments: list[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument(
        "servers", nargs="+", metavar="SERVER", help="14 … 18, embedded; debian15: with pg_partman"
    )
    parser.add_argument("--versions", nargs="+", choices=layouts.versions(), help="only these")
    parser.add_argument("--kinds", nargs="+", choices=layouts.KINDS, help="only these")
    parser.add_argument(
        "--small", action="store_true", help="without the million messages and the 2,000 queues"
    )
    parser.add_argument("--no-adopt", action="store_true", help="only the traffic")
    given = parser.parse_args(arguments)
    print(HEADING, flush=True)
    good = True
    for choice in given.servers:
        chosen = [
            cell
            for cell in cells(partitioned=choice.startswith("debian"))
            if cell.version in (given.versions or layouts.versions())
            and cell.kind in (given.kinds or layouts.KINDS)
            and not (given.small and (cell.backlog or cell.idle_queues))
        ]
        good = walk(choice, chosen, not given.no_adopt) and good
    print("all good" if good else "not good: see above")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
