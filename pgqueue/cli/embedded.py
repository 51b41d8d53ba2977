"""pgqueue embedded: the private Postgres server of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pgqueue.cli.options import agreed, json_option
from pgqueue.cli.output import print_details, print_json, row, say
from pgqueue.cli.server import tell_of_start
from pgqueue.embedded import Embedded

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = "Folder of the server. Default: PGQUEUE_EMBEDDED_HOME, else pgqueue in your data folder."


def folder_option(command: F) -> F:
    """--folder, after the name of each of these commands."""
    return click.option("--folder", type=click.Path(path_type=Path), help=FOLDER)(command)


@click.group("embedded")
def group() -> None:
    """Start, stop, show and destroy a private Postgres server in a folder of yours.

    It needs no administrator, no password and no TCP port. The DSN embedded: or embedded:/folder starts and
    uses it, wherever a DSN is taken. It runs until it is stopped.

    \b
    Example:
      pgqueue embedded start --folder ./postgres
    """


@group.command()
@folder_option
def start(folder: Path | None) -> None:
    """Start the server and print its DSN.

    If there is none it is made first.

    \b
    Example:
      pgqueue embedded start --folder ./postgres
    """
    click.echo(Embedded(folder).start(started=tell_of_start))


@group.command()
@folder_option
def stop(folder: Path | None) -> None:
    """Stop the server and wait until it is gone. Its data stay.

    \b
    Example:
      pgqueue embedded stop --folder ./postgres
    """
    server = Embedded(folder)
    stopped = server.stop()
    say(f"stopped the server in {server.folder}" if stopped else f"no server runs in {server.folder}")


@group.command()
@folder_option
def dsn(folder: Path | None) -> None:
    """Print the DSN, whether the server runs or not.

    \b
    Example:
      psql "$(pgqueue embedded dsn)"
    """
    click.echo(Embedded(folder).dsn)


@group.command()
@folder_option
@json_option
def status(folder: Path | None, as_json: bool) -> None:
    """Show whether it runs, its version and size.

    \b
    Example:
      pgqueue embedded status --json
    """
    found = Embedded(folder).status()
    values = {**row(found), "folder": str(found.folder)}
    if as_json:
        print_json([values])
    else:
        values["size"] = _megabytes(found.size)
        print_details({name: value for name, value in values.items() if value is not None})


@group.command()
@folder_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def destroy(folder: Path | None, yes: bool) -> None:
    """Stop the server and remove it with all its data.

    \b
    Example:
      pgqueue embedded destroy --folder ./postgres
    """
    server = Embedded(folder)
    size = server.status().size
    if size:  # else there is nothing of ours, and destroy() says so
        agreed(f"Remove the server in {server.folder} with all its data, {_megabytes(size)}?", yes)
    server.destroy()
    say(f"the server in {server.folder} is gone")


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.1f} MB"
