"""Sides in Python: each of them does what its figures say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pgqueue.bench.databases import Database, Databases
from pgqueue.bench.lab import Lab
from pgqueue.bench.model import AGAINST, Options
from pgqueue.bench.python_calls import (
    Calls,
    async_client_calls,
    async_psycopg_calls,
    client_calls,
    pgmq_client_calls,
    psycopg_calls,
)
from pgqueue.bench.python_workers import RIVALS, Drains, Ours
from pgqueue.bench.workloads.worker import _statements, _steady_rate

BODY = {"order": 1}


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (psycopg_calls, "pgqueue"),
        (async_psycopg_calls, "pgqueue"),
        (client_calls, "pgqueue"),
        (async_client_calls, "pgqueue"),
        (pgmq_client_calls, "pgmq"),
    ],
    ids=["psycopg", "async psycopg", "client", "async client", "pgmq-client"],
)
def test_calls_do_what_they_are_named_after(
    databases: Databases, make: Callable[[Database, Any], Calls], what: str
) -> None:
    database = databases.make(what)
    calls = make(database, BODY)
    queue = f"pgmq.q_{calls.queue}"
    database.run(f"select pgmq.create('{calls.queue}')")

    def state() -> tuple[int, int]:
        return database.value(f"select count(*) from {queue}"), database.value(
            f"select last_value from {queue}_msg_id_seq"
        )

    try:
        calls.cycle(3)
        assert state() == (0, 3)
        calls.fill(2)
        assert state() == (200, 203)
        assert database.value(f"select count(*) from {queue} where message = '{{\"order\": 1}}'") == 200
        calls.drain(2)
        assert state() == (0, 203)
        calls.send_fetch(3)
        assert state() == (0 if what == "pgmq" else 1, 206), "the last one is not finished yet"
        if calls.bulk is not None:
            calls.bulk(1010)
            assert state()[1] == 1216
    finally:
        calls.close()


@pytest.mark.parametrize("side", ["worker", *RIVALS])
def test_workers_handle_everything_once(databases: Databases, side: str) -> None:
    worker: Drains
    worker = (
        Ours(databases.make("pgqueue"), BODY)
        if side == "worker"
        else RIVALS[side](databases.make(side), BODY)
    )
    assert worker.side == side
    for concurrency, batch in ((1, 1), (3, 5)):
        worker.fill(17)
        assert worker.left() == 17
        moments = worker.drain(concurrency, batch)
        assert len(moments) == 17
        assert moments == sorted(moments)
        assert worker.left() == 0


def test_a_rate_is_that_of_the_middle() -> None:
    assert _steady_rate([0.0, *(100 + n / 10 for n in range(9)), 500.0]) == pytest.approx(10)


def test_statements_are_counted(databases: Databases) -> None:
    database = databases.make("pgqueue")
    idle = database.connect(application_name="pgqueue")
    assert _statements(database, 0.1) == 0
    beside = threading.Timer(0.1, lambda: idle.execute("select 1"))
    beside.start()
    assert _statements(database, 0.5) == 1
    beside.join()


def test_only_those_that_are_asked_for_have_a_database(databases: Databases) -> None:
    for against, there in (((), False), (("pgmq-client",), True), (AGAINST, True)):
        lab = Lab("x", Options(against=against), databases, lambda text: None)
        assert (lab.pgmq is not None) == there
        assert (len(lab.callers()) == 3) == ("pgmq" in against)
