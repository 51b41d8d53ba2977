"""What a server's socket says."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from pgqueue.embedded import postmaster


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"R\0\0\0\x08\0\0\0\0S\0\0\0\x1cserver_version\x0018.6 (Debian)\0Z\0\0\0\5I", (True, True, "18.6")),
        (b"E\0\0\0\x20SFATAL\0C57P03\0Mthe database system is starting up\0\0", (True, False, "")),
        (b"E\0\0\0\x20SFATAL\0C53300\0Msorry, too many clients already\0\0", (True, True, "")),
        (b"", (True, False, "")),
    ],
)
def test_ask_tells_ready_from_listening(tmp_path: Path, answer: bytes, wanted: tuple[Any, ...]) -> None:
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        assert postmaster.ask(place) == (False, False, "")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place / postmaster.SOCKET))
            assert postmaster.ask(place) == (False, False, "")
            listener.listen()

            def reply() -> None:
                wire, _ = listener.accept()
                with wire:
                    wire.recv(1000)
                    wire.sendall(answer)

            thread = threading.Thread(target=reply)
            thread.start()
            assert postmaster.ask(place) == wanted
            thread.join()
    finally:
        shutil.rmtree(place)
