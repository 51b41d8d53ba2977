"""A server that is away, full, restarted or replaced: the worker goes on when it can."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from pgqueue import AsyncDelivery, Client, Defer, Discard, Queue, Worker
from pgqueue.errors import PgqueueError
from tests.databases import Cluster, Database, our_sql
from tests.servers import Server
from tests.sql.asking import Connection, column, do, value
from tests.worker.running import Running, until

SESSIONS = "from pg_stat_activity where datname = current_database() and application_name = 'pgqueue'"


class Seen(Counter[int]):
    """How often each message was handled, by a worker that is given to it."""

    def handle(self, worker: Worker, **settings: Any) -> None:
        @worker.handler("orders", concurrency=4, **settings)
        async def handle(message: AsyncDelivery[int]) -> None:
            await asyncio.sleep(0.005)
            self[message.message] += 1


def fewer_than(conn: Connection, count: int) -> bool:
    return bool(value(conn, "select count(*) from pgmq.q_orders") < count)


def test_it_outlives_its_sessions(db: Database, orders: Queue[Any], conn: Connection) -> None:
    """Every session of it is ended again and again while it works; acknowledgements are said again."""
    worker, seen = Worker(db.dsn, poll=0.05), Seen()
    seen.handle(worker)
    orders.send_many(list(range(200)))
    killed, left = 0, 200
    with Running(worker):
        while left > 60:
            own = conn.info.backend_pid
            killed += len(column(conn, f"select pg_terminate_backend(pid) {SESSIONS} and pid <> %s", own))
            until(partial(fewer_than, conn, left - 20), "twenty more")
            left = value(conn, "select count(*) from pgmq.q_orders")
        # A read whose answer was cut off has leased messages that nobody has: instead of waiting for them
        orders.set_vt_many(column(conn, "select msg_id from pgmq.q_orders"), 0)
        until(lambda: value(conn, "select count(*) from pgmq.q_orders") == 0, "the end")
    assert killed > 2
    assert sorted(seen) == list(range(200))
    assert value(conn, "select count(*) from pgmq.a_orders") == 200


@pytest.mark.parametrize("end", [Discard("it is old"), Defer(0.01), ValueError("never")])
def test_an_end_whose_begin_is_lost_is_said_again(
    db: Database, orders: Queue[Any], conn: Connection, monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    """The session ends after it was found to work, and before the transaction of the message's end begins."""
    worker = Worker(db.dsn, poll=0.05)
    begin, seen = psycopg.AsyncTransaction.__aenter__, 0

    async def begin_with_nobody(self: Any) -> Any:
        monkeypatch.undo()
        do(conn, "select pg_terminate_backend(%s, 10000)", self.connection.info.backend_pid)
        return await begin(self)

    @worker.handler("orders", vt=60, max_deliveries=1)
    async def handle(message: AsyncDelivery[Any]) -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            return
        monkeypatch.setattr(psycopg.AsyncTransaction, "__aenter__", begin_with_nobody)
        raise end

    orders.send(1)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pgmq.q_orders") == 0, "its end", 10)
    assert seen == (2 if isinstance(end, Defer) else 1)


