"""Every deliberate difference between pgmq and pgqueue, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.compat.sides import Outcome, alike
from tests.compat.steps import Call

CATALOGUE: dict[str, tuple[str | None, str | None, str]] = {
    # what: (pgmq's, ours, why); None: absent
    "table notify_insert_throttle": (
        "r unlogged",
        "r logged",
        "an unlogged throttle table is empty after a crash, and NOTIFY stays silent for good",
    ),
}


@dataclass(frozen=True)
class Case:
    """A call that did not give the same on both sides, as the predicates see it."""

    call: Call
    reference: Outcome
    ours: Outcome
    in_transaction: bool
    rolled_back: bool
    """Whether a transaction or a savepoint was rolled back before, in this sequence."""
    throttled_anew: bool
    """Whether this transaction set a throttle."""
    created: frozenset[str]
    """Names of all queues that this sequence made, those dropped too."""
    ask: Callable[[str], list[tuple[Any, ...]]]
    """Queries our side, whose state is the one before the call if either side failed."""

    @property
    def name(self) -> Any:
        """The queue's name as it was given."""
        return self.call.value("queue_name")

    def queues(self) -> list[str]:
        return [name for (name,) in self.ask("select queue_name from pgmq.meta")]


@dataclass(frozen=True)
class Difference:
    name: str
    reason: str
    applies: Callable[[Case], bool]


def refused(case: Case, sqlstate: str) -> bool:
    """Only we refuse, with this SQLSTATE."""
    return not case.reference.failed and case.ours.sqlstate == sqlstate


def spelled_otherwise(case: Case) -> bool:
    """The name means a queue, but is not the one under which that was created."""
    if not isinstance(case.name, str):
        return False
    queues = case.queues()
    return case.name not in queues and case.name.lower() in [queue.lower() for queue in queues]


def long_channel(case: Case) -> bool:
    return len(f"pgmq.q_{case.name}.INSERT".encode()) > 63


def creates(case: Case) -> bool:
    return case.call.function.startswith("create") and not case.call.function.startswith("create_fifo")


def unknown_queue_text(case: Case) -> bool:
    same_code = case.reference.sqlstate == case.ours.sqlstate and case.ours.sqlstate in ("42P01", "P0001")
    name = "<NULL>" if case.name is None else case.name
    return same_code and case.ours.message == f'queue "{name}" does not exist'


def unknown_queue_is_refused(case: Case) -> bool:
    right = case.ours.message == f'queue "{case.name}" does not exist'
    return case.call.function == "disable_notify_insert" and refused(case, "42P01") and right


def read_only(case: Case) -> bool:
    """Postgres lets neither side write: what passes on ours has written nothing."""
    return case.reference.failed and "25006" in (case.reference.sqlstate, case.ours.sqlstate)


def blank_name(case: Case) -> bool:
    names = creates(case) or case.call.function == "validate_queue_name"
    return names and refused(case, "P0001") and isinstance(case.name, str) and not case.name.strip()


def null_name(case: Case) -> bool:
    alike_but_for_the_text = case.reference.sqlstate == case.ours.sqlstate == "22004"
    named = case.call.has("queue_name") and case.name is None
    return named and (refused(case, "22004") or alike_but_for_the_text)


def name_over_the_byte_limit(case: Case) -> bool:
    names = creates(case) or case.call.function == "validate_queue_name"
    return names and refused(case, "P0001") and len(str(case.name).encode()) > 61


def name_is_cut(case: Case) -> bool:
    """Postgres cuts it to a name that another queue has."""
    others = {cut(name) for name in case.created if name != case.name}
    unknown = case.ours.message == f'queue "{case.name}" does not exist'
    return unknown and not creates(case) and cut(str(case.name)) in others


def cut(name: str) -> bytes:
    """The name of a queue's table as Postgres keeps it."""
    return f"q_{name.lower()}".encode()[:63].decode(errors="ignore").encode()


def name_collides(case: Case) -> bool:
    return creates(case) and refused(case, "42710") and spelled_otherwise(case)


def bad_characters(case: Case) -> bool:
    bad = any(part in str(case.name) for part in ("$", ";", "--", "'"))
    return case.call.function == "validate_queue_name" and refused(case, "P0001") and bad


def another_spelling(case: Case) -> bool:
    functions = ("bind_topic", "unbind_topic", "list_topic_bindings")
    notify = ("enable_notify_insert", "disable_notify_insert", "update_notify_insert")
    # What comes after the name is found: it is not enabled, or given null, which its row refuses.
    further = (
        "does not have notify_insert enabled",
        'of relation "notify_insert_throttle" violates not-null',
    )
    found = not case.ours.failed or any(text in case.ours.message for text in further)
    return case.call.function in functions + notify and found and spelled_otherwise(case)


