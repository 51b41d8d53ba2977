"""Install, upgrade and remove the schema; say what is installed. Sync only: an upgrade is no hot path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from .asking import Kind, installed, scalar, texts
from .dependents import dependents, refuse_dependents
from .errors import ForeignInstallation, NotInstalled, TooNew
from .model import TYPES
from .names import LISTS
from .script import Migration, functions_sql, install_sql, migrations, package_version

#: Queues dropped per transaction: each takes some 40 locks, and the server's default lock table must hold them.
QUEUES_A_STEP = 50

_LOCK = "select pg_advisory_xact_lock(hashtext('pgqueue.install'))"


@dataclass(frozen=True)
class Status:
    """What is in a database: its `kind` is `absent`, `pgqueue`, `extension` (pgmq's) or `sql` (pgmq without its
    extension)."""

    kind: Kind
    pgmq_version: str | None = None
    package_version: str | None = None
    schema_version: int = 0
    newest_schema_version: int = 0
    queues: int = 0
    compiled_queues: int = 0
    pending: tuple[str, ...] = field(default=())

    @property
    def current(self) -> bool:
        """Whether `upgrade` has nothing to do."""
        return self.kind == "pgqueue" and not self.pending and self.package_version == package_version()


def status(conn: psycopg.Connection, steps: Sequence[Migration] | None = None) -> Status:
    """Say what is installed. Reads only; ends the transaction that it began.

    Args:
        steps: The migrations there are; those of this package if not given.
    """
    steps = steps or migrations()
    newest = steps[-1].id
    with _transaction(conn):
        kind, extension = installed(conn)
        if kind != "pgqueue":
            return Status(kind, pgmq_version=extension, newest_schema_version=newest)
        applied = _applied(conn)
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(
                "select v.package_version, v.pgmq_version, (select count(*) from pgmq.meta),"
                " (select count(*) from pgmq.meta m"
                " where to_regproc('pgqueue.' || quote_ident(lower(m.queue_name) || '$read')) is not null)"
                " from pgqueue.version() v"
            ).fetchone()
        assert row is not None
        return Status(
            "pgqueue",
            package_version=row[0],
            pgmq_version=row[1],
            schema_version=max(applied, default=0),
            newest_schema_version=newest,
            queues=row[2],
            compiled_queues=row[3],
            pending=tuple(step.name for step in steps if step.id not in applied),
        )


def install(conn: psycopg.Connection) -> None:
    """Install into a database; an older installation is upgraded, a current one renewed. One transaction.

    Raises:
        ForeignInstallation: pgmq lives there, as an extension or from SQL; nothing was changed.
        TooNew: the schema there is newer than this package; nothing was changed.
    """
    found = status(conn)
    if found.kind == "pgqueue" and not found.current:
        upgrade(conn)
        return
    _refuse(found)
    with _transaction(conn):
        conn.execute(install_sql(transaction=False).encode())


def upgrade(
    conn: psycopg.Connection, *, dry_run: bool = False, steps: Sequence[Migration] | None = None
) -> tuple[str, ...]:
    """Bring an installation to this package's version, in one transaction: pending migrations, functions,
    every queue compiled anew.

    Args:
        dry_run: Change nothing, only say what would be done.
        steps: The migrations; those of this package if not given.

    Returns:
        What was done, or would be, a line each; nothing where all is current.

    Raises:
        NotInstalled, ForeignInstallation, TooNew: nothing was changed.
    """
    steps = steps or migrations()
    found = status(conn, steps)
    _refuse(found)
    if found.kind == "absent":
        raise NotInstalled
    with _transaction(conn):
        conn.execute(_LOCK)
        applied = _applied(conn)
        pending = [m for m in steps if m.id not in applied]
        if not pending and found.current:
            return ()
        done = [f"migration {m.id:04d} {m.name}" for m in pending]
        done += ["functions", f"compile {found.queues} queues"]
        if not dry_run:
            for migration in pending:
                conn.execute(
                    "insert into pgqueue.migration (id, name, checksum, breaking) values (%s, %s, %s, %s)",
                    (migration.id, migration.name, migration.checksum, migration.breaking),
                )
                conn.execute(migration.sql.encode())
            conn.execute(functions_sql().encode())
    return tuple(done)


def uninstall(
    conn: psycopg.Connection,
    *,
    keep_archives: bool = False,
    cascade: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Drop every queue with its messages, then the functions and the schemas. Goes in steps of some
    queues, each a transaction, so that it can be stopped and run again.

    Args:
        keep_archives: Leave the archive tables, in schema pgmq.
        cascade: Drop what others made that depends on it too, see dependents().
        progress: Called with the number of queues dropped and of all.

    Returns:
        How many queues were dropped.

    Raises:
        NotInstalled, ForeignInstallation: nothing was changed.
        Refused: there are dependents, and no `cascade`; nothing was changed.
    """
    found = status(conn)
    if found.kind in ("extension", "sql"):
        _refuse(found)
    if found.kind == "absent":
        raise NotInstalled
    if not cascade:
        refuse_dependents(dependents(conn, keep_archives=keep_archives))
    with _transaction(conn):
        conn.execute(_NO_QUEUES.encode())
    dropped = 0
    while names := _next_queues(conn):
        with _transaction(conn):
            conn.execute(_LOCK)
            for name in names:
                if cascade:
                    _drop_tables(conn, name, keep_archives)
                conn.execute("select pgqueue._drop(%s, %s)", (name, keep_archives))
        dropped += len(names)
        if progress:
            progress(dropped, found.queues)
    with _transaction(conn):
        conn.execute(_LOCK)
        conn.execute("drop schema pgqueue cascade")
        if keep_archives and scalar(conn, _ARCHIVES):
            for statement in texts(conn, _OURS_IN_PGMQ, (list(reversed(LISTS)), list(TYPES))):
                conn.execute((statement + (" cascade" if cascade else "")).encode())
        else:
            conn.execute("drop schema pgmq cascade")
    return dropped


