"""The server of a test run: a private one in a temporary folder, and a database in it or elsewhere."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgqueue import migrate
from pgqueue.dsn import parameters
from pgqueue.embedded import Embedded, resolve
from pgqueue.errors import PgqueueError

PREFIX = "pgqueue-test-"


def new_folder() -> str:
    """A name for the folder of a test run's server, which says whose it is."""
    return str(Path(tempfile.gettempdir()) / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}")


def destroy(folder: str) -> None:
    """Remove the server of a folder, if there is one."""
    if Path(folder).exists():
        Embedded(folder).destroy()


def destroy_orphans() -> None:
    """Remove the servers of test runs that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not _runs(int(pid)):
            with suppress(PgqueueError):  # another user's
                destroy(str(folder))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def database(server: str) -> Iterator[str]:
    """A new database with the schema in it; yields its DSN, and drops it. Raises a PgqueueError.

    server: a DSN whose role may create databases; embedded:FOLDER is started.
    """
    known = parameters(resolve(server))
    name = f"pgqueue_test_{os.getpid()}_{secrets.token_hex(4)}"
    dsn = make_conninfo(**{**known, "dbname": name})
    with psycopg.connect(**known, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        try:
            # What a test sends need not survive a power cut, and each commit would wait for the disk.
            settings = sql.SQL("alter database {} set synchronous_commit = off")
            admin.execute(settings.format(sql.Identifier(name)))
            with psycopg.connect(dsn) as conn:
                migrate.install(conn)
            yield dsn
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
