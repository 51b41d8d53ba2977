"""The folder of an embedded server: where it is, that it is ours, and who may change it now."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgqueue.embedded.account import Account
from pgqueue.embedded.binaries import COPY
from pgqueue.errors import EmbeddedError

MARKER = "pgqueue-embedded"
MARKER_TEXT = "A private Postgres server of pgqueue lives in this folder: see `pgqueue embedded --help`.\n"
HALF_MADE = "initdb-"
BIG_LOG = 1_000_000  # bytes


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


class Folder:
    """The folder `path`: a marker that is also its lock, the data, the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.log = path / "log"
        self._marker = path / MARKER

    @property
    def exists(self) -> bool:
        """Whether there is anything of that name. Raises OSError when that cannot be seen."""
        return _exists(self.path)

    @property
    def ours(self) -> bool:
        """Whether it carries our marker. Raises OSError when that cannot be seen."""
        return _exists(self._marker)

    def check_ours(self) -> None:
        """Raise EmbeddedError if it does not carry our marker."""
        if not self.ours:
            raise EmbeddedError(f"{self.path} holds no embedded Postgres of pgqueue")

    @property
    def has_data(self) -> bool:
        """Whether a server was made in it: initdb works elsewhere and its result is moved here whole."""
        return _exists(self.data)

    def major(self) -> str | None:
        """Return the major version of the data, such as "18", None when there are none."""
        if not self.has_data:
            return None
        version = self.data / "PG_VERSION"
        text = version.read_text().strip() if _exists(version) else ""
        if not text:
            raise EmbeddedError(f"{self.data} is damaged: it has no PG_VERSION")
        return text

    @contextmanager
    def claimed(self, account: Account, deadline: Deadline) -> Iterator[None]:
        """Make it, mark it, lock it, and shut out all but `account`: its server trusts whoever gets in.

        Raises EmbeddedError, and changes nothing, if it holds something else or is another user's.
        """
        with self._locked(deadline, claim=True):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchmod(descriptor, 0o700)
            finally:
                os.close(descriptor)
            account.give(self._marker)
            account.give(self.path)
            yield

    @contextmanager
    def locked(self, deadline: Deadline) -> Iterator[None]:
        """Lock it among processes and threads. Raises EmbeddedError if it is not ours or busy too long."""
        self.check_ours()
        with self._locked(deadline, claim=False):
            yield

    @contextmanager
    def _locked(self, deadline: Deadline, claim: bool) -> Iterator[None]:
        import fcntl  # absent on Windows

        while True:
            if claim:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                if claim:
                    self._claim()
                descriptor = os.open(self._marker, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                if claim and deadline.left:  # another is destroying it
                    continue
                raise
            try:
                self._wait_for_lock(descriptor, deadline)
                if os.fstat(descriptor).st_nlink:  # else another destroyed it while we waited
                    yield
                    return
            finally:
                # not left to close(): a child that another thread forked may hold the same open file
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

    def _claim(self) -> None:
        owner = self.path.stat().st_uid
        if os.geteuid() not in (0, owner):
            raise EmbeddedError(f"{self.path} belongs to uid {owner}, not to you: choose another folder")
        if os.listdir(self.path) and not self.ours:
            raise EmbeddedError(
                f"{self.path} is not empty and holds no embedded Postgres of pgqueue: "
                "choose an empty or a new folder"
            )
        if not self.ours:
            with open(self._marker, "a", opener=_not_through_links) as marker:
                marker.write(MARKER_TEXT)

    def _wait_for_lock(self, descriptor: int, deadline: Deadline) -> None:
        import fcntl  # absent on Windows

        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not deadline.left:
                    raise EmbeddedError(
                        f"another process has been busy with {self.path} for {deadline.seconds:g} s"
                    ) from None
                time.sleep(0.01)

    def keep_data(self, fresh: Path) -> None:
        """Make the finished `fresh` the data, for good: what keeps a half-made name is removed one day."""
        fresh.rename(self.data)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_half_made(self) -> None:
        """Remove what a killed initdb or a killed copy left."""
        for pattern in (f"{HALF_MADE}*", f"{COPY}-*"):
            for path in self.path.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Remove what we made in it, the marker last, and the folder itself if nothing else is there."""
        self.remove_half_made()
        for path in (self.data, self.path / COPY):
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
        for path in (self.log, self._old_log, self._marker):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something that is not ours is in it
            self.path.rmdir()

    @property
    def _old_log(self) -> Path:
        return self.path / "log.old"

    def turn_log(self) -> int:
        """Put a log that has grown big aside, and return the size in bytes of the one to be gone on with."""
        if self.log_size() > BIG_LOG:
            self.log.rename(self._old_log)
        return self.log_size()

    def log_size(self) -> int:
        """Return the size of the log in bytes, 0 when there is none."""
        return self.log.stat().st_size if _exists(self.log) else 0

    def log_tail(self, since: int = 0) -> str:
        """Return the end of the log from byte `since` on, in one line."""
        size = self.log_size()
        if size <= since:
            return "its log says nothing"
        with open(self.log, "rb") as log:
            log.seek(max(since, size - 2000))
            return " / ".join(log.read().decode(errors="replace").splitlines()[-8:])

    def size(self) -> int:
        """Return the bytes in all its files."""
        total = 0
        for parent, _, files in os.walk(self.path):
            for name in files:
                try:
                    total += os.lstat(os.path.join(parent, name)).st_size
                except FileNotFoundError:  # the server is at work
                    continue
        return total


def _exists(path: Path) -> bool:
    """Path.exists, but a folder that we may not look into is an OSError in every Python."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
