"""What one read walks. The measuring is in pgqueue/doctor/reading.py; here it is judged."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, Reading, unseen, warning
from pgqueue.doctor.survey import Survey

REMEDY = "-- in a shell; the first only says what it would do\n-- pgqueue adopt --dry-run\n-- pgqueue adopt"
REMEDY_OF_OURS = "-- an index, dead rows, or who keeps those from being removed: see the other findings"


def long_read(survey: Survey, reading: Reading) -> Iterator[Finding]:
    """A read that looks at many rows, live or dead, to find one message."""
    if reading.rows is None:
        if reading.problem:
            yield unseen("what a read walks", reading.problem, _grant(survey, reading), reading.queue)
        return
    limits = survey.limits
    walked = reading.rows > limits.read_rows
    # A live row costs two or three visits: to the index, and to its page.
    dead = not walked and (reading.pages or 0) - 3 * reading.rows > limits.read_pages
    if not walked and not dead:
        return
    adopted = f"; adopted by pgqueue, {reading.adopted}" if reading.gains and not survey.ours else ""
    yield warning(
        f"one read of one message walks {reading.walked}{adopted}",
        f"most of {'the pages hold dead rows' if dead else 'the rows are in flight or delayed'},"
        " and each read walks over them again",
        REMEDY_OF_OURS if survey.ours else REMEDY,
        reading.queue,
    )


def _grant(survey: Survey, reading: Reading) -> str:
    """The right that is missing, if that is what was in the way."""
    for queue in survey.queues:
        if queue.name == reading.queue and queue.table is not None and not queue.table.readable:
            schema = f"-- as its owner\ngrant usage on schema pgmq to {survey.role};"
            return f"{schema}\ngrant select on {queue.table.sql} to {survey.role};"
    return ""
