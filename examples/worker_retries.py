"""A worker that sends mail: what fails comes again, later each time, and in the end is set aside.

    python examples/worker_retries.py                  sends six messages, handles them and reports
    pgqueue worker examples.worker_retries:worker      the worker alone, until Ctrl-C

The server is PGQUEUE_DSN, else a private Postgres. Its schema and queues are made if they are not there.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import psycopg

from pgqueue import Backoff, Client, Defer, Delivery, Discard, Retry, Worker
from pgqueue.embedded import resolve
from pgqueue.migrate import install

DSN = os.environ.get("PGQUEUE_DSN", "embedded:")
worker = Worker(DSN, poll=0.2)
sent: list[str] = []


@worker.handler(
    "mail",
    concurrency=4,
    max_deliveries=3,
    dead_letter="mail_undelivered",
    backoff=Backoff(first=0.1),  # so that the example is short; the default begins with a second
)
def send_mail(message: Delivery[Any]) -> None:
    """Runs in a thread. Returning archives the message; an exception brings it back."""
    mail = message.message
    match mail["to"]:
        case "nobody":
            raise Discard("there is no such address")  # not a failure to be tried again
        case "holiday" if message.read_ct == 1:
            raise Defer(1)  # no failure: does not count as an attempt
        case "busy" if message.deliveries == 1:
            raise Retry("the mailbox is busy", after=0.2)  # a failure that knows when to come again
        case "flaky" if message.deliveries < 3:
            raise ConnectionError("the mail server hung up")  # any exception: again after a pause
        case "broken":
            raise ValueError(f"cannot write to {mail['to']}")  # each time: set aside after the third
    sent.append(mail["to"])
    print(f"sent to {mail['to']}, delivery {message.deliveries}")


def prepare() -> None:
    """Install the schema and make the queues. An application does this in its migrations."""
    with psycopg.connect(resolve(DSN)) as conn:
        install(conn)
    with Client(DSN) as client:
        for queue in ("mail", "mail_undelivered"):
            client.create(queue)
        client.enable_notify_insert("mail")


def main() -> None:
    logging.basicConfig(format="%(levelname)s %(message)s")  # what failed, on stderr
    prepare()
    with Client(DSN) as client:
        mail = client.queue("mail")
        mail.send_many([{"to": to} for to in ("ada", "nobody", "holiday", "busy", "flaky", "broken")])
        while mail.metrics().queue_length:  # a service would just call worker.run()
            worker.run(until_empty=True)
            time.sleep(0.05)
        for message in client.queue("mail_undelivered").pop(qty=10):
            said = message.headers["x-pgqueue-error"]
            print(
                f"set aside after {message.headers['x-pgqueue-deliveries']}: {message.message['to']}: {said}"
            )
    print(f"sent to {', '.join(sorted(sent))}")


if __name__ == "__main__":
    main()
