"""Lints the SQL that users run: the rendered install script, and the functions of one compiled queue.

sqlfluff sees no function body, so each body is parsed, and each constant handed to execute or format() too.
Whether bodies agree with the catalogue is plpgsql_check's question: tests/test_plpgsql_check.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pglast
from generated import ROOT
from pglast import ast
from pglast.visitors import Visitor

RENDERED = ROOT / "sql" / "rendered" / "pgqueue.sql"

#: Citus refuses these inside an UPDATE, and an index cannot serve a comparison with them.
VOLATILE = {
    "clock_timestamp",
    "timeofday",
    "random",
    "gen_random_uuid",
    "nextval",
    "setval",
    "pg_sequence_last_value",
    "pg_sleep",
}
STATEMENT = re.compile(
    r"\s*(select|with|insert|update|delete|merge|create|alter|drop|lock|truncate|comment)\s+\S", re.I
)
PLACEHOLDER = re.compile(r"%(?:%|(?:(\d+)\$)?([sIL]))")
#: What prints as SQL by itself, so that format() may take it by %s: functions, and variables so named.
PRINTS_QUOTED = {"pg_get_serial_sequence", "quote_ident", "v_columns"}
SAFE_PATH = ["pg_catalog", "pg_temp"]


@dataclass(frozen=True)
class Finding:
    """One thing to mend, and the function or statement it stands in."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


# --- what one statement may hold ------------------------------------------------------------------


class Contents(Visitor):  # type: ignore[misc]  # pglast carries no types
    """Notes what the rules ask of one statement: stars, volatile calls, whether it changes rows."""

    def __init__(self) -> None:
        super().__init__()
        self.stars = 0
        self.volatile: set[str] = set()
        self.changes_rows = False

    def visit_ColumnRef(self, _ancestors: object, node: ast.ColumnRef) -> None:
        self.stars += isinstance(node.fields[-1], ast.A_Star)

    def visit_SelectStmt(self, _ancestors: object, node: ast.SelectStmt) -> None:
        """Of one function alone the star is its type's columns, whatever they are."""
        if len(node.fromClause or ()) == 1 and isinstance(node.fromClause[0], ast.RangeFunction):
            self.stars -= sum(
                isinstance(target.val, ast.ColumnRef) and isinstance(target.val.fields[-1], ast.A_Star)
                for target in node.targetList
            )

    def visit_FuncCall(self, _ancestors: object, node: ast.FuncCall) -> None:
        self.volatile |= {node.funcname[-1].sval} & VOLATILE

    def visit_UpdateStmt(self, _ancestors: object, _node: ast.UpdateStmt) -> None:
        self.changes_rows = True

    visit_DeleteStmt = visit_UpdateStmt


def check_statement(where: str, text: str) -> Iterator[Finding]:
    """Rules for any statement, wherever it stands: no star, no volatile function where rows are changed."""
    try:
        tree = pglast.parse_sql(text)
    except pglast.parser.ParseError as error:
        yield Finding(where, f"does not parse: {error} in: {one_line(text)}")
        return
    seen = Contents()
    seen(tree)
    if seen.stars:
        yield Finding(where, f"select *: name the columns in: {one_line(text)}")
    if seen.changes_rows and seen.volatile:
        names = ", ".join(sorted(seen.volatile))
        yield Finding(
            where, f"volatile {names} in an update or delete: read it into a variable in: {one_line(text)}"
        )


def one_line(text: str) -> str:
    return " ".join(text.split())[:100]


# --- what a function must say ---------------------------------------------------------------------


def qualified(names: tuple[ast.String, ...]) -> str:
    return ".".join(name.sval for name in names)


