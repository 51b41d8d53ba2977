"""Writes the list of deliberate differences into README.md, from tests/compat/differences.py.

python tools/readme.py           write it anew
python tools/readme.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import sys

from generated import ROOT, settle, with_part

README = ROOT / "README.md"


def table() -> str:
    """One row a difference, in the order in which the comparison tests hold them."""
    sys.path.insert(0, str(ROOT))
    from tests.compat.differences import CATALOGUE, DIFFERENCES

    rows = [(one.name, one.reason) for one in DIFFERENCES]
    rows += [(what, reason) for what, (_, _, reason) in CATALOGUE.items()]
    cells = [f"| {name.replace('|', chr(92) + '|')} | {' '.join(reason.split())} |" for name, reason in rows]
    return "\n".join(["| difference | why |", "|---|---|", *cells])


if __name__ == "__main__":
    sys.exit(settle("readme.py", {README: with_part(README, "differences: tools/readme.py", table())}))
