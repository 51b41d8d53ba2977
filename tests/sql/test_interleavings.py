"""Every interleaving of three short programs on one queue, on a real server, against a ledger.

Each order of the statements runs once with the queue in each of STATES. The ledger says what each statement
must give and for whom it has to wait; whatever waits otherwise runs into lock_timeout.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from tests.databases import Database
from tests.sql.ledger import (
    AHEAD,
    NOW,
    PAST,
    Delivery,
    Ledger,
    Message,
    Op,
    Program,
    Stage,
    distinct_orders,
    play,
    program,
)
from tests.sql.sessions import Rows, Session

#: What a message can be at the start: enqueued an hour ago and never read, its lease ended, in flight; or
#: dated an hour ahead, which no read may give.
KINDS = ("ready", "expired", "flying", "future")
VISIBLE = ("ready", "expired")

#: Floor not in use; walked just now, so that it is trusted; long ago; in the future; no compiled functions.
#: With an old or future stamp, the floor is too high: it must not be trusted.
STATES = ("unused", "fresh", "expired", "future", "decompiled")

SCHEMA = """
create schema test;

create function test.reset(kinds text[], state text) returns bigint language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_us bigint := date_part('epoch', v_now) * 1000000;
    v_base bigint;
begin
    delete from pgmq.q_x;
    delete from pgmq.a_x;
    with made as (
        insert into pgmq.q_x (enqueued_at, vt, message)
        select
            v_now + case k.kind when 'future' then interval '1 hour' else interval '-1 hour' end,
            v_now + case k.kind
                when 'ready' then interval '-1 hour'
                when 'expired' then make_interval(secs => -k.place)
                else interval '1 hour'
            end,
            '{}'
        from unnest(kinds) with ordinality as k (kind, place)
        order by k.place
        returning msg_id
    )
    select min(made.msg_id) into v_base from made;
    if state = 'fresh' then
        perform
            setval('pgqueue."x$floor_id"', v_base),
            setval('pgqueue."x$floor_vt"', v_us - cardinality(kinds) * 1000000),
            setval('pgqueue."x$walk"', v_us);
    elsif state in ('expired', 'future') then
        perform
            setval('pgqueue."x$floor_id"', v_base + cardinality(kinds) - 1),
            setval('pgqueue."x$floor_vt"', v_us + 3600000000),
            setval('pgqueue."x$walk"', v_us + case state when 'expired' then -2000000 else 3600000000 end);
    else
        perform setval('pgqueue."x$' || s.suffix || '"', 1, false)
        from unnest(array['floor_id', 'floor_vt', 'walk']) as s (suffix);
    end if;
    return v_base - 1;
