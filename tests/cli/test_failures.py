"""What a user can cause ends in one line and an exit code: servers, passwords, pipes, signals, terminals."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue.cli.main import Failure, _failures
from tests.cli.conftest import Run, Shell
from tests.databases import Database

SERVER_COMMANDS = ["install", "upgrade", "uninstall", "status", "compile", "maintain", "queue list", "read x"]

# --- which server ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", SERVER_COMMANDS)
def test_without_a_server_both_ways_are_named(offline: Run, command: str) -> None:
    error = offline(*command.split(), code=1).err
    assert "--dsn" in error
    assert "PGQUEUE_DSN" in error
    assert "embedded:" in error


def test_the_first_one_named_is_used(offline: Run, db: Database) -> None:
    host = db.dsn.partition("host=")[2]
    nowhere = "postgresql://127.0.0.1:1/x"
    parts = {"PGHOST": host, "PGDATABASE": db.name, "PGUSER": "app_owner"}
    offline("queue", "list", "--dsn", db.dsn, PGQUEUE_DSN=nowhere)
    offline("queue", "list", PGQUEUE_DSN=db.dsn, DATABASE_URL=nowhere)
    offline("queue", "list", DATABASE_URL=db.dsn, PGHOST="127.0.0.1", PGDATABASE="x")
    offline("queue", "list", PGQUEUE_DSN="", DATABASE_URL="", **parts)
    assert "refused" in offline("queue", "list", PGQUEUE_DSN=nowhere, **parts, code=1).err


def test_a_port_or_a_user_alone_names_no_server(offline: Run) -> None:
    assert "No Postgres server" in offline("queue", "list", code=1, PGUSER="x", PGPORT="5432").err


def test_a_service_file_is_read(offline: Run, db: Database, tmp_path: Path) -> None:
    host = db.dsn.partition("host=")[2]
    file = tmp_path / "services"
    file.write_text(f"[mine]\nhost={host}\ndbname={db.name}\nuser=app_owner\n")
    offline("queue", "list", PGSERVICE="mine", PGSERVICEFILE=str(file))
    offline("queue", "list", "--dsn", "service=mine", PGSERVICEFILE=str(file))
    assert "yours" in offline("queue", "list", code=1, PGSERVICE="yours", PGSERVICEFILE=str(file)).err


def test_sqlalchemys_form_of_a_dsn(offline: Run, db: Database) -> None:
    offline("queue", "list", DATABASE_URL=db.dsn.replace("postgresql://", "postgresql+psycopg://"))


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("nonsense", "DSN"),
        ("postgresql//app:hush@host/db", "DSN"),
        ("postgresql://app:hu@sh@host/db", "%40"),
        ("postgresql://app:hu/sh@host/db", "%2F"),
        ("password=hush sh=1", "DSN"),
        ("mysql://app:hush@host/db", "mysql"),
        ("postgresql://app:hush@127.0.0.1:1/db?schema=public", "schema"),
        ("host=127.0.0.1 port=1 password=hush", "refused"),
        ("postgresql://app:hu%23sh@127.0.0.1:1/db", "refused"),
        (
            "host=127.0.0.1 port=many password=hush",
            'invalid integer value "many" for connection option "port"',
        ),
        (
            "postgresql://app:hush@localhost:72x/db",
            'invalid integer value "72x" for connection option "port"',
        ),
        ("host=127.0.0.1 port=72160 password=hush", 'invalid port number: "72160"'),
        ("host=127.0.0.1 prt=7216 password=hush", 'invalid connection option "prt"'),
        ("host=127.0.0.1 password=hush prt=7216", 'invalid connection option "prt"'),
        ("host=127.0.0.1 password=hush sh=7216", "DSN"),
        ("host=no-such-host.invalid password=hush", "no-such-host.invalid"),
        ("host=/no/such/folder password=hush", "/no/such/folder"),
    ],
)
@pytest.mark.parametrize("command", ["queue list", "status"])
def test_a_server_that_cannot_be_reached(offline: Run, command: str, dsn: str, said: str) -> None:
    done = offline(*command.split(), code=1, PGQUEUE_DSN=dsn, PGPASSWORD="hush")
    assert said in done.err
    for piece in ("hush", "hu@sh", "hu/sh", "hu%23sh", "hu#sh"):
        assert piece not in done.err


def test_a_database_or_role_that_is_not_there(offline: Run, db: Database) -> None:
    assert "no_such" in offline("status", code=1, PGQUEUE_DSN=db.dsn.replace(db.name, "no_such")).err
    assert "nobody_here" in offline("status", code=1, PGQUEUE_DSN=db.dsn_for("nobody_here")).err


@pytest.fixture
def gate() -> Iterator[int]:
    """The port of a server that turns every login down, repeating the password it was given."""

    def turn_down(client: socket.socket) -> None:
        with client:
            while True:
                length = int.from_bytes(client.recv(4), "big")
                asked = client.recv(length - 4)
                if asked[:4] != (80877103).to_bytes(4, "big") and asked[:4] != (80877104).to_bytes(4, "big"):
                    break
                client.sendall(b"N")
            client.sendall(b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big"))
            client.recv(1)
            password = client.recv(int.from_bytes(client.recv(4), "big") - 4).rstrip(b"\0")
            fields = b"SFATAL\0C28P01\0Mpassword authentication failed, it was " + password + b"\0\0"
            client.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    def serve() -> None:
        while True:
            try:
                turn_down(listener.accept()[0])
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("command", ["queue list", "status"])
def test_a_wrong_password_is_never_repeated(offline: Run, gate: int, command: str) -> None:
    for dsn, variable in (
        (f"postgresql://app:hu%2Fsh@127.0.0.1:{gate}/db?sslmode=disable", ""),
        (f"host=127.0.0.1 port={gate} user=app password='hu/sh' sslmode=disable", ""),
        (f"postgresql://app@127.0.0.1:{gate}/db?sslmode=disable", "hu/sh"),
    ):
        error = offline(*command.split(), code=1, PGQUEUE_DSN=dsn, PGPASSWORD=variable).err
        assert "password authentication failed, it was ****" in error
        assert "hu" not in error


def test_a_role_without_rights(run: Run, offline: Run, db: Database) -> None:
    run("queue", "create", "orders")
    stranger = db.dsn_for(db.create_role())
    for words in (["send", "orders", "1"], ["queue", "create", "x"], ["queue", "list"], ["install"]):
        assert "permission denied" in offline(*words, code=1, PGQUEUE_DSN=stranger).err


def test_a_statement_timeout(run: Run, db: Database) -> None:
    run("queue", "create", "orders")
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_orders in access exclusive mode")
    for words in (["send", "orders", "1"], ["send", "orders", "-"], ["queue", "drop", "orders", "--yes"]):
        done = run(*words, code=1, stdin="1\n", PGOPTIONS="-c statement_timeout=100ms")
        assert "statement timeout" in done.err


def test_without_libpq(bare: None, tmp_path: Path) -> None:
    """One line with the advice, in the command line and in the library."""
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "__init__.py").write_text(
        "raise ImportError('no pq wrapper available.\\nAttempts made:\\n- couldn\\'t import \\'c\\'')"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PGQUEUE_DSN": "postgresql:///x"}
    for words in (["queue", "list"], ["status"]):
        command = [sys.executable, "-m", "pgqueue.cli.main", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == (
            "Error: psycopg found no libpq on this machine: pip install 'psycopg[binary,pool]'\n"
        )
    done = subprocess.run(
        [sys.executable, "-c", "import pgqueue; pgqueue.Client"], env=env, capture_output=True
    )
    assert done.stderr.splitlines()[-1].endswith(b"pip install 'psycopg[binary,pool]'")


# --- pipes, disks, signals -------------------------------------------------------------------------


def test_a_reader_that_goes_away(run: Run, shell: Shell) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "-", stdin=('"' + "x" * 500 + '"\n') * 2000)
    for command in ("peek orders --qty 2000 --json", "peek orders --qty 2000", "sql install"):
        done = shell(f"pgqueue {command} | head -1; exit ${{PIPESTATUS[0]}}")
        assert done.err == ""
        assert done.code in (0, 141)


def test_a_full_disk(run: Run, shell: Shell) -> None:
    run("queue", "create", "orders")
    for command in ("queue list", "queue list --json", "sql install"):
        done = shell(f"pgqueue {command} > /dev/full")
        assert (done.code, done.err) == (1, "Error: No space left on device\n")


def test_closed_streams(run: Run, shell: Shell) -> None:
    run("queue", "create", "orders")
    assert shell("pgqueue queue list >&-").code == 0
    assert shell("pgqueue queue list 2>&-").code == 0
    assert shell("pgqueue send orders - <&-").err == "Error: standard input is closed\n"
    assert shell("pgqueue delete orders - <&-").err == "Error: standard input is closed\n"
    assert shell("pgqueue queue drop orders <&-").code == 1


def test_a_failure_where_there_is_no_output_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(Failure, match=r"orders\.json: No such file"), _failures():
        raise FileNotFoundError(2, "No such file or directory", "orders.json")


def test_words_that_are_not_utf8(run: Run, shell: Shell) -> None:
    run("queue", "create", "orders")
    assert "UTF-8" in shell(r"""pgqueue send orders $'"\xff"'""").err
    assert "UTF-8" in shell(r"pgqueue send $'\xff' 1").err
    assert "UTF-8" in shell(r"pgqueue queue create $'\xff'").err
    assert shell("pgqueue queue list --json").out.count("\n") == 1


def test_a_terminal_that_lacks_a_letter(run: Run, shell: Shell) -> None:
    run("queue", "create", "größe")
    assert "gr\\xf6\\xdfe" in shell("PYTHONIOENCODING=ascii pgqueue queue list").out
    assert "größe" in shell("PYTHONIOENCODING=ascii pgqueue queue list --json").out, "JSON is UTF-8"


def test_ctrl_c_while_waiting(run: Run, db: Database) -> None:
    """And the server is rid of us."""
    run("queue", "create", "orders")
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_orders in access exclusive mode")
    command = [sys.executable, "-m", "pgqueue.cli.main", "send", "orders", "1", "--dsn", db.dsn]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waiting = "select count(*) from pg_stat_activity where application_name = 'pgqueue'"
    admin = db.connect(user=db.superuser)
    wait_until(lambda: admin.execute(waiting + " and wait_event_type = 'Lock'").fetchone() == (1,))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    wait_until(lambda: admin.execute(waiting).fetchone() == (0,))


def test_ctrl_c_while_sending_sends_nothing(run: Run, db: Database) -> None:
    run("queue", "create", "orders")
    command = [
        sys.executable,
        "-m",
        "pgqueue.cli.main",
        "send",
        "orders",
        "-",
        "--batch",
        "1",
        "--dsn",
        db.dsn,
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    admin = db.connect(user=db.superuser)
    sent = "select last_value >= 2 from pgmq.q_orders_msg_id_seq"
    wait_until(lambda: admin.execute(sent).fetchone() == (True,))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"0 messages went out\ninterrupted\n")
    assert run("peek", "orders", "--json").rows == []


def wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    """Wait for a condition, half a minute at most."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


