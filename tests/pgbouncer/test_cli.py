"""The command line behind pgbouncer in transaction mode, where no prepared statement may be left behind."""

from __future__ import annotations

from tests.cli.conftest import Run, bare, offline
from tests.pgbouncer.test_pgbouncer import bouncer

__all__ = ["bare", "bouncer", "offline"]  # fixtures


def test_commands_leave_nothing_in_the_sessions_they_share(offline: Run, bouncer: str) -> None:
    for n in range(12):
        offline("queue", "create", f"q{n}", PGQUEUE_DSN=bouncer)
    for _ in range(3):
        assert len(offline("compile", "--json", PGQUEUE_DSN=bouncer).rows) == 12
        words = ["send", "q1", "-", "--batch", "1", "--commit-each-batch"]
        assert offline(*words, stdin="1\n" * 20, PGQUEUE_DSN=bouncer).out.startswith("20 messages")
        assert offline("status", "--json", PGQUEUE_DSN=bouncer).rows[0]["current"] is True
