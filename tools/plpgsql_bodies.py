"""Runs plpgsql_check over every function of an installation. Part of lint_sql.

`create function` accepts a body that names a missing column; plpgsql_check finds it. It is an extension, so it wants a
server that has it: Debian's postgresql-15-plpgsql-check, started here for the time of the check.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = Path("/usr/lib/postgresql")

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

#: What it cannot know, with the reason: (end of the function's name, start of the message).
ALLOWED: list[tuple[str, str]] = [
    (
        "",
        "cannot determinate a result of dynamic SQL",
    ),  # by-name functions dispatch: that is what they are for
]


def binaries() -> Path | None:
    """The newest Debian server that has plpgsql_check, or None."""
    for folder in sorted(DEBIAN.glob("*/bin"), key=lambda bin: -float(bin.parent.name)):
        control = Path("/usr/share/postgresql") / folder.parent.name / "extension" / "plpgsql_check.control"
        if (folder / "initdb").exists() and control.exists():
            return folder
    return None


@contextmanager
def throwaway_server(folder: Path) -> Iterator[str]:
    """Starts a server from these binaries in a temporary folder, as another user if we are root; yields its DSN."""
    with tempfile.TemporaryDirectory(prefix="pgqueue-lint-") as root:
        account: dict[str, object] = {"cwd": root, "check": True, "stdout": subprocess.DEVNULL}
        if os.geteuid() == 0:
            entry = pwd.getpwnam("nobody")
            os.chown(root, entry.pw_uid, entry.pw_gid)
            account |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        data = f"{root}/data"
        control = [str(folder / "pg_ctl"), "-D", data, "-w"]
        initdb = [str(folder / "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "-N"]
        settings = f"-c listen_addresses='' -k {root} -c fsync=off"
        subprocess.run([*initdb, "-E", "UTF8", "--locale=C.UTF-8"], **account)  # type: ignore[call-overload]
        try:
            subprocess.run([*control, "-l", f"{root}/log", "-o", settings, "start"], **account)  # type: ignore[call-overload]
            yield f"postgresql:///postgres?host={root}&user=postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **account)  # type: ignore[call-overload]


def check_installation(dsn: str) -> list[tuple[str, str]]:
    """Installs the rendered script into the (empty) database, makes queues of each kind, returns (function, fault) rows."""
    script = (ROOT / "sql" / "rendered" / "pgqueue.sql").read_text()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create extension plpgsql_check")
        conn.execute(script)
        conn.execute(QUEUES)
        rows = conn.execute(CHECK).fetchall()
    return [
        (f"plpgsql_check: {name}", f"{level}: {message}" + (f" in: {query[:100]}" if query else ""))
        for name, level, message, query in rows
        if not any(
            name.partition("(")[0].endswith(end) and message.startswith(start) for end, start in ALLOWED
        )
    ]
