"""Plays one sequence of steps on two sides and compares every result, error and notification."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.compat.differences import DIFFERENCES, Case
from tests.compat.sides import Outcome, Side, alike
from tests.compat.steps import (
    Arg,
    ByHand,
    Call,
    Compiling,
    Control,
    StartIds,
    Step,
    Travel,
)
from tests.compat.values import NAMES

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
# Around a call, outside and inside a transaction: before it, to undo it, to keep it.
BRACKETS = (("begin", "rollback", "commit"), ("savepoint c", "rollback to c", "release c"))
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
        self._in_transaction = self._savepoint = self._read_only = False
        self._rolled_back = self._throttled_anew = False
        self._created: set[str] = set()
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
        self._in_transaction = self._savepoint = self._read_only = False
        self._rolled_back = self._throttled_anew = False
        self._created.clear()
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
        elif isinstance(step, ByHand):
            self._both(step, str(step))
        elif isinstance(step, StartIds) and step.queue in queue_names(self.reference):
            for side in self.sides:
                side.do(str(step))

    # --- calls ---

    def _call(self, call: Call) -> None:
        if call.function.endswith("_with_poll"):
            call = self._without_waiting(call)
        self.calls[call.function] += 1
        if call.function.startswith("create"):
            self._created.add(str(call.value("queue_name")))
        if call.has("throttle_interval_ms") and self._in_transaction:
            self._throttled_anew = True
        self._both(call, str(call))

    def _both(self, step: Call | ByHand, sql: str) -> None:
        """Runs a statement on both sides and keeps what it did on both or on neither: they stay alike."""
        inside = self._in_transaction
        before, undo, keep = BRACKETS[inside]
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

    def _left_otherwise(self, step: Call | ByHand) -> bool:
        """Whether the installation's tables differ after a call, excused."""
        look = AFTERMATH.get(step.function) if isinstance(step, Call) else None
        if look is None:
            return False
        return self._judge(step, self._look(look))

    def _align_ids(self, step: Call | ByHand) -> None:
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
        case = Case(
            call,
            reference,
            ours,
            self._in_transaction,
            self._rolled_back,
            self._throttled_anew,
            frozenset(self._created),
            self.subject.ask,
        )
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
        before, undo, _ = BRACKETS[self._in_transaction]
        self.reference.do(before)
        found = self.reference.run(str(read))
        self.reference.do(undo)
        if found.rows or found.failed:
            return call
        zero = Arg("max_poll_seconds", "integer", 0)
        return dataclasses.replace(call, args=tuple(zero if a.name == zero.name else a for a in call.args))

    # --- what surrounds calls ---

    def _control(self, word: str) -> None:
        if word.startswith("begin"):
            if self._in_transaction:
                return
            self._in_transaction = True
            self._throttled_anew = False
            self._read_only = word.endswith("read only")
        elif not self._in_transaction or (word == "rollback to" and not self._savepoint):
            return
        if word == "commit":
            self._commit()
        else:
            for side in self.sides:
                side.do(str(Control(word)))
        if word.startswith("rollback"):
            self._rolled_back = True
        if word in ("commit", "rollback"):
            self._in_transaction = self._savepoint = self._read_only = False
        elif word == "savepoint":
            self._savepoint = True

    def _travel(self, seconds: int) -> None:
        """Makes every message of both sides older."""
        if self._read_only:
            return
        for side in self.sides:
            side.do(TRAVEL.format(seconds=seconds))
            if not self._in_transaction:  # a rollback would bring back pgmq's table and not our sequences
                side.do(TRAVEL_OF_THROTTLES.format(seconds=seconds))

    def _compile(self, step: Compiling) -> None:
        if self.can_decompile and not self._read_only and step.queue in queue_names(self.subject):
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
        return (reference.sqlstate, reference.message) == (ours.sqlstate, ours.message)
    in_order = function in IN_ORDER
    if function in RISING:
        ids = reference.column("msg_id")
        in_order = ids == sorted(ids)
    if not in_order:
        reference, ours = reference.sorted(), ours.sorted()
    return reference.columns == ours.columns and alike(reference.rows, ours.rows)
