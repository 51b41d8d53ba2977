"""Compiled functions of queues: missing, stale, or left over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgqueue.doctor.findings import Finding, info, warning
from pgqueue.doctor.survey import Queue, Survey
from pgqueue.names import FLOOR_SEQUENCES, MAX_COMPILED_BYTES, counted
from pgqueue.sqltext import literal

AT_ONCE = 100

#: As pgqueue._compile goes about it.
_UNLIKE = """
select m.key, t.suffix, p.oid is null as missing
from unnest(%s::text[]) as m (key)
cross join lateral pgqueue._compiled_texts(pgqueue._has_fifo_index(m.key), pgqueue._is_partitioned_by_id(m.key)) t
left join pg_proc p
    on p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'pgqueue')
    and p.proname = m.key || '$' || t.suffix
where pgqueue._wants_compiling(m.key)
    and p.prosrc is distinct from split_part(pgqueue._filled(t.body, m.key), '$body$', 2)
"""

_SEQUENCES = """
select m.key
from unnest(%s::text[]) as m (key)
cross join unnest(%s::text[]) as s (suffix)
where pgqueue._wants_compiling(m.key) and not exists (
    select from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'pgqueue' and c.relname = m.key || '$' || s.suffix
)
"""

_CLOSED = """
select m.key, count(*) as functions
from unnest(%s::text[]) as m (key)
join pg_proc p
    on p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'pgqueue')
    and starts_with(p.proname::text, m.key || '$')
    and strpos(substr(p.proname::text, length(m.key) + 2), '$') = 0
where not has_function_privilege('public', p.oid, 'execute')
group by m.key
"""

_LEFT_OVER = """
select o.key, count(*) as objects
from (
    select left(p.proname::text, strpos(p.proname::text, '$') - 1) as key
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'pgqueue' and strpos(p.proname::text, '$') > 1
    union all
    select left(c.relname::text, strpos(c.relname::text, '$') - 1)
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'pgqueue' and c.relkind = 'S' and strpos(c.relname::text, '$') > 1
) o
where not exists (
    select from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'pgmq' and c.relname = 'q_' || o.key
)
group by o.key
order by o.key
"""


def compiled_missing(survey: Survey) -> Iterator[Finding]:
    """A queue that should be compiled, and lacks functions or sequences."""
    lost = {row.key for row in _unlike(survey) if row.missing}
    if keys := _compilable(survey):
        lost |= {row.key for row in survey.look.rows(_SEQUENCES, keys, list(FLOOR_SEQUENCES))}
    for queue in _of(survey, lost):
        yield warning(
            "compiled functions or their sequences are missing",
            "calls by name are slower, and those of the missing functions fail",
            _compile(queue),
            queue.name,
        )


def compiled_stale(survey: Survey) -> Iterator[Finding]:
    """Compiled functions that are not what compiling would make now."""
    stale = {row.key for row in _unlike(survey) if not row.missing}
    for queue in _of(survey, stale):
        yield warning(
            "compiled functions are not as they would be made now",
            "they are those of an older version, or somebody changed them",
            _compile(queue),
            queue.name,
        )


def compiled_closed(survey: Survey) -> Iterator[Finding]:
    """Compiled functions that only some roles may call: whoever may use the queue must be able to."""
    closed = {row.key for row in survey.look.rows(_CLOSED, _compilable(survey))}
    for queue in _of(survey, closed):
        yield warning(
            "compiled functions are closed to PUBLIC",
            "roles that may use the queue's tables, which is what counts, are turned away",
            _compile(queue),
            queue.name,
        )


def compiled_left_over(survey: Survey) -> Iterator[Finding]:
    """Functions and sequences of a queue that is gone."""
    if not survey.ours:
        return
    for row in survey.look.rows(_LEFT_OVER):
        yield info(
            f"{counted(row.objects, 'object')} in schema pgqueue, left of the queue {row.key}, which is gone",
            "they do no harm, and no good",
            f"select pgqueue._forget({literal(row.key)});",
        )


def _unlike(survey: Survey) -> Iterator[Any]:
    """Compiled functions that are missing or stale. A few queues at a time, so that no question takes long."""
    keys = _compilable(survey)
    for first in range(0, len(keys), AT_ONCE):
        yield from survey.look.rows(_UNLIKE, keys[first : first + AT_ONCE])


def _compilable(survey: Survey) -> list[str]:
    """Queues whose names leave room for it, where the functions are this package's."""
    if not survey.trusted:
        return []
    return [
        queue.key
        for queue in survey.queues
        if queue.table is not None and queue.table.is_table and _has_room(queue.key)
    ]


def _has_room(key: str) -> bool:
    return "$" not in key and len(key.encode()) <= MAX_COMPILED_BYTES


def _of(survey: Survey, keys: set[str]) -> Iterator[Queue]:
    return (queue for queue in survey.queues if queue.key in keys)


def _compile(queue: Queue) -> str:
    return f"select pgqueue.compile({queue.literal});"
