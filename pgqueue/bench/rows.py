"""Messages by the million, written into a queue's table directly, in each state a message can be in."""

from __future__ import annotations

from dataclasses import dataclass

from pgqueue.bench.databases import Database


@dataclass(frozen=True)
class Rows:
    """SQL for the columns of the row numbered g."""

    vt: str = "now()"
    enqueued_at: str = "now()"
    read_ct: str = "0"
    last_read_at: str = "null"
    headers: str = "null"


READY = Rows()
IN_FLIGHT = Rows(
    vt="now() + interval '1 hour' + random() * interval '10 minutes'",
    enqueued_at="now() - interval '1 hour'",
    read_ct="1",
    last_read_at="now()",
)
DELAYED = Rows(vt="now() + interval '1 day' + random() * interval '1 day'")
#: pgmq's send has the clock for vt and the transaction's start for enqueued_at: some microseconds apart.
AS_PGMQ = Rows(
    vt="now() - interval '1 hour' + g % 400 * interval '1 microsecond'",
    enqueued_at="now() - interval '1 hour'",
)
EXPIRED = Rows(
    vt="now() - random() * interval '10 seconds'",
    enqueued_at="now() - interval '1 hour'",
    read_ct="1",
    last_read_at="now() - interval '1 minute'",
)


def load(database: Database, queue: str, rows: Rows, count: int, message: str) -> None:
    """Write `count` messages of a kind into a queue."""
    database.run(
        f"""
        insert into pgmq.q_{queue} (read_ct, enqueued_at, last_read_at, vt, message, headers)
        select {rows.read_ct}, {rows.enqueued_at}, {rows.last_read_at}, {rows.vt}, '{message}', {rows.headers}
        from generate_series(1, {count}) g
        """
    )
