"""Writes into README.md the list of deliberate differences, from tests/compat/differences.py, and the figures of the
newest Postgres in docs/figures.

python tools/readme.py           write it anew
python tools/readme.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import sys

from generated import ROOT, settle, with_part

from pgqueue.bench.model import read_run
from pgqueue.bench.report import cycle_text

README = ROOT / "README.md"
FIGURES = max((ROOT / "docs" / "figures").glob("pg*.json"))


def table() -> str:
    """One row a difference, in the order in which the comparison tests hold them."""
    sys.path.insert(0, str(ROOT))
    from tests.compat.differences import CATALOGUE, DIFFERENCES

    rows = [(one.name, one.reason) for one in DIFFERENCES]
    rows += [(what, reason) for what, (_, _, reason) in CATALOGUE.items()]
    cells = [f"| {name.replace('|', chr(92) + '|')} | {' '.join(reason.split())} |" for name, reason in rows]
    return "\n".join(["| difference | why |", "|---|---|", *cells])


if __name__ == "__main__":
    text = with_part(README, "differences: tools/readme.py", table())
    text = with_part(README, "figures: tools/readme.py", cycle_text([read_run(FIGURES)]), text)
    sys.exit(settle("readme.py", {README: text}))
