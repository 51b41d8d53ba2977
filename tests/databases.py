"""Databases for the tests: roles, one template a schema, a clone a test."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql

OWNER = "app_owner"  # owns every test database; no superuser, may create neither roles nor databases
OURS = Path(__file__).resolve().parent.parent / "sql" / "rendered" / "pgqueue.sql"


def our_sql() -> str:
    """What `pgqueue install` runs, as it is checked in."""
    return OURS.read_text()


def uri(conninfo: Mapping[str, str]) -> str:
    """Connection parameters (libpq's names) as a DSN in URI form."""
    rest = dict(conninfo)
    user, password, dbname = (rest.pop(name, "") for name in ("user", "password", "dbname"))
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    tail = f"?{urlencode(rest, safe='/')}" if rest else ""
    return f"postgresql://{who}@/{quote(dbname, safe='')}{tail}"


class Cluster:
    """A running server, and the templates and databases made in it. `close()` drops what it made."""

    def __init__(self, conninfo: Mapping[str, str]) -> None:
        self.conninfo = dict(conninfo)
        self.superuser = self.conninfo["user"]
        self._token = secrets.token_hex(4)  # test runs that share a server do not meet
        self._count = 0
        self._databases: list[str] = []
        self._templates: dict[str, str] = {}
        self._admin = psycopg.connect(uri(self.conninfo), autocommit=True)
        self.version = self._admin.info.server_version // 10000
        """Major version of the server, e.g. 18."""
        self.create_role(OWNER)

    def create_role(self, name: str) -> None:
        """A role that may log in and nothing else; one that is there stays.

        Its password is the superuser's, if any: a server that asks for one asks every role.
        """
        password = sql.Literal(self.conninfo.get("password"))
        with contextlib.suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            self._run("create role {} login password {}", sql.Identifier(name), password)

    def create_database(self, template: str = "template0", encoding: str = "") -> Database:
        """A new database of OWNER, a copy of `template` (template0 is empty); of another encoding if one is named."""
        name = f"t{self._count}_{self._token}"
        self._count += 1
        copying = "strategy file_copy" if self.version >= 15 else ""  # half the time of the default, unsynced
        coding = f"encoding '{encoding}' locale 'C'" if encoding else ""
        names = map(sql.Identifier, (name, template, OWNER))
        self._run(f"create database {{}} template {{}} owner {{}} {coding} {copying}", *names)
        self._databases.append(name)
        return Database(self, name)

    def template(self, script: str) -> str:
        """Name of a database in which `script` was run once by OWNER, to be cloned."""
        if script not in self._templates:
            database = self.create_database()
            with psycopg.connect(database.dsn, autocommit=True) as conn:
                conn.execute(script.encode())
            self._templates[script] = database.name
        return self._templates[script]

    def drop_database(self, name: str) -> None:
        self._run("drop database if exists {} with (force)", sql.Identifier(name))
        self._databases.remove(name)

    def drop_role(self, name: str) -> None:
        self._run("drop role if exists {}", sql.Identifier(name))

    def close(self) -> None:
        for name in list(self._databases):
            self.drop_database(name)
        self._admin.close()

    def _run(self, statement: str, *names: sql.Composable) -> None:
        self._admin.execute(sql.SQL(statement).format(*names))


class Database:
    """One test's own database.

    name: its name
    dsn: a DSN in URI form, as its owner (`app_owner`, no superuser)
    superuser: the role that may do everything, for connect(user=db.superuser)
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.dsn = self.dsn_for(OWNER)
        self.superuser = cluster.superuser
        self._connections: list[psycopg.Connection[Any]] = []
        self._roles: list[str] = []

    def dsn_for(self, user: str) -> str:
        """The DSN of another role."""
        return uri({**self.cluster.conninfo, "dbname": self.name, "user": user})

    def connect(self, autocommit: bool = True, user: str = OWNER, **options: Any) -> psycopg.Connection[Any]:
        """A new connection; it is closed with the database. options: what psycopg.connect takes."""
        conn = psycopg.connect(self.dsn_for(user), autocommit=autocommit, **options)
        self._connections.append(conn)
        return conn

    def create_role(self, prefix: str = "somebody") -> str:
        """A new role without any right, that may log in; its name. It is dropped with the database."""
        name = f"{prefix}_{secrets.token_hex(4)}"
        self.cluster.create_role(name)
        self._roles.append(name)
        return name

    def disconnect(self) -> None:
        """Closes the connections made here."""
        for conn in self._connections:
            conn.close()
        self._connections.clear()

    def drop(self) -> None:
        """Closes the connections made here, cuts all others, drops the database, then the roles."""
        self.disconnect()
        self.cluster.drop_database(self.name)
        for role in self._roles:
            self.cluster.drop_role(role)
