"""pgqueue worker: run the worker of a Python module."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pgqueue.cli.options import QUANTITY, server_option
from pgqueue.errors import BadValue, PgqueueError

if TYPE_CHECKING:
    from pgqueue.worker.worker import Worker


@click.command()
@click.argument("target", metavar="MODULE:WORKER")
@click.option("--queues", metavar="NAMES", help="Only these, with commas between. Default: every handler's.")
@click.option("--concurrency", type=QUANTITY, help="Messages handled at once. Default: each handler's own.")
@click.option("--once", is_flag=True, help="Handle one message, if there is one, and end.")
@click.option("--until-empty", is_flag=True, help="End when nothing is left that can be read now.")
@server_option
def worker(
    target: str, queues: str | None, concurrency: int | None, once: bool, until_empty: bool, dsn: str | None
) -> None:
    """Run a worker: handle messages as they come.

    MODULE:WORKER is a variable that holds a Worker; modules are looked for in the current folder too. The
    server is the one that the Worker was given, if any. SIGTERM or Ctrl-C lets running handlers end and gives
    the rest back; a second one ends at once.

    \b
    Example:
      pgqueue worker shop.jobs:worker --queues orders,mail --concurrency 8
    """
    names = None if queues is None else [name.strip() for name in queues.split(",") if name.strip()]
    if names == []:
        raise BadValue("--queues names no queue")
    if dsn is not None:
        os.environ["PGQUEUE_DSN"] = dsn  # for clients that the module makes, too
    found = load(target)
    if dsn is not None and found.server is not None:
        raise BadValue(f"{target} was given its server in Python, which --dsn does not change")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    found.run(queues=names, concurrency=concurrency, once=once, until_empty=until_empty)


def load(target: str) -> Worker:
    """The worker that MODULE:WORKER names. Raises BadValue; what the module itself raises is shown, and ends us."""
    from pgqueue.worker.worker import Worker

    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise BadValue(f"{target!r} does not name a worker: write MODULE:WORKER, such as shop.jobs:worker")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise BadValue(f"there is no module {error.name} here or among the installed ones") from None
        _show_fault(error)
    except PgqueueError as error:
        raise BadValue(f"{_place(error)}: {error}") from error
    except Exception as error:
        _show_fault(error)
    found = getattr(module, name, None)
    if isinstance(found, Worker):
        return found
    workers = [one for one, value in vars(module).items() if isinstance(value, Worker)]
    said = f"has no variable {name}" if found is None else f"has {name}, which is no Worker"
    raise BadValue(f"{module_name} {said}; its Workers: {', '.join(workers) or 'none'}")


def _show_fault(error: Exception) -> NoReturn:
    """Print the traceback of a module that cannot be imported from its own first frame on, and end."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    raise click.exceptions.Exit(1)


def _place(error: Exception) -> str:
    """The last line outside this package that led to an error."""
    ours = (f"{Path(__file__).parent.parent}{os.sep}", "<")  # what dataclasses generate is in <string>
    frames = traceback.extract_tb(error.__traceback__)
    users = [one for one in frames if not one.filename.startswith(ours)]
    last = (users or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def _is_ours(file: str) -> bool:
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")
