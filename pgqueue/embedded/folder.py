"""The folder of an embedded server: where it is, that it is ours, who may change it, where its socket goes."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgqueue.embedded.account import Account
from pgqueue.embedded.binaries import COPY
from pgqueue.errors import EmbeddedError

MARKER = "pgqueue-embedded"
MARKER_TEXT = "A private Postgres server of pgqueue lives in this folder: see `pgqueue embedded --help`.\n"
HALF_MADE = "initdb-"
PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107


def default_folder() -> Path:
    """Return $PGQUEUE_EMBEDDED_HOME, else this platform's place for a user's data."""
    named = os.environ.get("PGQUEUE_EMBEDDED_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/pgqueue")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "pgqueue")
    return Path("~/.local/share/pgqueue")


class Deadline:
    """A moment `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, never less than zero."""
        return max(0.0, self._end - time.monotonic())


def is_ours(folder: Path) -> bool:
    """Whether `folder` carries our marker."""
    return (folder / MARKER).is_file()


def claim(folder: Path) -> None:
    """Make `folder` and mark it as ours. Raises EmbeddedError, changing nothing, if it holds something else."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.listdir(folder) and not is_ours(folder):
        raise EmbeddedError(
            f"{folder} is not empty and holds no embedded Postgres of pgqueue: choose an empty or new folder"
        )
    with open(folder / MARKER, "a", opener=_open_no_link) as marker:
        if marker.tell() == 0:
            marker.write(MARKER_TEXT)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


@contextmanager
def locked(folder: Path, deadline: Deadline) -> Iterator[None]:
    """Hold the marker of `folder` as a lock among processes and threads.

    Raises EmbeddedError when another holds it until the deadline, and FileNotFoundError when the folder is
    destroyed meanwhile.
    """
    import fcntl  # absent on Windows

    marker = folder / MARKER
    while True:
        descriptor = os.open(marker, os.O_RDWR | os.O_NOFOLLOW)
        try:
            _wait_for_lock(descriptor, folder, deadline)
            if os.path.samestat(os.fstat(descriptor), os.stat(marker)):
                yield
                return
        finally:
            # not left to close(): a child forked by another thread may hold the same open file
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _wait_for_lock(descriptor: int, folder: Path, deadline: Deadline) -> None:
    import fcntl  # absent on Windows

    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not deadline.left:
                raise EmbeddedError(
                    f"another process has been busy with {folder} for {deadline.seconds:g} s"
                ) from None
            time.sleep(0.01)


def close_to_others(folder: Path, account: Account) -> None:
    """Give `folder` to the server's user and shut out all others: whoever reaches its socket is trusted."""
    os.chmod(folder, 0o700)
    account.give(folder / MARKER)
    account.give(folder)


def needs_short_socket(folder: Path) -> bool:
    """Whether a socket in `folder` is beyond what a socket address can hold, or a DSN's host can name."""
    path = os.fsencode(folder / SOCKET)
    return len(path) > LONGEST_SOCKET_PATH or b"," in path


def short_folder(folder: Path) -> Path:
    """Return the name of a short folder in the temp folder, always the same for `folder`."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir(), f"pgqueue-{name}")


def make_short_folder(short: Path, account: Account) -> None:
    """Make `short`, or check the one that is there: EmbeddedError unless it is the server's and closed."""
    try:
        short.mkdir(mode=0o700)
        account.give(short)
    except FileExistsError:
        check_short_folder(short, account)


def check_short_folder(short: Path, account: Account) -> None:
    """Raise EmbeddedError unless `short` is a real folder that belongs to the server's user alone."""
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedError(f"{short} should be the folder of the server's socket and is none: remove it")
    if found.st_uid != account.uid:
        raise EmbeddedError(
            f"{short} belongs to uid {found.st_uid}, not to the server's {account.uid}: remove it"
        )
    if found.st_mode & 0o077:
        raise EmbeddedError(f"{short} is open to other users (mode {found.st_mode & 0o777:o}): remove it")


def remove_short_folder(short: Path, account: Account) -> None:
    """Remove `short` if it is there and the server's."""
    if os.path.lexists(short):
        check_short_folder(short, account)
        shutil.rmtree(short)


def remove_everything(folder: Path) -> None:
    """Remove what we made in `folder`, its marker last, and `folder` itself if nothing else is in it."""
    ours = [folder / name for name in ("data", "log", "log.old", SOCKET, f"{SOCKET}.lock")]
    for path in [*folder.glob(f"{HALF_MADE}*"), *folder.glob(f"{COPY}-*"), folder / COPY, *ours]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (folder / MARKER).unlink()
    if not os.listdir(folder):
        folder.rmdir()