def compile_queues(conn: psycopg.Connection, names: Sequence[str] = ()) -> dict[str, bool]:
    """Compile the named queues, or all, each in its own transaction; say of each whether it is compiled."""
    queues = names or texts(conn, "select queue_name::text from pgmq.meta order by queue_name")
    compiled = {}
    for queue in queues:
        with _transaction(conn):
            compiled[queue] = bool(scalar(conn, "select pgqueue.compile(%s)", (queue,)))
    return compiled


#: Rows that no call of ours made: what they name can be no queue, and no call would take the name.
_NO_QUEUES = "delete from pgmq.meta where queue_name ~ '[$;'']|--'"

_ARCHIVES = """
select exists (
    select from pg_catalog.pg_class c
    where c.relnamespace = 'pgmq'::regnamespace and c.relkind in ('r', 'p') and c.relname like 'a\\_%'
)"""

#: What is ours in schema pgmq beside the archives; the lists, then the types by name. Functions first, since tables'
#: defaults need none of them.
_OURS_IN_PGMQ = """
select format('drop routine if exists %%s', p.oid::regprocedure)
from pg_catalog.pg_proc p
where p.pronamespace = 'pgmq'::regnamespace
union all
select format('drop table pgmq.%%I', t.name)
from unnest(%s::text[]) as t (name)
union all
select format('drop type pgmq.%%I', t.name)
from unnest(%s::text[]) as t (name)
"""

#: The tables of a queue, whatever stands on them.
_TABLES = """
select c.relname
from pg_catalog.pg_class c
where c.relnamespace = 'pgmq'::regnamespace
    and (c.relname = 'q_' || lower(%s) or c.relname = 'a_' || lower(%s) and not %s)
    and c.relkind in ('r', 'p')
order by c.relname desc"""


def _drop_tables(conn: psycopg.Connection, name: str, keep_archive: bool) -> None:
    """Drop a queue's tables with all that depends on them, as pgqueue._drop does without; that does the rest."""
    tables = texts(conn, _TABLES, (name, name, keep_archive))
    conn.execute("select pgqueue._lock_queue(lower(%s)), pgqueue._fire_triggers(lower(%s))", (name, name))
    conn.execute("select pgqueue._leave_partman(%s)", (list(tables),))
    for table in tables:
        conn.execute(SQL("drop table pgmq.{} cascade").format(Identifier(table)))


@contextmanager
def _transaction(conn: psycopg.Connection) -> Iterator[None]:
    """A transaction that sees what others commit meanwhile, whatever isolation is the default: it waits for
    a lock, and must then know what the holder did. Inside a caller's transaction a savepoint."""
    outermost = conn.info.transaction_status == TransactionStatus.IDLE
    with conn.transaction():
        if outermost:
            conn.execute("set transaction isolation level read committed")
        yield


def _next_queues(conn: psycopg.Connection) -> tuple[str, ...]:
    with _transaction(conn):
        return texts(
            conn, "select queue_name::text from pgmq.meta order by queue_name limit %s", (QUEUES_A_STEP,)
        )


def _applied(conn: psycopg.Connection) -> set[int]:
    return {int(number) for number in texts(conn, "select id from pgqueue.migration")}


def _refuse(found: Status) -> None:
    if found.kind == "extension":
        raise ForeignInstallation(
            f"the extension pgmq {found.pgmq_version} is installed in this database;"
            " to take it over in place, run `pgqueue adopt`"
        )
    if found.kind == "sql":
        raise ForeignInstallation(
            "pgmq is installed in this database from SQL, without the extension;"
            " to take it over in place, run `pgqueue adopt`"
        )
    if found.schema_version > found.newest_schema_version:
        raise TooNew(
            f"the schema in this database has version {found.schema_version}, this package knows"
            f" {found.newest_schema_version}: upgrade the pgqueue package"
        )
