"""The whole road once, on a Postgres of its own in .demo/: what `make demo` runs.

Starts the server, installs the schema, sends a file of order events, reads them in batches, archives most and
deletes the rest, shows the figures, and lets pgmq's own Python client have a round on the same queue. The
commands are what a user types; the reading is SQL that any language can call. What it started, it stops.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import psycopg
from pgmq import PGMQueue
from psycopg_pool import ConnectionPool

from pgqueue.cli.main import INTERRUPTED, main
from pgqueue.embedded import Embedded

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".demo"
QUEUE = "orders"
BATCH = 100


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def private_server() -> Iterator[str]:
    """A running embedded Postgres; yields its DSN. One that ran already is left running."""
    server = Embedded(FOLDER)
    ran_before = server.status().running
    try:
        yield server.start()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the stopping short
        if not ran_before:
            server.stop()


def pgqueue(*words: str) -> None:
    """Runs one command of ours, shown as a user would type it. Raises what ended it."""
    say(f"$ pgqueue {shlex.join(words)}")
    code = main.main(list(words), prog_name="pgqueue", standalone_mode=False)
    if code == INTERRUPTED:
        raise KeyboardInterrupt


def work_through(conn: psycopg.Connection[Any]) -> int:
    """Reads the queue empty in batches, deletes the reviews, archives the rest. Returns how many it read."""
    taken = 0
    while batch := conn.execute(
        "select msg_id, message from pgmq.read(%s, 30, %s)", [QUEUE, BATCH]
    ).fetchall():
        reviews = [msg_id for msg_id, message in batch if message["type"] == "order.reviewed"]
        others = [msg_id for msg_id, message in batch if message["type"] != "order.reviewed"]
        conn.execute("select pgmq.delete(%s, %s::bigint[])", [QUEUE, reviews])
        conn.execute("select pgmq.archive(%s, %s::bigint[])", [QUEUE, others])
        taken += len(batch)
    return taken


def official_client(dsn: str) -> int:
    """One round with pgmq's own client, unchanged, on the same queue. Returns how many messages it read."""
    with ConnectionPool(dsn, min_size=1, max_size=2) as pool:
        client = PGMQueue(
            pool=pool, init_extension=False
        )  # it would create the extension, which nobody needs
        sent = client.send_batch(
            QUEUE, [{"type": "order.created", "order": f"official-{n}"} for n in range(3)]
        )
        received = client.read_batch(QUEUE, vt=30, batch_size=10)
        if [message.msg_id for message in received] != sent:
            raise SystemExit(f"demo failed: the official client sent {sent} and received {received}")
        client.archive_batch(QUEUE, sent[:2])
        client.delete(QUEUE, sent[2])
        say(f"the official client sent {len(sent)}, read {len(received)}, archived 2, deleted 1")
        return len(received)


def demo(dsn: str) -> str:
    """Plays the demo on a server and returns its last line."""
    os.environ["PGQUEUE_DSN"] = dsn
    os.chdir(ROOT)
    pgqueue("install")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "select pgmq.drop_queue(queue_name) from pgmq.list_queues() where queue_name = %s", [QUEUE]
        )
        pgqueue("queue", "create", QUEUE)
        pgqueue("send", QUEUE, "--file", "examples/orders.ndjson")
        pgqueue("queue", "metrics", QUEUE)
        read = work_through(conn)
        say(f"read {read} messages in batches of {BATCH}, archived the orders, deleted the reviews")
        read += official_client(dsn)
        pgqueue("queue", "metrics", QUEUE)
        (sent, left) = conn.execute(
            "select total_messages, queue_length from pgmq.metrics(%s)", [QUEUE]
        ).fetchone() or (0, 0)
        (archived,) = conn.execute("select count(*) from pgmq.a_orders").fetchone() or (0,)
    if left or read != sent or not 0 < archived < sent:
        raise SystemExit(
            f"demo failed: {sent} sent, {read} read, {archived} archived, {left} left in the queue"
        )
    return f"demo ok: {sent} sent, {read} read, {archived} archived"


def stop_in_order(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run() -> int:
    signal.signal(signal.SIGTERM, stop_in_order)
    try:
        with private_server() as dsn:
            last_line = demo(dsn)
    except (KeyboardInterrupt, click.Abort):
        print("demo stopped", file=sys.stderr)
        return 130
    except click.ClickException as error:
        print(f"demo failed: {error.format_message()}", file=sys.stderr)
        return 1
    say(last_line)
    return 0


if __name__ == "__main__":
    raise SystemExit(run())