def options(function: ast.CreateFunctionStmt) -> dict[str, object]:
    """The attributes of a `create function`, settings under the name `set NAME`."""
    found: dict[str, object] = {}
    for option in function.options:
        if isinstance(option.arg, ast.VariableSetStmt):
            found[f"set {option.arg.name}"] = [constant(arg) for arg in option.arg.args or ()]
        elif option.defname == "as":
            found["as"] = option.arg[0].sval
        else:
            found[option.defname] = getattr(option.arg, "sval", getattr(option.arg, "boolval", None))
    return found


def constant(node: ast.Node) -> str | None:
    value = node.val if isinstance(node, ast.A_Const) else None
    return value.sval if isinstance(value, ast.String) else None


def check_function(where: str, text: str, function: ast.CreateFunctionStmt) -> Iterator[Finding]:
    """Rules for a function: attributes stated, a fixed search_path where it guards, a body that parses."""
    said = options(function)
    if "volatility" not in said:
        yield Finding(where, "volatility is not stated")
    elif said["volatility"] != "volatile" and "parallel" not in said:  # what writes is unsafe, the default
        yield Finding(where, "parallel is not stated")
    returns = qualified(function.returnType.names) if function.returnType else ""
    if (said.get("security") or returns == "trigger") and said.get("set search_path") != SAFE_PATH:
        yield Finding(where, "security definer or trigger without: set search_path = pg_catalog, pg_temp")
    if said["language"] == "plpgsql":
        yield from check_body(where, text)
    elif said["language"] == "sql" and "as" in said:
        yield from check_statement(where, str(said["as"]))


# --- what stands inside PL/pgSQL ------------------------------------------------------------------


def check_body(where: str, text: str) -> Iterator[Finding]:
    try:
        parsed = pglast.parse_plpgsql(without_own_types(text))
    except pglast.parser.ParseError as error:
        yield Finding(where, f"the body does not parse: {error}")
        return
    quoted = set(variables_that_print_quoted(parsed))
    for query, mode in expressions(parsed):
        if mode == 0:
            yield from check_statement(where, query)
        else:
            yield from check_dynamic(where, query.split(":=", 1)[-1] if mode >= 3 else query, quoted)


def variables_that_print_quoted(parsed: Any) -> Iterator[str]:
    """The variables of the types that name objects: regclass, regrole and their like."""
    for body in parsed:
        for datum in body["PLpgSQL_function"]["datums"]:
            variable = datum.get("PLpgSQL_var", {})
            if variable.get("datatype", {}).get("PLpgSQL_type", {}).get("typname", "").startswith("reg"):
                yield variable["refname"]


def without_own_types(text: str) -> str:
    """The text with types of our schemas as `record`: libpg_query has no catalogue to look them up in."""
    text = re.sub(r"\b(pgmq|pgqueue)\.\w+(\.\w+)?%(row)?type", "record", text, flags=re.I)
    text = re.sub(r"\b(returns\s+(?:setof\s+)?)(?:pgmq|pgqueue)\.\w+", r"\1record", text, flags=re.I)
    return re.sub(
        r"((?:^|declare\b)\s*\w+\s+)(?:pgmq|pgqueue)\.\w+(?=\s*(?:;|:=))", r"\1record", text, flags=re.M
    )


def expressions(node: object) -> Iterator[tuple[str, int]]:
    """Every SQL text in a parsed body, with its mode: 0 statement, 2 expression, 3 and up assignment."""
    if isinstance(node, list):
        for item in node:
            yield from expressions(item)
    elif isinstance(node, dict):
        if "query" in node and isinstance(node["query"], str):
            yield node["query"], int(node.get("parseMode", 0))
        for item in node.values():
            yield from expressions(item)


