"""The schema in a database: install, upgrade, uninstall, status, version, compile, maintain."""

from __future__ import annotations

import time

import click

from pgqueue.cli import server
from pgqueue.cli.options import Duration, agreed, json_option, server_option
from pgqueue.cli.output import bar, note, print_details, print_json, row, say, show
from pgqueue.errors import CannotConnect, Conflict, ConnectionLost, NoServer, NotInstalled, Refused, TimedOut
from pgqueue.model import Upkeep
from pgqueue.names import counted

PASSING = (CannotConnect, Conflict, ConnectionLost, TimedOut)
"""What a command that runs for ever outlives."""
KINDS = {
    "absent": "nothing: run pgqueue install",
    "pgqueue": "pgqueue",
    "extension": "the extension pgmq: run pgqueue adopt",
    "sql": "pgmq from SQL, without its extension: run pgqueue adopt",
}


@click.command()
@server_option
def install(dsn: str | None) -> None:
    """Install pgqueue into a database, or renew it there.

    The owner of a database may do it; no superuser and no extension is needed. It never asks, and where pgmq
    lives already it changes nothing.

    \b
    Example:
      pgqueue install --dsn postgresql://app@localhost/app
    """
    from pgqueue import migrate

    with server.connection(dsn) as conn:
        migrate.install(conn)
        found = migrate.status(conn)
    say(f"pgqueue {found.package_version} is installed, schema {found.schema_version}")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@server_option
def upgrade(dry_run: bool, as_json: bool, dsn: str | None) -> None:
    """Bring an installation up to date, in one transaction.

    \b
    Example:
      pgqueue upgrade --dry-run
    """
    from pgqueue import migrate

    with server.connection(dsn) as conn:
        steps = migrate.upgrade(conn, dry_run=dry_run)
    if as_json:
        print_json({"step": step, "done": not dry_run} for step in steps)
        return
    for step in steps:
        say(f"{'would do' if dry_run else 'done'}: {step}")
    if not steps:
        say("nothing to do: all is current")


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--keep-archives", is_flag=True, help="Leave the archive tables where they are.")
@click.option("--cascade", is_flag=True, help="Drop views and the like of yours that depend on it too.")
@server_option
def uninstall(yes: bool, keep_archives: bool, cascade: bool, dsn: str | None) -> None:
    """Drop every queue, and pgqueue itself. Asks first.

    Where something of yours depends on it, such as a view or a foreign key, it is named and nothing is done, unless
    --cascade is given. Goes in steps of some queues; one that was stopped can be run again.

    \b
    Example:
      pgqueue uninstall --keep-archives
    """
    from pgqueue import migrate
    from pgqueue.dependents import dependents, refuse_dependents
    from pgqueue.names import listed

    with server.connection(dsn) as conn:
        found = migrate.status(conn)
        if found.kind == "pgqueue":
            archives = "but not the archives" if keep_archives else "and archives"
            used = dependents(conn, keep_archives=keep_archives)
            if not cascade:
                refuse_dependents(used)
            besides = f", and {listed(used)}" if used else ""
            agreed(
                f"drop pgqueue and {counted(found.queues, 'queue')} with all messages {archives}{besides}?",
                yes,
            )
        with bar() as progress:
            dropped = migrate.uninstall(conn, keep_archives=keep_archives, cascade=cascade, progress=progress)
    say(f"pgqueue is gone, and {counted(dropped, 'queue')}")


@click.command()
@json_option
@server_option
def status(as_json: bool, dsn: str | None) -> None:
    """Say what is installed, and whether it is current.

    \b
    Example:
      pgqueue status --json
    """
    from pgqueue import migrate

    with server.connection(dsn) as conn:
        found = migrate.status(conn)
    values = {**row(found), "current": found.current}
    if as_json:
        print_json([values])
    else:
        print_details({"installed": KINDS[found.kind], **_known(values)})


def _known(values: dict[str, object]) -> dict[str, object]:
    """What is worth a line: where nothing of ours is installed, only the version of what is there."""
    if values["kind"] == "pgqueue":
        return {name: value for name, value in values.items() if name != "kind" and value != ()}
    return {name: values[name] for name in ("pgmq_version",) if values[name]}


@click.command()
@json_option
@server_option
def version(as_json: bool, dsn: str | None) -> None:
    """Show the package's versions, and the database's if named.

    They are three: of the package, of its schema, and of the pgmq whose behaviour it has.

    \b
    Example:
      pgqueue version --dsn postgresql://app@localhost/app
    """
    from pgqueue.names import PGMQ_VERSION
    from pgqueue.script import migrations, package_version

    values = {"package": package_version(), "schema": migrations()[-1].id, "pgmq": PGMQ_VERSION}
    try:
        with server.client(dsn) as client:
            found = row(client.version())
    except (NoServer, NotInstalled) as error:  # the package's own versions are an answer too
        found = {} if isinstance(error, NoServer) else {"schema_version": None}
    values |= {f"database_{name.removesuffix('_version')}": value for name, value in found.items()}
    if as_json:
        print_json([values])
    else:
        print_details({name: "none" if value is None else value for name, value in values.items()})


@click.command()
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@json_option
@server_option
def compile(queues: tuple[str, ...], as_json: bool, dsn: str | None) -> None:
    """Make the compiled functions of queues anew.

    All queues if none is named. One whose name is too long for it stays uncompiled, and works.

    \b
    Example:
      pgqueue compile orders
    """
    from pgqueue import migrate

    with server.connection(dsn) as conn:
        compiled = migrate.compile_queues(conn, queues)
    show([{"queue_name": name, "compiled": done} for name, done in compiled.items()], as_json, "no queues")


@click.command()
@click.option("--every", type=Duration(), metavar="TIME", help="Go on for ever, with such a pause: 30s, 5m.")
@json_option
@server_option
def maintain(every: float | None, as_json: bool, dsn: str | None) -> None:
    """Do the upkeep of partitioned queues.

    Makes the next partitions and drops those past their time.

    \b
    Examples:
      pgqueue maintain
      pgqueue maintain --every 30s
    """
    with server.client(dsn) as client:
        done = client.maintain()
        _show_upkeep(done, as_json, "nothing to do")
        while every is not None:
            time.sleep(every)
            try:
                done = client.maintain()
            except PASSING as error:
                note(str(error))
            else:
                _show_upkeep(done, as_json, "")
    problems = [f"{one.table_name}: {one.problem}" for one in done if one.problem]
    if problems:
        raise Refused("; ".join(problems))


def _show_upkeep(done: list[Upkeep], as_json: bool, nothing: str) -> None:
    """Every table for programs, those where something was done for people."""
    rows = [row(one) for one in done if as_json or not one.idle]
    if rows or nothing:
        show(rows, as_json, nothing)
