"""The command `pgqueue`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from pgqueue.cli import adopt, bench, doctor, embedded, install, message, queue, send, sql, worker
from pgqueue.cli.output import printable
from pgqueue.errors import DriverMissing, PgqueueError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""
CUT_OFF = 141
"""Exit code when the reader of our output has gone, as a shell has it."""


MEANT = {
    "ack": "delete",
    "consume": "worker",
    "enqueue": "send",
    "info": "status",
    "init": "install",
    "listen": "worker",
    "ls": "queue list",
    "migrate": "upgrade",
    "publish": "send",
    "receive": "read",
    "run": "worker",
}
"""What users of other queues type, and the command that does it here."""


class Failure(click.ClickException):
    """A command that was refused or failed: one line on stderr, exit code 1."""

    def format_message(self) -> str:
        return printable(self.message)


class Program(click.Group):
    """A group whose commands never end in a traceback, and are listed in the order they were added.

    What is looked for in the wrong place, or by the name it has elsewhere, is pointed out.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        with _failures():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].partition("=")[0] in ("--dsn", "--json"):
            option = args[0].partition("=")[0]
            ctx.fail(f"{option} goes after the command, as in 'pgqueue status {option}'.")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the words name."""
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            homes = [name for name, one in self.commands.items() if word in getattr(one, "commands", ())]
            found = [MEANT[word]] if word in MEANT else [f"{home} {word}" for home in homes]
            if found:
                meant = " or ".join(f"'pgqueue {one}'" for one in found)
                ctx.fail(f"No such command '{word}'. Did you mean {meant}?")
        return super().resolve_command(ctx, args)


@contextmanager
def _failures() -> Iterator[None]:
    """Whatever a user can cause becomes one line and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that lack a letter
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(CUT_OFF) from None
    except PgqueueError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            _discard_output()
        raise Failure(f"{named}{error.strerror or error}") from error
    except ImportError as error:
        if error.name == "psycopg" or "no pq wrapper available" in str(error):
            raise Failure(str(DriverMissing())) from error
        raise
    except Exception as error:
        psycopg = sys.modules.get("psycopg")
        if psycopg is None or not isinstance(error, psycopg.Error):
            raise
        from pgqueue.sqlstate import from_server

        raise Failure(str(from_server(error))) from error


def _discard_output() -> None:
    """What cannot be written is forgotten: Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="pgqueue")
def main() -> None:
    """Message queues in Postgres: pgmq without the extension.

    \b
    Example:
      export PGQUEUE_DSN=postgresql://app@localhost/app
      pgqueue install
      pgqueue queue create orders
      pgqueue send orders '{"order": 17}'
      pgqueue read orders
    """


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of pgqueue, or of a command.

    \b
    Example:
      pgqueue help queue create
    """
    assert ctx.parent is not None
    shown, command = ctx.parent, ctx.parent.command
    left = list(words)
    while left and isinstance(command, click.Group):
        name, inner, left = command.resolve_command(shown, left)
        assert inner is not None
        shown, command = click.Context(inner, shown, name), inner
    click.echo(shown.get_help(), color=ctx.color)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what teaches a shell to complete pgqueue's words.

    \b
    Example:
      pgqueue completion bash > ~/.local/share/bash-completion/completions/pgqueue
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = ShellComplete.source(
        kind(main, {}, "pgqueue", "_PGQUEUE_COMPLETE")
    )  # without asking for bash's version
    click.echo(script)


for command in (
    install.install,
    install.upgrade,
    install.uninstall,
    install.status,
    install.version,
    doctor.doctor,
    install.compile,
    install.maintain,
    adopt.adopt,
    sql.sql,
    queue.queue,
    send.send,
    message.read,
    message.pop,
    message.peek,
    message.archive,
    message.delete,
    message.set_vt,
    worker.worker,
    embedded.group,
    bench.bench,
    completion,
    help_,
):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="pgqueue")
