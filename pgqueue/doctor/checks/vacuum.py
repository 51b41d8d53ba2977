"""Dead rows, and what should clear them away."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, warning
from pgqueue.doctor.survey import Survey
from pgqueue.sqltext import ident

_TABLES = """
select
    c.oid,
    format('%%I.%%I', n.nspname, c.relname) as name,
    pg_stat_get_dead_tuples(c.oid) as dead,
    pg_stat_get_live_tuples(c.oid) as live,
    v.vacuumed::timestamptz(0)::text as vacuumed,
    extract(epoch from clock_timestamp() - v.vacuumed)::float8 as seconds,
    coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
        + coalesce(o.factor, current_setting('autovacuum_vacuum_scale_factor')::float8) * greatest(c.reltuples, 0)
        as borne,
    coalesce(o.enabled, true) as enabled
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral (
    select greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) as vacuumed
) v
cross join lateral (
    select
        max(t.option_value::float8) filter (where t.option_name = 'autovacuum_vacuum_threshold') as threshold,
        max(t.option_value::float8) filter (where t.option_name = 'autovacuum_vacuum_scale_factor') as factor,
        bool_and(t.option_value::boolean) filter (where t.option_name = 'autovacuum_enabled') as enabled
    from pg_options_to_table(c.reloptions) t
    where t.option_name like 'autovacuum%%'
) o
where c.oid = any(%s::oid[])
order by c.relname
"""


def dead_rows(survey: Survey) -> Iterator[Finding]:
    """A table with many more dead rows than autovacuum is set to bear, which it has not come to for a while."""
    for row in survey.look.rows(_TABLES, list(survey.storage)):
        late = row.seconds is None or row.seconds >= survey.limits.vacuum_seconds
        if late and row.dead > max(survey.limits.dead_rows, 2 * row.borne):
            yield warning(
                f"{row.name} holds {row.dead:,} dead rows beside {row.live:,} live ones;"
                f" last vacuumed: {row.vacuumed or 'never'}",
                "pgmq's reads walk over them, and the table grows",
                f"-- while an old snapshot is open (horizon_… above or below) it can clear nothing\n"
                f"vacuum (analyze) {row.name};",
                survey.storage[row.oid][0].name,
            )


def autovacuum_off(survey: Survey) -> Iterator[Finding]:
    """A table that autovacuum passes over."""
    for row in survey.look.rows(_TABLES, list(survey.storage)):
        if not row.enabled:
            yield warning(
                f"autovacuum is switched off for {row.name}",
                "every message leaves dead rows, which nobody clears away",
                f"alter table {row.name} reset (autovacuum_enabled);",
                survey.storage[row.oid][0].name,
            )


def autovacuum_off_everywhere(survey: Survey) -> Iterator[Finding]:
    """A server without autovacuum, or that does not count what it is to go by."""
    for name in ("autovacuum", "track_counts"):
        if survey.look.value("select current_setting(%s)", name) == "off":
            yield warning(
                f"{name} is off on this server",
                "every message leaves dead rows, which nobody clears away",
                f"alter system set {ident(name)} = on;\nselect pg_reload_conf();",
            )
