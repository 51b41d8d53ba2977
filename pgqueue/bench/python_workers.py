"""Workers, ours and others', that drain a queue with handlers that do nothing. README.md says how each is set up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, Protocol

from pgqueue._sync.client import Client
from pgqueue.bench.databases import Database
from pgqueue.bench.model import PGQUEUER, PROCRASTINATE, WORKER
from pgqueue.dsn import parameters
from pgqueue.worker.worker import Worker

QUEUE = "work"
CHUNK = 1000
"""Messages that are sent at a time."""


class Drains(Protocol):
    """A worker.

    batches: whether it takes several messages at a time
    """

    side: str
    batches: bool

    def fill(self, count: int) -> None:
        """Send so many messages."""
        ...

    def drain(self, concurrency: int, batch: int) -> list[float]:
        """Handle all that there is, and give the moments at which handlers were called."""
        ...

    def left(self) -> int:
        """Messages that are not finished."""
        ...


class Ours:
    """pgqueue's own."""

    side = WORKER
    batches = True

    def __init__(self, database: Database, body: Any) -> None:
        self._database = database
        self._body = body
        database.run(f"select pgmq.create('{QUEUE}')")

    def fill(self, count: int) -> None:
        with Client(self._database.address) as client:
            client.queue(QUEUE).send_bulk(self._body for _ in range(count))

    def drain(self, concurrency: int, batch: int) -> list[float]:
        moments: list[float] = []
        worker = Worker(self._database.address)

        @worker.handler(QUEUE, concurrency=concurrency, batch=batch)
        async def handle(message: Any) -> None:
            moments.append(perf_counter())

        asyncio.run(worker.serve(until_empty=True))
        return moments

    def left(self) -> int:
        return int(self._database.value(f"select count(*) from pgmq.q_{QUEUE}"))


class Pgqueuer:
    """pgqueuer, on one connection of asyncpg and the loop that its own command runs in."""

    side = PGQUEUER
    batches = True

    def __init__(self, database: Database, body: Any) -> None:
        self._database = database
        self._body = json.dumps(body).encode()
        self._run(self._install)

    def fill(self, count: int) -> None:
        async def enqueue(driver: Any) -> None:
            from pgqueuer import Queries

            queries = Queries(driver)
            for start in range(0, count, CHUNK):
                several = min(CHUNK, count - start)
                await queries.enqueue([QUEUE] * several, [self._body] * several, [0] * several)

        self._run(enqueue)

    def drain(self, concurrency: int, batch: int) -> list[float]:
        moments: list[float] = []

        async def work(driver: Any) -> None:
            from pgqueuer import PgQueuer
            from pgqueuer.types import QueueExecutionMode

            program = PgQueuer(driver)

            @program.entrypoint(QUEUE)
            async def handle(job: Any) -> None:
                moments.append(perf_counter())

            await program.run(batch_size=concurrency * batch, mode=QueueExecutionMode.drain)

        self._run(work)
        return moments

    def left(self) -> int:
        return int(self._database.value("select count(*) from pgqueuer"))

    async def _install(self, driver: Any) -> None:
        from pgqueuer import Queries

        await Queries(driver).install()
        await Queries(driver).optimize_autovacuum()

    def _run(self, work: Callable[[Any], Awaitable[None]]) -> None:
        import asyncpg  # type: ignore[import-untyped]
        from pgqueuer import AsyncpgDriver

        known = parameters(self._database.address)
        names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
        options = {ours: known[libpqs] for libpqs, ours in names.items() if known.get(libpqs)}

        async def connected() -> None:
            conn = await asyncpg.connect(**options)
            try:
                await work(AsyncpgDriver(conn))
            finally:
                await conn.close()

        _fast_loop(connected())


def _fast_loop(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:  # it is not there for Windows
        asyncio.run(work)
    else:
        uvloop.run(work)


class Procrastinate:
    """procrastinate, with a pool large enough for all that run at once, and without what is finished."""

    side = PROCRASTINATE
    batches = False

    def __init__(self, database: Database, body: Any) -> None:
        self._database = database
        self._body = body
        asyncio.run(self._install())

    def fill(self, count: int) -> None:
        async def defer() -> None:
            app, task = self._app(1, lambda: None)
            async with app.open_async():
                for start in range(0, count, CHUNK):
                    bodies = [{"body": self._body} for _ in range(min(CHUNK, count - start))]
                    await task.batch_defer_async(*bodies)

        asyncio.run(defer())

    def drain(self, concurrency: int, batch: int) -> list[float]:
        moments: list[float] = []

        async def work() -> None:
            app, _ = self._app(concurrency, lambda: moments.append(perf_counter()))
            async with app.open_async():
                await app.run_worker_async(
                    concurrency=concurrency, wait=False, delete_jobs="always", install_signal_handlers=False
                )

        asyncio.run(work())
        return moments

    def left(self) -> int:
        return int(self._database.value("select count(*) from procrastinate_jobs"))

    async def _install(self) -> None:
        app, _ = self._app(1, lambda: None)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    def _app(self, concurrency: int, then: Callable[[], None]) -> tuple[Any, Any]:
        from procrastinate import App, PsycopgConnector

        connector = PsycopgConnector(
            conninfo=self._database.address, min_size=concurrency + 3, max_size=concurrency + 3
        )
        app = App(connector=connector)

        @app.task(name=QUEUE)
        async def handle(body: Any) -> None:
            then()

        return app, handle


RIVALS: dict[str, Callable[[Database, Any], Drains]] = {PGQUEUER: Pgqueuer, PROCRASTINATE: Procrastinate}
