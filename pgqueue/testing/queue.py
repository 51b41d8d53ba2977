"""A queue for one test: empty at first, and with a clock that can be put forward."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgqueue._sync.client import Client
from pgqueue._sync.queue import Queue
from pgqueue.codec import JSON
from pgqueue.errors import BadValue
from pgqueue.names import FLOOR_SEQUENCES, QueueNames, quoted, tidy
from pgqueue.statements.statement import Statement


class CleanQueue(Queue[Any]):
    """A queue that was empty when the test began, and whose ids begin at 1.

    dsn: of its database, for the code under test. client: the one it was made by.
    """

    def __init__(self, client: Client, name: str, dsn: str) -> None:
        super().__init__(client, name, JSON, JSON)
        self.dsn = dsn
        self.client = client
        self._names = tidy(name)

    def travel(self, seconds: float | timedelta) -> None:
        """Let so much time pass for the queue: leases and delays end, messages grow older.

        What others do at that moment is waited for. Raises BadValue for a time that is negative.
        """
        time = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        if time < timedelta(0):
            raise BadValue(f"time does not go back: {seconds}")
        earlier = "vt = vt - $1, enqueued_at = enqueued_at - $1, last_read_at = last_read_at - $1"
        sql = f"""
            with queue as (update pgmq.{quoted(self._names.table)} set {earlier}),
            archive as (
                update pgmq.{quoted(self._names.archive)} set {earlier}, archived_at = archived_at - $1
            )
            {_RESET} and $1 is not null"""
        self._reset(sql.replace("$1", "$1::interval"), (time,), _floors(self._names))

    def clear(self) -> None:
        """Delete every message, archived ones too, and begin again with the ids."""
        sql = f"""
            with queue as (delete from pgmq.{quoted(self._names.table)}),
            archive as (delete from pgmq.{quoted(self._names.archive)})
            {_RESET.replace("$2", "$1")}"""
        ids = f"pgmq.{quoted(f'{self._names.table}_msg_id_seq')}"
        self._reset(sql, (), [*_floors(self._names), ids])

    def _reset(self, sql: str, params: tuple[Any, ...], sequences: list[str]) -> None:
        """Run a statement that puts sequences back to their start: those of the floor know nothing then."""
        self.client.run(Statement(sql.encode(), (*params, sequences), lambda reply: None))


_RESET = """\
select setval(s.seqrelid, s.seqstart, false) from pg_catalog.pg_sequence s
where s.seqrelid = any (select to_regclass(n.name) from unnest($2::text[]) n (name))"""


def _floors(names: QueueNames) -> list[str]:
    return [f"pgqueue.{quoted(names.part(suffix))}" for suffix in FLOOR_SEQUENCES]
