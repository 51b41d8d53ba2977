"""Whose server it is: root's, an ordinary user's, another container's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from pgqueue.embedded import Embedded, binaries, sockets
from pgqueue.embedded.account import server_account
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import (
    MARKER,
    NOBODY,
    Run,
    ask,
    needs_root,
    postmasters,
    programs_below,
    said,
    until,
)


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
    programs = programs_below(closed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binaries, "candidates", lambda: iter([programs]))
        for home in (closed / ".local/share/pgqueue", place / "open"):
            embedded = Embedded(home)
            dsn = embedded.start()
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("create extension btree_gin")
                conn.execute("alter system set work_mem = '7MB'")
                conn.execute("select pg_reload_conf()")
            until(lambda dsn=dsn: ask(dsn, "show work_mem") == "7MB")  # type: ignore[misc]
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
    home, programs = place / "pg", programs_below(place / "closed")
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
    dsn, home, running, uid = json.loads(said(run(code, his, NOBODY)))
    assert home == str(his / ".local/share/pgqueue")
    assert (running, uid) == (True, NOBODY)
    assert ask(dsn, "select 1") == 1, "root may use the server of another"
    assert Embedded(home).start() == dsn
    Embedded(home).stop()
    Embedded(home).start()
    assert Path(f"/proc/{Embedded(home).status().pid}").stat().st_uid == NOBODY, "and starts it as its owner"
    assert said(run("Embedded().destroy(); print(Path(place).exists())", his, NOBODY)) == "True"
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
    assert postmasters(place) == []


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
    assert postmasters(home) == [embedded.status().pid]


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
    assert said(done) == "False"
    assert postmasters(home) == []
