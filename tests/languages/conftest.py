"""What programs in other languages need: where the server is, and their drivers."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.databases import Database

HERE = Path(__file__).resolve().parent
NODE_FOLDER = HERE.parent.parent / ".cache" / "node"


def environment(db: Database, **more: str) -> dict[str, str]:
    """The variables from which libpq, and the drivers that follow it, learn the server."""
    given = conninfo_to_dict(db.dsn)
    where = {"PGHOST": given["host"], "PGUSER": given["user"], "PGDATABASE": given["dbname"]}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**inherited, **{name: str(value) for name, value in where.items()}, **more}


def require(*probe: str, advice: str) -> None:
    """Skips the test where the language or its driver is absent."""
    if shutil.which(probe[0]) is None:
        pytest.skip(f"no {probe[0]} here: {advice}")
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip(f"{probe[0]} has no Postgres driver here: {advice}")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Where the packages of package.json are installed: once, by the test process that comes first."""
    require("node", "--version", advice="apt-get install nodejs")
    require("npm", "--version", advice="apt-get install npm")
    NODE_FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    stamp = NODE_FOLDER / "node_modules" / ".installed"
    with open(NODE_FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            (NODE_FOLDER / "package.json").write_text(wanted)
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
            subprocess.run(["npm", "install", *quiet], cwd=NODE_FOLDER, check=True, stdin=subprocess.DEVNULL)
            stamp.write_text(wanted)
    return NODE_FOLDER / "node_modules"
