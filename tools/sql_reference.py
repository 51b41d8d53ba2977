"""Writes the signatures of the public functions into docs/sql.md, from sql/rendered/pgqueue.sql.

python tools/sql_reference.py           write them anew
python tools/sql_reference.py --check   write nothing; fail if the page is not current
"""

from __future__ import annotations

import re
import sys

from generated import ROOT, settle

SCRIPT = ROOT / "sql" / "rendered" / "pgqueue.sql"
PAGE = ROOT / "docs" / "sql.md"
FUNCTION = re.compile(
    r"^create or replace function (pgmq|pgqueue)\.([a-z]\w*)\((.*?)\)\n(?:returns (.*?)\n)?language ",
    re.M | re.S,
)
LISTED = re.compile(r"(<!-- functions: (.*?) -->\n).*?(<!-- end -->)", re.S)
WIDE = 100


def signatures() -> dict[str, list[str]]:
    """Every public function by schema and name, each with its overloads as the page has them."""
    found: dict[str, list[str]] = {}
    for schema, name, arguments, result in FUNCTION.findall(SCRIPT.read_text(encoding="utf-8")):
        found.setdefault(f"{schema}.{name}", []).append(_signature(f"{schema}.{name}", arguments, result))
    return found


def _signature(name: str, arguments: str, result: str) -> str:
    words = re.split(r",(?=\w+ )", re.sub(r",\s+(?=\w+ )", ",", " ".join(arguments.split())))
    takes = [word for word in words if word and not word.startswith("out ")]
    gives = " ".join(result.split()).replace("setof pgmq.message_record", "messages").replace("pgmq.", "")
    if not gives:
        gives = f"({', '.join(word.removeprefix('out ') for word in words if word not in takes)})"
    line = f"{name}({', '.join(takes)}) → {gives.replace('( ', '(').replace(' )', ')')}"
    if len(line) <= WIDE or not takes:
        return line
    parts = ",\n    ".join(takes)
    return f"{name}(\n    {parts}\n) → {gives}"


def page(text: str, known: dict[str, list[str]]) -> str:
    """The page with the signatures that its marks ask for. Raises KeyError, ValueError."""
    left = dict(known)

    def block(found: re.Match[str]) -> str:
        names = [one if "." in one else f"pgmq.{one}" for one in found[2].split(", ")]
        lines = "\n".join(line for name in names for line in left.pop(name))
        return f"{found[1]}```text\n{lines}\n```\n{found[3]}"

    written = LISTED.sub(block, text)
    if left:
        raise ValueError(f"docs/sql.md says nothing of {', '.join(left)}")
    return written


def main() -> int:
    try:
        wanted = page(PAGE.read_text(encoding="utf-8"), signatures())
    except KeyError as error:
        print(f"docs/sql.md asks for {error}, which is no function, or asks twice", file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return settle("sql_reference.py", {PAGE: wanted})


if __name__ == "__main__":
    raise SystemExit(main())
