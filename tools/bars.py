"""Writes the table of bars into docs/performance.md, from pgqueue/bench/bars.py.

python tools/bars.py           write it anew
python tools/bars.py --check   write nothing; fail if it is not current
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pgqueue.bench.report import bars_text

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
LISTED = re.compile(r"(<!-- bars: tools/bars.py -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    written = PAGE.read_text(encoding="utf-8")
    wanted, places = LISTED.subn(lambda found: f"{found[1]}{bars_text()}\n{found[2]}", written)
    if places != 1:
        print(f"docs/performance.md has {places} places for the bars, not one", file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        if written != wanted:
            print(
                "docs/performance.md does not list the bars as they are: run tools/bars.py", file=sys.stderr
            )
        return int(written != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
