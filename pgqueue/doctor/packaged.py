"""What this package installs as functions, and where a database differs from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pgqueue.doctor.look import Look
from pgqueue.script import functions_sql

_FUNCTION = re.compile(
    r"^create or replace function (?P<name>(?:pgmq|pgqueue)\.\w+)\(.*?\nas \$\$(?P<body>.*?)\$\$;",
    re.M | re.S,
)

#: What pgqueue._write_direct_calls has written into a function for the queues there are.
_DIRECT_CALLS = re.compile(r"(?P<how>\n *-- direct: [^\n]*\n).*?(?P<others> *-- others)[^\n]*", re.S)

_PRESENT = """
select
    concat(n.nspname, '.', p.proname) as name,
    format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as signature,
    p.prosrc as body
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('pgmq', 'pgqueue')
"""


@dataclass
class Overloads:
    """The functions of one name: statements that make them, and their bodies."""

    statements: list[str] = field(default_factory=list)
    bodies: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Difference:
    """How the functions of one name differ in a database.

    lost: how many of the package's are not there, or not as they were
    strange: signatures of those there that the package does not have so
    """

    lost: int
    strange: tuple[str, ...]


@cache
def packaged() -> Mapping[str, Overloads]:
    """What this package installs, by name."""
    found: dict[str, Overloads] = {}
    for function in _FUNCTION.finditer(functions_sql()):
        one = found.setdefault(function["name"], Overloads())
        one.statements.append(function[0])
        one.bodies[function["body"]] += 1
    return found


def differences(look: Look) -> dict[str, Difference]:
    """Names of the package's functions that are not as it has them. Body for body, since that is what runs."""
    present: dict[str, list[tuple[str, str]]] = {}
    for row in look.rows(_PRESENT):
        body = _DIRECT_CALLS.sub(r"\g<how>\g<others>", row.body)
        present.setdefault(row.name, []).append((body, row.signature))
    found = {}
    for name, one in packaged().items():
        there = present.get(name, [])
        lost = one.bodies - Counter(body for body, _ in there)
        strange = tuple(signature for body, signature in there if body not in one.bodies)
        if lost or strange:
            found[name] = Difference(lost.total(), strange)
    return found
