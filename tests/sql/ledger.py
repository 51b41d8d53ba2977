"""What a queue must answer to sessions that interleave: READ COMMITTED over a few messages, as a model.

The ledger knows which statement has to wait for which session, and what each statement gives. It is exact but
for one thing: while the floor is in use, a message that became visible in a transaction which somebody read
past may be left out, for a second at most, of an answer that gives others. Such messages are `overtaken`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

NOW, PAST, AHEAD = "now", "past", "ahead"
ENDS = ("commit", "rollback")


class Message(NamedTuple):
    """A message as one transaction sees it.

    visible: its vt is not in the future; gone: None, or how it left the queue, delete or archive
    """

    visible: bool
    read_ct: int = 0
    gone: str | None = None


class Pending(NamedTuple):
    """A change that its session has not committed. overtaken: somebody read, and could not see it."""

    session: int
    message: Message
    overtaken: bool = False


class Delivery(NamedTuple):
    """A message as a read or pop gives it."""

    msg_id: int
    read_ct: int


@dataclass(frozen=True)
class Op:
    """One statement.

    word: send, read, pop, set_vt, delete, archive, commit or rollback
    target: an id, or "mine", the last one read; of a send, "ahead" for one delayed
    vt: now, past or ahead
    begins: opens a transaction first
    """

    word: str
    target: str = ""
    vt: str = ""
    qty: int = 1
    begins: bool = False

    def __str__(self) -> str:
        qty = str(self.qty) if self.word in ("read", "pop") else ""
        return " ".join(filter(None, ["begin" if self.begins else "", self.word, self.target, self.vt, qty]))


Program = tuple[Op, ...]


def program(text: str) -> Program:
    """Reads "begin, read 2, set_vt 1 now, commit". A begin alone has no effect: it joins what follows."""
    ops: list[Op] = []
    begins = False
    for word, *rest in (part.split() for part in text.split(",")):
        if word == "begin":
            begins = True
            continue
        if word in ("read", "pop"):
            ops.append(Op(word, qty=int(rest[0]), begins=begins))
        else:
            target, vt = (*rest, "", "")[:2]
            ops.append(Op(word, target, vt, begins=begins))
        begins = False
    return tuple(ops)


class Deadlock(Exception):
    """Sessions wait for each other in a ring."""


@dataclass
class Ledger:
    """The queue's messages by id, changes not yet committed, and who waits.

    strict: the floor is not in use, so nothing may be left out.
    """

    messages: dict[int, Message]
    next_id: int
    strict: bool = False
    pending: dict[int, Pending] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    waiting: dict[int, tuple[Op, int]] = field(default_factory=dict)
    last_read: dict[int, int] = field(default_factory=dict)
    skipped: int = 0

    # --- what a session sees ----------------------------------------------------------------------

    def seen(self, session: int, msg_id: int) -> Message | None:
        """The message as the session sees it; None where there is none."""
        change = self.pending.get(msg_id)
        message = change.message if change and change.session == session else self.messages.get(msg_id)
        return None if message is None or message.gone else message

    def holder(self, session: int, msg_id: int) -> int | None:
        """The other session whose uncommitted change holds the message; None where nobody does."""
        change = self.pending.get(msg_id)
        return change.session if change and change.session != session and msg_id in self.messages else None

    def claimable(self, session: int) -> list[int]:
        """Ids that a read of the session may give, in rising order."""
        ids = self.messages.keys() | self.pending.keys()
        return sorted(
            msg_id
            for msg_id in ids
            if (message := self.seen(session, msg_id))
            and message.visible
            and self.holder(session, msg_id) is None
        )

    def target(self, session: int, op: Op) -> int:
        return self.last_read.get(session, 0) if op.target == "mine" else int(op.target)

    # --- what statements do -----------------------------------------------------------------------

    def blocker(self, session: int, op: Op) -> int | None:
        """The session for which the statement has to wait; None if it has not to."""
        if op.word not in ("set_vt", "delete", "archive"):
            return None
        msg_id = self.target(session, op)
        return self.holder(session, msg_id) if self.seen(session, msg_id) else None

    def begin_waiting(self, session: int, op: Op, holder: int) -> None:
        self.waiting[session] = (op, holder)
        ring, at = {session}, holder
        while at in self.waiting:
            if at in ring:
                raise Deadlock
            ring.add(at)
            at = self.waiting[at][1]

    def freed(self) -> list[int]:
        """Sessions whose statement need wait no longer. Any may be the first to go on."""
        found = []
        for session, (op, _) in self.waiting.items():
            holder = self.blocker(session, op)
            if holder is None:
                found.append(session)
            else:
                self.waiting[session] = (op, holder)
        return found

    def change(self, session: int, msg_id: int, message: Message) -> None:
        old = self.pending.get(msg_id)
        self.pending[msg_id] = Pending(session, message, bool(old and old.overtaken))
        if session not in self.open:
            self.end(session, commit=True)

    def end(self, session: int, commit: bool) -> None:
        self.open.discard(session)
        for msg_id, change in list(self.pending.items()):
            if change.session == session:
                del self.pending[msg_id]
                if commit:
                    self.messages[msg_id] = change.message
                    self.late.discard(msg_id)
                    if change.overtaken and change.message.visible:
                        self.late.add(msg_id)

    def expected(self, session: int, op: Op) -> object:
        """Carries the statement out, a read or pop as an exact queue would; its answer."""
        if op.begins:
            self.open.add(session)
        if op.word in ENDS:
            self.end(session, op.word == "commit")
            return None
        if op.word == "send":
            msg_id, self.next_id = self.next_id, self.next_id + 1
            self.change(session, msg_id, Message(visible=op.target != AHEAD))
            return msg_id
        if op.word in ("read", "pop"):
            return self.deliver(session, op, self.claimable(session)[: op.qty])
        msg_id = self.target(session, op)
        message = self.seen(session, msg_id)
        if message is None:
            return None if op.word == "set_vt" else False
        if op.word == "set_vt":
            self.change(session, msg_id, message._replace(visible=op.vt != AHEAD))
            return Delivery(msg_id, message.read_ct)
        self.change(session, msg_id, message._replace(gone=op.word))
        return True

    def deliver(self, session: int, op: Op, ids: list[int]) -> list[Delivery]:
        """Takes the messages that a read or pop gave."""
        for msg_id, change in self.pending.items():
            if change.session != session:
                self.pending[msg_id] = change._replace(overtaken=True)
        given = []
        for msg_id in ids:
            message = self.seen(session, msg_id)
            assert message is not None
            raised = message.read_ct + (op.word == "read")
            given.append(Delivery(msg_id, raised))
            gone = "delete" if op.word == "pop" else None
            self.change(session, msg_id, Message(visible=False, read_ct=raised, gone=gone))
            self.last_read[session] = msg_id
        return given

    def answer(self, session: int, op: Op, given: object) -> object:
        """Enters a statement that gave this; what it should have given.

        A read or pop is entered as it was given, if it might be; else AssertionError says why not.
        """
        if op.word in ("read", "pop") and isinstance(given, list):
            if op.begins:
                self.open.add(session)
            ids = [delivery.msg_id for delivery in given]
            wrong = self.check_ids(session, op, ids)
            assert wrong is None, wrong
            return self.deliver(session, op, ids)
        right = self.expected(session, op)
        if op.word == "set_vt":
            return [right] if right else []
        return right

    def check_ids(self, session: int, op: Op, ids: list[int]) -> str | None:
        """What is wrong with the ids that a read or pop gave; None if nothing is."""
        may = self.claimable(session)
        excused = (
            set()
            if self.strict
            else {
                msg_id
                for msg_id in may
                if msg_id in self.late or (msg_id in self.pending and self.pending[msg_id].overtaken)
            }
        )
        if ids != sorted(set(ids)):
            return "ids do not rise"
        if not set(ids) <= set(may):
            return f"gave what it might not give; it might {may}"
        if len(ids) > op.qty:
            return "gave more than was asked"
        missed = [msg_id for msg_id in may if msg_id not in ids and (len(ids) < op.qty or msg_id < ids[-1])]
        self.skipped += len(missed)
        if not set(missed) <= excused:
            return f"left out {missed}, of which only {sorted(excused)} may come later"
        if may and not ids and op.qty > 0:
            return f"gave nothing, though {may} are there"
        return None

    def queue(self) -> list[tuple[int, int, bool]]:
        """Id, read_ct and visibility of each message in the queue, once all transactions have ended."""
        return [(i, m.read_ct, m.visible) for i, m in sorted(self.messages.items()) if not m.gone]

    def archive(self) -> list[int]:
        return [i for i, m in sorted(self.messages.items()) if m.gone == "archive"]


Step = tuple[int, Op]


def orders(programs: list[Program]) -> Iterator[tuple[int, ...]]:
    """Every order in which the sessions can take their turns."""

    def rest(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not any(left):
            yield ()
        for session, count in enumerate(left):
            if count:
                fewer = tuple(n - (i == session) for i, n in enumerate(left))
                for tail in rest(fewer):
                    yield (session, *tail)

    yield from rest(tuple(map(len, programs)))


class Stage(Protocol):
    """Where statements are carried out."""

    def run(self, session: int, op: Op) -> object:
        """A statement that need not wait."""

    def wait(self, session: int, op: Op, holder: int) -> object:
        """A statement that has to wait for the holder."""

    def first(self, sessions: list[int]) -> int:
        """Which of the sessions that wait no longer went on first."""

    def resume(self, session: int, op: Op) -> object:
        """A statement that has waited."""


@dataclass
class Paper(Stage):
    """Carries statements out in the ledger alone."""

    ledger: Ledger

    def run(self, session: int, op: Op) -> object:
        return self.ledger.expected(session, op)

    def wait(self, session: int, op: Op, holder: int) -> None:
        pass

    def first(self, sessions: list[int]) -> int:
        return sessions[0]

    resume = run


def play(programs: list[Program], order: tuple[int, ...], ledger: Ledger, stage: Stage) -> list[Step]:
    """Takes the turns. A session that waits takes those that come meanwhile as soon as it is freed."""
    left = [list(program) for program in programs]
    owed = [0] * len(programs)
    trace: list[Step] = []

    def turn(session: int) -> None:
        if session in ledger.waiting:
            owed[session] += 1
            return
        op = left[session].pop(0)
        trace.append((session, op))
        holder = ledger.blocker(session, op)
        if holder is not None:
            if op.begins:
                ledger.open.add(session)
            ledger.begin_waiting(session, op, holder)
            stage.wait(session, op, holder)
            return
        stage.run(session, op)
        release()

    def release() -> None:
        while freed := ledger.freed():
            session = stage.first(freed)
            op, _ = ledger.waiting.pop(session)
            stage.resume(session, op)
        for session in range(len(owed)):
            while owed[session] and session not in ledger.waiting:
                owed[session] -= 1
                turn(session)

    for session in order:
        turn(session)
    return trace


def distinct_orders(programs: list[Program], new_ledger: Callable[[], Ledger]) -> list[tuple[int, ...]]:
    """The orders that differ in what is done when: a turn of a session that waits is no turn."""
    found: dict[tuple[Step, ...], tuple[int, ...]] = {}
    for order in orders(programs):
        ledger = new_ledger()
        try:
            trace = play(programs, order, ledger, Paper(ledger))
        except Deadlock:
            continue
        found.setdefault(tuple(trace), order)
    return list(found.values())
