"""Writes the table of bars into docs/performance.md, from pgqueue/bench/bars.py.

python tools/bars.py           write it anew
python tools/bars.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import sys

from generated import ROOT, settle, with_part

from pgqueue.bench.report import bars_text

PAGE = ROOT / "docs" / "performance.md"

if __name__ == "__main__":
    sys.exit(settle("bars.py", {PAGE: with_part(PAGE, "bars: tools/bars.py", bars_text())}))
