"""The user the server runs as: the caller or, as Postgres refuses root, somebody humbler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgqueue.errors import EmbeddedError

HUMBLE = ("postgres", "nobody")

# All that Postgres is given of the caller's environment. The rest may hold secrets, or PGPORT and its kin.
KEPT_VARIABLES = (
    "PATH",
    "TZ",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NSS_WRAPPER_PASSWD",
    "NSS_WRAPPER_GROUP",
)


@dataclass(frozen=True)
class Account:
    """A uid and gid, and whether a child process must change to them first."""

    uid: int
    gid: int
    switch: bool

    def run(
        self, command: Sequence[str], *, fds: Sequence[int] = (), timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` as this user in a session of its own and wait for it; its exit code is not judged.

        `fds` stay open in the child. Raises OSError when the command cannot be executed as this user, and
        subprocess.TimeoutExpired after `timeout` seconds.
        """
        who: dict[str, Any] = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return subprocess.run(
            command,
            cwd="/",
            env={"PATH": os.defpath, **kept, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=fds,
            start_new_session=True,
            timeout=timeout,
            check=False,
            **who,
        )

    def give(self, path: Path) -> None:
        """Make this user the owner of `path` (the link itself, if it is one); nothing to do unless root."""
        if not self.switch:
            return
        try:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        except OSError as error:
            raise self._not_root(f"hand {path} to uid {self.uid}", error) from None

    def check(self) -> None:
        """Raise EmbeddedError if this user can have no server: root may not become it, or it has no name."""
        import pwd  # absent on Windows

        try:
            self.run(["/bin/sh", "-c", ":"], timeout=30)
        except OSError as error:
            raise self._not_root(f"run a program as uid {self.uid}", error) from None
        try:
            pwd.getpwuid(self.uid)
        except KeyError:
            raise EmbeddedError(
                f"uid {self.uid} has no entry in the user database, and Postgres needs one: "
                "add the user to /etc/passwd, or give a DSN"
            ) from None

    @staticmethod
    def _not_root(act: str, error: OSError) -> EmbeddedError:
        return EmbeddedError(
            f"Postgres refuses to run as root, and root may not {act} here ({error.strerror}): "
            "run as an ordinary user, or give a DSN"
        )

    @contextmanager
    def view(self, folder: Path) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """Yield `folder` as this user can reach it, and the descriptors its processes must inherit for that.

        Below a closed parent, such as root's own home, the server is handed the open folder: Linux lets it
        pass through /proc/self/fd without a right on any parent, so no parent's mode has to be touched.
        Raises EmbeddedError where that does not exist.
        """
        if self.can_enter(folder):
            yield folder, ()
            return
        if not Path("/proc/self/fd").is_dir():
            raise EmbeddedError(
                f"uid {self.uid}, whom the server must run as since Postgres refuses root, "
                f"cannot reach {folder}: choose a folder that it can"
            )
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield Path(f"/proc/self/fd/{descriptor}"), (descriptor,)
        finally:
            os.close(descriptor)

    def can_enter(self, folder: Path) -> bool:
        """Whether this user can go to `folder` by its name, tried rather than read from modes."""
        enter = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
        return not self.switch or self.run(enter, timeout=10).returncode == 0


def server_account(folder: Path) -> Account:
    """Return the user for the server of `folder`: the caller, or if that is root the owner of what is there.

    A folder that is absent or root's own goes to `postgres`, else to `nobody`.
    Raises EmbeddedError when neither exists.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    for path in (folder / "data", folder):
        if path.is_dir() and (owner := path.stat()).st_uid != 0:
            return Account(owner.st_uid, owner.st_gid, switch=True)
    import pwd  # absent on Windows

    for name in HUMBLE:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, switch=True)
    raise EmbeddedError(
        f"Postgres refuses to run as root, and there is no user {' or '.join(HUMBLE)} here: "
        "run as an ordinary user, or give a DSN"
    )
