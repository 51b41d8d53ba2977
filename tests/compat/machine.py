"""Plays random call sequences on pgmq and on pgqueue, and compares every result, SQLSTATE and error text.

    python -m tests.compat.machine --sequences 2000 --seed 1

Where the two differ, the difference must stand in differences.py; the run prints how often each fired. Else
it prints the shortest sequence that still shows it, as SQL, and fails.

Left out: create_partitioned and convert_archive_partitioned, which the reference cannot do without
pg_partman. A poll that would wait is played with a window of 0 seconds; that polls do wait is tested in
test_api.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.compat.differences import DIFFERENCES
from tests.compat.player import Mismatch, Player
from tests.compat.reference import reference_sql
from tests.compat.sides import Side
from tests.compat.steps import Step, sequence
from tests.databases import Cluster, our_sql
from tests.servers import Server

A_SESSION = 50
"""Sequences that one session plays. It keeps the plans of compiled queues that are gone, and slows down with them."""


def shortest(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """The steps without those that are not needed to fail: ever smaller pieces are left out."""
    size = len(steps) // 2
    while size >= 1:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if fails(fewer):
                steps = fewer
            else:
                start += size
        size //= 2
    return steps


def fails(player: Player, steps: list[Step]) -> bool:
    try:
        player.play(steps)
    except Mismatch:
        return True
    return False


def first_mismatch(
    player: Player, numbers: Iterable[int], seed: int, length: int = 30
) -> tuple[str, list[Step]] | None:
    """Plays the sequences of these numbers up to the first that differs; says how, and which it was."""
    for number in numbers:
        steps = sequence(random.Random(f"{seed}/{number}"), length)
        try:
            player.play(steps)
        except Mismatch as mismatch:
            return f"sequence {number} of seed {seed} differs\n{mismatch}", steps
    return None


def run(player: Player, numbers: Iterable[int], seed: int, length: int = 30) -> str:
    """Plays many sequences. Returns a report of the first that differs, shortened, or nothing."""
    found = first_mismatch(player, numbers, seed, length)
    if found is None:
        return ""
    first, steps = found
    short = shortest(steps, lambda some: fails(player, some))
    try:
        player.play(short)
    except Mismatch as mismatch:
        script = "\n".join(f"  {step};" for step in short)
        return f"{first}\n\nthe shortest that shows it:\n{script}\n\n{mismatch}"
    return f"{first}\n\nit did so once, and not again"


@dataclass
class Tally:
    """What a run played and found."""

    calls: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    can_decompile: bool = True

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.excused += other.excused
        self.failures += other.failures
        self.can_decompile = self.can_decompile and other.can_decompile

    def __str__(self) -> str:
        lines = [f"{count:8} {name}" for name, count in sorted(self.calls.items())]
        if not self.can_decompile:
            lines.append("note: pgqueue.decompile is absent, every queue was compiled")
        lines.append("differences, all of them deliberate:")
        lines += [f"{self.excused[difference.name]:8} {difference.name}" for difference in DIFFERENCES]
        return "\n".join(lines)


def share(postgres: str, subject: str, numbers: Sequence[int], seed: int, length: int) -> Tally:
    """Plays some of the sequences, on a server of its own."""
    server = Server(postgres)
    tally = Tally()
    try:
        server.start()
        cluster = Cluster(server.conninfo)
        for first in range(0, len(numbers), A_SESSION):
            tally.add(session(cluster, subject, numbers[first : first + A_SESSION], seed, length))
            if tally.failures:
                break
        cluster.close()
    finally:
        server.stop()
    return tally


def session(cluster: Cluster, subject: str, numbers: Sequence[int], seed: int, length: int) -> Tally:
    """Plays sequences in one session a side, in new databases."""
    scripts = (reference_sql(), our_sql() if subject == "ours" else reference_sql())
    databases = [cluster.create_database(cluster.template(script)) for script in scripts]
    ours = Side(subject, databases[1], leaves_nothing=subject == "ours")
    player = Player(Side("pgmq", databases[0]), ours)
    failure = run(player, numbers, seed, length)
    for database in databases:
        database.drop()
    return Tally(player.calls, player.excused, [failure] if failure else [], player.can_decompile)


def main() -> int:
    parser = argparse.ArgumentParser(description="random call sequences on pgmq and on pgqueue, compared")
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--seed", type=int, help="default: a new one each time")
    parser.add_argument("--length", type=int, default=30, help="steps in a sequence (30)")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with a server of its own (2)")
    parser.add_argument("--postgres", default="embedded", help="embedded, 14 to 18, debian15")
    parser.add_argument("--subject", choices=("ours", "reference"), default="ours", help="reference: itself")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    tally = Tally()
    began = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        parts = [
            pool.submit(
                share,
                given.postgres,
                given.subject,
                range(first, given.sequences, given.jobs),
                seed,
                given.length,
            )
            for first in range(given.jobs)
        ]
        for part in parts:
            tally.add(part.result())
    seconds = time.monotonic() - began
    print(f"{given.sequences} sequences, {tally.calls.total()} calls, seed {seed}, {seconds:.0f} s\n{tally}")
    for failure in tally.failures:
        print(f"\n{failure}", file=sys.stderr)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
