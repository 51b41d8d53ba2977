"""A whole run: the workloads one after the other, each in databases of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import psycopg

from pgqueue.bench.databases import Databases
from pgqueue.bench.interrupts import stopping_in_order
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import Figure, Options, Outcome, Run
from pgqueue.bench.pgbench import find_pgbench
from pgqueue.bench.python_peers import versions
from pgqueue.bench.workloads import WORKLOADS, Workload
from pgqueue.dsn import cannot_connect
from pgqueue.errors import BenchError
from pgqueue.script import package_version

#: Settings of the server that its speed depends on; a run keeps them.
SETTINGS = (
    "server_version",
    "shared_buffers",
    "max_connections",
    "fsync",
    "full_page_writes",
    "wal_level",
    "max_wal_size",
    "data_checksums",
    "autovacuum",
    "jit",
)

SHARE_OF_OURS = 2 / 3
"""Of the time of a workload, what our sides take where there are no others."""
SHORTEST = 3.0
"""Seconds of the smallest workload: databases are made and dropped."""

Tell = Callable[[Workload, str], None]


def run(address: str, names: Sequence[str], options: Options, say: Tell = lambda workload, text: None) -> Run:
    """Run workloads on a server, all of them if none is named.

    A workload that fails is noted, and the others go on. What is made on the server is dropped before this
    returns, also when it is interrupted.

    Args:
        address: conninfo of the server; the role must be able to create databases.
        say: told what is being done, now and then.

    Raises:
        BenchError: an unknown workload, no pgbench, a package of others that is not installed, or a role that
            may not create databases.
        CannotConnect: the server cannot be reached.
        KeyboardInterrupt: Ctrl-C, or as interrupts.Terminated another signal.
    """
    workloads = chosen(names)
    find_pgbench()
    others = versions(options.against)
    server = describe(address)
    started, clock = datetime.now(timezone.utc), time.monotonic()
    outcomes: dict[str, Outcome] = {}
    figures: list[Figure] = []
    with stopping_in_order():
        for workload in workloads:
            outcomes[workload.name] = _one(address, workload, options, say, figures)
    return Run(
        started_at=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - clock, 1),
        versions={"pgqueue": package_version(), **others},
        server=server,
        options=options,
        workloads=outcomes,
        figures=tuple(figures),
    )


def chosen(names: Sequence[str]) -> list[Workload]:
    """The workloads of those names, in their own order. Raises BenchError for a name that is none's."""
    unknown = sorted(set(names) - set(WORKLOADS))
    if unknown:
        raise BenchError(f"no workload is called {', '.join(unknown)}: there are {', '.join(WORKLOADS)}")
    return [one for name, one in WORKLOADS.items() if name in names or not names]


def expected_seconds(workload: Workload, options: Options) -> float:
    """About how long a workload takes. With loads of a length asked for (options.seconds), this is not known."""
    turns = options.turns / Options().turns
    sides = 1 if options.against else SHARE_OF_OURS
    return max(SHORTEST, workload.seconds * options.scale * turns * sides)


def describe(address: str) -> dict[str, str]:
    """What the server says of itself, and how many cores this machine has. Raises CannotConnect."""
    try:
        with psycopg.connect(address) as conn:
            rows = conn.execute(
                "select name, current_setting(name) from pg_settings where name = any(%s)", [list(SETTINGS)]
            ).fetchall()
    except psycopg.OperationalError as error:
        raise cannot_connect(error, address, os.environ) from None
    known: dict[str, str] = dict(rows)
    server = {name: known[name] for name in SETTINGS if name in known}
    return {"version": server.pop("server_version"), "cores": str(os.cpu_count() or 0), **server}


def _one(address: str, workload: Workload, options: Options, say: Tell, figures: list[Figure]) -> Outcome:
    start = time.monotonic()
    error = None
    say(workload, workload.name)
    with Databases(address) as databases:
        lab = Lab(workload.name, options, databases, lambda text: say(workload, text))
        try:
            lab.settle()
            workload.run(lab)
        except (BenchError, psycopg.Error) as failure:
            error = str(failure).split("\n")[0]
    figures += lab.figures
    return Outcome(round(time.monotonic() - start, 1), tuple(lab.notes), error)
