"""pgqueue sql: the scripts themselves, for those who run SQL in a way of their own. Needs no database."""

from __future__ import annotations

import click

from pgqueue.errors import PgqueueError


@click.group()
def sql() -> None:
    """Print SQL, without a database.

    \b
    Example:
      pgqueue sql install | psql app
    """


@sql.command()
@click.option(
    "--no-transaction", is_flag=True, help="Without begin and commit, for a tool that brings its own."
)
def install(no_transaction: bool) -> None:
    """Print the whole installation.

    \b
    Example:
      pgqueue sql install > V1__pgqueue.sql
    """
    from pgqueue.script import install_sql

    _print(install_sql(transaction=not no_transaction))


@sql.command()
@click.argument("number", type=click.IntRange(min=1), metavar="N")
def migration(number: int) -> None:
    """Print one numbered step of the schema.

    \b
    Example:
      pgqueue sql migration 1
    """
    from pgqueue.script import migrations

    steps = migrations()
    if number > len(steps):
        raise PgqueueError(f"there is no migration {number}: the last is {len(steps)}")
    _print(steps[number - 1].sql)


@sql.command()
@click.argument("name")
@click.option("--unlogged", is_flag=True, help="As create_unlogged makes it.")
@click.option("--grouped", is_flag=True, help="With the index for grouped reads.")
def queue(name: str, unlogged: bool, grouped: bool) -> None:
    """Print what one queue is made of: its tables, indexes and compiled functions.

    \b
    Example:
      pgqueue sql queue orders
    """
    from pgqueue.script import queue_sql

    _print(queue_sql(name, unlogged=unlogged, grouped=grouped))


@sql.command()
def uninstall() -> None:
    """Print what drops an installation of few queues, with all messages.

    \b
    Example:
      pgqueue sql uninstall
    """
    from pgqueue.script import uninstall_sql

    _print(uninstall_sql())


def _print(script: str) -> None:
    click.echo(script.encode(), nl=False)
