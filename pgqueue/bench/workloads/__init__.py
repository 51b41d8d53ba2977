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

    seconds: about how long it takes at scale 1, beside pgmq.
    """

    name: str
    seconds: int
    run: Callable[[Lab], None]


WORKLOADS = {
    one.name: one
    for one in (
        Workload("cycle", 135, throughput.cycle),
        Workload("fetch", 65, throughput.fetch),
        Workload("batch", 10, throughput.batch),
        Workload("in-flight", 30, crowds.in_flight),
        Workload("delayed", 30, crowds.delayed),
        Workload("backlog", 15, crowds.backlog),
        Workload("adopted", 15, crowds.adopted),
        Workload("expired", 70, expired.expired),
        Workload("pinned", 130, pinned.pinned),
        Workload("groups", 40, groups.groups),
        Workload("notify", 15, notify.notify),
        Workload("metrics", 20, catalogue.metrics),
        Workload("create", 5, catalogue.create),
        Workload("many-queues", 40, catalogue.many_queues),
        Workload("readers", 95, throughput.readers),
        Workload("partitions", 10, partitions.partitions),
        Workload("mixed", 65, mixed.mixed),
        Workload("memory", 15, cost.memory),
        Workload("wal", 20, cost.wal),
        Workload("python", 45, python.python),
        Workload("worker", 150, worker.worker),
    )
}
