"""Functions of pgqueue that are not as this package has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from pgqueue.doctor.findings import Finding, error, warning
from pgqueue.doctor.survey import Survey
from pgqueue.script import functions_sql, package_version

#: So many are named one by one; beyond that the whole of them is to be renewed.
MANY = 5
RENEW = "-- in a shell; it renews every function, and leaves queues and messages alone\n-- pgqueue install"

_FUNCTION = re.compile(
    r"^create or replace function (?P<name>pgm?q(?:ueue)?\.\w+)\(.*?\nas \$\$(?P<body>.*?)\$\$;", re.M | re.S
)

_PRESENT = """
select concat(n.nspname, '.', p.proname) as name, p.prosrc as body
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('pgmq', 'pgqueue')
"""


@dataclass
class _Overloads:
    """The functions of one name: statements that make them, and their bodies."""

    statements: list[str] = field(default_factory=list)
    bodies: Counter[str] = field(default_factory=Counter)


@cache
def _packaged() -> dict[str, _Overloads]:
    """What this package installs, by name."""
    found: dict[str, _Overloads] = {}
    for function in _FUNCTION.finditer(functions_sql()):
        one = found.setdefault(function["name"], _Overloads())
        one.statements.append(function[0])
        one.bodies[function["body"]] += 1
    return found


def version_differs(survey: Survey) -> Iterator[Finding]:
    """The database has the functions of another version of pgqueue than this program."""
    if survey.ours and survey.version is not None and not survey.current:
        yield warning(
            f"pgqueue {survey.version} is installed, and this program is {package_version()}",
            "what was mended since is not in the database; the functions were not compared",
            "-- in a shell, with the newer program\n-- pgqueue upgrade",
        )


def function_missing(survey: Survey) -> Iterator[Finding]:
    """One that the package installs and the database does not have."""
    names = [name for name, (lost, strange) in _changed(survey).items() if lost > strange]
    for what, remedy in _told(names, "missing"):
        yield error(what, "calls of it, or of those that need it, fail", remedy)


def function_drifted(survey: Survey) -> Iterator[Finding]:
    """One that somebody changed."""
    names = [name for name, (lost, strange) in _changed(survey).items() if lost and strange]
    for what, remedy in _told(names, "not as the package has it"):
        yield warning(what, "it may do anything else, and the next upgrade undoes it", remedy)


def _told(names: list[str], what: str) -> Iterator[tuple[str, str]]:
    """What is to say of some functions, and the remedy."""
    if len(names) > MANY:
        first = ", ".join(sorted(names)[:MANY])
        yield f"{len(names)} functions are {what}: {first} …", RENEW
        return
    for name in names:
        yield f"the function {name} is {what}", "\n".join(_packaged()[name].statements)


def _changed(survey: Survey) -> dict[str, tuple[int, int]]:
    """Names of functions that differ, each with how many bodies are gone and how many are strange."""
    if not survey.current:
        return {}
    present: dict[str, Counter[str]] = {}
    for row in survey.look.rows(_PRESENT):
        present.setdefault(row.name, Counter())[row.body] += 1
    changed = {}
    for name, packaged in _packaged().items():
        there = present.get(name, Counter())
        lost, strange = packaged.bodies - there, there - packaged.bodies
        if lost:
            changed[name] = (lost.total(), strange.total())
    return changed
