"""The checks, each a function in a module named for its subject; a finding's name is that of its function.

A check yields a Finding for each thing that is not as it should be. To add one, write it beside its like and
name it below. It runs in a read-only transaction with a time limit; what it cannot look at it need not catch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pgqueue.doctor.checks import (
    bindings,
    columns,
    compiled,
    functions,
    horizon,
    indexes,
    notify,
    partitions,
    publications,
    queues,
    rights,
    sequences,
    vacuum,
)
from pgqueue.doctor.findings import Finding
from pgqueue.doctor.survey import Queue, Survey

#: Of the installation and its server; passed over where one queue is asked for.
OF_INSTALLATION: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
    functions.version_differs,
    functions.function_missing,
    functions.function_drifted,
    functions.function_foreign,
    functions.functions_not_run,
    compiled.compiled_left_over,
    notify.throttle_unlogged,
    notify.throttle_of_nobody,
    bindings.binding_of_nobody,
    publications.list_without_identity,
    rights.schema_open,
    rights.default_rights_open,
    vacuum.autovacuum_off_everywhere,
    horizon.horizon_session,
    horizon.horizon_hidden,
    horizon.horizon_prepared,
    horizon.horizon_slot,
    horizon.horizon_standby,
)

#: Of all queues at once, from the catalogue and the statistics.
OF_QUEUES: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
    queues.table_missing,
    queues.not_registered,
    queues.archive_missing,
    queues.not_a_table,
    queues.list_is_wrong,
    queues.listed_twice,
    queues.table_locked,
    columns.column_missing,
    columns.column_type,
    columns.column_unguarded,
    columns.column_in_the_way,
    sequences.sequence_missing,
    indexes.key_missing,
    indexes.index_missing,
    indexes.index_unlike,
    indexes.index_invalid,
    indexes.index_twice,
    indexes.index_unused,
    compiled.compiled_missing,
    compiled.compiled_stale,
    compiled.compiled_closed,
    notify.notify_without_throttle,
    notify.throttle_without_notify,
    notify.notify_unlike,
    rights.table_open,
    partitions.upkeep_overdue,
    partitions.partitions_of_nobody,
    partitions.default_missing,
    partitions.partition_detached,
    publications.queue_without_identity,
    vacuum.dead_rows,
    vacuum.autovacuum_off,
)

#: Of one queue, with a look into its tables; only where this role may read them.
OF_ONE_QUEUE: tuple[Callable[[Survey, Queue], Iterator[Finding]], ...] = (
    sequences.sequence_hidden,
    sequences.sequence_near_end,
    sequences.sequence_behind,
    partitions.rows_spilled,
)

#: Whose remedy is for the very server, a standby too; of the others it is for the primary.
OF_THIS_SERVER: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
    queues.table_locked,
    horizon.horizon_session,
    horizon.horizon_hidden,
    horizon.horizon_slot,
    horizon.horizon_standby,
)
