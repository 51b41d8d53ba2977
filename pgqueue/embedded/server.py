"""The server of one folder: made, started, watched, stopped, destroyed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pgqueue.embedded import binaries, postmaster
from pgqueue.embedded import folder as folders
from pgqueue.embedded.account import Account, server_account
from pgqueue.embedded.binaries import Binaries
from pgqueue.embedded.folder import PORT, Deadline
from pgqueue.errors import EmbeddedError

SCHEME = "embedded:"
BIG_LOG = 1_000_000  # bytes
INITDB = (
    "-U", "postgres", "--auth-local=trust", "--auth-host=reject", "-E", "UTF8", "--data-checksums"
)  # fmt: skip
# what Postgres says of a server that died with children still at work: they leave by themselves
CHILDREN_LINGER = ("pre-existing shared memory block", "lock file")


@dataclass(frozen=True)
class Status:
    """What is known of an embedded server."""

    folder: Path
    running: bool
    #: of the server process; None when it is not running.
    pid: int | None
    #: "18.6" while it runs, else the major version of the data, "18"; None when there is none.
    version: str | None
    dsn: str
    #: bytes in all files of the folder.
    size: int


def resolve(dsn: str) -> str:
    """Return `dsn`, unless it is `embedded:` or `embedded:FOLDER`: then start that server and return its DSN.

    Raises EmbeddedError when the server cannot be started.
    """
    if not dsn.startswith(SCHEME):
        return dsn
    folder = dsn[len(SCHEME) :]
    if folder.startswith("//"):
        folder = folder[2:]
        if not folder.startswith("/"):
            raise EmbeddedError(f"{dsn} names no folder: write embedded:/folder")
    return Embedded(folder or None).start()


class Embedded:
    """The server in `folder`, by default $PGQUEUE_EMBEDDED_HOME, else in the user's data folder.

    Making one of these starts nothing. Raises EmbeddedError for what can be no folder, and on Windows.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        if os.name == "nt":
            raise EmbeddedError("the embedded Postgres needs Unix sockets: on Windows use WSL, or give a DSN")
        path = Path(folder) if folder and str(folder) else folders.default_folder()
        if any(ord(character) < 32 for character in str(path)):
            raise EmbeddedError(f"{str(path)!r} is not the name of a folder")
        try:
            self.folder = path.expanduser().resolve()
        except (OSError, RuntimeError) as error:
            raise EmbeddedError(f"{path} cannot be used: {error}") from None
        self._data = self.folder / "data"
        self._log = self.folder / "log"

    @property
    def dsn(self) -> str:
        """The server's DSN as a URI; it holds no secret. It may not be running."""
        return f"postgresql:///postgres?host={quote(os.fsencode(self._sockets))}&port={PORT}&user=postgres"

    @property
    def _sockets(self) -> Path:
        if not folders.needs_short_socket(self.folder):
            return self.folder
        # who started it may have another temp folder than we
        with self._refusals():
            written = postmaster.written_socket_folder(self._data)
        return Path(written) if written else folders.short_folder(self.folder)

    def start(self, timeout: float = 60.0) -> str:
        """Make the server if there is none, start it if it does not run, and return its DSN when it answers.

        Raises EmbeddedError, after `timeout` seconds at the latest.
        """
        deadline = Deadline(timeout)
        with self._refusals():
            if not self._data.exists():
                binaries.find()  # before anything is made
            account = server_account(self.folder)
            folders.claim(self.folder)
            with folders.locked(self.folder, deadline):
                folders.close_to_others(self.folder, account)
                if folders.needs_short_socket(self.folder):
                    folders.make_short_folder(self._sockets, account)
                self._start(account, deadline)
        return self.dsn

    def stop(self, timeout: float = 60.0) -> None:
        """Stop the server and wait until it is gone; nothing happens if it does not run.

        Raises EmbeddedError, after `timeout` seconds at the latest.
        """
        with self._refusals():
            if self.folder.exists():
                self._check_ours()
                with folders.locked(self.folder, deadline := Deadline(timeout)):
                    self._stop(deadline)

    def status(self) -> Status:
        """Return what is known of the server, without waiting for it or changing anything."""
        with self._refusals():
            pid = postmaster.read_pid(self._data)
            running = pid is not None and postmaster.serves(pid, self._data)
            reply = postmaster.ask(self._sockets) if folders.is_ours(self.folder) else postmaster.NOBODY
            return Status(
                folder=self.folder,
                running=running or reply.listening,
                pid=pid if running or reply.listening else None,
                version=reply.version or self._major,
                dsn=self.dsn,
                size=_size(self.folder),
            )

    def destroy(self, timeout: float = 60.0) -> None:
        """Stop the server and remove it with all its data.

        Raises EmbeddedError, and removes nothing, when the folder is not one that we made.
        """
        with self._refusals():
            self._check_ours()
            with folders.locked(self.folder, deadline := Deadline(timeout)):
                self._stop(deadline)
                folders.remove_everything(self.folder)

    @property
    def _major(self) -> str | None:
        try:
            return (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None

    def _check_ours(self) -> None:
        if not folders.is_ours(self.folder):
            raise EmbeddedError(f"{self.folder} holds no embedded Postgres of pgqueue")

    def _start(self, account: Account, deadline: Deadline) -> None:
        reply = postmaster.ask(self._sockets)
        if reply.ready:
            return
        pid = postmaster.read_pid(self._data)
        if reply.listening or (pid is not None and postmaster.serves(pid, self._data)):
            self._wait(deadline)
            return
        with account.view(self.folder) as (seen, fds):
            programs = self._programs(account, in_folder=not fds)
            if not self._data.exists():
                self._make_data(account, programs, seen, fds, deadline)
            self._launch(account, programs, seen, fds, deadline)

    def _programs(self, account: Account, *, in_folder: bool) -> Binaries:
        if self._data.exists() and self._major is None:
            raise EmbeddedError(f"{self._data} is damaged: it has no PG_VERSION")
        found = binaries.find(self._major)
        home = self.folder if in_folder else folders.short_folder(self.folder)
        if account.switch and not in_folder:
            folders.make_short_folder(home, account)
        return binaries.reachable(found, account, home) if account.switch else found

    def _make_data(
        self, account: Account, programs: Binaries, seen: Path, fds: tuple[int, ...], deadline: Deadline
    ) -> None:
        account.check_known()
        for left_by_a_killed_one in self.folder.glob(f"{folders.HALF_MADE}*"):
            shutil.rmtree(left_by_a_killed_one, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=folders.HALF_MADE, dir=self.folder))
        try:
            account.give(fresh)
            for locale in ("C.UTF-8", "C"):
                where = ("-D", str(seen / fresh.name), f"--locale={locale}")
                answer = account.run(
                    [str(programs.folder / "initdb"), *where, *INITDB], fds=fds, timeout=deadline.left
                )
                if "invalid locale" not in answer.stderr:
                    break
            if answer.returncode:
                raise EmbeddedError(f"initdb failed in {self.folder}: {_gist(answer.stderr)}")
            fresh.rename(self._data)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _launch(
        self, account: Account, programs: Binaries, seen: Path, fds: tuple[int, ...], deadline: Deadline
    ) -> None:
        sockets = seen if self._sockets == self.folder else self._sockets
        if self._log.exists() and self._log.stat().st_size > BIG_LOG:
            self._log.rename(self.folder / "log.old")
        while True:
            postmaster.forget_dead(self._data, self._sockets)
            before = self._log.stat().st_size if self._log.exists() else 0
            pid = postmaster.launch(
                account, programs.folder / "postgres", seen / "data", sockets, seen / "log", fds
            )
            if self._wait(deadline, pid):
                return
            said = self._tail(before)
            if not any(words in said for words in CHILDREN_LINGER):
                raise EmbeddedError(f"the Postgres in {self.folder} did not start: {said}")

    def _wait(self, deadline: Deadline, pid: int | None = None) -> bool:
        """Wait until the server answers; return False when process `pid` ends before it does."""
        while not postmaster.ask(self._sockets).ready:
            if pid is not None and not postmaster.lives(pid):
                return False
            if not deadline.left:
                raise EmbeddedError(
                    f"the Postgres in {self.folder} gave no answer in {deadline.seconds:g} s: {self._tail()}"
                )
            time.sleep(0.01)
        return True

    def _tail(self, since: int = 0) -> str:
        """The end of the log from byte `since` on, in one line."""
        try:
            with open(self._log, "rb") as log:
                log.seek(max(since, self._log.stat().st_size - 2000))
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return "it has no log"
        return " / ".join(lines[-8:]) or "its log says nothing"

    def _stop(self, deadline: Deadline) -> None:
        sockets = self._sockets
        postmaster.stop(self._data, sockets, deadline)
        for short in {folders.short_folder(self.folder), sockets} - {self.folder}:
            folders.remove_short_folder(short, server_account(self.folder))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What the system says becomes one line of ours."""
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"{error.cmd[0]} did not finish in time, in {self.folder}") from None
        except OSError as error:
            raise EmbeddedError(
                f"the embedded Postgres in {self.folder} cannot be used: {error.strerror}: {error.filename}"
            ) from None


def _gist(text: str) -> str:
    lines = [line for line in text.splitlines() if any(word in line for word in ("error", "FATAL", "PANIC"))]
    return " / ".join(lines[:3]) or " / ".join(text.splitlines()[-3:])


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total