def dropped_by_another_spelling(case: Case) -> bool:
    """pgmq drops the tables and leaves the entry."""
    if case.call.function != "drop_queue" or case.ours.columns != ("queue_name",):
        return False
    left = {name for (name,) in set(case.reference.rows) - set(case.ours.rows)}
    return case.name not in left and {name.lower() for name in left} == {case.name.lower()}


def window_of_nothing(case: Case) -> bool:
    seconds = case.call.value("max_poll_seconds")
    nothing = not case.reference.failed and not case.reference.rows
    return case.call.function.endswith("_with_poll") and seconds is not None and seconds <= 0 and nothing


def negative_quantity(case: Case) -> bool:
    qty = case.call.value("qty") if case.call.has("qty") else None
    return qty is not None and qty < 0 and refused(case, "2201W") and not case.reference.rows


def null_delay_first(case: Case) -> bool:
    delay = case.call.has("delay") and case.call.value("delay") is None
    return delay and case.ours.sqlstate == "23502" and case.reference.sqlstate not in ("", "23502")


def null_delay_text(case: Case) -> bool:
    delay = case.call.has("delay") and case.call.value("delay") is None
    return delay and case.reference.sqlstate == case.ours.sqlstate == "23502"


def channel_first(case: Case) -> bool:
    enables = case.call.function == "enable_notify_insert" and long_channel(case)
    return (
        enables
        and case.reference.failed
        and case.ours.message.endswith("too long for a notification channel")
    )


def visible_in_transaction(case: Case) -> bool:
    if not case.call.function.startswith("metrics") or case.ours.failed or case.reference.failed:
        return False
    column = "queue_visible_length"
    reference, ours = case.reference.sorted(), case.ours.sorted()
    return (
        case.in_transaction
        and alike(reference.without(column).rows, ours.without(column).rows)
        and all(a <= b for a, b in zip(reference.column(column), ours.column(column), strict=True))
    )


def metrics_of_a_long_name(case: Case) -> bool:
    """Where pgmq looks for a sequence by a name that Postgres has cut: it finds none, or another's."""
    measures = case.call.function in ("metrics", "metrics_all")
    if not measures or case.ours.failed or all(len(name.encode()) <= 50 for name in case.created):
        return False
    if case.reference.failed:
        return case.reference.sqlstate in ("42809", "42P01", "42703")
    columns = ["total_messages"] + ["queue_visible_length"] * case.in_transaction
    reference, ours = case.reference.sorted(), case.ours.sorted()
    for column in columns:
        reference, ours = reference.without(column), ours.without(column)
    return alike(reference.rows, ours.rows)


def capitals_notify(case: Case) -> bool:
    if case.ours.columns != ("notified",):
        return False
    more = set(case.ours.rows) - set(case.reference.rows)
    capitals = {f"pgmq.q_{name.lower()}.INSERT ''" for name in case.created if name != name.lower()}
    return set(case.reference.rows) <= set(case.ours.rows) and {note for (note,) in more} <= capitals


def capitals_were_told(case: Case) -> bool:
    """As above, seen in the list of throttles."""
    if case.call.function != "list_notify_insert_throttles" or case.ours.failed or case.reference.failed:
        return False
    rows = zip(case.reference.rows, case.ours.rows, strict=False)
    differing = {b[0] for a, b in rows if not alike(a, b)}
    column = "last_notified_at"
    others_alike = alike(case.reference.without(column).rows, case.ours.without(column).rows)
    return others_alike and all(name != name.lower() for name in differing)


def told_at_commit(case: Case) -> bool:
    if case.ours.columns == ("notified",):
        return case.throttled_anew and set(case.reference.rows) <= set(case.ours.rows)
    if case.call.function != "list_notify_insert_throttles" or case.ours.failed or case.reference.failed:
        return False
    column = "last_notified_at"
    return case.in_transaction and alike(case.reference.without(column).rows, case.ours.without(column).rows)


def stamp_outlives_a_rollback(case: Case) -> bool:
    if not case.rolled_back or case.ours.failed or case.reference.failed:
        return False
    if case.call.function == "list_notify_insert_throttles":
        column = "last_notified_at"
        return alike(case.reference.without(column).rows, case.ours.without(column).rows)
    if case.ours.columns != ("notified",):
        return False
    throttled = "select queue_name from pgmq.notify_insert_throttle where throttle_interval_ms > 0"
    channels = {f"pgmq.q_{name.lower()}.INSERT ''" for (name,) in case.ask(throttled)}
    return {note for (note,) in set(case.reference.rows) ^ set(case.ours.rows)} <= channels


