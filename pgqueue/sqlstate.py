"""A driver's errors told apart by their SQLSTATE, and raised as ours. No driver is needed to do it."""

from __future__ import annotations

import re

from pgqueue.errors import (
    BadMessage,
    BadName,
    BadValue,
    CannotConnect,
    Conflict,
    ConnectionLost,
    ForeignInstallation,
    LostLease,
    NoSuchQueue,
    NotAllowed,
    NotInstalled,
    PgqueueError,
    Refused,
    TimedOut,
    TooOld,
)

_QUEUE_TABLE = re.compile(r'relation "pgmq\.(?:q|a)_(.+)" does not exist')
_QUEUE_PART = re.compile(r'relation "pgqueue\.(.+)\$\w+" does not exist')
_OUR_SCHEMAS = re.compile(r"\b(pgmq|pgqueue)\b")


def from_server(error: BaseException) -> PgqueueError:
    """The exception of ours for one of psycopg's (or psycopg2's, asyncpg's), to be raised `from` that error.

    What the server said is kept as the message, on one line, wherever ours does not say it better.
    """
    sqlstate: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    diag = getattr(error, "diag", None)
    cause = error.__cause__  # SQLAlchemy's form of asyncpg's errors has the text there
    said = getattr(diag, "message_primary", None) or getattr(cause, "message", None) or str(error)
    said = " ".join(said.split())
    hint = getattr(diag, "message_hint", None) or getattr(cause, "hint", None) or ""
    if sqlstate is None:
        if type(error).__name__ in ("OperationalError", "InterfaceError"):
            return ConnectionLost(f"{ConnectionLost.__doc__} ({said})")
        return BadValue(said)  # psycopg itself refused a parameter
    if "pgqueue adopt" in hint:
        return ForeignInstallation(f"{said}. {hint}", sqlstate=sqlstate)
    kind, message = _kind(sqlstate, said)
    if kind is BadMessage and (detail := getattr(diag, "message_detail", None)):
        message = f"{said}: {detail}"  # which character it is that Postgres cannot store
    if kind is NotAllowed:
        message = _with_remedy(said)
    return kind(message, sqlstate=sqlstate)


def _kind(sqlstate: str, said: str) -> tuple[type[PgqueueError], str | None]:
    """Class and message (None: the class's own) for what the server said."""
    if sqlstate == "42P01":
        return _missing_relation(said)
    if sqlstate == "P0001" or (sqlstate in ("22004", "42710") and said.startswith("queue name")):
        return _raised(said)
    if sqlstate in ("3F000", "42883") and _OUR_SCHEMAS.search(said):
        return (NotInstalled, None) if sqlstate == "3F000" else (TooOld, f"{TooOld.__doc__} ({said})")
    if sqlstate in ("22P02", "22P05") and re.search("json|Unicode escape", said):
        return BadMessage, said
    exact = _BY_SQLSTATE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2], Refused)
    return exact, f"{ConnectionLost.__doc__} ({said})" if exact is ConnectionLost else said


def _with_remedy(said: str) -> str:
    """What was denied, and what shows or gives the right to it."""
    if said.startswith("permission denied for database"):
        return f"{said}: to install, a role needs CREATE on it"
    if re.match("permission denied for (schema|table|sequence|function)", said):
        return f"{said}: `pgqueue doctor`, run by this role, shows the grants that it lacks"
    return said


def _missing_relation(said: str) -> tuple[type[PgqueueError], str | None]:
    if said.startswith("queue "):
        return NoSuchQueue, said
    # pgmq's own SQL shows its table; a compiled function that drop_queue has overtaken, the queue's sequence
    if found := _QUEUE_TABLE.search(said) or _QUEUE_PART.search(said):
        return NoSuchQueue, f'queue "{found[1]}" does not exist'
    return (NotInstalled, None) if _OUR_SCHEMAS.search(said) else (Refused, said)


def _raised(said: str) -> tuple[type[PgqueueError], str]:
    if re.match(r'queue ".*" does not exist', said, re.IGNORECASE):
        return NoSuchQueue, said
    return (BadName if re.search(r"queue[ _]name", said, re.IGNORECASE) else Refused), said


_BY_SQLSTATE: dict[str, type[PgqueueError]] = {
    "PQ001": LostLease,
    "42501": NotAllowed,
    "40001": Conflict,
    "40P01": Conflict,
    "57014": TimedOut,
    "55P03": TimedOut,
    "25P03": ConnectionLost,
    "25P04": ConnectionLost,
    "57P01": ConnectionLost,
    "57P02": ConnectionLost,
    "57P03": CannotConnect,
    "57P05": ConnectionLost,
    "53300": CannotConnect,
    "3D000": CannotConnect,
}
_BY_CLASS: dict[str, type[PgqueueError]] = {"22": BadValue, "08": ConnectionLost, "28": CannotConnect}
