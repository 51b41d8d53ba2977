"""Writes the tables of bars and figures into docs/performance.md, from pgqueue/bench/bars.py and docs/figures.

python tools/bars.py           write it anew
python tools/bars.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import sys

from generated import ROOT, settle, with_part

from pgqueue.bench.model import read_run
from pgqueue.bench.report import bars_text, cycle_text

PAGE = ROOT / "docs" / "performance.md"
RUNS = sorted((ROOT / "docs" / "figures").glob("pg*.json"))

if __name__ == "__main__":
    runs = [read_run(path) for path in RUNS]
    page = with_part(PAGE, "bars: tools/bars.py", bars_text(runs))
    page = with_part(PAGE, "figures: tools/bars.py", cycle_text(runs), page)
    sys.exit(settle("bars.py", {PAGE: page}))
