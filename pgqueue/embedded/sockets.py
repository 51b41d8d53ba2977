"""Where the server's socket goes: its folder, or a short one in the temp folder if its path is too long."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from pgqueue.embedded.account import Account
from pgqueue.embedded.postmaster import SOCKET, written_socket_folder
from pgqueue.errors import EmbeddedError

LONGEST_PATH = 103 if sys.platform == "darwin" else 107  # bytes in a socket's address


def socket_folder(folder: Path, data: Path) -> Path:
    """Return the folder of the socket for the server of `folder`; it need not exist."""
    path = os.fsencode(folder / SOCKET)
    if len(path) <= LONGEST_PATH and b"," not in path:  # a comma parts the hosts of a DSN
        return folder
    short = short_folder(folder)
    written = Path(written_socket_folder(data))  # by one who may have another temp folder than we
    return written if written.is_absolute() and written.name == short.name else short


def short_folder(folder: Path) -> Path:
    """Return a short folder in the temp folder, always the same for `folder`; it need not exist."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir(), f"pgqueue-{name}")


def make_short(short: Path, account: Account) -> None:
    """Make `short` for the server's user, or check what is there as check_short does."""
    if not os.path.lexists(short):
        short.mkdir(mode=0o700)
    elif account.switch and short.lstat().st_uid == 0:
        check_short(short, uid=0)  # ours, of one who was killed before giving it away
    else:
        check_short(short, account.uid)
    account.give(short)


def check_short(short: Path, uid: int) -> None:
    """Raise EmbeddedError if `short` is there, unless it is a real folder of `uid`, closed to all others."""
    if not os.path.lexists(short):
        return
    found = short.lstat()
    fault = (
        "is not a folder" if not stat.S_ISDIR(found.st_mode)
        else f"belongs to uid {found.st_uid}, not to {uid}" if found.st_uid != uid
        else f"is open to others, with mode {stat.S_IMODE(found.st_mode):o}" if found.st_mode & 0o077
        else ""
    )  # fmt: skip
    if fault:
        raise EmbeddedError(f"{short}, where the server's socket should be, {fault}: look into it, remove it")


def remove_short(short: Path, uid: int) -> None:
    """Remove `short` if it is there; what check_short refuses is refused."""
    check_short(short, uid)
    if os.path.lexists(short):
        shutil.rmtree(short)
