"""The server of one folder: made, started, watched, stopped, destroyed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pgqueue.embedded import binaries, postmaster, sockets
from pgqueue.embedded.account import Account, server_account
from pgqueue.embedded.folder import HALF_MADE, Deadline, Folder, default_folder
from pgqueue.errors import EmbeddedError

SCHEME = "embedded:"
WINDOWS = os.name == "nt"
LOCALES = ("C.UTF-8", "C")  # the second where the system lacks the first
INITDB = (
    "--username=postgres",
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--data-checksums",
)
# what Postgres says when the children of a killed server are still at work: they leave by themselves
CHILDREN_LINGER = "pre-existing shared memory block"


@dataclass(frozen=True)
class Status:
    """What is known of an embedded server."""

    folder: Path
    running: bool
    #: of the server process; None when it is not running.
    pid: int | None
    #: "18.6" while it runs, else the major version of its data, "18"; None when there are none.
    version: str | None
    dsn: str
    #: bytes in all files of the folder.
    size: int


def resolve(dsn: str, started: Callable[[Embedded], None] | None = None) -> str:
    """Return `dsn`, unless it is `embedded:` or `embedded:FOLDER`: then start that server and return its DSN.

    `started` is called with a server that did not run before. Raises EmbeddedError when the server cannot be started.
    """
    if not dsn.startswith(SCHEME):
        return dsn
    folder = dsn[len(SCHEME) :]
    if folder.startswith("//"):  # as in a URI: embedded:///folder
        folder = folder[2:]
        if not folder.startswith("/"):
            raise EmbeddedError(
                f"{dsn} names no folder: write embedded:/folder, or embedded: for the default"
            )
    return Embedded(folder or None).start(started=started)


class Embedded:
    """The server in `folder`, by default $PGQUEUE_EMBEDDED_HOME, else in the user's data folder.

    Making one of these starts nothing. Raises EmbeddedError for what can be no folder, and on Windows.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        if WINDOWS:
            raise EmbeddedError("the embedded Postgres needs Unix sockets: on Windows use WSL, or give a DSN")
        path = Path(folder) if folder else default_folder()
        if any(ord(character) < 32 for character in str(path)):
            raise EmbeddedError(f"{str(path)!r} is not the name of a folder")
        try:
            self.folder = path.expanduser().resolve()
        except (OSError, RuntimeError) as error:
            raise EmbeddedError(f"{path} is not the name of a folder: {error}") from None
        self._place = Folder(self.folder)

    @property
    def dsn(self) -> str:
        """The server's DSN as a URI; it holds no secret. The server may not be running."""
        with self._refusals():
            host = quote(os.fsencode(self._sockets()))
        return f"postgresql:///postgres?host={host}&port={postmaster.PORT}&user=postgres"

    def start(self, timeout: float = 60.0, *, started: Callable[[Embedded], None] | None = None) -> str:
        """Make the server if there is none, start it if it does not run, and return its DSN when it answers.

        `started` is called with it if it did not run before, once it answers.
        Raises EmbeddedError, after `timeout` seconds at the latest.
        """
        deadline = Deadline(timeout)
        with self._refusals():
            account = server_account(self.folder)
            if not self._place.has_data:  # refuse before anything is made
                binaries.find()
                account.check()
            with self._place.claimed(account, deadline):
                launched = self._start(account, deadline)
            if launched and started:
                started(self)
            return self.dsn

    def stop(self, timeout: float = 60.0) -> bool:
        """Stop the server, ending its sessions, and wait until it is gone; say whether it ran.

        Raises EmbeddedError, after `timeout` seconds at the latest.
        """
        deadline = Deadline(timeout)
        with self._refusals():
            if self._place.exists:
                with self._place.locked(deadline):
                    return self._stop(deadline)
        return False

    def status(self) -> Status:
        """Return what is known of the server, without waiting for anything or changing it."""
        with self._refusals():
            if not self._place.ours:
                return Status(self.folder, running=False, pid=None, version=None, dsn=self.dsn, size=0)
            reply = postmaster.ask(self._sockets())
            running = reply.listening or self._pid() is not None
            return Status(
                folder=self.folder,
                running=running,
                pid=postmaster.read_pid(self._place.data) if running else None,
                version=reply.version or self._place.major(),
                dsn=self.dsn,
                size=self._place.size(),
            )

    def destroy(self, timeout: float = 60.0) -> None:
        """Stop the server and remove it with all its data.

        Raises EmbeddedError, and removes nothing, when the folder does not carry our marker.
        """
        deadline = Deadline(timeout)
        with self._refusals(), self._place.locked(deadline):
            self._stop(deadline)
            self._place.remove()

    def _sockets(self) -> Path:
        return sockets.socket_folder(self.folder, self._place.data)

    def _pid(self) -> int | None:
        """The pid of the server if it runs, answering or not."""
        pid = postmaster.read_pid(self._place.data)
        return pid if pid is not None and postmaster.serves(pid, self._place.data) else None

    def _start(self, account: Account, deadline: Deadline) -> bool:
        """Launch the server unless somebody else has, and wait until it answers; say whether it was launched.
        The folder is locked."""
        place = self._sockets()
        if place != self.folder:
            sockets.check_short(place, account.uid)
        launched, log_begin = None, 0
        while not (reply := postmaster.ask(place, min(2.0, deadline.left + 0.1))).ready:
            if not deadline.left:
                raise EmbeddedError(
                    f"the Postgres in {self.folder} gave no answer in {deadline.seconds:g} s: "
                    f"{self._place.log_tail()}"
                )
            if launched and not postmaster.lives(launched):
                said = self._place.log_tail(log_begin)
                if CHILDREN_LINGER not in said:
                    raise EmbeddedError(f"the Postgres in {self.folder} did not start: {said}")
                launched = None
                time.sleep(0.1)
            if not launched and not reply.listening and self._pid() is None:
                log_begin = self._place.turn_log()
                launched = self._launch(account, place, deadline)
            time.sleep(0.01)
        return launched is not None

    def _launch(self, account: Account, place: Path, deadline: Deadline) -> int:
        programs = binaries.find(self._place.major(), self._place.data)
        with account.view(self.folder) as (seen, fds):
            if place != self.folder:
                sockets.make_short(place, account)
            if account.switch and not binaries.runs(programs, account):
                programs = binaries.copied(programs, account, self._home_of_copy(account, seen))
            if not self._place.has_data:
                self._make_data(account, programs.folder, seen, fds, deadline)
            postmaster.forget_dead(self._place.data, place)
            return postmaster.launch(
                account,
                programs.folder / "postgres",
                data=seen / "data",
                sockets=seen if place == self.folder else place,
                log=seen / "log",
                fds=fds,
            )

    def _home_of_copy(self, account: Account, seen: Path) -> Path:
        """The folder for a copy of the programs: reached by its name, which initdb hands to a shell."""
        if seen == self.folder and not set('"$`\\') & set(str(self.folder)):
            return self.folder
        short = sockets.short_folder(self.folder)
        sockets.make_short(short, account)
        return short

    def _make_data(
        self, account: Account, programs: Path, seen: Path, fds: tuple[int, ...], deadline: Deadline
    ) -> None:
        self._place.remove_half_made()
        fresh = Path(tempfile.mkdtemp(prefix=HALF_MADE, dir=self.folder))
        try:
            account.give(fresh)
            command = [str(programs / "initdb"), f"--pgdata={seen / fresh.name}", *INITDB]
            for locale in LOCALES:
                answer = account.run([*command, f"--locale={locale}"], fds=fds, timeout=deadline.left)
                if "invalid locale name" not in answer.stderr:
                    break
            if answer.returncode:
                raise EmbeddedError(f"initdb failed in {self.folder}: {_gist(answer.stderr)}")
            self._place.keep_data(fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _stop(self, deadline: Deadline) -> bool:
        place, account = self._sockets(), server_account(self.folder)
        pid = self._pid()
        if pid is not None:
            if not postmaster.stop(pid, self._place.data, deadline.left):
                raise EmbeddedError(f"the server (pid {pid}) did not stop within {deadline.seconds:g} s")
        elif postmaster.ask(place).listening:
            raise EmbeddedError(f"the server of {self.folder} runs in another container: stop it there")
        postmaster.forget_dead(self._place.data, place)
        for short in {sockets.short_folder(self.folder), place} - {self.folder}:
            sockets.remove_short(short, account.uid)
        return pid is not None

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What the system refuses becomes one line of ours."""
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"{error.cmd[0]} did not finish in time for {self.folder}") from None
        except OSError as error:
            where = f": {error.filename}" if error.filename not in (None, str(self.folder)) else ""
            raise EmbeddedError(
                f"{self.folder} cannot hold an embedded Postgres: {error.strerror or error}{where}"
            ) from None


def _gist(text: str) -> str:
    lines = text.splitlines()
    told = [line for line in lines if any(word in line for word in ("error:", "FATAL:", "PANIC:"))]
    return " / ".join(told[:3] or lines[-3:])
