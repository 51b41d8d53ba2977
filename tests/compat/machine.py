"""Plays random call sequences on pgmq and on pgqueue, and compares every result and SQLSTATE.

    python -m tests.compat.machine --sequences 2000 --seed 1

Where the two differ, the difference must stand in differences.py; the run prints how often each fired. Else
it prints the shortest sequence that still shows it, as SQL, and fails.

Left out: create_partitioned and convert_archive_partitioned, which the reference cannot do without
pg_partman. A poll that would wait is played with a window of 0 seconds; that polls do wait is tested in
test_api.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.compat.differences import DIFFERENCES, Case
from tests.compat.reference import reference_sql
from tests.compat.sides import Outcome, Side, alike
from tests.compat.steps import (
    NAMES,
    Arg,
    Call,
    Compiling,
    Control,
    RawInsert,
    StartIds,
    Step,
    Travel,
    sequence,
)
from tests.databases import Cluster, our_sql
from tests.servers import Server

# pgmq's order is defined; of the others only which rows there are.
IN_ORDER = {
    "read_grouped_rr",
    "read_grouped_rr_with_poll",
    "send_batch",
    "send_batch_topic",
    "list_topic_bindings",
    "list_notify_insert_throttles",
}
# Ours are in rising order of msg_id; pgmq's nearly always.
RISING = {"read", "read_with_poll", "pop"}
MESSAGE_COLUMNS = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
# What a call may leave in the tables of the installation, looked at after it.
AFTERMATH = {
    "drop_queue": "select queue_name::text from pgmq.meta",
    "enable_notify_insert": "select queue_name::text, throttle_interval_ms from pgmq.notify_insert_throttle",
}
AFTERMATH["disable_notify_insert"] = AFTERMATH["update_notify_insert"] = AFTERMATH["enable_notify_insert"]

TRAVEL = """
    do $$
    declare
        v_table regclass;
        v_by interval := interval '{seconds} seconds';
    begin
        for v_table in select oid from pg_class
            where relnamespace = 'pgmq'::regnamespace and relkind = 'r' and relname like 'q\\_%'
        loop
            execute format('update %s set vt = vt - $1, enqueued_at = enqueued_at - $1,'
                ' last_read_at = last_read_at - $1', v_table) using v_by;
        end loop;
        -- Our floors, in microseconds. A rollback does not bring them back, and need not: lower is safe.
        perform setval(c.oid, pg_sequence_last_value(c.oid) - {seconds} * 1000000::bigint)
            from pg_class c
            where c.relnamespace = to_regnamespace('pgqueue') and c.relkind = 'S'
                and c.relname ~ '[$](floor_vt|walk)$' and pg_sequence_last_value(c.oid) > 0;
    end
    $$"""
# When listeners were last told: in pgmq's table, in our sequences.
TRAVEL_OF_THROTTLES = """
    do $$
    begin
        update pgmq.notify_insert_throttle
            set last_notified_at = last_notified_at - interval '{seconds} seconds'
            where last_notified_at > to_timestamp(0);
        perform setval(c.oid, pg_sequence_last_value(c.oid) - {seconds} * 1000000::bigint)
            from pg_class c
            where c.relnamespace = to_regnamespace('pgqueue') and c.relkind = 'S'
                and c.relname ~ '[$]notified$' and pg_sequence_last_value(c.oid) > 0;
    end
    $$"""


class Mismatch(AssertionError):
    """The two sides differ, and no listed difference says why."""


@dataclass(frozen=True)
class Look:
    """A query past the API, the same on both sides: what is in the tables at the end."""

    sql: str

    def __str__(self) -> str:
        return self.sql


class Player:
    """Plays sequences on a reference and on a subject. Counts calls and the differences that were excused."""

    def __init__(self, reference: Side, subject: Side) -> None:
        self.reference = reference
        self.subject = subject
        self.sides = (reference, subject)
        self.calls: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        found = subject.ask("select to_regprocedure('pgqueue.decompile(text)') is not null")
        self.can_decompile = bool(found[0][0])
        self._in_transaction = self._savepoint = False
        for side in self.sides:
            side.listen(NAMES)

    def play(self, steps: Sequence[Step]) -> None:
        """Plays a sequence from an empty installation. Raises Mismatch."""
        self._empty()
        for number, step in enumerate(steps, 1):
            try:
                self._step(step)
            except Mismatch as mismatch:
                raise Mismatch(f"step {number}: {step}\n{mismatch}") from None
        try:
            self._control("commit")
            self._compare_tables()
        except Mismatch as mismatch:
            raise Mismatch(f"at the end\n{mismatch}") from None

    def _empty(self) -> None:
        self._in_transaction = self._savepoint = False
        for side in self.sides:
            left = side.reset()
            side.heard()
            if left:
                side.sweep()
            if left and side.leaves_nothing:
                raise Mismatch(f"left after drop_queue: {left}")

    def _step(self, step: Step) -> None:
        if isinstance(step, Call):
            self._call(step)
        elif isinstance(step, Control):
            self._control(step.word)
        elif isinstance(step, Travel):
            self._travel(step.seconds)
        elif isinstance(step, Compiling):
            self._compile(step)
        elif isinstance(step, RawInsert):
            self._both(step, str(step))
        elif isinstance(step, StartIds) and step.queue in queue_names(self.reference):
            for side in self.sides:
                side.do(str(step))

    # --- calls ---

    def _call(self, call: Call) -> None:
        if call.function.endswith("_with_poll"):
            call = self._without_waiting(call)
        self.calls[call.function] += 1
        self._both(call, str(call))

    def _both(self, step: Call | RawInsert, sql: str) -> None:
        """Runs a statement on both sides and keeps what it did on both or on neither: they stay alike."""
        inside = self._in_transaction
        before, undo, keep = (
            ("savepoint c", "rollback to c", "release c") if inside else ("begin", "rollback", "commit")
        )
        outcomes = []
        for side in self.sides:
            side.do(before)
            outcomes.append(side.run(sql))
        reference, ours = outcomes
        function = step.function if isinstance(step, Call) else ""
        if reference.failed or ours.failed:
            for side in self.sides:
                side.do(undo)
            self._judge(step, outcomes)
            self._align_ids(step)
        elif self._judge(step, outcomes, function) or self._left_otherwise(step):
            for side in self.sides:
                side.do(undo)
            self._align_ids(step)
        elif inside:
            for side in self.sides:
                side.do(keep)
        else:
            self._commit()

    def _commit(self) -> None:
        step = Control("commit")
        self._judge(step, self._look("commit"))
        notes = [Outcome(("notified",), tuple((note,) for note in side.heard())) for side in self.sides]
        self._judge(step, notes)

    def _left_otherwise(self, step: Call | RawInsert) -> bool:
        """Whether the installation's tables differ after a call, excused."""
        look = AFTERMATH.get(step.function) if isinstance(step, Call) else None
        if look is None:
            return False
        return self._judge(step, self._look(look))

    def _align_ids(self, step: Call | RawInsert) -> None:
        """No rollback gives ids back: where the sides used a different number, the reference follows."""
        look = Look("select sequencename::text, last_value from pg_sequences where schemaname = 'pgmq'")
        reference, ours = outcomes = self._look(str(look))
        if same("", reference, ours):
            return
        self._judge(step, outcomes)
        for name in set(ours.rows) - set(reference.rows):
            quoted = name[0].replace('"', '""')
            ((value, called),) = self.subject.ask(f'select last_value, is_called from pgmq."{quoted}"')
            self.reference.do(f"select setval('pgmq.\"{quoted}\"', {value}, {called})")

    def _judge(self, step: Step | Look, outcomes: Sequence[Outcome], function: str = "") -> bool:
        """Whether a listed difference excuses unequal outcomes. Raises Mismatch if none does.

        function: whose results these are, which decides about their order.
        """
        reference, ours = outcomes
        if same(function, reference, ours):
            return False
        call = step if isinstance(step, Call) else Call("")
        case = Case(call, reference, ours, self._in_transaction, self.subject.ask)
        for difference in DIFFERENCES:
            if difference.applies(case):
                self.excused[difference.name] += 1
                return True
        where = " (in a transaction)" if self._in_transaction else ""
        raise Mismatch(f"{step}{where}\n{self.reference.name}: {reference}\n{self.subject.name}: {ours}")

    def _without_waiting(self, call: Call) -> Call:
        """The call itself if there is something to read at once; else the same with a window of 0 seconds."""
        seconds = call.value("max_poll_seconds")
        if seconds is not None and seconds <= 0:
            return call
        window = ("max_poll_seconds", "poll_interval_ms")
        read = Call(
            call.function.removesuffix("_with_poll"), tuple(a for a in call.args if a.name not in window)
        )
        self.reference.do("savepoint c" if self._in_transaction else "begin")
        found = self.reference.run(str(read))
        self.reference.do("rollback to c" if self._in_transaction else "rollback")
        if found.rows or found.failed:
            return call
        zero = Arg("max_poll_seconds", "integer", 0)
        return dataclasses.replace(call, args=tuple(zero if a.name == zero.name else a for a in call.args))

    # --- what surrounds calls ---

    def _control(self, word: str) -> None:
        if word == "begin":
            if self._in_transaction:
                return
            self._in_transaction = True
        elif not self._in_transaction or (word == "rollback_to" and not self._savepoint):
            return
        if word == "commit":
            self._commit()
        else:
            for side in self.sides:
                side.do(str(Control(word)))
        if word in ("commit", "rollback"):
            self._in_transaction = self._savepoint = False
        elif word == "savepoint":
            self._savepoint = True

    def _travel(self, seconds: int) -> None:
        """Makes every message of both sides older."""
        for side in self.sides:
            side.do(TRAVEL.format(seconds=seconds))
            if not self._in_transaction:  # a rollback would bring back pgmq's table and not our sequences
                side.do(TRAVEL_OF_THROTTLES.format(seconds=seconds))

    def _compile(self, step: Compiling) -> None:
        if self.can_decompile and step.queue in queue_names(self.subject):
            done = self.subject.run(str(step))
            if done.failed:
                raise Mismatch(str(done))

    def _compare_tables(self) -> None:
        tables = Look(
            "select relname::text from pg_class where relnamespace = 'pgmq'::regnamespace and relkind = 'r'"
        )
        there = self._look(str(tables))
        self._judge(tables, there)
        looks = [Look("select * from pgmq.meta"), Look("select * from pgmq.topic_bindings")]
        for (name,) in there[0].rows:
            if name.startswith(("q_", "a_")):
                quoted = name.replace('"', '""')
                archived = ", archived_at" if name.startswith("a_") else ""
                looks.append(Look(f'select {MESSAGE_COLUMNS}{archived} from pgmq."{quoted}"'))
        for look in looks:
            self._judge(look, self._look(str(look)))

    def _look(self, sql: str) -> list[Outcome]:
        """What a statement gives on each side."""
        return [side.run(sql) for side in self.sides]


