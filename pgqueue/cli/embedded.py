"""`pgqueue embedded`: the private Postgres server of a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pgqueue.embedded import Embedded
from pgqueue.errors import EmbeddedError

a_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of the server.  [default: $PGQUEUE_EMBEDDED_HOME, else in your data folder]",
)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except EmbeddedError as error:
        raise click.ClickException(" ".join(str(error).split())) from None


@click.group("embedded")
def group() -> None:
    """A private Postgres server in a folder of yours: no TCP port, no password, nothing to set up.

    The DSN `embedded:` or `embedded:/folder` starts and uses it, wherever a DSN is taken.
    """


@group.command()
@a_folder
def start(folder: Path | None) -> None:
    """Start the server, making it first if there is none, and print its DSN."""
    with refusals():
        click.echo(Embedded(folder).start())


@group.command()
@a_folder
def stop(folder: Path | None) -> None:
    """Stop the server and wait until it is gone. Its data stay."""
    with refusals():
        Embedded(folder).stop()


@group.command()
@a_folder
def dsn(folder: Path | None) -> None:
    """Print the server's DSN and nothing else, whether it runs or not."""
    with refusals():
        click.echo(Embedded(folder).dsn)


@group.command()
@a_folder
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def status(folder: Path | None, as_json: bool) -> None:
    """Show whether the server runs, where, and how large it is."""
    with refusals():
        found = Embedded(folder).status()
    facts = {**dataclasses.asdict(found), "folder": str(found.folder)}
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        shown = {None: "-", True: "yes", False: "no"}.get(value, value)
        click.echo(f"{name:8} {f'{found.size / 1e6:.1f} MB' if name == 'size' else shown}")


@group.command()
@a_folder
@click.option("--yes", is_flag=True, help="Do not ask.")
def destroy(folder: Path | None, yes: bool) -> None:
    """Stop the server and remove it with all its data."""
    with refusals():
        server = Embedded(folder)
        if not yes:
            size = server.status().size / 1e6
            click.confirm(
                f"Remove the server in {server.folder} with all its data ({size:.1f} MB)?", abort=True
            )
        server.destroy()
