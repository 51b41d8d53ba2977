"""pgmq without the extension: a Postgres message queue that every pgmq client can use unchanged."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgqueue._async.client import AsyncClient
    from pgqueue._sync.client import Client
    from pgqueue.errors import PgqueueError
    from pgqueue.model import (
        Message,
        Metrics,
        NotifyThrottle,
        QueueInfo,
        RoutedId,
        TopicBinding,
        Upkeep,
        Version,
    )
    from pgqueue.statements import Codec, JsonText

    __version__: str

__all__ = [
    "AsyncClient",
    "Client",
    "Codec",
    "JsonText",
    "Message",
    "Metrics",
    "NotifyThrottle",
    "PgqueueError",
    "QueueInfo",
    "RoutedId",
    "TopicBinding",
    "Upkeep",
    "Version",
    "__version__",
]

_MODELS = (
    "Message",
    "Metrics",
    "NotifyThrottle",
    "QueueInfo",
    "RoutedId",
    "TopicBinding",
    "Upkeep",
    "Version",
)
_HOMES = {
    "pgqueue._async.client": ("AsyncClient",),
    "pgqueue._sync.client": ("Client",),
    "pgqueue.errors": ("PgqueueError",),
    "pgqueue.model": _MODELS,
    "pgqueue.statements": ("Codec", "JsonText"),
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
