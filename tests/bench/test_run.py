"""bench run: every workload in small, what a failure or an interruption leaves behind, what is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgqueue.bench import python_peers
from pgqueue.bench import run as running
from pgqueue.bench.bars import BARS
from pgqueue.bench.check import judge
from pgqueue.bench.databases import Databases
from pgqueue.bench.interrupts import Terminated, stopping_in_order, undisturbed
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import AGAINST, Options, read_run
from pgqueue.bench.workloads import WORKLOADS, Workload
from pgqueue.cli.bench import _Clock
from pgqueue.errors import BenchError, CannotConnect
from tests.bench.conftest import SMALL, Bench, left_behind
from tests.databases import Cluster, Database, uri
from tests.servers import Server

#: The others wait, for clients that connect or for pgmq.
QUICK = {"batch", "in-flight", "adopted", "expired", "metrics", "create", "memory", "wal", "groups"}
NO_BARS = {"mixed"}


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name in QUICK])
def test_a_workload_measures_what_its_bars_are_about(address: str, name: str) -> None:
    every_bar_can_be_judged(address, name)


@pytest.mark.scale
@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in QUICK])
def test_so_does_one_with_many_clients(new_server: Callable[..., Server], name: str) -> None:
    every_bar_can_be_judged(uri(new_server(max_connections="300").conninfo), name)


def every_bar_can_be_judged(address: str, name: str) -> None:
    run = running.run(address, [name], replace(SMALL, clients=(4, 16), against=AGAINST))
    assert run.workloads[name].error is None
    assert {figure.workload for figure in run.figures} == {name}
    assert any(figure.side in AGAINST for figure in run.figures)
    about = [bar for bar in BARS if bar.workload == name]
    assert about or name in NO_BARS
    assert [bar for bar in about if bar.value(run) is None] == []


def test_a_run_is_kept_and_told(bench: Bench, address: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    done = bench("run", "batch", "--dsn", address, "--scale", "0.001", "--turns", "2", "--json", file)
    assert done.exit_code == 0, done.output
    run = read_run(file)
    assert list(run.workloads) == ["batch"]
    assert run.options.turns == 2
    assert all(len(figure.values) == 2 for figure in run.figures)
    assert int(run.server["version"].split(".")[0]) >= 14
    assert "| batch " in done.stdout
    assert bench("report", file).stdout == done.stdout.replace("# bench:", f"# {file.stem}:")
    assert bench("check", file).exit_code == 1
    assert bench("check", file, "--lenient").exit_code == 1, "nothing to judge without pgmq"


def test_a_workload_that_fails_is_noted_and_the_others_go_on(
    bench: Bench, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lab: Lab) -> None:
        lab.record("c", "compiled", "half", "s", 1.0)
        lab.ours.run("select 1/0")

    monkeypatch.setitem(WORKLOADS, "batch", Workload("batch", 1, broken))
    file = tmp_path / "bench.json"
    done = bench("run", "batch", "create", "--dsn", address, "--scale", "0.001", "--json", file)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "2 workloads, about 1 min",
        "batch (1 of 2)",
        "create (2 of 2)",
        "Error: failed: batch",
    ]
    assert "batch: FAILED: division by zero" in done.stdout
    kept = json.loads(file.read_text())
    assert kept["workloads"]["batch"]["error"] == "division by zero"
    assert kept["workloads"]["create"]["error"] is None
    assert {figure["measure"] for figure in kept["figures"]} == {"half", "create"}


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
@pytest.mark.parametrize("workload", ["in-flight", "cycle"], ids=["in a query", "beside pgbench"])
def test_stopping_it_drops_the_databases(
    server: Cluster, address: str, workload: str, number: int, code: int
) -> None:
    command = [sys.executable, "-m", "pgqueue.cli.main", "bench", "run", workload, "--dsn", address]
    command += ["--clients", "2", "--seconds", "60"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_load(server, process, "pgbench" if workload == "cycle" else "")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    assert left_behind(server) == []


def wait_for_load(server: Cluster, process: subprocess.Popen[str], program: str) -> None:
    """Until a long query of the benchmark runs, or a session of the program named."""
    deadline = time.monotonic() + 60
    query = (
        "select count(*) from pg_stat_activity where starts_with(datname, 'pgqueue_bench_')"
        " and application_name = %s"
        " and (application_name <> '' or query ~ 'insert into pgmq.q_crowded' and state = 'active')"
    )
    while server._admin.execute(query, [program]).fetchone() == (0,):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_databases_are_dropped_under_whoever_is_connected(server: Cluster, address: str) -> None:
    with Databases(address) as databases:
        stranger = psycopg.connect(databases.make("pgqueue").address)
        assert len(left_behind(server)) == 1
    assert left_behind(server) == []
    with pytest.raises(psycopg.OperationalError):
        stranger.execute("select 1")
    stranger.close()


def test_each_side_has_its_own_database(databases: Databases) -> None:
    lab = Lab("x", SMALL, databases, lambda text: None)
    assert lab.pgmq is not None
    has_ours = "select to_regclass('pgqueue.migration') is not null"
    assert (lab.ours.value(has_ours), lab.pgmq.value(has_ours)) == (True, False)
    assert [caller.side for caller in lab.callers()] == ["pgmq", "by name", "compiled"]
    assert {database.value("show synchronous_commit") for database in lab.databases} == {"off"}


def test_turns_go_round_in_an_order_that_the_seed_decides(databases: Databases) -> None:
    def order(seed: int) -> list[str]:
        options = Options(turns=6, seed=seed)
        return list(Lab("x", options, databases, lambda text: None).turns("abc"))

    first = order(1)
    assert first == order(1)
    assert first != order(2)
    rounds = [first[start : start + 3] for start in range(0, 18, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1


# --- what is refused -------------------------------------------------------------------------------


def test_an_unknown_workload_is_refused_before_anything_is_done(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    refused = bench(
        "run", "cycle", "nonsense", "--dsn", "postgresql://nobody@nowhere.invalid/x", "--json", file
    )
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: no workload is called nonsense: there are cycle, fetch, ")
    assert not file.exists()


def test_a_place_that_cannot_be_written_is_refused_first(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "absent" / "bench.json"
    refused = bench("run", "create", "--dsn", "postgresql://nobody@nowhere.invalid/x", "--json", file)
    assert refused.exit_code == 1
    assert str(file) in refused.stderr


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        (Options(against=("pgmq",)), 135),
        (Options(), 90),
        (Options(scale=0.1, turns=10, against=("pgmq",)), 27),
        (Options(scale=0.001), 3),
    ],
)
def test_how_long_it_will_take_is_guessed(options: Options, seconds: float) -> None:
    assert running.expected_seconds(WORKLOADS["cycle"], options) == pytest.approx(seconds)


def test_the_bar_moves_while_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time each workload should take; at its end it waits for the next."""
    now = 100.0
    monkeypatch.setattr("pgqueue.cli.bench.time.monotonic", lambda: now)
    clock = _Clock({"cycle": 90.0, "batch": 10.0})
    assert clock.now() == 0
    clock.at("cycle")
    now += 30
    assert clock.now() == 30
    clock.at("cycle")
    now += 300
    assert clock.now() == 90
    clock.at("batch")
    now += 4
    assert clock.now() == 94


