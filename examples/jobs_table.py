"""A table of jobs, each tried three times at most, taken and finished in one transaction.

The script that many write with FOR UPDATE SKIP LOCKED, without its usual faults: an attempt counts even when
it kills the worker, since the lease is committed before the work begins; a job is finished in the transaction
that did its work, so nothing is done twice or half; and an empty table costs next to nothing, since the worker
waits to be notified.

    python examples/jobs_table.py                  submits jobs to a waiting worker, and reports
    pgqueue worker examples.jobs_table:worker      the worker alone, until Ctrl-C

The server is PGQUEUE_DSN, else a private Postgres. Schema, table and queues are made if they are not there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

import psycopg

from pgqueue import Backoff, Client, Delivery, Worker
from pgqueue.embedded import resolve
from pgqueue.migrate import install

DSN = os.environ.get("PGQUEUE_DSN", "embedded:")
TABLE = """
    create table if not exists job (
        id bigint generated always as identity primary key,
        payload jsonb not null,
        state text not null default 'waiting',
        attempts int not null default 0,
        result jsonb,
        error text
    )"""
worker = Worker(DSN)


def submit(conn: psycopg.Connection[Any], payload: str) -> int:
    """Add a job in the caller's transaction: it is taken if that commits, and was never there if not."""
    row = conn.execute("insert into job (payload) values (to_jsonb(%s::text)) returning id", [payload])
    (job,) = row.fetchone() or (0,)
    Client(conn).queue("jobs").send({"job": job})
    return int(job)


@worker.handler(
    "jobs",
    concurrency=2,
    transactional=True,
    max_deliveries=3,
    dead_letter="jobs_failed",
    backoff=Backoff(first=0.1),
)
def run_job(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
    """Do a job in the worker's transaction, which commits the work, the state and the message's end at once."""
    job = message.message["job"]
    row = conn.execute("select payload #>> '{}' from job where id = %s", [job]).fetchone()
    if row is None:  # the job was deleted: nothing to do, so the message is done
        return
    result = work(row[0], message.deliveries)
    sql = "update job set state = 'done', attempts = %s, result = to_jsonb(%s::text) where id = %s"
    conn.execute(sql, [message.deliveries, result, job])


@worker.handler("jobs_failed", transactional=True)
def give_up(message: Delivery[Any], conn: psycopg.Connection[Any]) -> None:
    """Note in the table what was set aside after its third attempt, killed workers' attempts included."""
    sql = "update job set state = 'failed', attempts = %s, error = %s where id = %s"
    headers = message.headers
    conn.execute(sql, [headers["x-pgqueue-deliveries"], headers["x-pgqueue-error"], message.message["job"]])


def work(payload: str, attempt: int) -> str:
    """What the jobs are about: one of them succeeds the second time, one never."""
    if payload == "never" or (payload == "second time" and attempt == 1):
        raise RuntimeError(f"no luck with {payload!r}")
    return payload.upper()


def prepare() -> None:
    """Install the schema, make the table and the queues. An application does this in its migrations."""
    with psycopg.connect(resolve(DSN)) as conn:
        install(conn)
        conn.execute(TABLE)
    with Client(DSN) as client:
        for queue in ("jobs", "jobs_failed"):
            client.create(queue)
            client.enable_notify_insert(queue, throttle_interval_ms=0)


def main() -> None:
    logging.basicConfig(format="%(levelname)s %(message)s")  # what failed, on stderr
    prepare()
    waiting = threading.Thread(target=worker.run)
    waiting.start()  # on an empty queue
    with psycopg.connect(resolve(DSN)) as conn:
        jobs = [submit(conn, payload) for payload in ("first", "second time", "never")]
        conn.commit()
        submit(conn, "of a transaction that is rolled back")
        conn.rollback()
        unfinished = "select count(*) from job where id = any(%s) and state = 'waiting'"
        while conn.execute(unfinished, [jobs]).fetchone() != (0,):
            conn.rollback()
            time.sleep(0.05)
        report = "select payload #>> '{}', state, attempts, coalesce(result #>> '{}', error) from job"
        for job in conn.execute(f"{report} where id = any(%s) order by id", [jobs]):
            print(*job, sep=" | ")
    worker.stop()
    waiting.join()


if __name__ == "__main__":
    main()
