"""Write the sync twin of every file in pgqueue/_async and tests/_async, word by word.

    tools/unasync.py          write pgqueue/_sync and tests/_sync
    tools/unasync.py --check  write nothing; exit 1 if a twin differs from what would be written

Words are Python's own tokens: text in strings and comments stays. A twin has its source's line numbers. Files
that differ in more than words are written by hand on both sides and are not touched: see BY_HAND.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from generated import ROOT

FOLDERS = ("pgqueue/_async", "tests/_async")
BY_HAND = ("_compat.py", "conftest.py", "__init__.py")

WORDS = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "_async": "_sync",
    "asynccontextmanager": "contextmanager",
    "enter_async_context": "enter_context",
}
PREFIX = "Async"  # AsyncClient is Client; psycopg's and the library's names follow the same rule
DROPPED = ("async", "await")


class Untranslatable(Exception):
    """The source cannot be turned into its twin."""


def header(source: str, twin: str) -> tuple[str, str]:
    """First line of a source file and of its twin."""
    return (
        f"# The source of {twin}: after a change here run tools/unasync.py.",
        f"# Made of {source} by tools/unasync.py: change that file, not this one.",
    )


def translate(text: str, used: set[str]) -> str:
    """Source text of a twin. Adds the words that were found to `used`."""
    lines = text.splitlines(keepends=True)
    for start, end, word in reversed(list(_changes(text, used))):
        line = lines[start[0] - 1]
        lines[start[0] - 1] = line[: start[1]] + word + line[end:]
    return "".join(lines)


def _changes(text: str, used: set[str]) -> Iterator[tuple[tuple[int, int], int, str]]:
    """(row, column) where a change begins, the column where it ends, and the word to put there."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, following in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if token.type != tokenize.NAME:
            continue
        if token.string in DROPPED:
            if following.type in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
                raise Untranslatable(f"line {token.start[0]}: {token.string} stands alone on its line")
            yield token.start, following.start[1], ""
        elif token.string in WORDS:
            used.add(token.string)
            yield token.start, token.end[1], WORDS[token.string]
        elif re.match(f"{PREFIX}[A-Z]", token.string):
            yield token.start, token.end[1], token.string.removeprefix(PREFIX)


def twins(root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> dict[Path, str]:
    """Path and text of every sync file. Raises Untranslatable, also for a word that no file uses."""
    made: dict[Path, str] = {}
    used: set[str] = set()
    for folder in folders:
        for path in sorted((root / folder).glob("*.py")):
            if path.name in BY_HAND:
                continue
            source = path.relative_to(root).as_posix()
            twin = source.replace("/_async/", "/_sync/")
            ours, theirs = header(source, twin)
            first, _, rest = path.read_text().partition("\n")
            if first != ours:
                raise Untranslatable(f"{source}: its first line must be {ours!r}")
            made[root / twin] = f"{theirs}\n{translate(rest, used)}"
    if unused := sorted(WORDS.keys() - used):
        raise Untranslatable(f"words in the table that no file uses: {', '.join(unused)}")
    return made


def differing(root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> list[str]:
    """Sync files that are missing, differ from what would be written, or have no source any more."""
    made = twins(root, folders)
    there = {
        path
        for folder in folders
        for path in (root / folder.replace("_async", "_sync")).glob("*.py")
        if path.name not in BY_HAND
    }
    wrong = [path for path in made.keys() | there if not path.exists() or path.read_text() != made.get(path)]
    return sorted(path.relative_to(root).as_posix() for path in wrong)


def main(arguments: list[str], root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> int:
    try:
        wrong = differing(root, folders)
        if "--check" not in arguments:
            for path, text in twins(root, folders).items():
                path.write_text(text)
            return 0
    except Untranslatable as error:
        print(f"unasync: {error}", file=sys.stderr)
        return 1
    for name in wrong:
        print(f"unasync: {name} is not current: run tools/unasync.py", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
