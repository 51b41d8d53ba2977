"""What the calls give back, with fields that bear the names of pgmq's columns.

A column that a server does not have (older pgmq) leaves its field None; one unknown here is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pgqueue.errors import BadMessage

if TYPE_CHECKING:  # type checkers know the default of a type variable before Python does, in 3.13
    from typing_extensions import TypeVar as TypeVarWithDefault

    T = TypeVarWithDefault("T", default=Any)
    """The body of a message; Any where nothing is said, so that `message: Message` will do."""
else:
    T = TypeVar("T")
B = TypeVar("B", covariant=True)

COLUMNS = ("msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers")
"""pgmq's columns of a message, in the order of its type message_record."""


class Decodes(Protocol[B]):
    """The part of a queue handle that a message uses."""

    @property
    def name(self) -> str: ...

    def decode(self, text: str | None) -> B: ...

    def decode_headers(self, text: str | None) -> Any: ...


_NOT_YET: Any = object()


class MessageRecord(Generic[T]):
    """A message as it was when the call returned; treat it as read-only.

    msg_id: its number in the queue
    read_ct: how often it was delivered, with this time; (msg_id, read_ct) is the lease
    enqueued_at, last_read_at, vt: when it was sent, last read, and when it can be read again; an instant after
        the year 9999, or infinity, is datetime.max; one before the year 1 is datetime.min
    text, headers_text: body and headers as JSON text, None for SQL's null

    The body is decoded when `message` is first asked for, so that one that cannot be decoded harms no other.
    """

    __slots__ = (
        "_headers",
        "_message",
        "enqueued_at",
        "headers_text",
        "last_read_at",
        "msg_id",
        "queue",
        "read_ct",
        "text",
        "vt",
    )

    def __init__(
        self,
        queue: Decodes[T],
        msg_id: int,
        read_ct: int,
        enqueued_at: datetime,
        last_read_at: datetime | None,
        vt: datetime,
        text: str | None = None,
        headers_text: str | None = None,
    ) -> None:
        self.queue = queue
        self.msg_id = msg_id
        self.read_ct = read_ct
        self.enqueued_at = enqueued_at
        self.last_read_at = last_read_at
        self.vt = vt
        self.text = text
        self.headers_text = headers_text
        self._message: T = _NOT_YET
        self._headers: Any = _NOT_YET

    @property
    def message(self) -> T:
        """The body. Raises BadMessage, with the queue and the id, if it cannot be decoded."""
        if self._message is _NOT_YET:
            try:
                self._message = self.queue.decode(self.text)
            except BadMessage as error:
                raise BadMessage(f'message {self.msg_id} of queue "{self.queue.name}": {error}') from error
        return self._message

    @property
    def headers(self) -> Any:
        """The headers, None if there are none."""
        if self._headers is _NOT_YET:
            self._headers = self.queue.decode_headers(self.headers_text)
        return self._headers

    def __repr__(self) -> str:
        shown = "null" if self.text is None else self.text if len(self.text) <= 60 else f"{self.text[:57]}…"
        return f"<{type(self).__name__} {self.queue.name}:{self.msg_id} read_ct={self.read_ct} {shown}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageRecord):
            return NotImplemented
        return self.queue.name == other.queue.name and columns_of(self) == columns_of(other)

    def __hash__(self) -> int:
        return hash((self.msg_id, self.read_ct))


def columns_of(message: MessageRecord[Any]) -> tuple[Any, ...]:
    """The values of COLUMNS, body and headers as text."""
    times = (message.enqueued_at, message.last_read_at, message.vt)
    return (message.msg_id, message.read_ct, *times, message.text, message.headers_text)


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


TYPES = {
    "message_record": COLUMNS,
    "queue_record": tuple(one.name for one in fields(QueueInfo)),
    "metrics_result": tuple(one.name for one in fields(Metrics)),
}
"""pgmq's composite types, with their attributes."""


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
