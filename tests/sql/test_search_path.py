"""What stands in the caller's search path is never run as the installation's owner."""

from __future__ import annotations

from tests.databases import Database
from tests.sql.asking import Connection, do, outcome, rows, value
from tests.sql.calls import RIGHTS_OF_A_CREATOR, calls

#: For each function and operator of pg_catalog that our SQL may name one with the same signature, in a schema
#: that the caller puts before pg_catalog. Each says who runs it, even if the call fails then, and gives null.
TRAPS = """
do $traps$
declare
    f record;
    v_body text := $f$ begin raise warning 'caught as %%: %%', current_user, %L; {} end $f$;
    v_types oid[] := array[
        'text', 'name', 'oid', 'bigint', 'integer', 'boolean', '"char"', 'timestamptz', 'interval', 'numeric',
        'double precision', 'jsonb', 'bytea'
    ]::regtype[];
    v_operators text[] := array[
        '=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '%', '||', '~', '!~', '@>', '->>'
    ];
begin
    for f in
        select
            p.proname, pg_get_function_identity_arguments(p.oid) as arguments,
            concat(case when p.proretset then 'setof ' end, format_type(p.prorettype, null)) as result,
            replace(v_body, '{}', case when p.proretset then 'return;' else 'return null;' end) as body
        from pg_proc p
        where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
            and not array[p.prorettype, 'internal'::regtype, '"any"'::regtype] && p.proargtypes::oid[]
            and exists (
                select from pg_proc q
                where q.pronamespace = any(array['pgmq', 'pgqueue']::regnamespace[])
                    and q.prosrc ~ ('\\m' || p.proname || '\\s*\\(')
            )
    loop
        begin
            execute format(
                'create function hostile.%I(%s) returns %s language plpgsql as %L',
                f.proname, f.arguments, f.result, format(f.body, f.proname)
            );
        exception when others then
            raise notice 'no trap for %(%): %', f.proname, f.arguments, sqlerrm;
        end;
    end loop;
    for f in
        select
            o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r,
            format_type(o.oprresult, null) as result, 'trap' || o.oid as trap
        from pg_operator o
        where o.oprnamespace = 'pg_catalog'::regnamespace
            and o.oprname = any(v_operators) and o.oprleft = any(v_types) and o.oprright = any(v_types)
    loop
        execute format(
            'create function hostile.%I(%s, %s) returns %s language plpgsql as %L',
            f.trap, f.l, f.r, f.result, format(replace(v_body, '{}', 'return null;'), f.oprname)
        );
        execute format(
            'create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.%I)',
            f.oprname, f.l, f.r, f.trap
        );
    end loop;
end $traps$"""


def test_no_function_of_the_callers_runs_as_the_owner(db: Database, conn: Connection) -> None:
    """case 111: with traps for everything before pg_catalog, what runs as the owner runs none of them."""
    do(conn, "create schema hostile; grant all on schema hostile to public")
    do(conn, "select pgmq.create('orders'), pgmq.enable_notify_insert('orders', 0)")
    role = db.create_role("attacker")
    for grant in RIGHTS_OF_A_CREATOR.values():
        do(conn, grant.format(role))
    do(conn, f"grant all on pgmq.q_orders, pgmq.a_orders, pgmq.notify_insert_throttle to {role}")
    attacker = db.connect(user=role, options="-c statement_timeout=500ms")
    do(attacker, "select pgmq.create('bait'), pgmq.enable_notify_insert('bait')")
    statements = list(calls(conn, "pgmq", "pgqueue").values())
    statements += [statement.replace("orders", "bait") for statement in statements]
    with attacker.transaction():
        do(attacker, "set local statement_timeout = 0")
        do(attacker, TRAPS)
    assert value(conn, "select count(*) from pg_proc where pronamespace = 'hostile'::regnamespace") > 150
    caught: set[str] = set()
    attacker.add_notice_handler(lambda note: caught.add(note.message_primary or ""))
    do(attacker, "set search_path = pg_temp, hostile, pg_catalog, public")
    for statement in statements:
        outcome(attacker, statement)
    for table in ("pg_class", "pg_proc", "pg_trigger", "pg_index", "policy", "partitioning", "meta"):
        do(attacker, f"create temp table {table} (a int)")
    for statement in statements:
        outcome(attacker, statement)
    ran = {text for text in caught if text.startswith("caught as ")}
    as_caller = {text for text in ran if text.startswith(f"caught as {role}:")}
    assert len(as_caller) > 20, "the traps are set: the caller's own rights are spent on them"
    assert ran - as_caller == set()


def test_what_runs_as_the_owner_has_a_fixed_path(conn: Connection) -> None:
    """case 111: and so has the trigger function. The others run as their caller, and pay for no setting."""
    query = """
        select p.oid::regprocedure::text, 'search_path=pg_catalog, pg_temp' = any(p.proconfig)
        from pg_proc p
        where p.pronamespace in ('pgmq'::regnamespace, 'pgqueue'::regnamespace)
            and (p.prosecdef or p.prorettype = 'trigger'::regtype)"""
    found = dict(rows(conn, query))
    assert len(found) >= 6
    assert [name for name, fixed in found.items() if not fixed] == []
