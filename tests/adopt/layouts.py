"""Old pgmqs, made in a database of the test: any version from 1.3.3 to 1.13.0, as an extension or from SQL alone.

    build(conn, "1.4.4", "extension", queues=["orders"])
    build(conn, "1.13.0", "sql", queues=["orders"], notified=["orders"], topics={"orders": ["a.*"]})
    build(conn, "1.5.1", "extension", upgraded=True)     # made by 1.5.1, then taken to 1.11.2 as pgmq does it

What a version looks like (relations, columns in order, indexes, who belongs to the extension, signatures) comes
from facts.json; what its functions do is in bodies.py. 1.13.0 is pgmq's own SQL, from the official client's wheel.
An extension needs a server that offers it: tests/adopt/offering.py.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.adopt import bodies
from tests.compat.reference import VERSION as REFERENCE
from tests.compat.reference import reference_sql

FACTS = Path(__file__).with_name("facts.json")
UPGRADED_TO = "1.11.2"
KINDS = ("extension", "sql")
TYPES = ("message_record", "queue_record", "metrics_result")
#: In the order in which they are made.
TABLES = ("meta", "notify_insert_throttle", "topic_bindings")


@functools.cache
def facts() -> dict[str, Any]:
    """The facts file."""
    loaded: dict[str, Any] = json.loads(FACTS.read_text())
    return loaded


def versions() -> list[str]:
    """Every version there are facts of, oldest first."""
    return list(facts()["versions"])


def number(version: str) -> tuple[int, ...]:
    """A version as something that can be compared."""
    return tuple(map(int, version.split(".")))


@dataclass(frozen=True)
class Layout:
    """One version: what the facts say of it."""

    version: str
    relations: Mapping[str, list[str]]
    indexes: Sequence[str]
    extension_members: Sequence[str]
    functions: Sequence[str]

    @property
    def owns_queues(self) -> bool:
        """Whether a queue's tables belong to the extension."""
        return "table pgmq.q_x" in self.extension_members

    @property
    def owns_sequences(self) -> bool:
        """Whether so does the sequence of a queue, in its own right."""
        return "sequence pgmq.q_x_msg_id_seq" in self.extension_members

    def names(self, relation: str) -> list[str]:
        """The columns of a relation, in order."""
        return [column.split(" ", 1)[0] for column in self.relations[relation]]

    def has(self, column: str) -> bool:
        """Whether messages have this column."""
        return column in self.names("q_x")


@functools.cache
def layout(version: str) -> Layout:
    """The layout of a version. Raises KeyError for one that is not in the facts."""
    relations: dict[str, list[str]] = {}
    indexes: list[str] = []
    members: list[str] = []
    functions: set[str] = set()
    for name, changed in facts()["versions"].items():
        relations |= changed.get("relations", {})
        indexes = changed.get("indexes", indexes)
        members = changed.get("extension_members", members)
        functions -= set(changed.get("functions_removed", ()))
        functions |= set(changed.get("functions_added", ()))
        if name == version:
            return Layout(name, relations, indexes, members, sorted(functions))
    raise KeyError(version)


# --- building ---------------------------------------------------------------------------------------