def test_it_waits_for_a_server_that_is_full(
    db: Database, client: Client, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    role = db.create_role()
    do(conn, f"grant usage on schema pgmq to {role}; grant all on pgmq.q_orders, pgmq.a_orders to {role}")
    admin = db.connect(user=db.superuser)
    worker, seen = Worker(db.dsn_for(role), poll=0.05), Seen()
    seen.handle(worker)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pg_stat_activity where usename = %s", role) == 2)
        do(admin, f"alter role {role} connection limit 0")
        do(admin, "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", role)
        orders.send(1)
        until(lambda: "too many connections" in caplog.text, "its complaint")
        do(admin, f"alter role {role} connection limit -1")
        until(lambda: seen[1], "the message")


def test_a_full_server_ends_the_start(db: Database, orders: Queue[Any]) -> None:
    role = db.create_role()
    do(db.connect(user=db.superuser), f"alter role {role} connection limit 0")
    worker = Worker(db.dsn_for(role))
    worker.handler("orders")(print)
    with pytest.raises(PgqueueError, match="too many connections"):
        worker.run()


def test_it_waits_where_nothing_may_be_written(
    db: Database, orders: Queue[Any], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a standby: the next connection may find a server that writes."""
    role = db.create_role()
    do(conn, f"grant usage on schema pgmq to {role}; grant all on pgmq.q_orders, pgmq.a_orders to {role}")
    admin = db.connect(user=db.superuser)
    worker, seen = Worker(db.dsn_for(role), poll=0.05), Seen()
    seen.handle(worker)
    with Running(worker):
        until(lambda: value(conn, "select count(*) from pg_stat_activity where usename = %s", role) == 2)
        do(admin, f"alter role {role} set default_transaction_read_only = on")
        do(admin, "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", role)
        until(lambda: "read-only transaction" in caplog.text, "its complaint")
        do(admin, f"alter role {role} reset default_transaction_read_only")
        orders.send(1)
        until(lambda: seen[1], "the message")


# --- a server of its own ---------------------------------------------------------------------------


@pytest.fixture
def own(new_server: Callable[..., Server]) -> Server:
    return new_server(synchronous_commit="on")


def installed(server: Server) -> Database:
    """A database with us and a queue `orders` in a server of its own."""
    cluster = Cluster(server.conninfo)
    database = cluster.create_database()
    conn = database.connect()
    do(conn, our_sql())
    do(conn, "select pgmq.create('orders'), pgmq.enable_notify_insert('orders', 0)")
    conn.close()
    cluster._admin.close()
    return database


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "crash"])
def test_it_outlives_its_server(own: Server, crash: bool) -> None:
    """What it holds it finishes when the server is back, and what comes it hears of."""
    database = installed(own)
    worker, seen, go = Worker(database.dsn, poll=30), Seen(), threading.Event()
    seen.handle(worker)

    @worker.handler("slow", concurrency=2)
    async def slow(message: AsyncDelivery[int]) -> None:
        seen[message.message] += 1
        while not go.is_set():
            await asyncio.sleep(0.01)

    with Client(database.dsn) as client:
        client.create("slow")
        client.queue("slow").send_many([100, 101])
    with Running(worker):
        until(lambda: seen[100] and seen[101], "the slow ones")
        own.crash() if crash else own.shut_down()
        go.set()
        own.start()
        conn = psycopg.connect(database.dsn, autocommit=True)
        until(lambda: value(conn, "select count(*) from pgmq.a_slow") == 2, "acknowledgements")
        with Client(database.dsn) as client:
            until(lambda: value(conn, f"select count(*) {SESSIONS} and query ilike 'listen%'"), "its new ear")
            client.queue("orders").send(1)
        until(lambda: value(conn, "select count(*) from pgmq.a_orders") == 1, "the new one")
        conn.close()
    assert dict(seen) == {100: 1, 101: 1, 1: 1}


@pytest.fixture
def pair(new_server: Callable[..., Server]) -> Iterator[tuple[Server, Server]]:
    """A server and a synchronous standby of it."""
    primary = new_server(synchronous_commit="on")
    conninfo = f"host={primary.root} user={primary.superuser} application_name=standby"
    standby = Server(primary.choice, primary.settings)
    copy = [str(standby.bin / "pg_basebackup"), "-D", str(standby.data), "-d", conninfo, "-R", "-X", "stream"]
    subprocess.run([*copy, "-c", "fast"], check=True, cwd="/", capture_output=True, **standby._identity)
    with open(
        standby.data / "postgresql.auto.conf", "a"
    ) as settings:  # -R names options that an older libpq lacks
        settings.write(f"primary_conninfo = '{conninfo}'\n")
    try:
        standby.start()
        with psycopg.connect(f"host={primary.root} user=postgres dbname=postgres", autocommit=True) as conn:
            conn.execute("alter system set synchronous_standby_names = 'standby'")
            conn.execute("select pg_reload_conf()")
            until(lambda: value(conn, "select count(*) from pg_stat_replication where sync_state = 'sync'"))
        yield primary, standby
    finally:
        standby.stop()


def test_it_follows_a_failover(pair: tuple[Server, Server]) -> None:
    """Two real servers: the first dies under load, the second is promoted; nothing that was sent is lost."""
    primary, standby = pair
    database = installed(primary)
    dsn = (
        f"host={primary.root},{standby.root} user=postgres dbname={database.name} connect_timeout=2"
        " target_session_attrs=read-write"
    )
    worker, seen = Worker(dsn, poll=0.05), Seen()
    seen.handle(worker, vt=3)
    with Client(dsn) as client, Running(worker):
        orders = client.queue("orders")
        orders.send_many(list(range(300)))
        until(lambda: len(seen) > 50, "a beginning")
        primary.crash()
        with psycopg.connect(f"host={standby.root} user=postgres dbname=postgres", autocommit=True) as conn:
            conn.execute("select pg_promote()")
        until(lambda: after_failover(client), "the new primary")
        with psycopg.connect(
            f"host={standby.root} user=postgres dbname={database.name}", autocommit=True
        ) as conn:
            until(lambda: value(conn, "select count(*) from pgmq.q_orders") == 0, "the end")
            assert value(conn, "select count(*) from pgmq.a_orders") == 301
    assert set(seen) == set(range(301))
    assert max(seen.values()) <= 2


def after_failover(client: Client) -> int:
    """Send one more message and say its id; 0 while there is no server."""
    try:
        return client.queue("orders").send(300)
    except PgqueueError:
        return 0
