"""Write tests/golden/cli-help.txt: the help of every command, as users see it.

tools/cli_help.py          write the file
tools/cli_help.py --check  write nothing; exit 1 if the file differs from what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pgqueue.cli.main import main as program

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "cli-help.txt"
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


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        GOLDEN.write_text(text(), encoding="utf-8")
        return 0
    if GOLDEN.exists() and GOLDEN.read_text(encoding="utf-8") == text():
        return 0
    print(f"cli_help: {GOLDEN.name} is not current: run tools/cli_help.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