def build(
    conn: psycopg.Connection[Any],
    version: str,
    kind: str = "sql",
    *,
    upgraded: bool = False,
    queues: Iterable[str] = ("x",),
    unlogged: Iterable[str] = (),
    partitioned: Iterable[str] = (),
    notified: Iterable[str] = (),
    topics: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Makes an old pgmq in an empty database. `conn` (autocommit) becomes its owner; no superuser is needed.

    version: 1.3.3 … 1.13.0
    kind: extension or sql
    upgraded: the queues are made by `version`, then pgmq is upgraded to 1.11.2
    queues, unlogged, partitioned: names of the queues to make; partitioned ones need pg_partman there
    notified: queues whose inserts notify (1.7 and later); topics: a queue's patterns (1.10 and later)
    """
    if kind == "extension":
        _run(conn, "create extension pgmq version {}", version)
    else:
        with conn.transaction():
            conn.execute(script(version).encode())
    for name in queues:
        conn.execute("select pgmq.create(%s)", (name,))
    for name in unlogged:
        conn.execute("select pgmq.create_unlogged(%s)", (name,))
    for name in partitioned:
        conn.execute("select pgmq.create_partitioned(%s, '100', '1000')", (name,))
    if upgraded:
        if kind == "extension":
            _run(conn, "alter extension pgmq update to {}", UPGRADED_TO)
        else:
            with conn.transaction():
                conn.execute(upgrade_script(version).encode())
    for name in notified:
        conn.execute("select pgmq.enable_notify_insert(%s, 100)", (name,))
    for name, patterns in (topics or {}).items():
        for pattern in patterns:
            conn.execute("select pgmq.bind_topic(%s, %s)", (pattern, name))


def _run(conn: psycopg.Connection[Any], statement: str, *values: str) -> None:
    conn.execute(sql.SQL(statement).format(*map(sql.Literal, values)))


def upgradable() -> list[str]:
    """The versions that `upgraded` is for."""
    return [version for version in versions() if number(version) < number(UPGRADED_TO)]


def extension_files() -> dict[str, str]:
    """What a server's extension folder needs to offer every version, and the upgrades to 1.11.2."""
    files = {
        "pgmq.control": f"default_version = '{REFERENCE}'\nschema = 'pgmq'\nrelocatable = false\nsuperuser = false\n"
    }
    for version in versions():
        files[f"pgmq--{version}.sql"] = script(version)
    for version in upgradable():
        files[f"pgmq--{version}--{UPGRADED_TO}.sql"] = upgrade_script(version)
    return files


def script(version: str) -> str:
    """The SQL that installs a version, as an extension's script or by itself."""
    return reference_sql() if version == REFERENCE else made_script(version)


def made_script(version: str) -> str:
    """The same, always made from the facts."""
    made = layout(version)
    tables = [table for table in TABLES if table in made.relations]
    return "\n".join(
        [
            "set local check_function_bodies = off;",
            _WITHOUT_EXTENSION.format("create schema if not exists pgmq"),
            *(_table_ddl(made, table) for table in tables),
            *_RIGHTS,
            *(_DUMPED.format(table) for table in tables),
            *(_type_ddl(made, name) for name in TYPES),
            *(_function_ddl(made, signature) for signature in made.functions),
        ]
    )


def upgrade_script(version: str) -> str:
    """The SQL that takes an installation of this version to 1.11.2, with all its queues.

    Columns come last; what belonged to the extension still does.
    """
    old, new = layout(version), layout(UPGRADED_TO)
    added = [table for table in TABLES if table in new.relations and table not in old.relations]
    came = [name for name in ("headers", "last_read_at") if not old.has(name)]  # with 1.5 and 1.10
    columns = [column for name in came for column in new.relations["q_x"] if column.startswith(f"{name} ")]
    loop = [f"alter table pgmq.%1$I add column {column}" for column in columns]
    steps = [_in_every_queue(table, loop) for table in ("q", "a") if loop]
    if "topic_bindings" in old.relations and "bound_at" not in old.names("topic_bindings"):
        steps.append(
            "alter table pgmq.topic_bindings add column bound_at timestamptz not null default now();"
        )
    return "\n".join(
        [
            "set local check_function_bodies = off;",
            _DROP_FUNCTIONS,
            *(f"drop type pgmq.{name};" for name in TYPES),
            *(_table_ddl(new, table) for table in added),
            *(_DUMPED.format(table) for table in added),
            *(_type_ddl(new, name) for name in TYPES),
            *(_function_ddl(new, signature) for signature in new.functions),
            *steps,
        ]
    )


_WITHOUT_EXTENSION = """do $do$
begin
    if not exists (select from pg_catalog.pg_extension where extname = 'pgmq') then
        {};
    end if;
end $do$;"""

_DUMPED = """do $do$
begin
    if exists (select from pg_catalog.pg_extension where extname = 'pgmq') then
        perform pg_catalog.pg_extension_config_dump('pgmq.{}', '');
    end if;
end $do$;"""

_RIGHTS = (
    "grant usage on schema pgmq to pg_monitor;",
    "grant select on all tables in schema pgmq to pg_monitor;",
    "grant select on all sequences in schema pgmq to pg_monitor;",
    "alter default privileges in schema pgmq grant select on tables to pg_monitor;",
    "alter default privileges in schema pgmq grant select on sequences to pg_monitor;",
)

#: The trigger function stays, as triggers hang on it.
_DROP_FUNCTIONS = """do $do$
declare
    v_function regprocedure;
begin
    for v_function in select oid from pg_catalog.pg_proc where pronamespace = 'pgmq'::regnamespace
        and prorettype <> 'trigger'::regtype loop
        execute format('drop function %s', v_function);
    end loop;
end $do$;"""


def _in_every_queue(prefix: str, statements: Sequence[str]) -> str:
    each = "\n        ".join(f"execute format('{s}', lower('{prefix}_' || v_queue));" for s in statements)
    return f"""do $do$
declare
    v_queue text;
begin
    for v_queue in select queue_name from pgmq.meta loop
        {each}
    end loop;
end $do$;"""


# --- tables and types -------------------------------------------------------------------------------


def _column_ddl(column: str) -> str:
    """A column of the facts as DDL: they tell an identity and a generated column in words of their own."""
    name, kind = column.split(" ", 1)
    if name == "compiled_regex":
        kind, expression = kind.split(" default ", 1)
        return f"{name} {kind} generated always as ({expression}) stored"
    return f"{name} {kind.replace('identity always', 'generated always as identity')}"


def _columns_ddl(columns: Iterable[str]) -> str:
    return ", ".join(map(_column_ddl, columns))


_INDEX = re.compile(r"(UNIQUE )?(?P<name>\w+) ON pgmq\.(?P<table>\w+) (?P<rest>USING \w+ (?P<columns>.*))")


def _table_ddl(made: Layout, table: str) -> str:
    lines = [_columns_ddl(made.relations[table])]
    after = []
    for found in filter(None, map(_INDEX.fullmatch, made.indexes)):
        if found["table"] != table:
            continue
        if found[1]:
            lines.append(f"constraint {found['name']} unique {found['columns']}")
        else:
            after.append(f"create index {found['name']} on pgmq.{table} {found['rest']};")
    if table != "meta":
        lines.append(
            f"constraint {table}_meta_queue_name_fk foreign key (queue_name) references pgmq.meta (queue_name)"
            " on delete cascade"
        )
    unlogged = "unlogged " if table == "notify_insert_throttle" else ""
    return "\n".join([f"create {unlogged}table pgmq.{table} ({', '.join(lines)});", *after])


def _type_ddl(made: Layout, name: str) -> str:
    return f"create type pgmq.{name} as ({', '.join(made.relations[name])});"


# --- functions --------------------------------------------------------------------------------------

_SIGNATURE = re.compile(r"(?P<name>\w+)\((?P<parameters>[^)]*)\) returns (?P<result>.*)")


def _function_ddl(made: Layout, signature: str) -> str:
    found = _SIGNATURE.fullmatch(signature)
    assert found, signature
    name = found["name"]
    parameters = [parameter.split(" ", 1) for parameter in found["parameters"].split(", ") if parameter]
    key = " ".join([name, *(kind for _, kind in parameters)])
    declared = ", ".join(f"{p} {kind}{_default(made, name, p)}" for p, kind in parameters)
    language, body = _body(made, name, key)
    return (
        f"create or replace function pgmq.{name}({declared}) returns {found['result']}"
        f" language {language} as $function${body}$function$;"
    )


def _default(made: Layout, name: str, parameter: str) -> str:
    default = bodies.DEFAULTS.get((name, parameter))
    if default is None and number(made.version) < (1, 5):
        default = bodies.DEFAULTS_BEFORE_1_5.get((name, parameter))
    return f" default {default}" if default else ""


def _body(made: Layout, name: str, key: str) -> tuple[str, str]:
    """Language and body of a function. Before 1.5 what are overloads later is the function itself."""
    overloaded = number(made.version) >= (1, 5)
    if key in bodies.SQL and (overloaded or name not in ("send", "send_batch")):
        return "sql", bodies.SQL[key]
    exact = key in bodies.PLPGSQL and (overloaded or name != "drop_queue")
    body = bodies.PLPGSQL.get(key if exact else name)
    if body is None:
        body = f"begin raise exception 'pgmq.{name} has only its signature in this layout'; end"
    for mark, text in _marks(made, key.endswith(" jsonb")).items():
        body = body.replace(f"<{mark}>", text)
    return "plpgsql", body


def _marks(made: Layout, conditional: bool) -> dict[str, str]:
    """What stands for the marks of bodies.py in a version, and in a function with that parameter or without."""
    headers, last_read, overloaded = (
        made.has("headers"),
        made.has("last_read_at"),
        number(made.version) >= (1, 5),
    )
    columns = made.names("message_record")
    formatted = number(made.version) >= (1, 4, 1)
    marks = {
        "q": "pgmq.format_table_name(queue_name, 'q')" if formatted else "lower('q_' || queue_name)",
        "a": "pgmq.format_table_name(queue_name, 'a')" if formatted else "lower('a_' || queue_name)",
        "claimed": "m.*" if made.version == "1.10.0" else ", ".join(f"m.{column}" for column in columns),
        "all": ", ".join(columns) if number(made.version) > (1, 10, 0) else "*",
        "kept": ", ".join(columns),
        "q columns": _columns_ddl(made.relations["q_x"]),
        "a columns": _columns_ddl(made.relations["a_x"]),
        "read": ", last_read_at = clock_timestamp()" if last_read else "",
        "headers": ", headers" if headers else "",
        "header": ", $3" if headers else "",
        "each header": ", unnest(coalesce($3, array[]::jsonb[]))" if headers else "",
        "given headers": ", headers" if headers else "",
        "matching": "and ($3 = '{}'::jsonb or message @> $3)" if conditional else "",
        "given": ", conditional" if conditional else "",
        "moment": "delay" if overloaded else "clock_timestamp() + make_interval(secs => delay)",
        "qty": "qty" if number(made.version) >= (1, 7) else "1",
        "metrics": _metrics_tail(made),
        "adding": _membership(made, "add", "q", "a"),
        "releasing": _membership(made, "drop", "q", "a"),
        "detaching": _membership(made, "drop", "a"),
    }
    for mark in ("adding", "releasing", "detaching"):
        marks[mark] = marks[mark].replace("<q>", marks["q"]).replace("<a>", marks["a"])
    return marks


def _metrics_tail(made: Layout) -> str:
    names = made.names("metrics_result")
    visible = ", count(*) filter (where vt <= now())" if "queue_visible_length" in names else ""
    return visible + (", null::bigint" if "default_partition_length" in names else "")


def _membership(made: Layout, verb: str, *tables: str) -> str:
    if not made.owns_queues:
        return ""
    steps = [f"execute format('alter extension pgmq {verb} table pgmq.%I', <{table}>);" for table in tables]
    if made.owns_sequences and "q" in tables:
        steps.append(f"execute format('alter extension pgmq {verb} sequence pgmq.%I', <q> || '_msg_id_seq');")
    return f"if {bodies.OWNED} then\n        " + "\n        ".join(steps) + "\n    end if;"