# --- terminals -------------------------------------------------------------------------------------


def on_terminal(*words: str, **env: str) -> bytes:
    """What a command writes to a terminal, 80 columns wide."""
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "pgqueue.cli.main", *words]
        os.execve(sys.executable, command, {**os.environ, "TERM": "xterm", "COLUMNS": "80", **env})
    seen = b""
    try:
        while piece := os.read(terminal, 65536):
            seen += piece
    except OSError:  # the terminal's other end has closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen
    return seen


def test_colour_is_for_terminals(run: Run, db: Database) -> None:
    run("queue", "create", "orders")
    assert "\x1b" not in run("queue", "list").out
    assert b"\x1b[1m" in on_terminal("queue", "list", "--dsn", db.dsn)
    assert b"\x1b" not in on_terminal("queue", "list", "--dsn", db.dsn, NO_COLOR="1")
    assert b"\x1b" not in on_terminal("queue", "list", "--json", "--dsn", db.dsn)


def test_tables_fit_80_columns(run: Run, db: Database) -> None:
    """A row that does not fit is shown from top to bottom; no name is broken, no instant either."""
    for queue in ("orders", "mail"):
        run("queue", "create", queue)
        run("send", queue, "-", stdin='{"order": 17, "customer": "Ada"}\n' * 3)
    seen = on_terminal("queue", "metrics", "--dsn", db.dsn, NO_COLOR="1").decode()
    assert seen.count("queue_visible_length") == 2
    assert all(len(line) <= 80 for line in seen.splitlines())
    lines = on_terminal("read", "orders", "--qty", "3", "--dsn", db.dsn, NO_COLOR="1").decode().splitlines()
    assert len(lines) == 4
    assert all('{"order": 17, "customer": "Ada"}' in line for line in lines[1:])


def test_a_bar_shows_how_far_a_file_is(run: Run, db: Database, tmp_path: Path) -> None:
    run("queue", "create", "orders")
    file = tmp_path / "many.ndjson"
    file.write_text("1\n" * 500)
    seen = on_terminal("send", "orders", "--file", str(file), "--batch", "10", "--dsn", db.dsn)
    assert b"500 messages" in seen
    assert seen.endswith(b"500 messages sent to orders, ids 1 to 500\r\n")
    assert run("send", "orders", "--file", str(file)).err == ""