def test_without_a_server_it_is_one_line(bench: Bench) -> None:
    refused = bench("run", "create")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: No Postgres server was named")
    with pytest.raises(CannotConnect):
        running.run("postgresql://nobody@127.0.0.1:1/x?connect_timeout=2", ["create"], SMALL)


def test_a_role_that_may_not_create_databases_is_told_so(bench: Bench, db: Database) -> None:
    refused = bench("run", "create", "--dsn", db.dsn)
    assert refused.exit_code == 1
    assert (
        refused.stderr.splitlines()[-1] + "\n"
        == "Error: this role may not create databases: alter role … createdb\n"
    )


def test_without_the_wheel_of_pgmq_it_is_one_line(
    bench: Bench, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pgmq", None)
    refused = bench("run", "create", "--against", "pgmq", "--dsn", address)
    assert refused.exit_code == 1
    assert "pip install 'pgmq==1.1.4'" in refused.stderr


def test_without_the_package_of_another_it_is_one_line(
    bench: Bench, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(python_peers.PACKAGES, "pgqueuer", "nowhere-to-be-found")
    refused = bench("run", "create", "--against", "pgqueuer", "--dsn", address)
    assert refused.exit_code == 1
    assert refused.stderr == "Error: pgqueuer is not installed: it comes with pgqueue's extra `bench`\n"


@pytest.mark.parametrize("others", ["", "celery", "pgmq,", "pgmq,PGMQ"])
def test_others_are_known_ones(bench: Bench, others: str) -> None:
    refused = bench("run", "cycle", "--against", others)
    assert refused.exit_code == 2
    assert "is none of pgmq, pgmq-client, pgqueuer, procrastinate" in refused.stderr


def test_the_help_names_all_others(bench: Bench) -> None:
    text = " ".join(bench("run", "--help").stdout.split()).replace("pgmq- client", "pgmq-client")
    assert f"one or several: {', '.join(AGAINST)}." in text


@pytest.mark.parametrize("clients", ["0", "x", "4,", "-1", "4;5"])
def test_clients_are_numbers(bench: Bench, clients: str) -> None:
    refused = bench("run", "cycle", "--clients", clients)
    assert refused.exit_code == 2
    assert "is not a number of clients" in refused.stderr


def test_the_help_names_every_workload(bench: Bench) -> None:
    text = bench("run", "--help").stdout
    listed = re.search(r"Workloads: (.*?)\.", text, re.S)
    assert listed is not None
    assert [word.strip() for word in listed[1].split(",")] == list(WORKLOADS)


def test_the_page_names_every_workload() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "performance.md").read_text()
    section = page.split("## The workloads")[1].split("\n## ")[0]
    named = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\|([^|]*)\|", section, re.M)))
    assert sorted(named) == sorted(WORKLOADS)


def test_a_server_without_room_is_noted(databases: Databases) -> None:
    lab = Lab("x", SMALL, databases, lambda text: None)
    assert lab.has_room(1)
    assert not lab.has_room(100_000)
    (note,) = lab.notes
    assert note.startswith("100000 clients: the server has room for ")


def test_a_stopped_run_says_so_with_its_number() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with stopping_in_order():
        with undisturbed():
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Terminated) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
    assert stopped.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_run_that_has_no_pgmq_measures_ours_alone(address: str) -> None:
    run = running.run(address, ["batch"], Options(scale=0.001, turns=1))
    assert {figure.side for figure in run.figures} == {"by name", "compiled"}
    with pytest.raises(BenchError):
        judge(run, lenient=True)