class Texts(Visitor):  # type: ignore[misc]
    """The string constants of an expression, and what is put for each %s of a format()."""

    def __init__(self) -> None:
        super().__init__()
        self.constants: list[str] = []
        self.unquoted: list[ast.Node] = []

    def visit_A_Const(self, _ancestors: object, node: ast.A_Const) -> None:
        if (text := constant(node)) is not None:
            self.constants.append(text)

    def visit_FuncCall(self, _ancestors: object, node: ast.FuncCall) -> None:
        if node.funcname[-1].sval == "format" and node.args and STATEMENT.match(constant(node.args[0]) or ""):
            position = 0
            for number, kind in PLACEHOLDER.findall(constant(node.args[0]) or ""):
                position = int(number) if number else position + bool(kind)
                if kind == "s":
                    self.unquoted.append(node.args[position])


def check_dynamic(where: str, expression: str, quoted: set[str]) -> Iterator[Finding]:
    """Looks into the constants of an expression that may be run as SQL. quoted: names of such variables."""
    try:
        tree = pglast.parse_sql(f"select {expression}")
    except pglast.parser.ParseError:
        return  # the target of an assignment is no expression; nothing is run from it
    texts = Texts()
    texts(tree)
    for node in texts.unquoted:
        if printed_name(node) not in {*quoted, *PRINTS_QUOTED, "regclass"}:
            yield Finding(
                where, f"%s in SQL for what is not quoted: use %I, %L or using in: {one_line(expression)}"
            )
    for text in texts.constants:
        if STATEMENT.match(text):
            yield from check_statements(where, PLACEHOLDER.sub(filled, text))


def printed_name(node: ast.Node) -> str:
    """Of a variable or function its name, of a cast its type; nothing of anything else."""
    parts = getattr(node, "fields", None) or getattr(node, "funcname", None)
    parts = parts or (node.typeName.names if isinstance(node, ast.TypeCast) else None)
    return str(parts[-1].sval) if parts else ""


def filled(placeholder: re.Match[str]) -> str:
    return {"I": "x", "L": "'x'", "s": "x", None: "%"}[placeholder.group(2)]


# --- a whole script -------------------------------------------------------------------------------


def check_statements(where: str, script: str) -> Iterator[Finding]:
    """Every rule over every statement of a script."""
    try:
        pieces = pglast.split(script, with_parser=True)
    except pglast.parser.ParseError as error:
        yield Finding(where, f"does not parse: {error} in: {one_line(script)}")
        return
    for text in pieces:
        statement = pglast.parse_sql(text)[0].stmt
        if isinstance(statement, ast.CreateFunctionStmt):
            yield from check_function(f"{where}: {qualified(statement.funcname)}", text, statement)
        elif isinstance(statement, ast.DoStmt):
            yield from check_body(f"{where}: do", text)
        elif not isinstance(statement, ast.CreateStmt | ast.IndexStmt):  # a column's default may be volatile
            yield from check_statement(where, text)


def sqlfluff(name: str, text: str) -> bool:
    """Whether sqlfluff is content; what it says is printed if not."""
    command = [
        sys.executable,
        "-m",
        "sqlfluff",
        "lint",
        "--disable-progress-bar",
        "--config",
        "pyproject.toml",
        "-",
    ]
    done = subprocess.run(command, input=text, text=True, cwd=ROOT, capture_output=True)
    if done.returncode:
        print(f"sqlfluff, {name}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def scripts() -> Iterator[tuple[str, str]]:
    """What users get from us: the install script, a compiled queue, the way back, the migrations."""
    from pgqueue import script

    yield RENDERED.relative_to(ROOT).as_posix(), RENDERED.read_text()
    yield "pgqueue sql queue orders", script.queue_sql("orders")
    yield "pgqueue sql uninstall", script.uninstall_sql()
    for path in sorted((ROOT / "sql" / "templates" / "migrations").glob("*.sql")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def main() -> int:
    clean = True
    findings: list[Finding] = []
    for name, text in scripts():
        clean &= sqlfluff(name, text)
        findings += check_statements(name, text)
    for finding in findings:
        print(finding)
    print(f"lint_sql: {len(findings)} findings")
    return 0 if clean and not findings else 1


if __name__ == "__main__":
    raise SystemExit(main())