def queue_names(side: Side) -> list[str]:
    return [name for (name,) in side.ask("select queue_name from pgmq.meta")]


def same(function: str, reference: Outcome, ours: Outcome) -> bool:
    """Whether a function's outcomes are equal: times by distance, rows in order where there is one."""
    if reference.failed or ours.failed:
        named = "42P01" not in (reference.sqlstate, ours.sqlstate) or reference.message == ours.message
        return reference.sqlstate == ours.sqlstate and named
    in_order = function in IN_ORDER
    if function in RISING:
        ids = reference.column("msg_id")
        in_order = ids == sorted(ids)
    if not in_order:
        reference, ours = reference.sorted(), ours.sorted()
    return reference.columns == ours.columns and alike(reference.rows, ours.rows)


# --- many sequences --------------------------------------------------------------------------------


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


def first_mismatch(player: Player, sequences: int, seed: int, length: int) -> tuple[str, list[Step]] | None:
    """Plays many sequences up to the first that differs; says how, and which it was."""
    for number in range(sequences):
        steps = sequence(random.Random(f"{seed}/{number}"), length)
        try:
            player.play(steps)
        except Mismatch as mismatch:
            return f"sequence {number} of seed {seed} differs\n{mismatch}", steps
    return None


def run(player: Player, sequences: int, seed: int, length: int) -> str:
    """Plays many sequences. Returns a report of the first that differs, shortened, or nothing."""
    found = first_mismatch(player, sequences, seed, length)
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


