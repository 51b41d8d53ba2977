"""Render sql/rendered/pgqueue.sql from the templates. With --check, say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from pgqueue.script import install_sql

TARGET = Path(__file__).parent.parent / "sql" / "rendered" / "pgqueue.sql"


def main() -> int:
    text = install_sql()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.name} is not current: run tools/render.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
