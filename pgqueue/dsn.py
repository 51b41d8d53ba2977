"""Where a server's address comes from, and what of it may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pgqueue.errors import BadDsn, CannotConnect, NoServer

SOURCES = ("PGQUEUE_DSN", "DATABASE_URL")
"""Variables that hold a DSN, in the order they are asked."""
LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
"""libpq's own variables that name a server; the others (PGUSER, PGPORT …) only say more about it."""
SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")

_ADVICE = (
    "write postgresql://user@host/database or key=value pairs; in a URI a password's @ is %40, its / is %2F"
)
_DRIVER = re.compile(r"\A(postgres(?:ql)?)\+\w+://")
_URI = re.compile(r"\A([A-Za-z][\w+.-]*)://([^/?]*)([^?]*)")
_FOREIGN = re.compile(r"\b(connection_limit|currentSchema|pgbouncer|pool_timeout|schema|ssl|sslaccept)\b")
"""What other programs put into a DSN; only these are named, since what libpq quotes may be a password."""


def find(given: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The DSN to use and where it came from: given, PGQUEUE_DSN, DATABASE_URL, "" for libpq's variables.

    Raises NoServer when none of them names a server: nothing is ever guessed.
    """
    if given:
        return given, "--dsn"
    for name in SOURCES:
        if environ.get(name):
            return environ[name], name
    for name in LIBPQ:
        if environ.get(name):
            return "", name
    raise NoServer()


def parameters(dsn: str, source: str = "the DSN") -> dict[str, Any]:
    """A DSN as keyword arguments of psycopg's connect(). Raises BadDsn, which never repeats the DSN.

    SQLAlchemy's form (postgresql+psycopg://…) is understood too.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    plain = _DRIVER.sub(r"\1://", dsn.strip())
    uri = _URI.match(plain)
    if uri and uri[1] not in ("postgres", "postgresql"):
        raise BadDsn(f"{source} names a server that is not Postgres: {uri[1]}://…")
    try:
        if uri and _torn(uri[2], uri[3]):
            raise ProgrammingError
        return dict(conninfo_to_dict(plain))
    except ProgrammingError as error:
        foreign = _FOREIGN.search(str(error))
        reason = f"libpq does not know its parameter {foreign[1]}" if foreign else _ADVICE
        raise BadDsn(f"{source} is not a DSN: {reason}") from None  # libpq's own text may quote a password


def _torn(authority: str, path: str) -> bool:
    """Whether an unescaped @ or / in the password has cut a URI in the wrong place."""
    return authority.count("@") > 1 or "@" in path


def without_secrets(text: str, dsn: str, environ: Mapping[str, str]) -> str:
    """The text with every password of the DSN, and PGPASSWORD, taken out: plain and as in a URI."""
    known = parameters(dsn)
    secrets = {str(known[name]) for name in SECRETS if known.get(name)}
    secrets |= {environ["PGPASSWORD"]} if environ.get("PGPASSWORD") else set()
    for secret in sorted(secrets | {quote(one, safe="") for one in secrets}, key=len, reverse=True):
        text = text.replace(secret, "****")
    return text


def cannot_connect(error: Exception, dsn: str, environ: Mapping[str, str]) -> CannotConnect:
    """The error for a failed connect(), on one line and without passwords."""
    lines = [line.strip() for line in str(error).splitlines()]
    hosts = [line.removeprefix("- ") for line in lines if line.startswith("- host:")]
    said = "; ".join(hosts or lines[:1])
    return CannotConnect(without_secrets(said, dsn, environ), sqlstate=getattr(error, "sqlstate", None))