def report(player: Player, sequences: int, seed: int, seconds: float) -> str:
    lines = [f"{sequences} sequences, {player.calls.total()} calls, seed {seed}, {seconds:.0f} s"]
    if not player.can_decompile:
        lines.append("note: pgqueue.decompile is absent, every queue was compiled")
    lines += [f"{count:7} {name}" for name, count in sorted(player.calls.items())]
    lines.append("differences, all of them deliberate:")
    lines += [f"{player.excused[difference.name]:7} {difference.name}" for difference in DIFFERENCES]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="random call sequences on pgmq and on pgqueue, compared")
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--seed", type=int, help="default: a new one each time")
    parser.add_argument("--length", type=int, default=30, help="calls in a sequence (30)")
    parser.add_argument("--postgres", default="embedded", help="embedded, 14 to 18, debian15")
    parser.add_argument(
        "--subject", choices=("ours", "reference"), default="ours", help="reference: against itself"
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    server = Server(given.postgres)
    try:
        server.start()
        cluster = Cluster(server.conninfo)
        subject_sql = our_sql() if given.subject == "ours" else reference_sql()
        databases = [
            cluster.create_database(cluster.template(script)) for script in (reference_sql(), subject_sql)
        ]
        subject = Side(given.subject, databases[1], leaves_nothing=given.subject == "ours")
        player = Player(Side("pgmq", databases[0]), subject)
        began = time.monotonic()
        failure = run(player, given.sequences, seed, given.length)
        print(report(player, given.sequences, seed, time.monotonic() - began))
        for database in databases:
            database.drop()
        cluster.close()
    finally:
        server.stop()
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    raise SystemExit(main())
