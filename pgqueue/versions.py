"""What each version of pgmq holds, so that one can be told from the other where no extension says it.

`FUNCTIONS` has every function that pgmq 1.3.3 to 1.13.1 had in its schema: since which version, and from which
on no more.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgqueue.names import PGMQ_VERSION

#: Every version there is something to tell by; those between look like the one before.
VERSIONS = (
    "1.3.3",
    "1.4.0",
    "1.4.1",
    "1.4.2",
    "1.4.3",
    "1.4.4",
    "1.5.0",
    "1.5.1",
    "1.6.0",
    "1.6.1",
    "1.7.0",
    "1.8.0",
    "1.8.1",
    "1.9.0",
    "1.10.0",
    "1.10.1",
    "1.11.0",
    "1.11.1",
    "1.11.2",
    "1.13.0",
)
OLDEST, NEWEST = "1.3.3", PGMQ_VERSION

#: Columns that a queue of an older version lacks, with their types.
LATER_COLUMNS = {"headers": "jsonb", "last_read_at": "timestamptz"}

#: The functions of schema pgmq, as `FUNCTIONS` writes them.
SIGNATURES = """
select p.proname || '(' || concat_ws(',', variadic array(
    select format_type(t.type, null) from unnest(p.proargtypes) with ordinality as t (type, place) order by t.place
)) || ')' as signature
from pg_catalog.pg_proc p
where p.pronamespace = to_regnamespace('pgmq')"""

FUNCTIONS: dict[str, tuple[str, str | None]] = {
    "_belongs_to_pgmq(text)": ("1.3.3", None),
    "_create_fifo_index_if_not_exists(text)": ("1.8.1", None),
    "_ensure_pg_partman_installed()": ("1.3.3", None),
    "_extension_exists(text)": ("1.5.0", None),
    "_get_partition_col(text)": ("1.3.3", None),
    "_get_pg_partman_major_version()": ("1.4.3", None),
    "_get_pg_partman_schema()": ("1.4.4", None),
    "_send_batch(text,jsonb[],jsonb[],timestamp with time zone)": ("1.10.0", None),
    "_validate_batch_params(jsonb[],jsonb[])": ("1.10.0", None),
    "acquire_queue_lock(text)": ("1.5.1", None),
    "archive(text,bigint)": ("1.3.3", None),
    "archive(text,bigint[])": ("1.3.3", None),
    "bind_topic(text,text)": ("1.10.0", None),
    "convert_archive_partitioned(text,text,text,integer)": ("1.3.3", None),
    "create(text)": ("1.3.3", None),
    "create_fifo_index(text)": ("1.8.1", None),
    "create_fifo_indexes_all()": ("1.8.1", None),
    "create_non_partitioned(text)": ("1.3.3", None),
    "create_partitioned(text,text,text)": ("1.3.3", "1.13.0"),
    "create_partitioned(text,text,text,integer)": ("1.13.0", None),
    "create_unlogged(text)": ("1.3.3", None),
    "delete(text,bigint)": ("1.3.3", None),
    "delete(text,bigint[])": ("1.3.3", None),
    "detach_archive(text)": ("1.3.3", None),
    "disable_notify_insert(text)": ("1.7.0", None),
    "drop_queue(text)": ("1.5.0", None),
    "drop_queue(text,boolean)": ("1.3.3", None),
    "enable_notify_insert(text,integer)": ("1.7.0", None),
    "format_table_name(text,text)": ("1.4.1", None),
    "list_notify_insert_throttles()": ("1.10.1", None),
    "list_queues()": ("1.3.3", None),
    "list_topic_bindings()": ("1.10.1", None),
    "list_topic_bindings(text)": ("1.10.1", None),
    "metrics(text)": ("1.3.3", None),
    "metrics_all()": ("1.3.3", None),
    "notify_queue_listeners()": ("1.7.0", None),
    "pop(text)": ("1.3.3", "1.7.0"),
    "pop(text,integer)": ("1.7.0", None),
    "purge_queue(text)": ("1.3.3", None),
    "read(text,integer,integer)": ("1.3.3", "1.5.0"),
    "read(text,integer,integer,jsonb)": ("1.5.0", None),
    "read_grouped(text,integer,integer)": ("1.9.0", None),
    "read_grouped(text,integer,integer,jsonb)": ("1.8.1", "1.9.0"),
    "read_grouped_head(text,integer,integer)": ("1.11.0", None),
    "read_grouped_head_with_poll(text,integer,integer,integer,integer)": ("1.11.2", None),
    "read_grouped_rr(text,integer,integer)": ("1.9.0", None),
    "read_grouped_rr(text,integer,integer,jsonb)": ("1.8.1", "1.9.0"),
    "read_grouped_rr_with_poll(text,integer,integer,integer,integer)": ("1.9.0", None),
    "read_grouped_rr_with_poll(text,integer,integer,integer,integer,jsonb)": ("1.8.1", "1.9.0"),
    "read_grouped_with_poll(text,integer,integer,integer,integer)": ("1.9.0", None),
    "read_grouped_with_poll(text,integer,integer,integer,integer,jsonb)": ("1.8.1", "1.9.0"),
    "read_with_poll(text,integer,integer,integer,integer)": ("1.3.3", "1.5.0"),
    "read_with_poll(text,integer,integer,integer,integer,jsonb)": ("1.5.0", None),
    "send(text,jsonb)": ("1.5.0", None),
    "send(text,jsonb,integer)": ("1.3.3", None),
    "send(text,jsonb,jsonb)": ("1.5.0", None),
    "send(text,jsonb,jsonb,integer)": ("1.5.0", None),
    "send(text,jsonb,jsonb,timestamp with time zone)": ("1.5.0", None),
    "send(text,jsonb,timestamp with time zone)": ("1.5.0", None),
    "send_batch(text,jsonb[])": ("1.5.0", None),
    "send_batch(text,jsonb[],integer)": ("1.3.3", None),
    "send_batch(text,jsonb[],jsonb[])": ("1.5.0", None),
    "send_batch(text,jsonb[],jsonb[],integer)": ("1.5.0", None),
    "send_batch(text,jsonb[],jsonb[],timestamp with time zone)": ("1.5.0", None),
    "send_batch(text,jsonb[],timestamp with time zone)": ("1.5.0", None),
    "send_batch_topic(text,jsonb[])": ("1.10.0", None),
    "send_batch_topic(text,jsonb[],integer)": ("1.10.0", None),
    "send_batch_topic(text,jsonb[],jsonb[])": ("1.10.0", None),
    "send_batch_topic(text,jsonb[],jsonb[],integer)": ("1.10.0", None),
    "send_batch_topic(text,jsonb[],jsonb[],timestamp with time zone)": ("1.10.0", None),
    "send_batch_topic(text,jsonb[],timestamp with time zone)": ("1.10.0", None),
    "send_topic(text,jsonb)": ("1.10.0", None),
    "send_topic(text,jsonb,integer)": ("1.10.0", None),
    "send_topic(text,jsonb,jsonb,integer)": ("1.10.0", None),
    "set_vt(text,bigint,integer)": ("1.3.3", None),
    "set_vt(text,bigint,timestamp with time zone)": ("1.10.0", None),
    "set_vt(text,bigint[],integer)": ("1.7.0", None),
    "set_vt(text,bigint[],timestamp with time zone)": ("1.10.0", None),
    "test_routing(text)": ("1.10.0", None),
    "unbind_topic(text,text)": ("1.10.0", None),
    "update_notify_insert(text,integer)": ("1.10.1", None),
    "validate_queue_name(text)": ("1.3.3", None),
    "validate_routing_key(text)": ("1.10.0", None),
    "validate_topic_pattern(text)": ("1.10.0", None),
}


def number(version: str) -> tuple[int, ...] | None:
    """A version as something that can be compared; None where it is none of pgmq's."""
    parts = version.split(".")
    return tuple(map(int, parts)) if len(parts) == 3 and all(part.isdecimal() for part in parts) else None


def told_by(signatures: Iterable[str]) -> str:
    """The version whose functions come nearest to those given: `1.11.0`, or `1.4.1 to 1.4.2` where the versions
    cannot be told apart. Functions that no version had are not looked at."""
    found = FUNCTIONS.keys() & set(signatures)
    off = {version: len(_functions_of(version) ^ found) for version in VERSIONS}
    nearest = [version for version in VERSIONS if off[version] == min(off.values())]
    if nearest[-1] == VERSIONS[-1]:
        nearest.append(NEWEST)
    return nearest[0] if len(nearest) == 1 else f"{nearest[0]} to {nearest[-1]}"


def _functions_of(version: str) -> set[str]:
    place = VERSIONS.index(version)
    return {
        signature
        for signature, (since, until) in FUNCTIONS.items()
        if VERSIONS.index(since) <= place and (until is None or place < VERSIONS.index(until))
    }
