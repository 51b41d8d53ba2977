"""Write the help of every command, as users see it: tests/golden/cli-help.txt, and docs/cli.md for the site.

tools/cli_help.py          write the files
tools/cli_help.py --check  write nothing; exit 1 if one differs from what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from generated import ROOT, settle

from pgqueue.cli.main import main as program

GOLDEN = ROOT / "tests" / "golden" / "cli-help.txt"
PAGE = ROOT / "docs" / "cli.md"
WIDTH = 100


def commands(command: click.Command = program, name: str = "pgqueue") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups before what is in them."""
    yield name, command
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from commands(inner, f"{name} {word}")


def help_of(name: str, command: click.Command) -> str:
    """What `NAME --help` prints in a wide window."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "help_option_names": ["-h", "--help"]}
    with click.Context(command, info_name=name, **settings) as context:
        return command.get_help(context)


def text() -> str:
    """The whole file."""
    return "\n".join(f"$ {name} --help\n{help_of(name, command)}\n" for name, command in commands())


def page() -> str:
    """The page of the site: a heading for each command."""
    parts = [
        "<!-- Made by tools/cli_help.py: change the commands in pgqueue/cli, not this page. -->",
        "# Command line",
        "The server is the one of `--dsn`, else of `PGQUEUE_DSN`, `DATABASE_URL`, or libpq's own variables.\n"
        "Exit codes: 0 for success, 1 for an error, told in one line, 2 for words that are not understood.",
    ]
    for name, command in commands():
        parts += [f"## {name}", f"```text\n{help_of(name, command)}\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(settle("cli_help.py", {GOLDEN: text(), PAGE: page()}))
