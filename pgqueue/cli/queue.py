"""pgqueue queue: make, drop, list, show, empty and count queues."""

from __future__ import annotations

import click

from pgqueue.cli import server
from pgqueue.cli.options import agreed, json_option, server_option
from pgqueue.cli.output import print_details, print_json, row, say, show
from pgqueue.errors import NoSuchQueue
from pgqueue.model import QueueInfo
from pgqueue.names import counted, lower


@click.group()
def queue() -> None:
    """Make, drop, list, show, empty and count queues.

    \b
    Example:
      pgqueue queue create orders
    """


@queue.command()
@click.argument("name")
@click.option("--unlogged", is_flag=True, help="Faster; a crash of the server empties it.")
@click.option("--partitioned", is_flag=True, help="In partitions, so that old messages go cheaply.")
@click.option(
    "--partition-interval", metavar="N", help='Messages ("10000") or time ("1 day") in a partition.'
)
@click.option(
    "--retention-interval", metavar="N", help="How many messages, or how long, partitions are kept."
)
@server_option
def create(
    name: str,
    unlogged: bool,
    partitioned: bool,
    partition_interval: str | None,
    retention_interval: str | None,
    dsn: str | None,
) -> None:
    """Make a queue. One that is there already stays as it is.

    How many partitions are made ahead can be given in SQL only: premake of pgmq.create_partitioned.

    \b
    Examples:
      pgqueue queue create orders
      pgqueue queue create events --partitioned --partition-interval '1 day' --retention-interval '30 days'
    """
    if unlogged and partitioned:
        raise click.UsageError("--unlogged and --partitioned exclude each other.")
    if (partition_interval or retention_interval) and not partitioned:
        raise click.UsageError("intervals are for --partitioned queues.")
    with server.client(dsn) as client:
        if partitioned:
            client.create_partitioned(name, partition_interval or "10000", retention_interval or "100000")
        elif unlogged:
            client.create_unlogged(name)
        else:
            client.create(name)
    say(f"queue {name} is ready")


@queue.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_option
def drop(name: str, yes: bool, dsn: str | None) -> None:
    """Drop a queue with its messages and its archive. Asks first.

    \b
    Example:
      pgqueue queue drop orders --yes
    """
    with server.client(dsn) as client:
        length = client.queue(name).metrics().queue_length
        agreed(f"drop queue {name}, its {counted(length, 'message')} and its archive?", yes)
        if not client.drop_queue(name):
            raise NoSuchQueue(f'queue "{name}" does not exist')
    say(f"queue {name} is dropped")


@queue.command("list")
@json_option
@server_option
def list_(as_json: bool, dsn: str | None) -> None:
    """List all queues.

    \b
    Example:
      pgqueue queue list --json
    """
    with server.client(dsn) as client:
        queues = sorted(client.list_queues(), key=lambda one: one.queue_name)
    show([row(one) for one in queues], as_json, "no queues")


@queue.command("show")
@click.argument("name")
@json_option
@server_option
def show_(name: str, as_json: bool, dsn: str | None) -> None:
    """Show what is known of one queue: its kind, its figures, its topics and notifications.

    \b
    Example:
      pgqueue queue show orders
    """
    with server.client(dsn) as client:
        info = _info(client.list_queues(), name)
        throttles = {one.queue_name: one for one in client.list_notify_insert_throttles()}
        details = {
            **row(info),
            **row(client.queue(info.queue_name).metrics(), "queue_name"),
            "topics": [one.pattern for one in client.list_topic_bindings(info.queue_name)],
            "notify_throttle_ms": None,
        }
        if info.queue_name in throttles:
            details["notify_throttle_ms"] = throttles[info.queue_name].throttle_interval_ms
    if as_json:
        print_json([details])
    else:
        print_details({name: value for name, value in details.items() if value not in (None, [])})


def _info(queues: list[QueueInfo], name: str) -> QueueInfo:
    """The queue of that name; its case does not count, as in SQL."""
    for one in queues:
        if lower(one.queue_name) == lower(name):
            return one
    raise NoSuchQueue(f'queue "{name}" does not exist')


@queue.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@server_option
def purge(name: str, yes: bool, as_json: bool, dsn: str | None) -> None:
    """Delete all messages of a queue. Its archive stays. Asks first.

    \b
    Example:
      pgqueue queue purge orders --yes
    """
    with server.client(dsn) as client:
        length = client.queue(name).metrics().queue_length
        agreed(f"delete all messages of queue {name}, {counted(length, 'message')}?", yes)
        purged = client.queue(name).purge()
    if as_json:
        print_json([{"queue_name": name, "purged": purged}])
    else:
        say(f"{counted(purged, 'message')} deleted from {name}")


@queue.command()
@click.argument("name", required=False)
@json_option
@server_option
def metrics(name: str | None, as_json: bool, dsn: str | None) -> None:
    """Count the messages of one queue, or of all.

    \b
    Example:
      pgqueue queue metrics orders
    """
    with server.client(dsn) as client:
        found = client.metrics_all() if name is None else [client.queue(name).metrics()]
    rows = [row(one) for one in sorted(found, key=lambda one: one.queue_name)]
    show(rows, as_json, "no queues", in_full=name is not None)
