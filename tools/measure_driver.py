"""Measure the Python driver beside raw psycopg and the official client pgmq==1.1.4, in turns on one server.

    tools/measure_driver.py [--turns N] [--calls N]

A throwaway server of the tests' kind, synchronous_commit off; one connection each. Raw psycopg makes the same
calls of the compiled functions, with prepared statements. Figures are microseconds for a cycle; ratios first.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psycopg
from pgmq import PGMQueue
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from pgqueue import AsyncClient, Client
from tests.compat.reference import reference_sql
from tests.databases import Cluster, our_sql
from tests.servers import Server

BODY = {"order": 12345, "customer": "Ada", "items": [1, 2, 3]}
Cycle = Callable[[], Any]


def raw(dsn: str, size: int) -> tuple[Cycle, Cycle, Cycle]:
    conn = psycopg.connect(dsn, autocommit=True)
    send = 'select pgqueue."raw$send"(%s::jsonb, null)'
    send_many = 'select pgqueue."raw$send_batch"(%s::jsonb[], null)'
    read = 'select * from pgqueue."raw$read"(%s, %s)'
    delete = 'select pgqueue."raw$delete"(%s::bigint)'
    delete_many = 'select pgqueue."raw$delete_batch"(%s::bigint[])'
    fetch = 'select * from pgqueue."raw$fetch"(%s, %s, %s::bigint[], %s::integer[])'
    done: list[tuple[int, int]] = []

    def ask(sql: str, *params: Any) -> list[Any]:
        return conn.execute(sql, params, prepare=True).fetchall()

    def cycle() -> None:
        ask(send, Jsonb(BODY))
        ((msg_id, *_),) = ask(read, 30, 1)
        ask(delete, msg_id)

    def cycle_by_fetch() -> None:
        ask(send, Jsonb(BODY))
        rows = ask(fetch, 30, 1, [one for one, _ in done], [count for _, count in done])
        done[:] = [row[:2] for row in rows]

    def batch() -> None:
        ask(send_many, [Jsonb(BODY)] * size)
        rows = ask(read, 30, size)
        ask(delete_many, [row[0] for row in rows])

    return cycle, cycle_by_fetch, batch


def ours(dsn: str, size: int) -> tuple[Cycle, Cycle, Cycle]:
    queue = Client(dsn).queue("ours")
    done: list[Any] = []

    def cycle() -> None:
        queue.send(BODY)
        (message,) = queue.read()
        assert message.message == BODY
        message.delete()

    def cycle_by_fetch() -> None:
        queue.send(BODY)
        done[:] = queue.fetch(done=done)
        assert [one.message for one in done] == [BODY]

    def batch() -> None:
        queue.send_many([BODY] * size)
        messages = queue.read(qty=size)
        assert messages[-1].message == BODY
        queue.delete_many([one.msg_id for one in messages if one.message])

    return cycle, cycle_by_fetch, batch


def ours_async(dsn: str, size: int) -> tuple[Cycle, Cycle, Cycle]:
    loop = asyncio.new_event_loop()
    queue = AsyncClient(dsn).queue("later")
    done: list[Any] = []

    async def cycle() -> None:
        await queue.send(BODY)
        (message,) = await queue.read()
        assert message.message == BODY
        await message.delete()

    async def cycle_by_fetch() -> None:
        await queue.send(BODY)
        done[:] = await queue.fetch(done=done)
        assert [one.message for one in done] == [BODY]

    async def batch() -> None:
        await queue.send_many([BODY] * size)
        messages = await queue.read(qty=size)
        await queue.delete_many([one.msg_id for one in messages if one.message])

    one, two, three = (
        lambda call=call: loop.run_until_complete(call())  # type: ignore[misc]
        for call in (cycle, cycle_by_fetch, batch)
    )
    return one, two, three


def raw_async(dsn: str, size: int) -> tuple[Cycle]:
    loop = asyncio.new_event_loop()
    conn = loop.run_until_complete(psycopg.AsyncConnection.connect(dsn, autocommit=True))

    async def ask(sql: str, *params: Any) -> list[Any]:
        return await (await conn.execute(sql, params, prepare=True)).fetchall()

    async def cycle() -> None:
        await ask('select pgqueue."sraw$send"(%s::jsonb, null)', Jsonb(BODY))
        ((msg_id, *_),) = await ask('select * from pgqueue."sraw$read"(%s, %s)', 30, 1)
        await ask('select pgqueue."sraw$delete"(%s::bigint)', msg_id)

    return (lambda: loop.run_until_complete(cycle()),)


def official(dsn: str, size: int) -> tuple[Cycle, Cycle, Cycle]:
    """As its documentation has it: its own pool, here of one connection."""
    queue = PGMQueue(pool=ConnectionPool(dsn, min_size=1, max_size=1, open=True), init_extension=False)

    def cycle() -> None:
        queue.send("orders", BODY)
        message = queue.read("orders", vt=30)
        queue.delete("orders", message.msg_id)

    def batch() -> None:
        queue.send_batch("orders", [BODY] * size)
        messages = queue.read_batch("orders", vt=30, batch_size=size)
        queue.delete_batch("orders", [one.msg_id for one in messages])

    return cycle, cycle, batch


def bulk(ours_dsn: str, reference_dsn: str, count: int) -> dict[str, Cycle]:
    ours = Client(ours_dsn).queue("bulk")
    theirs = PGMQueue(
        pool=ConnectionPool(reference_dsn, min_size=1, max_size=1, open=True), init_extension=False
    )

    def send_batches() -> None:
        for _ in range(0, count, 1000):
            theirs.send_batch("bulk", [BODY] * 1000)

    return {"ours": lambda: ours.send_bulk(BODY for _ in range(count)), "official": send_batches}


def wake_up(dsn: str, count: int = 50) -> float:
    """Milliseconds from a send to the message in a waiting stream's hands, the median."""
    with Client(dsn) as waiting, Client(dsn) as sending:
        sending.create("wake")
        sending.enable_notify_insert("wake", throttle_interval_ms=0)
        stream = waiting.queue("wake").messages(poll=60)
        found: list[float] = []

        def send() -> None:
            for _ in range(count):
                time.sleep(0.05)
                sending.queue("wake").send(time.perf_counter())
            stream.stop()

        sender = threading.Thread(target=send)
        sender.start()
        for message in stream:
            found.append((time.perf_counter() - message.message) * 1000)
        sender.join()
        return statistics.median(found)


