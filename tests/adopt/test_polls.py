"""Who waits inside a poll while the database is adopted gets his message all the same."""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgqueue.adopt import forth
from pgqueue.adopt.plan import Step
from tests.adopt import layouts
from tests.databases import Database
from tests.sql.asking import column, do, value

POLLERS = 2


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("version", "function"),
    [("1.3.3", "read_with_poll"), ("1.9.0", "read_with_poll"), ("1.9.0", "read_grouped_with_poll")],
)
def test_a_poll_that_began_before_goes_on(old_db: Database, version: str, function: str) -> None:
    """PL/pgSQL looks the type of a record variable up by name again when it is renamed, in a running call too."""
    conn, sender = old_db.connect(), old_db.connect()
    layouts.build(conn, version, "extension")
    over, found = threading.Event(), []  # type: tuple[threading.Event, list[object]]

    def poll() -> None:
        query = f"select msg_id, read_ct, vt > now(), message from pgmq.{function}('x', 30, 1, 1, 50)"
        with psycopg.connect(old_db.dsn, autocommit=True) as poller:
            while not over.is_set():
                try:
                    found.extend(poller.execute(query.encode()))
                except psycopg.Error as error:
                    found.append(error)

    def watch(step: Step, done: int, total: int) -> None:
        """Right after the swap there is something for each of those who wait."""
        if step.key == "swap" and done == total:
            waiting = (
                "select count(*) from pg_stat_activity where query like '%_with_poll%' and state = 'active'"
            )
            assert value(sender, waiting + " and pid <> pg_backend_pid()") == POLLERS
            do(sender, "select pgmq.send('x', to_jsonb(g)) from generate_series(1, %s) g", POLLERS)

    threads = [threading.Thread(target=poll) for _ in range(POLLERS)]
    for thread in threads:
        thread.start()
    try:
        forth.adopt(conn, old_db.connect(), watch=watch)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    expected = [(n, 1, True, n) for n in range(1, POLLERS + 1)]
    if function == "read_grouped_with_poll":  # one group, one at a time, once ours answers
        assert found and set(found) <= set(expected)
    else:
        assert sorted(found, key=str) == expected
    assert column(conn, "select read_ct from pgmq.q_x order by msg_id limit 1") == [1]
