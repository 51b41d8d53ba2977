"""Messages that are in a queue: read, pop, peek, archive, delete, set-vt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pgqueue.cli import server
from pgqueue.cli.options import (
    BIGINT,
    QUANTITY,
    SECONDS,
    Duration,
    MessageId,
    Moment,
    all_ids,
    json_option,
    server_option,
)
from pgqueue.cli.output import note, print_json, say, show
from pgqueue.errors import PgqueueError
from pgqueue.model import COLUMNS, MessageRecord
from pgqueue.names import counted

if TYPE_CHECKING:
    from pgqueue._sync.queue import Queue

FOR_PEOPLE = ("msg_id", "read_ct", "vt", "message", "headers")
"""What of a message is shown to people; --json has all."""
SHOWN = 10
"""So many ids are named in a line for people."""


def _show(messages: Sequence[MessageRecord[Any]], as_json: bool) -> None:
    names = COLUMNS if as_json else FOR_PEOPLE
    rows = [{name: getattr(one, name) for name in names} for one in messages]
    show(rows, as_json, "no messages", in_full=True)


@click.command()
@click.argument("queue")
@click.option("--vt", type=SECONDS, default=30, show_default=True, help="Seconds that nobody else gets them.")
@click.option("--qty", type=QUANTITY, default=1, show_default=True, help="How many at most.")
@click.option("--poll", type=Duration(), metavar="SECONDS", help="Wait so long for a message.")
@json_option
@server_option
def read(queue: str, vt: int, qty: int, poll: float | None, as_json: bool, dsn: str | None) -> None:
    """Take messages for a time. They stay in the queue until they are archived or deleted.

    \b
    Examples:
      pgqueue read orders --qty 10
      pgqueue read orders --poll 60 --json
    """
    with server.client(dsn) as client:
        _show(client.queue(queue).read_with_poll(vt=vt, qty=qty, max_poll_seconds=poll or 0), as_json)


@click.command()
@click.argument("queue")
@click.option("--qty", type=QUANTITY, default=1, show_default=True, help="How many at most.")
@json_option
@server_option
def pop(queue: str, qty: int, as_json: bool, dsn: str | None) -> None:
    """Read messages and delete them at once.

    \b
    Example:
      pgqueue pop orders --json
    """
    with server.client(dsn) as client:
        _show(client.queue(queue).pop(qty=qty), as_json)


@click.command()
@click.argument("queue")
@click.option("--qty", type=QUANTITY, default=10, show_default=True, help="How many at most.")
@click.option("--after", type=BIGINT, default=0, metavar="ID", help="Only those with a higher id.")
@json_option
@server_option
def peek(queue: str, qty: int, after: int, as_json: bool, dsn: str | None) -> None:
    """Look at messages, also those that are delayed or taken. Changes nothing.

    \b
    Example:
      pgqueue peek orders --qty 20 --after 100
    """
    with server.client(dsn) as client:
        _show(client.queue(queue).peek(qty=qty, after_msg_id=after), as_json)


@click.command()
@click.argument("queue")
@click.argument("ids", nargs=-1, required=True, type=MessageId(), metavar="ID...")
@json_option
@server_option
def archive(queue: str, ids: tuple[int | str, ...], as_json: bool, dsn: str | None) -> None:
    """Move messages to the queue's archive. An ID of - stands for ids on standard input.

    \b
    Examples:
      pgqueue archive orders 17 18
      pgqueue read orders --qty 10 --json | jq .msg_id | pgqueue archive orders -
    """
    _each(
        queue,
        all_ids(ids),
        "archived",
        as_json,
        dsn,
        lambda orders, wanted: orders.archive_many(wanted),
    )


@click.command()
@click.argument("queue")
@click.argument("ids", nargs=-1, required=True, type=MessageId(), metavar="ID...")
@json_option
@server_option
def delete(queue: str, ids: tuple[int | str, ...], as_json: bool, dsn: str | None) -> None:
    """Delete messages. An ID of - stands for ids on standard input.

    \b
    Example:
      pgqueue delete orders 17 18
    """
    _each(
        queue,
        all_ids(ids),
        "deleted",
        as_json,
        dsn,
        lambda orders, wanted: orders.delete_many(wanted),
    )


@click.command("set-vt")
@click.argument("queue")
@click.argument("ids", nargs=-1, required=True, type=MessageId(), metavar="ID...")
@click.option("--vt", type=Moment(), required=True, help="Seconds from now (0: at once), or a date and time.")
@json_option
@server_option
def set_vt(
    queue: str, ids: tuple[int | str, ...], vt: int | datetime, as_json: bool, dsn: str | None
) -> None:
    """Say when messages can be read again.

    \b
    Examples:
      pgqueue set-vt orders 17 18 --vt 0
      pgqueue set-vt orders 17 --vt 2030-01-31T09:00:00Z
    """
    wanted = all_ids(ids)
    with server.client(dsn) as client:
        found = sorted(client.queue(queue).set_vt_many(wanted, vt), key=lambda one: one.msg_id)
    _report_missing(queue, wanted, {one.msg_id for one in found})
    _show(found, as_json)


def _each(
    queue: str,
    wanted: list[int],
    done: str,
    as_json: bool,
    dsn: str | None,
    call: Callable[[Queue[Any], list[int]], list[int]],
) -> None:
    """Do it to each id that is in the queue, and say which were not."""
    with server.client(dsn) as client:
        found = set(call(client.queue(queue), wanted))
    if as_json:
        print_json({"msg_id": one, done: one in found} for one in wanted)
    _report_missing(queue, wanted, found)
    if not as_json:
        say(f"{len(found)} of {counted(len(wanted), 'message')} {done}")


def _report_missing(queue: str, wanted: list[int], found: set[int]) -> None:
    """Name the ids that were not in the queue, on stderr; none found at all is a failure."""
    missing = [one for one in wanted if one not in found]
    if not missing:
        return
    names = ", ".join(str(one) for one in missing[:SHOWN])
    text = f"not in queue {queue}: {names}" + (f" and {len(missing) - SHOWN} more" if missing[SHOWN:] else "")
    if not found:
        raise PgqueueError(text)
    note(text)
