"""A Postgres that offers pgmq as an extension, in every version: its own copy of the binaries, so that nothing
is written into a folder that others use, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.adopt import layouts
from tests.servers import Server


@contextlib.contextmanager
def offering(choice: str, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A running server with pgmq's files in its extension folder. choice: as for Server."""
    server = Server(choice, settings)
    try:
        server.bin = _own_copy(server.bin, server.root)
        for name, text in layouts.extension_files().items():
            (_extension_folder(server.bin) / name).write_text(text)
        server.start()
        yield server
    finally:
        server.stop()


def _own_copy(folder: Path, root: Path) -> Path:
    """A copy below root of the tree that a bin folder is in; its place in the tree is how Postgres finds the rest."""
    if root in folder.parents:
        return folder
    tree, place = folder.parent, root / "own"
    parts = [tree]
    if tree.is_relative_to("/usr"):  # Debian's: /usr/lib/postgresql/15 and /usr/share/postgresql/15
        parts.append(Path("/usr/share") / tree.relative_to("/usr/lib"))
    libraries = tree.parent.with_name(tree.parent.name + ".libs")
    if libraries.exists():
        parts.append(libraries)
    base = Path(os.path.commonpath([*map(str, parts), str(tree.parent.parent)]))
    for part in parts:
        shutil.copytree(
            part,
            place / part.relative_to(base),
            symlinks=True,
            ignore=shutil.ignore_patterns("include", "doc"),
        )
    return place / folder.relative_to(base)


def _extension_folder(folder: Path) -> Path:
    asked = subprocess.run([folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=True)
    return Path(asked.stdout.strip()) / "extension"
