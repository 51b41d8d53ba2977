"""The examination: every check, each in a transaction of its own, and what a read of each queue walks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg

from pgqueue.doctor.checks import OF_INSTALLATION, OF_ONE_QUEUE, OF_QUEUES, OF_THIS_SERVER
from pgqueue.doctor.checks.reads import long_read
from pgqueue.doctor.findings import Finding, Limits, Reading, Report, by_severity, unseen
from pgqueue.doctor.installation import survey
from pgqueue.doctor.look import Look
from pgqueue.doctor.reading import read_of
from pgqueue.doctor.survey import Queue, Relation, Survey

Progress = Callable[[int, int], None]


def examine(
    conn: psycopg.Connection[Any],
    queue: str | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Examine an installation of pgqueue, or a pgmq. Only reads, and leaves nothing behind.

    Args:
        conn: A connection that is not inside a transaction.
        queue: Look at this queue alone, and at nothing of the installation or the server.
        limits: What is a finding, and how long the doctor may take.
        progress: Called with the number of queues done, and of all.

    Raises:
        NotInstalled: neither pgqueue nor pgmq is there.
        NoSuchQueue: there is no such queue.
    """
    limits = limits or Limits()
    seen = survey(Look(conn, limits), limits, queue)
    findings = [*seen.unseen, *_checked(seen, OF_QUEUES if queue else (*OF_QUEUES, *OF_INSTALLATION))]
    readings = []
    for done, (one, table) in enumerate(_whole(seen)):
        reading = read_of(seen, one, table)
        readings.append(reading)
        findings += _looked_into(seen, one, table, reading)
        if progress:
            progress(done + 1, len(seen.queues))
    if seen.standby:
        findings = [_for_primary(one) for one in findings]
    if queue:
        names = {one.name for one in seen.queues}
        findings = [one for one in findings if one.queue in names]
    return Report(
        seen.kind,
        seen.version,
        conn.info.dbname,
        conn.info.parameter_status("server_version") or "",
        len(seen.queues),
        tuple(readings),
        by_severity(findings),
    )


def _for_primary(finding: Finding) -> Finding:
    """The finding, whose remedy cannot be run here."""
    if not finding.remedy or finding.check in {check.__name__ for check in OF_THIS_SERVER}:
        return finding
    return replace(finding, remedy=f"-- on the primary: this server is a standby\n{finding.remedy}")


def _whole(seen: Survey) -> Iterator[tuple[Queue, Relation]]:
    """Queues whose table is one: what stands behind a view is not run."""
    return ((one, one.table) for one in seen.queues if one.table is not None and one.table.is_table)


def _checked(seen: Survey, checks: tuple[Callable[[Survey], Iterator[Finding]], ...]) -> Iterator[Finding]:
    for check in checks:
        yield from _found(seen, check.__name__, None, lambda check=check: check(seen))  # type: ignore[misc]


def _looked_into(seen: Survey, queue: Queue, table: Relation, reading: Reading) -> Iterator[Finding]:
    """What is to say of one queue's messages."""
    if table.locked_by is not None:
        return
    yield from _found(seen, long_read.__name__, queue.name, lambda: long_read(seen, reading))
    if table.readable:
        for check in OF_ONE_QUEUE:
            yield from _found(seen, check.__name__, queue.name, lambda check=check: check(seen, queue))  # type: ignore[misc]


def _found(
    seen: Survey, name: str, queue: str | None, check: Callable[[], Iterator[Finding]]
) -> list[Finding]:
    """The findings of one check; one that says so where it could not look."""
    try:
        with seen.look.transaction():
            return [replace(finding, check=name) for finding in check()]
    except psycopg.DatabaseError as problem:
        said = seen.look.said(problem)
        return [replace(unseen(f"the check {name}", said, "", queue), check=name)]
