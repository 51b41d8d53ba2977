"""What the way back to pgmq will do, in plain words."""

from __future__ import annotations

from pgqueue.adopt.plan import ENTRIES_A_SECOND, INSTANT, Step, duration, rows
from pgqueue.adopt.survey import Found, Queue
from pgqueue.names import counted


def warnings_back(found: Found) -> list[str]:
    """What will not be as people may expect."""
    ours = [queue.name for queue in found.queues if partitioned_by_us(queue)]
    return [
        f"queue {name} is partitioned by pgqueue: without it nobody makes new partitions or drops old ones, so its"
        " messages will gather in the default partition; nothing is lost. pgmq's drop_queue needs pg_partman for it"
        for name in ours
    ]


def partitioned_by_us(queue: Queue) -> bool:
    """Whether no pg_partman keeps a partitioned queue up."""
    return queue.kind == "partitioned" and not queue.partman


def steps_back(found: Found, *, extension: bool) -> list[Step]:
    """What `adopt --back` will do, in order."""
    total = sum(map(rows, found.queues))
    light = "share update exclusive on one table at a time, which no reader or writer waits for"
    before = [
        Step(
            "indexes",
            f"build pgmq's indexes on {counted(len(found.queues), 'queue')}, concurrently where a table is over 2 MB",
            light,
            f"about {duration(total / ENTRIES_A_SECOND + len(found.queues) / 200)}",
        ),
        Step(
            "swap",
            "create the extension pgmq, in one transaction, with the rows of its tables"
            if extension
            else "put pgmq's functions in the place of ours, in one transaction",
            "access exclusive on pgmq.meta: whoever creates or drops a queue waits, senders and readers do not"
            if extension
            else "share row exclusive on pgmq.meta: whoever creates or drops a queue waits, senders and readers do not",
            "under a second",
        ),
    ]
    notified = sum(queue.notifies for queue in found.queues)
    after = [
        Step(
            "notify",
            f"give {counted(notified, 'queue')} pgmq's notify trigger for ours",
            "access exclusive on one table at a time",
            INSTANT,
        )
    ]
    tidy = Step(
        "tidy",
        "drop our indexes, concurrently, and schema pgqueue with the compiled functions, 500 at a time",
        light,
        f"about {duration(len(found.queues) / 40)}",
    )
    return [*([] if found.unfinished == "back" else before), *(after if notified else []), tidy]
