"""pgqueue send: one message from the command line, or many from a file."""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING

import click

from pgqueue.cli import json_input, server
from pgqueue.cli.options import Moment, json_option, server_option, standard_input
from pgqueue.cli.output import note, print_json, progress, say
from pgqueue.codec import JsonText
from pgqueue.errors import BadValue, ConnectionLost, PgqueueError
from pgqueue.names import counted

if TYPE_CHECKING:
    from pgqueue._sync.client import Client


@dataclass(frozen=True)
class Errand:
    """What is the same for all messages of a file."""

    queue: str
    headers: JsonText | None
    delay: int | datetime | None
    batch: int
    commit_each_batch: bool
    as_json: bool


@click.command()
@click.argument("queue")
@click.argument("message", required=False)
@click.option("--file", "path", metavar="FILE", help="Send each line of a file (- is standard input).")
@click.option("--headers", metavar="JSON", help="Headers of every message, a JSON object.")
@click.option(
    "--delay", type=Moment(), help="Seconds, or a date and time, before which nobody can read them."
)
@click.option(
    "--batch",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Messages in a statement.",
)
@click.option(
    "--commit-each-batch", is_flag=True, help="Keep the batches before a failure. Default: all or none."
)
@json_option
@server_option
def send(
    queue: str,
    message: str | None,
    path: str | None,
    headers: str | None,
    delay: int | datetime | None,
    batch: int,
    commit_each_batch: bool,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Send a message, or a file of them.

    MESSAGE is any JSON value. With --file, or - in place of MESSAGE, each line is one; all are sent in one
    transaction, so a line that is not JSON leaves the queue as it was.

    \b
    Examples:
      pgqueue send orders '{"order": 17}' --delay 60
      pgqueue send orders --file orders.ndjson
      tail -f events.log | pgqueue send events - --batch 1 --commit-each-batch
    """
    if (message is None) == (path is None):
        raise click.UsageError("give either MESSAGE (- for standard input) or --file.")
    errand = Errand(
        queue=queue,
        headers=None if headers is None else json_input.headers(headers),
        delay=delay,
        batch=batch,
        commit_each_batch=commit_each_batch,
        as_json=as_json,
    )
    if message is not None and message != "-":
        _send_one(errand, json_input.message(message), dsn)
        return
    with ExitStack() as stack:
        stdin = path in (None, "-")
        stream = standard_input() if stdin else stack.enter_context(open(str(path), "rb"))
        client = stack.enter_context(server.client(dsn))
        _report(errand, _send_file(client, errand, stream))


def _send_one(errand: Errand, message: JsonText, dsn: str | None) -> None:
    with server.client(dsn) as client:
        msg_id = client.queue(errand.queue).send(message, headers=errand.headers, delay=errand.delay)
    if errand.as_json:
        print_json([{"msg_id": msg_id}])
    else:
        say(str(msg_id))


def _send_file(client: Client, errand: Errand, stream: IO[bytes]) -> list[int]:
    """Send every line, and give the ids. An error says what became of the messages before it."""
    sent: list[int] = []
    try:
        with (
            nullcontext() if errand.commit_each_batch else client.transaction(),
            progress(_size(stream)) as advance,
        ):
            for batch in json_input.batches(stream, errand.batch):
                ids = _send_batch(client, errand, batch)
                sent += ids
                advance(len(ids), batch.size)
                if errand.commit_each_batch and errand.as_json:
                    print_json({"msg_id": one} for one in ids)
    except PgqueueError as error:
        if errand.commit_each_batch:
            raise type(error)(
                f"{error}; before it {counted(len(sent), 'message')} went out", sqlstate=error.sqlstate
            ) from error
        if isinstance(error, ConnectionLost):  # perhaps at the commit: then nobody knows
            raise
        raise type(error)(f"{error}; nothing was sent", sqlstate=error.sqlstate) from error
    except KeyboardInterrupt:
        note(f"{counted(len(sent) if errand.commit_each_batch else 0, 'message')} went out")
        raise
    return sent


def _send_batch(client: Client, errand: Errand, batch: json_input.Batch) -> list[int]:
    headers = errand.headers and [errand.headers] * len(batch.messages)
    try:
        return client.queue(errand.queue).send_many(batch.messages, headers=headers, delay=errand.delay)
    except BadValue as error:
        lines = f"lines {batch.first_line} to {batch.last_line}"
        raise type(error)(f"{lines}: {error}", sqlstate=error.sqlstate) from error


def _report(errand: Errand, sent: list[int]) -> None:
    if not errand.as_json:
        ids = f", ids {sent[0]} to {sent[-1]}" if sent else ""
        say(f"{counted(len(sent), 'message')} sent to {errand.queue}{ids}")
    elif not errand.commit_each_batch:  # else they are out already
        print_json({"msg_id": one} for one in sent)


def _size(stream: IO[bytes]) -> int | None:
    """Bytes of a file; None for a pipe, or what is no real file at all."""
    try:
        return os.fstat(stream.fileno()).st_size or None
    except OSError:
        return None
