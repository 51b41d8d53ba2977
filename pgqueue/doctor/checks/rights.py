"""Rights that are too wide: what everybody may do with messages."""

from __future__ import annotations

from collections.abc import Iterator

from pgqueue.doctor.findings import Finding, error, info, warning
from pgqueue.doctor.survey import Survey

_SCHEMAS = """
select n.nspname::text as name, lower(a.privilege_type) as privilege
from pg_namespace n
cross join lateral aclexplode(n.nspacl) a
where n.nspname in ('pgmq', 'pgqueue') and a.grantee = 0
order by 1, 2
"""

#: Those of ours that PUBLIC may write have a trigger that guards each row.
_TABLES = """
select
    c.oid,
    format('%I.%I', n.nspname, c.relname) as name,
    string_agg(lower(a.privilege_type), ', ' order by a.privilege_type) as privileges
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral aclexplode(c.relacl) a
where n.nspname in ('pgmq', 'pgqueue')
    and c.relkind in ('r', 'p')
    and a.grantee = 0
    and not (
        n.nspname = 'pgqueue'
        and exists (
            select from pg_trigger t
            where t.tgrelid = c.oid and t.tgenabled <> 'D' and t.tgfoid = to_regproc('pgqueue._guard_rows')
        )
    )
group by c.oid, n.nspname, c.relname
order by 2
"""

_DEFAULTS = """
select
    d.defaclrole::regrole::text as role,
    string_agg(lower(a.privilege_type), ', ' order by a.privilege_type) as privileges
from pg_default_acl d
join pg_namespace n on n.oid = d.defaclnamespace
cross join lateral aclexplode(d.defaclacl) a
where n.nspname = 'pgmq' and d.defaclobjtype = 'r' and a.grantee = 0
group by d.defaclrole
order by 1
"""


def schema_open(survey: Survey) -> Iterator[Finding]:
    """PUBLIC may create in a schema, or see into pgmq's."""
    for row in survey.look.rows(_SCHEMAS):
        remedy = f"revoke {row.privilege} on schema {row.name} from public;"
        if row.privilege == "create":
            yield error(
                f"PUBLIC may create in schema {row.name}",
                "anybody can put a function there that others then run with their rights",
                remedy,
            )
        elif row.name == "pgmq":
            yield info(
                "PUBLIC may use schema pgmq",
                "pgmq keeps it closed; rights on the queues' tables still decide who reads and sends",
                remedy,
            )


def table_open(survey: Survey) -> Iterator[Finding]:
    """PUBLIC may read or write the messages of a queue, or a table that governs them all."""
    for row in survey.look.rows(_TABLES):
        found = survey.storage.get(row.oid) or survey.by_table.get(row.oid)
        yield error(
            f"PUBLIC may {row.privileges} on {row.name}",
            "so may every role that can log in to this database",
            f"revoke all on table {row.name} from public;",
            found[0].name if found else None,
        )


def default_rights_open(survey: Survey) -> Iterator[Finding]:
    """PUBLIC gets rights on every table that will be made."""
    for row in survey.look.rows(_DEFAULTS):
        yield warning(
            f"PUBLIC will have {row.privileges} on every table that {row.role} makes in schema pgmq",
            "each new queue is open to every role that can log in to this database",
            f"alter default privileges for role {row.role} in schema pgmq revoke all on tables from public;",
        )
