"""pgmq without the extension: a Postgres message queue that every pgmq client can use unchanged."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqueue._async.client import AsyncClient
    from pgqueue._async.message import AsyncMessage
    from pgqueue._async.queue import AsyncQueue
    from pgqueue._async.stream import AsyncMessages
    from pgqueue._sync.client import Client
    from pgqueue._sync.message import Message
    from pgqueue._sync.queue import Queue
    from pgqueue._sync.stream import Messages
    from pgqueue.codec import BYTES, Codec, JsonText
    from pgqueue.errors import PgqueueError
    from pgqueue.model import Metrics, NotifyThrottle, QueueInfo, RoutedId, TopicBinding, Upkeep, Version
    from pgqueue.names import legal_name
    from pgqueue.worker.delivery import AsyncDelivery, Delivery
    from pgqueue.worker.settings import Backoff, Defer, Discard, Retry
    from pgqueue.worker.worker import Worker

    __version__: str

__all__ = [
    "BYTES",
    "AsyncClient",
    "AsyncDelivery",
    "AsyncMessage",
    "AsyncMessages",
    "AsyncQueue",
    "Backoff",
    "Client",
    "Codec",
    "Defer",
    "Delivery",
    "Discard",
    "JsonText",
    "Message",
    "Messages",
    "Metrics",
    "NotifyThrottle",
    "PgqueueError",
    "Queue",
    "QueueInfo",
    "Retry",
    "RoutedId",
    "TopicBinding",
    "Upkeep",
    "Version",
    "Worker",
    "__version__",
    "legal_name",
]

_HOMES = {
    "pgqueue._async.client": ("AsyncClient",),
    "pgqueue._async.message": ("AsyncMessage",),
    "pgqueue._async.queue": ("AsyncQueue",),
    "pgqueue._async.stream": ("AsyncMessages",),
    "pgqueue._sync.client": ("Client",),
    "pgqueue._sync.message": ("Message",),
    "pgqueue._sync.queue": ("Queue",),
    "pgqueue._sync.stream": ("Messages",),
    "pgqueue.codec": ("BYTES", "Codec", "JsonText"),
    "pgqueue.errors": ("PgqueueError",),
    "pgqueue.model": (
        "Metrics",
        "NotifyThrottle",
        "QueueInfo",
        "RoutedId",
        "TopicBinding",
        "Upkeep",
        "Version",
    ),
    "pgqueue.names": ("legal_name",),
    "pgqueue.worker.delivery": ("AsyncDelivery", "Delivery"),
    "pgqueue.worker.settings": ("Backoff", "Defer", "Discard", "Retry"),
    "pgqueue.worker.worker": ("Worker",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: importing pgqueue needs neither psycopg nor libpq."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pgqueue")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    except ImportError as error:
        if error.name == "psycopg" or "no pq wrapper available" in str(error):
            from pgqueue.errors import DriverMissing

            raise DriverMissing() from error
        raise
