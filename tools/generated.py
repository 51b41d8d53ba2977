"""How a tool leaves what it generates: written, or, with --check, compared with what is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settle(tool: str, files: Mapping[Path, str]) -> int:
    """Write the files, or with --check on the command line only compare them. The exit code of the tool."""
    if "--check" not in sys.argv[1:]:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [p for p, text in files.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not current: run tools/{tool}", file=sys.stderr)
    return int(bool(stale))


def with_part(page: Path, mark: str, part: str, text: str | None = None) -> str:
    """A page whose part between `<!-- MARK -->` and `<!-- end -->` is replaced; or its text, where that has changed
    already. Raises SystemExit if it has no such part, or several."""
    place = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.S)
    text = page.read_text(encoding="utf-8") if text is None else text
    text, places = place.subn(lambda found: f"{found[1]}{part}\n{found[2]}", text)
    if places != 1:
        raise SystemExit(f"{page.name} has {places} places for {mark}, not one")
    return text