def kept_out(case: Case) -> bool:
    ((triggers,),) = case.ask("select count(*) from pg_trigger where tgname = 'keeps_out'")
    if case.reference.failed or not triggers:
        return False
    if case.ours.failed:
        return case.call.has("delay") and case.call.value("delay") is None and case.ours.sqlstate == "23502"
    if case.call.function != "send_topic":
        return False
    ((reference,), (ours,)) = *case.reference.rows, *case.ours.rows
    return bool(reference - triggers <= ours < reference)


def channel_too_long(case: Case) -> bool:
    return case.call.function == "enable_notify_insert" and refused(case, "P0001") and long_channel(case)


def id_not_used(case: Case) -> bool:
    """A send that failed on both sides took an id in pgmq and none in ours."""
    if case.ours.columns != ("sequencename", "last_value") or not case.call.function.startswith("send"):
        return False
    pairs = zip(case.reference.sorted().rows, case.ours.sorted().rows, strict=True)
    return all(a[0] == b[0] and (b[1] or 0) <= (a[1] or 0) for a, b in pairs)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "unknown queue: text",
        "the same sentence from every function, instead of the name of a relation",
        unknown_queue_text,
    ),
    Difference(
        "unknown queue: disable_notify_insert",
        "an unknown queue is the same error everywhere; pgmq lets this one pass",
        unknown_queue_is_refused,
    ),
    Difference(
        "read-only transaction",
        "what has nothing to write passes, and elsewhere another statement is the first that writes",
        read_only,
    ),
    Difference(
        "name: empty or blank",
        "a queue without a name is always a mistake",
        blank_name,
    ),
    Difference(
        "name: null",
        "a null where a queue is named is always a mistake, and pgmq says nothing",
        null_name,
    ),
    Difference(
        "name: over the byte limit",
        "Postgres would cut the name of the table: two queues could share it",
        name_over_the_byte_limit,
    ),
    Difference(
        "name: cut to another's",
        "the same on the other side: a name over the limit is no queue, not the one it is cut to",
        name_is_cut,
    ),
    Difference(
        "name: collides",
        "names that differ in capitals alone would share one table under two entries",
        name_collides,
    ),
    Difference(
        "name: characters that create refuses",
        "validate_queue_name says what create would say",
        bad_characters,
    ),
    Difference(
        "name: dropped by another spelling",
        "pgmq drops the tables and leaves the queue in the list, where every metrics_all then fails",
        dropped_by_another_spelling,
    ),
    Difference(
        "name: another spelling",
        "send and read find a queue whatever the capitals; so does everything else",
        another_spelling,
    ),
    Difference(
        "poll: a window of nothing",
        "a poll looks at least once, however short its window",
        window_of_nothing,
    ),
    Difference(
        "a quantity below zero",
        "always refused; pgmq says nothing where its plan finds nothing before it looks at the quantity",
        negative_quantity,
    ),
    Difference(
        "send: null delay is refused first",
        "two mistakes in one call, and the other is named",
        null_delay_first,
    ),
    Difference(
        "send: null delay: text",
        "the argument is named, not the column that it would have filled",
        null_delay_text,
    ),
    Difference(
        "send: no id for what is refused",
        "what is refused before the insert uses up no id",
        id_not_used,
    ),
    Difference(
        "what a trigger of the user's keeps out",
        "send_topic counts what was stored, not the queues that match; a null delay is a mistake all the same",
        kept_out,
    ),
    Difference(
        "metrics: a name of more than 50 bytes",
        "pgmq misses the queue's sequence, and metrics_all fails for every queue",
        metrics_of_a_long_name,
    ),
    Difference(
        "metrics: visible in a transaction",
        "what this transaction sent is visible to it, as its own read shows",
        visible_in_transaction,
    ),
    Difference(
        "notify: names with capitals",
        "pgmq notifies for them from 1.13.1 on, which we match; the reference is 1.13.0",
        capitals_notify,
    ),
    Difference(
        "notify: names with capitals, in the list",
        "the same, as list_notify_insert_throttles shows it",
        capitals_were_told,
    ),
    Difference(
        "notify: told at commit",
        "whether listeners are told is decided at commit, so that senders never wait for one another; until then"
        " the transaction that has sent cannot truncate or alter the queue's table",
        told_at_commit,
    ),
    Difference(
        "notify: the stamp outlives a rollback",
        "when listeners were last told stands in a sequence, so that no sender waits for another's commit",
        stamp_outlives_a_rollback,
    ),
    Difference(
        "notify: channel too long",
        "said when notification is switched on; in pgmq every send fails afterwards",
        channel_too_long,
    ),
    Difference(
        "notify: channel too long is refused first",
        "two mistakes in one call, and the other is named",
        channel_first,
    ),
)
