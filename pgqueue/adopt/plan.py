"""What will be done, in plain words: each step with the locks it takes, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from pgqueue.adopt.survey import BYTES_AN_ENTRY, Found, Queue
from pgqueue.names import counted

#: Bytes of a row in a table that was never analysed, for a guess at how many there are.
BYTES_A_ROW = 150
PAGE = 8192
#: Entries that an index gets in a second, roughly.
ENTRIES_A_SECOND = 400_000

#: Of what stands around queues, those with another plural than an s at their end.
MANY = {"row security policy": "row security policies", "table with grants": "tables with grants"}

INSTANT = "an instant; none is waited for longer than 0.3 s, so nobody waits longer behind it"


@dataclass(frozen=True)
class Step:
    """One step: `what` is done, under which `lock`, and how long it `takes`."""

    key: str
    what: str
    lock: str
    takes: str


def rows(queue: Queue) -> int:
    """How many messages a queue holds, as far as statistics or its size say."""
    return queue.rows or queue.pages * PAGE // BYTES_A_ROW


def space_needed(found: Found) -> int:
    """Bytes that the new indexes will take, about."""
    return sum(rows(queue) * BYTES_AN_ENTRY * (2 if queue.grouped else 1) for queue in found.queues)


def findings(found: Found) -> list[str]:
    """What is there, a line each."""
    kinds = {
        kind: sum(1 for queue in found.queues if queue.kind == kind)
        for kind in ("plain", "unlogged", "partitioned")
    }
    kept_up = sum(queue.partman for queue in found.queues)
    lines = [
        f"pgmq {found.version}, "
        + ("as an extension" if found.kind == "extension" else "from SQL, without its extension"),
        f"{counted(len(found.queues), 'queue')}: "
        + ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
        if found.queues
        else "no queues",
    ]
    if kept_up:
        lines.append(f"{counted(kept_up, 'queue')} under pg_partman, which goes on keeping them up")
    if found.throttles or found.bindings:
        lines.append(
            f"{counted(found.throttles, 'notify throttle')}, {counted(found.bindings, 'topic binding')}"
        )
    around = [counted(number, what, MANY.get(what, "")) for what, number in found.around if number]
    if around:
        lines.append(f"around the queues, and left as they are: {', '.join(around)}")
    owners = sorted({queue.owner for queue in found.queues})
    if len(owners) > 1:
        lines.append(f"the queues' tables belong to {', '.join(owners)}, and go on doing so")
    return lines + _oddities(found)


def _oddities(found: Found) -> list[str]:
    lines = [f"left alone, in pgmq.meta without a table: {name}" for name in found.nameless]
    lines += [
        f"left alone, a queue's table that pgmq.meta does not name: q_{q.name}"
        for q in found.queues
        if not q.registered
    ]
    lines += [f"queue {q.name} has no archive table, and gets none" for q in found.queues if not q.archived]
    lines += [
        f"queue {q.name} has columns that are not pgmq's, and keeps them: {', '.join(q.extra)}"
        for q in found.queues
        if q.extra
    ]
    lines += [f"left alone, in schema pgmq and not pgmq's: {call}" for call in found.foreign_functions]
    return lines + [f"left alone, of no version known here: {call}" for call in found.strange_functions]


def steps(found: Found) -> list[Step]:
    """What `adopt` will do, in order."""
    if found.unfinished == "forth":
        return _after(found)
    return [*_before(found), _swap(found), *_after(found)]


def _before(found: Found) -> list[Step]:
    total = sum(map(rows, found.queues))
    made = [
        Step(
            "indexes",
            f"build our indexes on {counted(len(found.queues), 'queue')}, concurrently where a table is over 2 MB"
            f" ({_size(space_needed(found))}); pgmq goes on",
            "share update exclusive on one table at a time, which no reader or writer waits for",
            f"about {duration(total / ENTRIES_A_SECOND + len(found.queues) / 100)}",
        )
    ]
    if found.lacking:
        made.append(
            Step(
                "columns",
                f"add the columns that {counted(len(found.lacking), 'queue')} lack, empty, no row rewritten",
                "access exclusive on one queue's tables at a time",
                INSTANT,
            )
        )
    if found.owned_relations:
        made.append(
            Step(
                "release",
                f"release {counted(found.owned_relations, 'table and sequence', 'tables and sequences')} of queues from"
                " the extension, 100 at a time",
                "share update exclusive on them, which no reader or writer waits for",
                f"about {duration(found.owned_relations / 2000)}",
            )
        )
    return made


def _swap(found: Found) -> Step:
    extension = "drop the extension, its objects released, and " if found.kind == "extension" else ""
    return Step(
        "swap",
        f"{extension}put our functions in the place of pgmq's, in one transaction",
        "share row exclusive on pgmq.meta: whoever creates or drops a queue waits, senders and readers do not",
        "under a second",
    )


def _after(found: Found) -> list[Step]:
    notified = sum(queue.notifies for queue in found.queues)
    locks = "none that a reader or writer waits for"
    if any(queue.kind == "unlogged" for queue in found.queues):
        locks += ", but senders to an unlogged queue for an instant: its ids become logged"
    made = [
        Step(
            "compile",
            f"compile {counted(len(found.queues), 'queue')}, each in a transaction of its own",
            locks,
            f"about {duration(len(found.queues) / 40)}",
        )
    ]
    if notified:
        made.append(
            Step(
                "notify",
                f"give {counted(notified, 'queue')} our notify trigger for pgmq's",
                "access exclusive on one table at a time",
                INSTANT,
            )
        )
    return [
        *made,
        Step(
            "tidy",
            "drop pgmq's indexes that ours stand for, concurrently, and its old functions once nobody is inside them;"
            " mark what tells the rows of its three lists apart, for publications",
            "share update exclusive on one table at a time, which no reader or writer waits for; access exclusive on"
            " each list for an instant",
            f"about {duration(len(found.queues) / 100)}",
        ),
    ]


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GB" if number >= 2**30 else f"{max(number / 2**20, 0.1):.1f} MB"


def duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
