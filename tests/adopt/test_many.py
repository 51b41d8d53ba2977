"""2,000 queues at the server's default number of locks, forth and back, with a client that makes queues meanwhile."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.adopt import layouts
from tests.adopt.pictures import take_back, take_over
from tests.databases import Database
from tests.sql.asking import column, value

MANY = 2000


@pytest.mark.scale
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["1.4.4", "1.13.0"])
def test_2000_queues(old_db: Database, version: str) -> None:
    conn = old_db.connect()
    assert value(conn, "show max_locks_per_transaction") == "64"
    layouts.build(conn, version, "extension", queues=[f"n{number}" for number in range(MANY)])
    waits: list[float] = []
    over = threading.Event()

    def makes_queues() -> None:
        with psycopg.connect(old_db.dsn, autocommit=True) as other:
            while not over.is_set():
                began = time.monotonic()
                other.execute("select pgmq.create('new')")
                other.execute("select pgmq.drop_queue('new', false)")
                waits.append(time.monotonic() - began)

    maker = threading.Thread(target=makes_queues)
    maker.start()
    try:
        take_over(old_db)
        assert value(conn, "select count(*) from pg_class where relname ~ '_ready_idx$'") >= MANY
        take_back(old_db)
    finally:
        over.set()
        maker.join()
    print(f"longest create and drop: {max(waits):.2f} s of {len(waits)}")
    assert value(conn, "select to_regnamespace('pgqueue') is null")
    assert column(conn, "select pgmq.send('n1999', '{}', 0)") == [1]
