"""Many processes and threads at once on one folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pgqueue.embedded import Embedded, folder
from pgqueue.errors import EmbeddedError
from tests.embedded.servers import MARKER, Run, ask, postmasters, said, until


def test_eight_processes_at_once_share_one_server(home: Path, run: Run) -> None:
    code = "print(Embedded(place).start(), Embedded(place).status().pid)"
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(said(run(code, home)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = Embedded(home).status()
    assert answers == [f"{status.dsn} {status.pid}"] * 8
    assert postmasters(home) == [status.pid]


def test_threads_that_start_and_destroy_end_in_nothing_but_refusals(embedded: Embedded, home: Path) -> None:
    """Each start gives a DSN, each destroy destroys or finds nothing; nothing else is ever raised."""
    refused: list[str] = []

    def play(act: Callable[[], object]) -> None:
        for _ in range(3):
            try:
                act()
            except EmbeddedError as error:
                refused.append(str(error))

    acts = (embedded.start, embedded.start, embedded.destroy, embedded.stop)
    threads = [threading.Thread(target=play, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {text for text in refused if "holds no embedded Postgres" not in text} <= {
        f"{home} cannot hold an embedded Postgres: No such file or directory: {home / MARKER}"
    }
    assert len(postmasters(home)) == embedded.status().running


def test_who_waited_for_a_server_that_is_destroyed_makes_a_new_one(embedded: Embedded, home: Path) -> None:
    marker, begun = home / MARKER, threading.Thread(target=embedded.start)
    with folder.Folder(home).locked(folder.Deadline(1)):
        begun.start()
        until(lambda: _descriptors_of(marker) == 2)
        folder.Folder(home).remove()
    begun.join()
    assert ask(embedded.dsn, "select 1") == 1
    assert embedded.status().running


def _descriptors_of(path: Path) -> int:
    return sum(os.path.realpath(link) == str(path) for link in Path("/proc/self/fd").iterdir())


def test_a_busy_folder_is_waited_for_until_the_deadline(embedded: Embedded, home: Path) -> None:
    embedded.start()
    with (
        folder.Folder(home).locked(folder.Deadline(1)),
        pytest.raises(EmbeddedError, match=r"another process has been busy with .* for 0.2 s"),
    ):
        embedded.start(timeout=0.2)
