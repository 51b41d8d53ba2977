"""Workers that run beside the test, in a thread or a process of their own; and waiting for what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pgqueue import Worker

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 30.0
T = TypeVar("T")


def until(condition: Callable[[], T], what: str = "", seconds: float = SECONDS) -> T:
    """The condition's first true value. Fails after so many seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for {what or condition}")
        time.sleep(0.02)
    return value


class Running:
    """A worker that runs in a thread within the with block; its failure is the block's."""

    def __init__(self, worker: Worker, **options: Any) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self._options = options
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run(**self._options)
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        """Wait until it has ended by itself. Raises what ended it."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if (error := self.error) is not None:
            self.error = None
            raise error

    def __enter__(self) -> Running:
        self._thread.start()
        until(lambda: self.worker._stop is not None or not self._thread.is_alive(), "the worker's start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.stop()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self.error is not None and error is None:
            raise self.error


class Process:
    """`pgqueue worker MODULE:worker` in a process of its own, which reads the DSN in PGQUEUE_DSN."""

    def __init__(self, module: str, dsn: str, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "pgqueue.cli.main", "worker", f"{module}:worker", *options]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe would fill up
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PGQUEUE_DSN": dsn, **environment},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        self.pid = self._process.pid

    def printed(self) -> str:
        """What it has printed so far, on both channels."""
        # pread, since the place in the file is the process's too: to move it is to make it write elsewhere.
        return os.pread(self._output.fileno(), os.fstat(self._output.fileno()).st_size, 0).decode()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9; also for one that has ended."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = SECONDS) -> tuple[int, str]:
        """Its exit code and what it printed."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds} s: {self.printed()}") from None
        return code, self.printed()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.ended:
            self.kill()
        if kind is not None:
            print(self.printed())
        self._output.close()
