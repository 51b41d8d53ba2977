"""Writes the list of deliberate differences into README.md, from tests/compat/differences.py.

python tools/readme.py           write it anew
python tools/readme.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
LISTED = re.compile(r"(<!-- differences: tools/readme.py -->\n).*?(<!-- end -->)", re.S)


def table() -> str:
    """One row a difference, in the order in which the comparison tests hold them."""
    sys.path.insert(0, str(ROOT))
    from tests.compat.differences import CATALOGUE, DIFFERENCES

    rows = [(one.name, one.reason) for one in DIFFERENCES]
    rows += [(what, reason) for what, (_, _, reason) in CATALOGUE.items()]
    cells = [f"| {name.replace('|', chr(92) + '|')} | {' '.join(reason.split())} |" for name, reason in rows]
    return "\n".join(["| difference | why |", "|---|---|", *cells])


def main() -> int:
    written = README.read_text(encoding="utf-8")
    wanted, places = LISTED.subn(lambda found: f"{found[1]}{table()}\n{found[2]}", written)
    if places != 1:
        print(f"README.md has {places} places for the differences, not one", file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        if written != wanted:
            print("README.md does not list the differences as they are: run tools/readme.py", file=sys.stderr)
        return int(written != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