end $$;
"""


WHAT_IS_LEFT = """
select 'queue', q.msg_id, q.read_ct, q.vt <= clock_timestamp() from pgmq.q_x q
union all
select 'archive', a.msg_id, a.read_ct, null from pgmq.a_x a
order by 1, 2
"""

A_SECOND_LATER = """
select setval('pgqueue."x$walk"', s.stamp - 1000001)
from pg_sequence_last_value('pgqueue."x$walk"') s (stamp)
where s.stamp is not null;
"""

SECONDS = {NOW: 0, PAST: -7200, AHEAD: 3600}


@dataclass(frozen=True)
class Scenario:
    """The messages at the start, whose ids are 1, 2, ..., and what each session does."""

    start: tuple[str, ...]
    programs: tuple[str, ...]

    def ledger(self, strict: bool = False) -> Ledger:
        messages = {place: Message(kind in VISIBLE) for place, kind in enumerate(self.start, 1)}
        return Ledger(messages, next_id=len(self.start) + 1, strict=strict)


class Table:
    """Three sessions at one queue, and an observer. Counts what was played."""

    def __init__(self, db: Database) -> None:
        self.observer = Session(db.dsn)
        self.sessions = [Session(db.dsn) for _ in range(3)]
        self.orders = self.waits = self.overtaken = 0
        self.observer.ask(SCHEMA)

    def close(self) -> None:
        for session in (*self.sessions, self.observer):
            session.close()

    def play_all(self, scenario: Scenario, state: str) -> None:
        """Every order of the programs, with the queue in the state."""
        programs = [program(text) for text in scenario.programs]
        for order in distinct_orders(programs, scenario.ledger):
            Run(self, scenario, state).play(programs, order)
            self.orders += 1
            if self.orders % 500 == 0:
                self.observer.ask("vacuum pgmq.q_x")


class Run(Stage):
    """One order of the statements, played on the server and in the ledger side by side."""

    def __init__(self, table: Table, scenario: Scenario, state: str) -> None:
        self.table, self.state = table, state
        self.ledger = scenario.ledger(strict=state == "decompiled")
        kinds = "{" + ",".join(scenario.start) + "}"
        [(before,)] = table.observer.ask(f"select test.reset('{kinds}', '{state}')")
        self.before = int(before or 0)
        self.answers: dict[int, Rows] = {}
        self.story = [f"{', '.join(scenario.start)}; {state}"]

    def play(self, programs: list[Program], order: tuple[int, ...]) -> None:
        try:
            play(programs, order, self.ledger, self)
            self.check_end()
        except AssertionError as error:
            for session in self.table.sessions:
                session.outcome()
                session.ask("rollback")
            raise AssertionError("\n  ".join([*self.story, str(error)])) from None
        self.table.overtaken += self.ledger.skipped

    def run(self, session: int, op: Op) -> None:
        self.tell(session, op)
        self.check(
            session, op, self.wire(session).ask(("begin; " if op.begins else "") + self.call(session, op))
        )

    def wait(self, session: int, op: Op, holder: int) -> None:
        self.tell(session, op, f"waits for {holder}")
        if op.begins:
            self.wire(session).ask("begin")
        self.wire(session).start(self.call(session, op))
        if self.wire(session).settles(self.table.observer):
            raise AssertionError(f"did not wait, but gave {self.wire(session).finish()}")
        self.table.waits += 1

    def wire(self, session: int) -> Session:
        return self.table.sessions[session]

    def first(self, sessions: list[int]) -> int:
        """Postgres lets any of those that waited go first; where several are done, their answers tell."""
        for session in sessions:
            if session not in self.answers and self.wire(session).settles(self.table.observer):
                self.answers[session] = self.wire(session).finish()
        for order in itertools.permutations(session for session in sessions if session in self.answers):
            if self.fits(order):
                return order[0]
        raise AssertionError(f"{sessions} cannot have gone on with {self.answers}")

    def fits(self, order: tuple[int, ...]) -> bool:
        ledger = copy.deepcopy(self.ledger)
        for session in order:
            op, _ = ledger.waiting.pop(session)
            given = self.meaning(op, self.answers[session])
            if ledger.answer(session, op, given) != given:
                return False
        return bool(order)

    def resume(self, session: int, op: Op) -> None:
        self.tell(session, op, "goes on")
        self.check(session, op, self.answers.pop(session))

    def tell(self, session: int, op: Op, note: str = "") -> None:
        self.story.append(f"{session}: {op}  {note}".rstrip())

    def call(self, session: int, op: Op) -> str:
        if op.word in ("commit", "rollback"):
            return op.word
        if op.word == "send":
            return "select pgmq.send('x', '{}'%s)" % (", 3600" if op.target == AHEAD else "")
        if op.word == "read":
            return f"select msg_id, read_ct from pgmq.read('x', 3600, {op.qty})"
        if op.word == "pop":
            return f"select msg_id, read_ct from pgmq.pop('x', {op.qty})"
        msg_id = self.before + self.ledger.target(session, op)
        if op.word == "set_vt":
            return f"select msg_id, read_ct from pgmq.set_vt('x', {msg_id}, {SECONDS[op.vt]})"
        return f"select pgmq.{op.word}('x', {msg_id})"

    def meaning(self, op: Op, answer: Rows) -> object:
        """An answer as the ledger writes it."""
        if op.word in ("read", "pop", "set_vt"):
            return [Delivery(int(msg_id or 0) - self.before, int(ct or 0)) for msg_id, ct in answer]
        if op.word == "send":
            return int(answer[0][0] or 0) - self.before
        return answer[0][0] == "t" if op.word in ("delete", "archive") else None

    def check(self, session: int, op: Op, answer: Rows) -> None:
        """Compares an answer with the ledger, and enters it there."""
        given = self.meaning(op, answer)
        self.story[-1] += f"  -> {given}" if given is not None else ""
        right = self.ledger.answer(session, op, given)
        assert given == right, f"the ledger says {right}"

    def check_end(self) -> None:
        """All is where the ledger says, and a second later a read gives all that is visible."""
        self.story.append("at the end")
        queue: list[tuple[int, int, bool]] = []
        archive: list[int] = []
        for place, msg_id, ct, visible in self.table.observer.ask(WHAT_IS_LEFT):
            if place == "queue":
                queue.append((int(msg_id or 0) - self.before, int(ct or 0), visible == "t"))
            else:
                archive.append(int(msg_id or 0) - self.before)
        assert queue == self.ledger.queue(), f"the queue holds {queue}, the ledger {self.ledger.queue()}"
        assert archive == self.ledger.archive(), (
            f"the archive holds {archive}, the ledger {self.ledger.archive()}"
        )
        a_second_later = self.table.observer.ask(
            A_SECOND_LATER + "select msg_id from pgmq.read('x', 3600, 100)"
        )
        given = [int(msg_id or 0) - self.before for (msg_id,) in a_second_later]
        visible_ids = [msg_id for msg_id, _, is_visible in queue if is_visible]
        assert given == visible_ids, f"a second later a read gives {given} of {visible_ids}"


@pytest.fixture
def table(db: Database) -> Iterator[Table]:
    with db.connect() as conn:
        conn.execute("select pgmq.create('x')")
        conn.execute("select pgmq.send_batch('x', array_fill('{}'::jsonb, array[300]))")
        conn.execute("select pgmq.delete('x', array_agg(msg_id)) from pgmq.read('x', 30, 300)")
    table = Table(db)
    yield table
    table.close()


#: "read 256" is as many as make each read look after the floor; others do so one time in 256.
SCENARIOS = (
    # A sender commits late with a lower id, while the queue empties after each read.
    Scenario(("flying",), ("begin, send, commit", "send, read 256, send, read 256", "read 1")),
    # The same among leases that have ended: one is made visible by a transaction that commits late.
    Scenario(
        ("expired", "expired", "flying"),
        ("begin, set_vt 3 now, commit", "read 256, set_vt 1 past, read 256", "pop 1"),
    ),
    # A reader that sees its own takings as gone, and gives them back.
    Scenario(
        ("ready", "expired", "ready", "future"),
        ("begin, read 1, read 256, rollback", "read 2, read 256", "delete 1"),
    ),
    Scenario(
        ("expired", "ready"), ("begin, pop 1, pop 256, rollback", "read 256, send, read 256", "archive 2")
    ),
    # Who must wait, and for whom.
    Scenario(
        ("ready", "expired"),
        ("begin, read 1, commit", "delete 1, delete 2", "begin, set_vt 1 past, rollback"),
    ),
    Scenario(
        ("ready", "ready"),
        ("begin, set_vt 1 ahead, commit", "read 1, set_vt mine past", "begin, archive 1, rollback"),
    ),
)


#: Any three of these meet under the marker chaos, each meeting in one of the states.
PROGRAMS = (
    "begin, send, commit",
    "read 256, send, read 256",
    "begin, read 1, read 256, rollback",
    "begin, read 2, delete mine, commit",
    "begin, pop 1, set_vt 3 now, rollback",
    "begin, set_vt 3 now, commit",
    "begin, set_vt 1 ahead, commit",
    "delete 1, archive 2",
)
START = ("expired", "ready", "flying", "ready")


def play_and_report(table: Table, scenarios: Iterable[Scenario], state: str) -> None:
    if state == "decompiled":
        table.observer.ask("select pgqueue.decompile('x')")
    for scenario in scenarios:
        table.play_all(scenario, state)
    print(f"{state}: {table.orders} orders, {table.waits} waits, {table.overtaken} messages overtaken")
    assert table.waits > 0
    assert state != "decompiled" or table.overtaken == 0


@pytest.mark.parametrize("state", STATES)
def test_every_order(table: Table, state: str) -> None:
    play_and_report(table, SCENARIOS, state)
    assert (table.overtaken > 0) == (state != "decompiled"), "the floor was not in the way of anything"


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("state", STATES)
def test_every_order_of_any_three_programs(table: Table, state: str) -> None:
    every = itertools.combinations_with_replacement(PROGRAMS, 3)
    meetings = itertools.islice(every, STATES.index(state), None, len(STATES))
    play_and_report(table, (Scenario(START, programs) for programs in meetings), state)
