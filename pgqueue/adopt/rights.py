"""Rights on functions: a role that could call something before can do so after, and nobody else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

#: The role of everybody, as it stands in a list of rights.
PUBLIC = ""


@dataclass(frozen=True)
class Grant:
    """One role's right to call a function; PUBLIC stands for all of them."""

    role: str
    grantable: bool


@dataclass(frozen=True)
class Rights:
    """Who may call a function: where nobody said, Postgres's default, which is everybody."""

    name: str
    call: str
    owner: str
    grants: frozenset[Grant]


_OF_FUNCTIONS = """
select
    p.proname::text,
    p.oid::regprocedure::text,
    quote_ident(pg_get_userbyid(p.proowner)),
    array(
        select case when x.grantee = 0 then '' else quote_ident(pg_get_userbyid(x.grantee)) end
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
        where x.privilege_type = 'EXECUTE' and not x.is_grantable
    ),
    array(
        select quote_ident(pg_get_userbyid(x.grantee))
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
        where x.privilege_type = 'EXECUTE' and x.is_grantable
    )
from pg_catalog.pg_proc p
where p.pronamespace = to_regnamespace('pgmq')
order by 2"""


def of_functions(conn: psycopg.Connection) -> list[Rights]:
    """Who may call the functions of schema pgmq."""
    return [
        Rights(
            name,
            call,
            owner,
            frozenset(Grant(role, False) for role in plain)
            | frozenset(Grant(role, True) for role in grantable),
        )
        for name, call, owner, plain, grantable in conn.execute(_OF_FUNCTIONS).fetchall()
    ]


def restore_functions(conn: psycopg.Connection, before: list[Rights]) -> None:
    """Give the functions of schema pgmq the rights they had. A new one has those of one of its name; one of a new name
    those that most had."""
    same = {one.call: one.grants for one in before}
    named: dict[str, frozenset[Grant]] = {}
    for one in before:
        named.setdefault(one.name, one.grants)
    everybody = frozenset({Grant(PUBLIC, False)})
    common = Counter(one.grants for one in before).most_common(1)[0][0] if before else everybody
    for one in of_functions(conn):
        wanted = same.get(one.call, named.get(one.name, common))
        for statement in _changes(one, wanted):
            conn.execute(statement.encode())


def _changes(now: Rights, wanted: Iterable[Grant]) -> list[str]:
    by_role: dict[str, bool] = defaultdict(bool)
    for grant in wanted:
        by_role[grant.role] |= grant.grantable
    have = {grant.role for grant in now.grants}
    statements = [
        f"revoke execute on function {now.call} from {role or 'public'}"
        for role in sorted(have - by_role.keys())
        if role != now.owner
    ]
    return statements + [
        f"grant execute on function {now.call} to {role or 'public'}{' with grant option' if grantable else ''}"
        for role, grantable in sorted(by_role.items())
        if role not in have and role != now.owner
    ]


_OF_A_LIST = """
select case when x.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(x.grantee)) end, x.is_grantable
from aclexplode(%s::aclitem[]) x
where x.privilege_type = 'EXECUTE'"""


def statements(conn: psycopg.Connection, call: str, acl: str | None, kind: str = "function") -> list[str]:
    """What gives a function that is made anew the rights of a list; nothing for the default."""
    if acl is None:
        return []
    made = [f"revoke execute on {kind} {call} from public"]
    for role, grantable in conn.execute(_OF_A_LIST.encode(), (acl,)).fetchall():
        made.append(f"grant execute on {kind} {call} to {role}{' with grant option' if grantable else ''}")
    return made


@dataclass(frozen=True)
class TableRights:
    """Who owns a table, and who else has a right on it: the right, the role, whether that may pass it on."""

    owner: str
    grants: tuple[tuple[str, str, bool], ...]


_OF_A_TABLE = """
select quote_ident(pg_get_userbyid(c.relowner)), x.privilege_type,
    case when x.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(x.grantee)) end, x.is_grantable
from pg_catalog.pg_class c
left join lateral aclexplode(c.relacl) x on x.grantee <> c.relowner
where c.oid = %s::text::regclass"""


def of_table(conn: psycopg.Connection, table: str) -> TableRights:
    """A table's owner and rights."""
    rows = conn.execute(_OF_A_TABLE, (table,)).fetchall()
    return TableRights(
        str(rows[0][0]), tuple((what, who, grantable) for _, what, who, grantable in rows if what)
    )


def restore_table(conn: psycopg.Connection, table: str, kept: TableRights) -> None:
    """Give a table made anew the owner and the rights of the one before, and no others."""
    now = of_table(conn, table)
    for what, who, _ in now.grants:
        conn.execute(f"revoke {what} on {table} from {who}".encode())
    for what, who, grantable in kept.grants:
        conn.execute(f"grant {what} on {table} to {who}{' with grant option' if grantable else ''}".encode())
    if now.owner != kept.owner:
        conn.execute(f"alter table {table} owner to {kept.owner}".encode())
