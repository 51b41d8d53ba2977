"""A plausible call of every function, and who may be given what."""

from __future__ import annotations

from tests.sql.asking import Connection, do, rows, sqlstate

DENIED = "42501"

FUNCTIONS = """
    select n.nspname, p.proname, p.oid::regprocedure::text,
           array(select format_type(t, null) from unnest(p.proargtypes) as t),
           coalesce(p.proargnames[1:p.pronargs], '{}')
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any(%s) and p.prorettype <> 'trigger'::regtype
    order by 3"""

#: What a parameter is given, by its name, else by its type.
BY_NAME = {
    "table_name": "'orders'",
    "p_table": "'q_orders'",
    "p_partition": "'q_orders$p0'",
    "p_prefix": "'q_'",
    "prefix": "'q'",
    "p_suffix": "'_ready_idx'",
    "p_suffixes": "array['walk']",
    "p_index": "'q_orders_ready_idx'",
    "pattern": "'a.*'",
    "routing_key": "'a.b'",
    "p_routing_key": "'a.b'",
    "partition_interval": "'100'",
    "retention_interval": "'1000'",
    "p_interval": "'100'",
    "p_retention": "'1000'",
    "p_control": "'msg_id'",
    "p_span": "'100'",
    "p_value": "'5'",
    "p_way": "'head'",
    "p_text": "'x'",
    "p_relation": "'pgmq.q_orders'",
    "p_ahead": "2",
}
BY_TYPE = {
    "text": "'orders'",
    "text[]": "array['orders']",
    "jsonb": "'{}'",
    "jsonb[]": "array['{}']::jsonb[]",
    "integer": "1",
    "integer[]": "array[1]",
    "bigint": "1",
    "bigint[]": "array[1]::bigint[]",
    "boolean": "false",
    "timestamp with time zone": "now()",
    "interval": "'1 day'",
    "regclass": "'pgmq.q_orders'",
    "xid": "'3'",
    "pg_snapshot": "pg_current_snapshot()",
}


def calls(conn: Connection, *schemas: str, poll: int = 0) -> dict[str, str]:
    """A call of each function by its signature. poll: for how many seconds those wait that do."""
    by_name = BY_NAME | {"max_poll_seconds": str(poll)}
    made = {}
    for schema, name, signature, types, names in rows(conn, FUNCTIONS, list(schemas)):
        padded = [*names, *[""] * (len(types) - len(names))]
        arguments = [
            f"{by_name.get(parameter, BY_TYPE[kind])}::{kind}"
            for parameter, kind in zip(padded, types, strict=True)
        ]
        if name.startswith("create") and "fifo" not in name:
            arguments[0] = "'fresh'"
        quoted = '"' + name.replace('"', '""') + '"'
        made[signature] = f"select {schema}.{quoted}({', '.join(arguments)})"
    return made


def outcomes(conn: Connection, statements: dict[str, str]) -> dict[str, str]:
    """The SQLSTATE of each call, each rolled back."""
    found = {}
    for signature, statement in statements.items():
        conn.execute("begin")
        found[signature] = sqlstate(conn, statement)
        conn.execute("rollback")
    return found


def furnish(conn: Connection) -> None:
    """Two queues with messages, one of them with all that a queue can have, and a partitioned one."""
    do(
        conn,
        """
        select pgmq.create('orders'), pgmq.create('other'), pgmq.create_partitioned('parts', '10', '100');
        select pgmq.create_fifo_index('orders'), pgmq.enable_notify_insert('orders');
        select pgmq.bind_topic('a.*', 'orders');
        select pgmq.send_batch('orders', array['{}', '{}', '{}']::jsonb[]);
        select pgmq.send('other', '{}');
        """,
    )


#: What a role needs, in pgmq and in ours, to create queues, use them and drop them.
RIGHTS_OF_A_CREATOR = {
    "usage": "grant usage on schema pgmq to {}",
    "create": "grant create on schema pgmq to {}",
    "select": "grant select on pgmq.meta to {}",
    "insert": "grant insert on pgmq.meta to {}",
    "delete": "grant delete on pgmq.meta to {}",
}
