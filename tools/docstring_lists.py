"""For the site: the lines `name: what it is` of a docstring become a list.

An extension of griffe, which mkdocs.yml names. A docstring here says of its parameters, or a class of its fields,
`name: …` at the start of a line; Markdown would run such lines into one paragraph.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

NAMED = re.compile(r"^(\w+(?:, \w+)*): ")


class DocstringLists(griffe.Extension):
    """Rewrites the docstrings of what is documented."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value, names(obj))


def names(obj: griffe.Object) -> set[str]:
    """What a docstring may speak of: parameters, those of a class's constructor, and its members."""
    known = set(obj.members)
    if isinstance(obj, griffe.Function):
        known |= {one.name for one in obj.parameters}
    if isinstance(obj, griffe.Class):
        known |= {one.name for one in obj.parameters}
        known |= {name for base in obj.resolved_bases for name in base.members}
    return known


def listed(text: str, known: set[str]) -> str:
    """The docstring with a list item for each line that begins with known names and a colon."""
    lines, inside = [], False
    for line in text.splitlines():
        found = NAMED.match(line)
        if found and set(found[1].split(", ")) <= known:
            if not inside and lines and lines[-1]:
                lines.append("")
            called = ", ".join(f"`{name}`" for name in found[1].split(", "))
            line = f"- {called}: {line[found.end() :]}"
            inside = True
        elif inside and line[:1].strip() and lines[-1].endswith("."):
            line, inside = f"\n{line}", False
        elif not line:
            inside = False
        elif inside and lines[-1].endswith("."):
            lines[-1] += "  "  # a sentence that stands on a line of its own stays there
        lines.append(line)
    return "\n".join(lines)