def measure(sides: dict[str, Cycle], turns: int, calls: int) -> dict[str, float]:
    """Microseconds a call, the fastest tenth: each side in turns in random order, on a machine that may be busy."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name in random.sample(sorted(sides), len(sides)):
            began = time.perf_counter()
            for _ in range(calls):
                sides[name]()
            if turn:  # the first is the warm-up
                found[name].append((time.perf_counter() - began) / calls * 1e6)
    return {name: statistics.quantiles(times, n=10)[0] for name, times in found.items()}


def show(title: str, figures: dict[str, float], *ratios: tuple[str, str]) -> None:
    print(title)
    for slow, fast in ratios:
        print(f"  {slow} / {fast}: {figures[slow] / figures[fast]:.2f}")
    print("  " + ", ".join(f"{name} {value:.0f} µs" for name, value in figures.items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    server = Server("embedded")
    try:
        server.start()
        cluster = Cluster(server.conninfo)
        mine, reference = cluster.create_database(), cluster.create_database()
        for database, sql, names in (
            (mine, our_sql(), ("raw", "ours", "later", "sraw", "bulk")),
            (reference, reference_sql(), ("orders", "bulk")),
        ):
            with psycopg.connect(database.dsn, autocommit=True) as conn:
                conn.execute(sql.encode())
                for name in names:
                    conn.execute("select pgmq.create(%s)", [name])
        size = 100
        sides = {
            "raw psycopg": raw(mine.dsn, size),
            "ours": ours(mine.dsn, size),
            "official": official(reference.dsn, size),
            "raw async": raw_async(mine.dsn, size),
            "ours async": ours_async(mine.dsn, size),
        }
        pairs = (("ours", "raw psycopg"), ("official", "ours"))
        cycles = {name: side[0] for name, side in sides.items()}
        found = measure(cycles, options.turns, options.calls)
        show("send, read, delete", found, *pairs, ("ours async", "raw async"))
        by_fetch = {name: sides[name][1] for name in ("raw psycopg", "ours", "official", "ours async")}
        show("send, fetch", measure(by_fetch, options.turns, options.calls), *pairs)
        batches = {name: sides[name][2] for name in ("raw psycopg", "ours", "official", "ours async")}
        found = measure(batches, options.turns, max(1, options.calls // 20))
        show(f"send, read, delete in batches of {size}", found, *pairs)
        found = measure(bulk(mine.dsn, reference.dsn, 10_000), max(4, options.turns // 6), 1)
        show("10,000 by send_bulk, by send_batch of 1,000s", found, ("official", "ours"))
        print(
            f"wake-up by notification, best median of three: {min(wake_up(mine.dsn) for _ in range(3)):.1f} ms"
        )
    finally:
        server.stop()


if __name__ == "__main__":
    main()
