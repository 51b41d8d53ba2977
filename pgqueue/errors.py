"""Every exception of pgqueue. The docstring of a class is its default message."""

from __future__ import annotations


class PgqueueError(Exception):
    """pgqueue failed."""

    def __init__(self, message: str | None = None, *, sqlstate: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        #: SQLSTATE of the server's error behind this one, where there is one.
        self.sqlstate = sqlstate


class BadName(PgqueueError):
    """That is not a legal queue name."""


class NoSuchQueue(PgqueueError):
    """That queue does not exist."""


class NotAllowed(PgqueueError):
    """The server does not allow this role to do that."""


class BadValue(PgqueueError):
    """A value is not one that the call takes."""


class BadMessage(BadValue):
    """A message or its headers are not JSON, or a body is not one that its codec can decode."""


class Refused(PgqueueError):
    """The server refused the call."""


class Conflict(PgqueueError):
    """Another transaction was in the way: run this one again."""


class TimedOut(PgqueueError):
    """The server gave up waiting."""


class ConnectionLost(PgqueueError):
    """The connection to the server was lost: nothing of what was not committed is kept."""


class InDoubt(ConnectionLost):
    """The connection was lost while the server worked: whether the call took effect is not known."""


class LostLease(PgqueueError):
    """The lease on a message is lost: it was delivered again, deleted or archived meanwhile."""


class TimeLimitPassed(PgqueueError):
    """The handler took longer than its time limit."""


class CannotConnect(PgqueueError):
    """The server could not be reached, or turned the login down."""


class BadDsn(PgqueueError):
    """The DSN is not one that libpq can read: write postgresql://user@host/database or key=value pairs."""


class DriverMissing(PgqueueError, ImportError):
    """psycopg found no libpq on this machine: pip install 'psycopg[binary,pool]'"""


class NotInstalled(PgqueueError):
    """pgqueue is not installed in this database: run `pgqueue install`."""


class ForeignInstallation(PgqueueError):
    """pgmq lives in this database already: run `pgqueue adopt`."""


class CannotAdopt(PgqueueError):
    """This pgmq cannot be adopted as it is; nothing was changed."""


class InTheWay(PgqueueError):
    """Another transaction holds what is needed."""


class TooOld(PgqueueError):
    """The schema in this database is older than this program: run `pgqueue upgrade`."""


class TooNew(PgqueueError):
    """The schema in this database is newer than this program: upgrade the pgqueue package."""


class NoServer(PgqueueError):
    """No Postgres server was named: give a DSN (--dsn, PGQUEUE_DSN) or `embedded:` for a private one."""


class EmbeddedError(PgqueueError):
    """The embedded Postgres could not be started."""


class BenchError(PgqueueError):
    """The benchmark could not be run."""


class TemplateError(PgqueueError):
    """A template printed something that is not a Fragment."""
