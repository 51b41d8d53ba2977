"""Every command helps: with a sentence, an example that exists, options that say what they do."""

from __future__ import annotations

import inspect
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pgqueue.cli.main import MEANT, main
from tests.cli.conftest import Run
from tools.cli_help import commands

ALL = dict(commands())
LEAVES = {name: one for name, one in ALL.items() if not isinstance(one, click.Group)}


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_that_ends_in_an_example(name: str) -> None:
    first, _, rest = words_of(name).partition("\n")
    assert first.endswith("."), f"{name} is missing its help"
    example = re.search(r"\nExamples?:\n((?:  .+\n?)+)\Z", rest)
    assert example, f"{name} is missing its example"
    assert name in example[1]


@pytest.mark.parametrize("name", ALL)
def test_examples_name_commands_and_options_that_exist(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `pgqueue …` of an example is parsed as it stands, up to where it would run."""
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"pgqueue ((?:(?!\||>| <|\)).)+)", words_of(name).partition("Example")[2]):
        words = shlex.split(line)
        for word in words:
            if re.fullmatch(r"[\w-]+\.(nd)?json", word):  # a file that the example takes for given
                Path(word).touch()
        command: click.Command = ALL["pgqueue"]
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        command.make_context("pgqueue", words)


def words_of(name: str) -> str:
    """A command's docstring, without click's mark for text that is not to be filled."""
    return inspect.cleandoc(ALL[name].help or "").replace("\b", "")


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_says_what_it_does(name: str) -> None:
    for parameter in LEAVES[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts[0]}"


#: Without a server.
SERVERLESS = ("sql", "embedded", "completion", "help", "bench report", "bench check")


@pytest.mark.parametrize("name", [n for n in LEAVES if not n.removeprefix("pgqueue ").startswith(SERVERLESS)])
def test_every_command_that_talks_to_a_server_takes_a_dsn(name: str) -> None:
    assert "--dsn" in {word for parameter in LEAVES[name].params for word in parameter.opts}


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("drop", "pgqueue queue drop"),
        ("create", "pgqueue queue create"),
        ("list", "pgqueue queue list"),
        ("metrics", "pgqueue queue metrics"),
        ("purge", "pgqueue queue purge"),
        ("show", "pgqueue queue show"),
        ("start", "pgqueue embedded start"),
        ("run", "pgqueue worker"),
        ("publish", "pgqueue send"),
    ],
)
def test_a_word_of_a_group_is_found_there(offline: Run, word: str, meant: str) -> None:
    error = offline(word, "orders", code=2).err
    assert f"No such command '{word}'. Did you mean '{meant}'?" in error


def test_every_other_word_means_a_command() -> None:
    assert {f"pgqueue {meant}" for meant in MEANT.values()} <= set(LEAVES)
    assert not set(MEANT) & set(main.commands)


def test_an_option_before_the_command(offline: Run) -> None:
    for word in ("--dsn", "--dsn=postgresql:///x", "--json"):
        error = offline(word, "status", code=2).err
        assert "goes after the command" in error


def test_as_a_module_of_python(bare: None) -> None:
    done = subprocess.run([sys.executable, "-m", "pgqueue", "-V"], capture_output=True, text=True)
    assert done.stdout.startswith("pgqueue, version ")


def test_a_slip_is_still_met(offline: Run) -> None:
    assert "'install'" in offline("instal", code=2).err
    assert "No such command 'zzz'.\n" in offline("zzz", code=2).err
    assert "'list'" in offline("queue", "lst", code=2).err


def test_help_is_a_word_too(offline: Run) -> None:
    assert offline("help").out == offline("--help").out
    assert offline("help", "queue", "drop").out == offline("queue", "drop", "--help").out
    assert "No such command 'nope'" in offline("help", "nope", code=2).err
    assert offline("-V").out == offline("--version").out


def test_help_comes_at_once() -> None:
    """Without psycopg, jinja2 or rich being loaded; under 0.3 s."""
    code = "import sys, pgqueue.cli.main; print(*{'psycopg', 'jinja2', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == ""
    assert min(seconds() for _ in range(5)) < 0.3


def seconds() -> float:
    """Processor time of `pgqueue --help`: a busy machine does not lengthen it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pgqueue.cli.main", "--help"], stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
