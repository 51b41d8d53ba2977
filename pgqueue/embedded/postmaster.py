"""One server process: does it answer, does it live, start it, stop it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from pgqueue.embedded.account import Account
from pgqueue.errors import EmbeddedError

PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"
PROTOCOL_3 = 196608
STARTING_OR_STOPPING = b"C57P03\0"
PROC = Path("/proc/self/stat").exists()

# sh, since a child of ours would stay a zombie when it dies before us; "$@" so that no path is read as shell
DETACH = 'umask 077; log=$1; shift; "$@" >>"$log" 2>&1 & echo $!'


class Reply(NamedTuple):
    """What came from the socket: is anybody there, does it accept sessions, its version ("" if unsaid)."""

    listening: bool
    ready: bool
    version: str


def ask(socket_folder: Path, seconds: float = 2.0) -> Reply:
    """Begin a session and end it at once: that a process lives proves nothing, that it answers does."""
    words = b"user\0postgres\0database\0postgres\0\0"
    hello = struct.pack("!ii", 8 + len(words), PROTOCOL_3) + words
    answer = b""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(seconds)
        try:
            wire.connect(str(socket_folder / SOCKET))
            wire.sendall(hello + b"X\0\0\0\4")  # X: terminate
            while part := wire.recv(8192):
                answer += part
        except (FileNotFoundError, ConnectionRefusedError):
            return Reply(False, False, "")
        except (TimeoutError, BlockingIOError, ConnectionError):
            pass  # busy, or going down
    version = answer.partition(b"server_version\0")[2].partition(b"\0")[0].decode()
    return Reply(True, bool(answer) and STARTING_OR_STOPPING not in answer, version.partition(" ")[0])


def read_pid(data: Path) -> int | None:
    """Return the pid that the server of `data` wrote down, alive or not."""
    first = _written(data, 0).lstrip(
        "-"
    )  # negative: one that an administrator runs by hand, without sessions
    return int(first) if first.isdigit() else None


def written_socket_folder(data: Path) -> str:
    """Return the folder of its socket that the server of `data` wrote down, "" if there is none."""
    return _written(data, 4)


def _written(data: Path, line: int) -> str:
    try:
        lines = (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return ""
    return lines[line].strip() if line < len(lines) else ""


def lives(pid: int) -> bool:
    """Whether process `pid` runs. A zombie does not, though the system still knows its number."""
    if not PROC:
        return _ps(pid, "stat")[:1] not in ("", "Z")
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def serves(pid: int, data: Path) -> bool:
    """Whether process `pid` runs and is the server of `data`, not a stranger who got its number."""
    if not lives(pid):
        return False
    if not PROC:
        return "postgres" in _ps(pid, "command")
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", data)
    except PermissionError:  # root without CAP_SYS_PTRACE, as in Docker
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _ps(pid: int, column: str) -> str:
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def forget_dead(data: Path, socket_folder: Path) -> None:
    """Remove what a dead server left: Postgres would take a zombie, or who got its pid, for a living one.

    Should children of it still be at work, Postgres refuses on its own, by their shared memory.
    """
    for path in (data / "postmaster.pid", socket_folder / SOCKET, socket_folder / f"{SOCKET}.lock"):
        path.unlink(missing_ok=True)


def launch(
    account: Account, program: Path, data: Path, sockets: Path, log: Path, fds: tuple[int, ...]
) -> int:
    """Start the server apart from this process and its terminal; return its pid, without waiting for it.

    `data`, `sockets` and `log` are paths as the server sees them, `fds` what it needs to see them.
    """
    quoted = '"' + str(sockets).replace('"', '""') + '"'
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": quoted,
        "unix_socket_permissions": "0700",
        "cluster_name": "pgqueue",
    }
    words = [str(program), "-D", str(data), "-p", str(PORT)]
    words += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    answer = account.run(["/bin/sh", "-c", DETACH, "sh", str(log), *words], fds=fds, timeout=30)
    if answer.stderr or not answer.stdout.strip().isdigit():
        raise EmbeddedError(f"the server could not be started: {' '.join(answer.stderr.split())}")
    return int(answer.stdout)


def stop(pid: int, data: Path, seconds: float) -> bool:
    """Tell the server of `data` to end its sessions and go; return False if it is not gone in `seconds`."""
    end = time.monotonic() + seconds
    os.kill(pid, signal.SIGINT)
    while serves(pid, data):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
