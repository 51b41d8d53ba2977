"""Render sql/rendered/pgqueue.sql from the templates. With --check, say whether it is current."""

from __future__ import annotations

import sys

from generated import ROOT, settle

from pgqueue.script import install_sql

if __name__ == "__main__":
    sys.exit(settle("render.py", {ROOT / "sql" / "rendered" / "pgqueue.sql": install_sql()}))
