"""The packages that ours is measured beside: whether they are there, and which version."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from pgqueue.bench.databases import pgmq_sql
from pgqueue.bench.model import PGMQ, PGMQ_CLIENT
from pgqueue.errors import BenchError
from pgqueue.names import PGMQ_WHEEL_VERSION

PACKAGES = {PGMQ_CLIENT: "pgmq"}
"""Names of packages, where they are not the side's own."""


def versions(sides: Iterable[str]) -> dict[str, str]:
    """The version of each side. Raises BenchError for one whose package is absent."""
    return {side: _version(side) for side in sides}


def _version(side: str) -> str:
    if side in (PGMQ, PGMQ_CLIENT):
        pgmq_sql()
    if side == PGMQ:
        return PGMQ_WHEEL_VERSION
    try:
        return version(PACKAGES.get(side, side))
    except PackageNotFoundError:
        raise BenchError(f"{side} is not installed: it comes with pgqueue's extra `bench`") from None
