"""The reference: pgmq's own SQL, 1.13.0, as the official client's wheel (pgmq==1.1.4) carries it.

1.13.1, which we match, differs in one thing: the notify trigger gets the queue's name as an argument, so that
queues with capitals in their names notify. That is one of the listed differences.
"""

from __future__ import annotations

import importlib.resources

VERSION = "1.13.0"


def reference_sql() -> str:
    """The script that installs pgmq into a database; run once, by its owner."""
    return (importlib.resources.files("pgmq") / "sql" / "pgmq.sql").read_text()
