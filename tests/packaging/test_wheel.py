"""What `pip install pgqueue` brings: built, unpacked and run as a user would, in an environment apart."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RENDERED = ROOT / "sql" / "rendered" / "pgqueue.sql"

# A machine without libpq, for psycopg looks it up in this way.
NO_LIBPQ = "import ctypes.util\nctypes.util.find_library = lambda name: None\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the wheel and nothing that it does not ask for."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*install, str(wheel)], check=True)
    return folder / "bin"


def run(venv: Path, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the environment in a folder that is not the source tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PYTHON"))}
    command = [str(venv / words[0]), *words[1:]]
    return subprocess.run(command, cwd=folder, env={**kept, **variables}, capture_output=True, text=True)


def test_the_wheel_carries_the_sql(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    templates = ROOT / "sql" / "templates"
    wanted = {f"pgqueue/_templates/{path.relative_to(templates)}" for path in templates.rglob("*.sql*")}
    assert wanted
    assert wanted <= names
    assert "pgqueue/py.typed" in names


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pgqueue"}


def test_scripts_are_printed_from_the_wheel(venv: Path, tmp_path: Path) -> None:
    printed = run(venv, tmp_path, "pgqueue", "sql", "install")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout == RENDERED.read_text()
    queue = run(venv, tmp_path, "pgqueue", "sql", "queue", "orders")
    assert (queue.returncode, queue.stderr) == (0, "")
    assert 'pgqueue."orders$send"' in queue.stdout or '"pgqueue"."orders$send"' in queue.stdout


def test_a_missing_libpq_is_one_line(venv: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_LIBPQ)
    done = run(venv, tmp_path, "pgqueue", "status", "--dsn", "postgresql:///x", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'psycopg[binary,pool]'" in done.stderr
