"""plpgsql_check over every function of an installation.

`create function` accepts a body that names a missing column; this extension finds it. Debian's server has it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.databases import our_sql, uri
from tests.servers import Server

EXTENSION = Path("/usr/share/postgresql/15/extension/plpgsql_check.control")

QUEUES = """
    select pgmq.create('orders');
    select pgmq.create_unlogged('quick');
    select pgmq.create_partitioned('parts', '1000', '10000');
    select pgmq.create_fifo_index('orders');
    select pgmq.enable_notify_insert('orders');
"""

# A trigger function is checked against each table that it stands on.
CHECK = """
    select p.oid::regprocedure::text, f.level, f.message, f.query
      from pg_proc p
           join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
           join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('pgmq', 'pgqueue')
           left join lateral (select distinct t.tgrelid from pg_trigger t where t.tgfoid = p.oid) t on true
           cross join lateral plpgsql_check_function_tb(
               p.oid, coalesce(t.tgrelid, 0), fatal_errors := false, extra_warnings := false,
               performance_warnings := false) f
     where p.prorettype <> 'trigger'::regtype or t.tgrelid is not null
     order by 1, 3
"""

#: What it may say, with the reason.
ALLOWED = {
    "cannot determinate a result of dynamic SQL": "functions that take a name dispatch: that is their work",
    "target type is different type than source type": "an assignment that casts, a clock to microseconds",
}


def findings(conn: psycopg.Connection) -> list[str]:
    rows = conn.execute(CHECK).fetchall()
    return [
        f"{function}: {level}: {message} {query or ''}"
        for function, level, message, query in rows
        if message not in ALLOWED
    ]


@pytest.fixture
def checked(new_server: Callable[..., Server]) -> psycopg.Connection:
    """A superuser's connection to a server with plpgsql_check."""
    if not EXTENSION.exists():
        pytest.skip("no plpgsql_check here: apt-get install postgresql-15-plpgsql-check")
    conn = psycopg.connect(uri(new_server("debian15").conninfo), autocommit=True)
    conn.execute("create extension plpgsql_check")
    return conn


def test_every_body_agrees_with_the_catalogue(checked: psycopg.Connection) -> None:
    with checked as conn:
        conn.execute(our_sql().encode())
        conn.execute(QUEUES)
        assert findings(conn) == []


def test_a_missing_column_would_be_found(checked: psycopg.Connection) -> None:
    with checked as conn:
        conn.execute("create schema pgqueue")
        conn.execute("create table pgqueue.t (a int)")
        conn.execute("""
            create function pgqueue.f() returns int language plpgsql
                as $$ begin return (select b from pgqueue.t); end $$
        """)
        assert [text for text in findings(conn) if 'column "b" does not exist' in text]
