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
    python,
    throughput,
    worker,
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
        Workload("cycle", "send, read and delete one message", 135, throughput.cycle),
        Workload("fetch", "read and delete in two calls, or through fetch in one", 65, throughput.fetch),
        Workload("batch", "send, read and delete a hundred messages at once", 10, throughput.batch),
        Workload("in-flight", "read one message behind a million in flight", 30, crowds.in_flight),
        Workload("delayed", "read one message behind a million delayed", 30, crowds.delayed),
        Workload("backlog", "read one message of a million", 15, crowds.backlog),
        Workload("adopted", "read one of a million messages that pgmq wrote", 15, crowds.adopted),
        Workload("expired", "drain 100,000 messages whose leases ended at once", 70, expired.expired),
        Workload("pinned", "cycles while an old snapshot is held open", 130, pinned.pinned),
        Workload("groups", "grouped reads over 600,000 messages", 40, groups.groups),
        Workload("notify", "a sender beside another's open transaction", 15, notify.notify),
        Workload("metrics", "count a million messages", 20, catalogue.metrics),
        Workload("create", "make a queue", 5, catalogue.create),
        Workload("many-queues", "metrics and upgrade of a thousand queues", 40, catalogue.many_queues),
        Workload("readers", "4 to 256 clients that read and delete", 95, throughput.readers),
        Workload("partitions", "read one message of a partitioned queue", 10, partitions.partitions),
        Workload("mixed", "a steady load: how long each call takes", 65, mixed.mixed),
        Workload("memory", "what a session holds for each queue", 15, cost.memory),
        Workload("wal", "WAL of a message of 1 kB", 20, cost.wal),
        Workload("python", "calls from Python, beside psycopg and pgmq's client", 45, python.python),
        Workload("worker", "messages through handlers that do nothing", 150, worker.worker),
    )
}
