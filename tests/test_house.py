"""The shape of the house: what the templates may say, where a name lives, what is generated, the tree."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pglast
import pytest
from jinja2 import nodes
from pglast import ast

from pgqueue.sqltext import environment

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "sql" / "templates"
FUNCTIONS = TEMPLATES / "functions"
RENDERED = ROOT / "sql" / "rendered" / "pgqueue.sql"

# --- templates ------------------------------------------------------------------------------------

GLUE = (nodes.Concat, nodes.Add, nodes.Mod)
FORBIDDEN_FILTERS = {"safe", "format", "replace", "string"}


def glued(source: str) -> list[str]:
    """What a template does that only Python may do: glue text, or declare it safe."""
    tree = environment(TEMPLATES).parse(source)
    found = [f"line {node.lineno}: {type(node).__name__}" for node in tree.find_all(GLUE)]
    filters = [node for node in tree.find_all(nodes.Filter) if node.name in FORBIDDEN_FILTERS]
    return found + [f"line {node.lineno}: |{node.name}" for node in filters]


def test_templates_glue_nothing() -> None:
    paths = sorted(TEMPLATES.rglob("*.jinja"))
    assert paths
    faults = {path.relative_to(TEMPLATES).as_posix(): glued(path.read_text()) for path in paths}
    assert {name: found for name, found in faults.items() if found} == {}


GLUED = """
{{ a ~ b }}
{{ a + b }}
{{ 'x%s' % a }}
{{ a | safe }}
{{ 'x' | format(a) }}
{{ a | replace('x', 'y') }}
{{ a | string }}
{{ f(a ~ b) }}
{% set a = 'x' ~ b %}
"""


@pytest.mark.parametrize("source", GLUED.strip().splitlines())
def test_gluing_would_be_found(source: str) -> None:
    assert glued(source)


# --- one name a file ------------------------------------------------------------------------------


def functions() -> Iterator[tuple[str, str, str]]:
    """Schema, name and text of every `create function` of the install script."""
    for text in pglast.split(RENDERED.read_text(), with_parser=True):
        statement = pglast.parse_sql(text)[0].stmt
        if isinstance(statement, ast.CreateFunctionStmt):
            schema, name = (part.sval for part in statement.funcname)
            yield schema, name, text


def home(schema: str, name: str) -> Path:
    return (
        FUNCTIONS / f"{name}.sql.jinja" if name.startswith("_") else FUNCTIONS / schema / f"{name}.sql.jinja"
    )


def test_every_function_lives_in_the_file_of_its_name() -> None:
    wanted = {home(schema, name) for schema, name, _ in functions()}
    present = set(FUNCTIONS.rglob("*.sql.jinja"))
    assert wanted
    assert sorted(wanted - present) == []
    assert sorted(present - wanted) == []


#: Functions that call a public one of another name, and which. The checks of topics are public in pgmq.
MAY_CALL = {
    "bind_topic": {"validate_topic_pattern"},
    "send_topic": {"validate_routing_key"},
    "send_batch_topic": {"validate_routing_key"},
    "test_routing": {"validate_routing_key"},
    "create_fifo_indexes_all": {"create_fifo_index"},
    "read_with_poll": {"read"},
    "read_grouped_with_poll": {"read_grouped"},
    "read_grouped_rr_with_poll": {"read_grouped_rr"},
    "read_grouped_head_with_poll": {"read_grouped_head"},
    "_deliver": {"send_batch"},  # it sends to each queue by its name, compiled or not, as a user would
}


def public_calls() -> dict[str, set[str]]:
    """Of each function, public or not, the public ones of other names that its body calls."""
    found = list(functions())
    public = {name for _, name, _ in found if not name.startswith("_")}
    calls: dict[str, set[str]] = {}
    for _, name, text in found:
        code = re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", text)
        called = set(re.findall(r"\b(?:pgmq|pgqueue)\.([a-z][a-z_]*)\s*\(", code))
        calls.setdefault(name, set()).update(called & public - {name})
    return {name: called for name, called in calls.items() if called}


def test_no_function_calls_a_public_one_but_those_that_may() -> None:
    """They call helpers, compiled functions and their own overloads. What is listed must be called, or it is stale."""
    assert public_calls() == MAY_CALL


# --- generated files, floors ----------------------------------------------------------------------

GENERATORS = [
    f"tools/{name}.py"
    for name in ("render", "unasync", "cli_help", "dump_schema", "readme", "bars", "sql_reference")
]


@pytest.mark.parametrize("tool", [*GENERATORS, "examples/make_orders.py"])
def test_generated_files_are_current(tool: str) -> None:
    done = subprocess.run([sys.executable, tool, "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_knows_every_generator() -> None:
    (line,) = re.findall(r"^GENERATORS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert line.split() == GENERATORS


def test_floors_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# --- the tree -------------------------------------------------------------------------------------

#: What would tie the tree to one machine or one registry. In pieces, so that this file holds none of them.
TIES = [
    "/" + "root/",
    "/" + "work/",
    "pypi" + ".org",
    "python" + "hosted",
    "npm" + "js.",
    "deb." + "debian.org",
]


def tracked() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: git does not know the files")
def test_the_tree_names_no_machine() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {tie}"
        for path in tracked()
        for tie in TIES
        if tie in path.read_text(errors="replace")
    ]
    assert faults == []
