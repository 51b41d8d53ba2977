"""What a type checker makes of users' code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USERS = """
from pgqueue import AsyncDelivery, AsyncQueue, Client, Delivery, Message, Queue, Worker

worker = Worker()

@worker.handler("thumbnails")
def shrink(message: Delivery) -> None:
    print(message.message["path"])

@worker.handler("mail")
async def post(message: AsyncDelivery) -> None:
    print(message.message["to"])

def forward(message: Message, queue: Queue) -> int:
    return queue.send(message.message)

def total(client: Client) -> int:
    return sum(one.message for one in client.queue("numbers", int).read())
"""


def errors(code: str, folder: Path) -> str:
    (folder / "users.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "users.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def test_users_code_passes_the_strictest_checks(tmp_path: Path) -> None:
    """Also where it does not say what the body of a message is."""
    assert errors(USERS, tmp_path).startswith("Success")


def test_a_body_of_the_wrong_kind_does_not(tmp_path: Path) -> None:
    code = USERS.replace('client.queue("numbers", int)', 'client.queue("numbers", str)')
    assert "[misc]" in errors(code, tmp_path) or "[arg-type]" in errors(code, tmp_path)
