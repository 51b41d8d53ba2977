"""Make the extension pgmq over queues that are there: its script wants to make every object itself."""

from __future__ import annotations

from dataclasses import replace

import psycopg

from pgqueue.adopt import rights
from pgqueue.adopt.survey import Found, survey
from pgqueue.adopt.swap import functions_to_remake
from pgqueue.names import LISTS
from pgqueue.versions import number

#: The oldest version whose queues have the columns of ours.
OLDEST_OFFERED = (1, 10)


def offered(conn: psycopg.Connection) -> str | None:
    """The version of pgmq that the server offers as an extension, if its queues are like ours."""
    row = conn.execute(
        "select default_version from pg_catalog.pg_available_extensions where name = 'pgmq'"
    ).fetchone()
    version = str(row[0]) if row else None
    return version if version and (number(version) or ()) >= OLDEST_OFFERED else None


def all_replaced(found: Found) -> Found:
    """What is there, as if none of its functions and types could stay."""
    return replace(
        found,
        functions=tuple(replace(one, fate="retired") for one in found.functions),
        types=tuple(replace(one, fate="replaced") for one in found.types),
    )


def give_to_extension(conn: psycopg.Connection) -> None:
    """Create the extension, inside a transaction: ours step aside, the rows of the small tables move into the
    extension's, rights and owners stay."""
    found = all_replaced(survey(conn))
    remade = functions_to_remake(conn, found)
    tables = {table: rights.of_table(conn, f"pgmq.{table}") for table in LISTS}
    for statement in remade.retiring:
        conn.execute(statement.encode())
    for function in found.functions:
        retired, arguments = f'"{function.name}$retired"', function.call.split("(", 1)[1]
        conn.execute(f"alter function {function.call} rename to {retired}".encode())
        conn.execute(f"alter function pgmq.{retired}({arguments} set schema pgqueue".encode())
    for one in found.types:
        conn.execute(f'alter type pgmq.{one.name} rename to "{one.name}$retired"'.encode())
        conn.execute(f'alter type pgmq."{one.name}$retired" set schema pgqueue'.encode())
    for table in LISTS:
        conn.execute(f"alter table pgmq.{table} set schema pgqueue".encode())
    conn.execute("create extension pgmq")
    for table, columns in LISTS.items():
        conn.execute(f"insert into pgmq.{table} ({columns}) select {columns} from pgqueue.{table}".encode())
    for table, kept in tables.items():
        rights.restore_table(conn, f"pgmq.{table}", kept)
    for table in reversed(LISTS):
        conn.execute(f"drop table pgqueue.{table}".encode())
    conn.execute("set local check_function_bodies = off")
    for statement in remade.making:
        conn.execute(statement.encode())
