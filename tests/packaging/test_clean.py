"""`make clean`: it removes what the other targets made, and nothing from under a server that runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_it_stops_at_a_server_that_runs_from_the_environment(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    binaries = tmp_path / ".venv" / "pginstall" / "bin"
    binaries.mkdir(parents=True)
    shutil.copy(shutil.which("sleep") or "", binaries / "postgres")

    def clean() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True)

    server = subprocess.Popen([binaries / "postgres", "600"])
    try:
        refused = clean()
        assert refused.returncode != 0
        assert "pgqueue embedded stop" in refused.stderr
        assert (binaries / "postgres").exists()
    finally:
        server.kill()
        server.wait()
    assert clean().returncode == 0
    assert not (tmp_path / ".venv").exists()
