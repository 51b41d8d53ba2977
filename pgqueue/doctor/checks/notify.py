"""Notifications: a trigger on the table and a row in the throttle list, of which neither works alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, error, warning
from pgqueue.doctor.survey import Queue, Survey
from pgqueue.names import NOTIFY_SEQUENCE
from pgqueue.sqltext import literal

TRIGGER = "trigger_notify_queue_insert_listeners"

#: key: the name by which the trigger looks for its row; its first argument, if it has any.
_TRIGGERS = f"""
select
    t.tgrelid as table,
    t.tgenabled in ('O', 'A') as enabled,
    t.tginitdeferred as deferred,
    coalesce(
        convert_from(
            substring(t.tgargs from 1 for position('\\x00'::bytea in t.tgargs) - 1), getdatabaseencoding()
        ),
        substr(c.relname, 3)
    ) as key
from (
    select t.tgrelid, t.tgenabled, t.tginitdeferred, case when t.tgnargs > 0 then t.tgargs end as tgargs
    from pg_trigger t
    where t.tgname = '{TRIGGER}' and t.tgrelid = any(%s::oid[])
) t
join pg_class c on c.oid = t.tgrelid
"""

_ROWS = (
    "select t.queue_name::text as name, t.throttle_interval_ms as interval from pgmq.notify_insert_throttle t"
)

_SEQUENCES = """
select m.key
from unnest(%s::text[]) as m (key)
where octet_length(m.key || %s) <= 63 and not exists (
    select from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'pgqueue' and c.relname = m.key || %s
)
"""


def notify_without_throttle(survey: Survey) -> Iterator[Finding]:
    """A trigger that finds no row of its queue, and so never tells anybody."""
    if not survey.has("notify_insert_throttle"):
        return  # pgmq before 1.7
    rows = _rows(survey)
    for queue, trigger in _triggers(survey):
        if trigger.enabled and trigger.key not in rows:
            # pgmq before 1.13.1 looks for it in lower case.
            case = queue.name in rows
            yield error(
                "new messages fire the notify trigger, and pgmq.notify_insert_throttle has no row"
                + (" under the name it looks for" if case else " for the queue"),
                "listeners are never told, and wait for their next poll",
                "-- pgmq before 1.13.1 does not notify for names with capitals: upgrade it, or run pgqueue adopt"
                if case
                else f"select pgmq.enable_notify_insert({queue.literal});",
                queue.name,
            )


def throttle_without_notify(survey: Survey) -> Iterator[Finding]:
    """A row whose queue has no trigger, or one that is switched off."""
    if not survey.has("notify_insert_throttle"):
        return
    rows = _rows(survey)
    triggers = {queue.name: trigger for queue, trigger in _triggers(survey)}
    for queue in survey.queues:
        trigger = triggers.get(queue.name)
        if queue.name not in rows or queue.table is None or queue.table.oid not in survey.by_table:
            continue
        if trigger is None or not trigger.enabled:
            yield error(
                "notifications are listed as on, and "
                + ("the table has no trigger for them" if trigger is None else "their trigger is disabled"),
                "listeners are never told, and wait for their next poll",
                f"select pgmq.enable_notify_insert({queue.literal}, {rows[queue.name]});"
                if trigger is None
                else f"alter table {queue.table.sql} enable trigger {TRIGGER};",
                queue.name,
            )


def notify_unlike(survey: Survey) -> Iterator[Finding]:
    """A trigger of pgmq's make in pgqueue, or one whose stamp has no sequence to stand in."""
    if not survey.ours:
        return
    found = list(_triggers(survey))
    suffix = f"${NOTIFY_SEQUENCE}"
    lost = {
        row.key for row in survey.look.rows(_SEQUENCES, [queue.key for queue, _ in found], suffix, suffix)
    }
    for queue, trigger in found:
        if queue.key in lost or not trigger.deferred:
            yield warning(
                f"the sequence {queue.key}{suffix} is missing"
                if queue.key in lost
                else "the notify trigger is not deferred, as pgqueue's is",
                "every message notifies, whatever the throttle"
                if queue.key in lost
                else "a listener may be told before the message can be seen, and then sleeps on",
                f"select pgmq.enable_notify_insert({queue.literal}, {_rows(survey).get(queue.name, 250)});",
                queue.name,
            )


def throttle_unlogged(survey: Survey) -> Iterator[Finding]:
    """pgmq's list of throttles does not survive a crash, and then nobody is told anything for good."""
    unlogged = survey.look.rows(
        "select from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'pgmq' and c.relname = 'notify_insert_throttle' and c.relpersistence = 'u'"
    )
    if unlogged and any(True for _ in _triggers(survey)):
        yield warning(
            "pgmq.notify_insert_throttle is unlogged, and notifications are in use",
            "a crash of the server empties it, and listeners are never told again",
            "alter table pgmq.notify_insert_throttle set logged;",
        )


def throttle_of_nobody(survey: Survey) -> Iterator[Finding]:
    """A row of a queue that is not in the list."""
    if survey.has("notify_insert_throttle") and survey.has("meta"):
        for row in survey.look.rows(
            f"{_ROWS} where not exists (select from pgmq.meta m where m.queue_name = t.queue_name)"
        ):
            yield warning(
                f"pgmq.notify_insert_throttle has a row for {literal(row.name)}, which is no queue",
                "it does nothing; what should have removed it, a foreign key, is gone",
                f"delete from pgmq.notify_insert_throttle where queue_name = {literal(row.name)};",
            )


def _rows(survey: Survey) -> dict[str, int]:
    """Throttle intervals by the names of queues."""
    return {row.name: row.interval for row in survey.look.rows(_ROWS)}


def _triggers(survey: Survey) -> Iterator[tuple[Queue, Any]]:
    for row in survey.look.rows(_TRIGGERS, survey.oids):
        queue, table = survey.by_table[row.table]
        if table is queue.table:
            yield queue, row
