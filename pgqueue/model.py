"""What the calls give back: frozen dataclasses whose fields bear the names of pgmq's columns.

A column that a server does not have (older pgmq) leaves its field None; one unknown here is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was when the call returned.

    read_ct counts deliveries; (msg_id, read_ct) is the lease. vt is when it can be read again.
    """

    msg_id: int
    read_ct: int
    enqueued_at: datetime
    vt: datetime
    message: Any = None
    headers: Any = None
    last_read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue as the list of queues has it."""

    queue_name: str
    is_partitioned: bool | None = None
    is_unlogged: bool | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts and ages (seconds) of one queue.

    queue_length counts every message, queue_visible_length those that a read could get now; total_messages is
    the last id given; default_partition_length is None for a queue that is not partitioned.
    """

    queue_name: str
    queue_length: int
    newest_msg_age_sec: int | None = None
    oldest_msg_age_sec: int | None = None
    total_messages: int | None = None
    scrape_time: datetime | None = None
    queue_visible_length: int | None = None
    default_partition_length: int | None = None


@dataclass(frozen=True, slots=True)
class TopicBinding:
    """A pattern and the queue that gets the messages whose routing key it matches."""

    pattern: str
    queue_name: str
    compiled_regex: str | None = None
    bound_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RoutedId:
    """Where one message of a topic went, and under which id."""

    queue_name: str
    msg_id: int


@dataclass(frozen=True, slots=True)
class NotifyThrottle:
    """A queue that notifies on insert: at most one notification in throttle_interval_ms milliseconds."""

    queue_name: str
    throttle_interval_ms: int
    last_notified_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """The schema in a database: its number, the package that installed it, the pgmq version it behaves as."""

    schema_version: int
    package_version: str | None = None
    pgmq_version: str | None = None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What maintain() did to one partitioned table (a queue's or an archive's), and what it could not do."""

    table_name: str
    partitions_made: int
    partitions_dropped: int
    rows_moved: int
    problem: str | None = None

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.partitions_made or self.partitions_dropped or self.rows_moved or self.problem)
