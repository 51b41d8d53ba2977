"""All workloads, by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgqueue.bench.lab import Lab
from pgqueue.bench.workloads import (
    catalogue,
    cost,
    crowds,
    expired,
    groups,
    mixed,
    notify,
    partitions,
    pinned,
    throughput,
)


@dataclass(frozen=True)
class Workload:
    """Something to measure.

    about: what it does, in a line.
    seconds: about how long it takes at scale 1, beside pgmq.
    """

    name: str
    about: str
    seconds: int
    run: Callable[[Lab], None]


WORKLOADS = {
    one.name: one
    for one in (
        Workload("cycle", "send, read and delete one message", 180, throughput.cycle),
        Workload("fetch", "read and delete in two calls, or through fetch in one", 60, throughput.fetch),
        Workload("batch", "send, read and delete a hundred messages at once", 20, throughput.batch),
        Workload("in-flight", "read one message behind a million in flight", 30, crowds.in_flight),
        Workload("delayed", "read one message behind a million delayed", 30, crowds.delayed),
        Workload("backlog", "read one message of a million", 30, crowds.backlog),
        Workload("adopted", "read one of a million messages that pgmq wrote", 30, crowds.adopted),
        Workload("expired", "drain 100,000 messages whose leases ended at once", 60, expired.expired),
        Workload("pinned", "cycles while an old snapshot is held open", 120, pinned.pinned),
        Workload("groups", "grouped reads over 600,000 messages", 100, groups.groups),
        Workload("notify", "a sender beside another's open transaction", 20, notify.notify),
        Workload("metrics", "count a million messages", 30, catalogue.metrics),
        Workload("create", "make a queue", 5, catalogue.create),
        Workload("many-queues", "metrics and upgrade of a thousand queues", 60, catalogue.many_queues),
        Workload("readers", "4 to 256 clients that read and delete", 90, throughput.readers),
        Workload("partitions", "read one message of a partitioned queue", 20, partitions.partitions),
        Workload("mixed", "a steady load: how long each call takes", 60, mixed.mixed),
        Workload("memory", "what a session holds for each queue", 10, cost.memory),
        Workload("wal", "WAL of a message of 1 kB", 20, cost.wal),
    )
}
