"""tests/cases.md has a line for each public report, and says what is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests" / "cases.md"
TEST = re.compile(r"tests/[\w/]+\.py::test_\w+")

#: Numbers of public reports that nobody gave.
UNUSED = {1, 3, 28, 30, 46, 48, 55, 58, 114, 123, 138, 145}


def lines() -> dict[int, str]:
    found = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len({number for number, _ in found}) == len(found), "a case has one line"
    return {int(number): said for number, said in found}


def cases_named() -> dict[str, set[int]]:
    """The cases that each test of the SQL names, by `file::test`."""
    named = {}
    for folder in ("sql", "upgrade"):
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    numbers = re.findall(r"\bcase (\d+)", ast.get_docstring(node) or "")
                    named[f"{path.relative_to(ROOT).as_posix()}::{node.name}"] = set(map(int, numbers))
    return named


def test_every_case_has_its_line() -> None:
    assert set(lines()) == set(range(1, 150)) - UNUSED


def test_every_case_is_tested_or_has_a_reason() -> None:
    named = cases_named()
    faults = []
    for number, said in lines().items():
        tests = TEST.findall(said.split(" (")[0])
        if said.startswith("tests/"):
            faults += [
                f"{number}: {test} does not name it" for test in tests if number not in named.get(test, ())
            ]
        elif not re.match(r"(elsewhere|later|differs): .{8,}", said):
            faults.append(f"{number}: {said}")
    assert faults == []


def test_every_test_that_is_listed_is_there() -> None:
    """Those of the SQL by file and name; others by name, since their files are theirs."""
    there = set(cases_named())
    names = set(
        re.findall(r"def (test_\w+)\(", "".join(file.read_text() for file in (ROOT / "tests").rglob("*.py")))
    )
    page = PAGE.read_text()
    assert sorted(set(TEST.findall(page)) - there) == []
    elsewhere = re.findall(
        r"(?<![/\w])test_\w+(?!\.py|\w)", TEST.sub("", page).replace("tests/sql/test_cases.py", "")
    )
    assert sorted(set(elsewhere) - names) == []
