# Made of tests/_async/test_bodies.py by tools/unasync.py: change that file, not this one.
"""Bodies of a type, bodies that cannot be decoded, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from pgqueue import BYTES, Client, Message, Queue
from pgqueue.errors import BadMessage


@dataclass
class Plain:
    n: int
    tags: list[str]


class Model(pydantic.BaseModel):
    n: int
    tags: list[str]


class Struct(msgspec.Struct):
    n: int
    tags: list[str]


@pytest.mark.parametrize("kind", [Plain, Model, Struct])
def test_bodies_of_a_type(client: Client, kind: Any) -> None:
    client.create("orders")
    orders = client.queue("orders", kind)
    sent = kind(n=1, tags=["ü", "b"])
    orders.send(sent)
    orders.send_many([sent, sent])
    orders.send_bulk([sent])
    assert [one.message for one in orders.read(qty=9)] == [sent] * 4
    (plain, *_) = client.queue("orders").peek()
    assert plain.message == {"n": 1, "tags": ["ü", "b"]}


def test_a_type_is_known_to_the_checker(client: Client) -> None:
    client.create("orders")
    orders: Queue[Model] = client.queue("orders", Model)
    orders.send(Model(n=1, tags=[]))
    message: Message[Model] | None = orders.read_one()
    assert message is not None
    assert message.message.n == 1


@pytest.mark.parametrize("kind", [Plain, Model, Struct])
def test_a_body_that_cannot_be_decoded_stops_no_other(client: Client, kind: Any) -> None:
    """Case 96: it is told by its id when it is looked at, and can be set aside."""
    client.create("orders")
    good = {"n": 1, "tags": []}
    client.queue("orders").send_many([good, "text", None, [1], 7, {"other": 1}, good])
    orders = client.queue("orders", kind)
    fine, bad = [], []
    for message in orders.read(qty=9):
        try:
            fine.append(message.message.n)
        except BadMessage as error:
            bad.append(str(error).split(":")[0])
            message.archive()
    assert fine == [1, 1]
    assert bad == [f'message {n} of queue "orders"' for n in range(2, 7)]


def test_a_function_decodes(client: Client) -> None:
    client.create("orders")
    client.queue("orders").send_many([{"n": 1}, {}])
    first, second = client.queue("orders", lambda body: int(body["n"])).read(qty=2)
    assert first.message == 1
    with pytest.raises(BadMessage, match="KeyError: 'n'"):
        _ = second.message
    assert second.text == "{}"


@pytest.mark.parametrize("body", [b"", b"\x00\xff bytes", bytes(range(256)) * 4, b'{"b": 1, "a": 2}'])
def test_bytes_come_back_byte_for_byte(client: Client, body: bytes) -> None:
    """Case 147."""
    client.create("files")
    files = client.queue("files", BYTES)
    files.send(body, headers={"kind": "x"})
    files.send_bulk([body])
    messages = files.read(qty=2)
    assert [one.message for one in messages] == [body, body]
    assert messages[0].headers == {"kind": "x"}
    client.queue("files").send("not base64!")
    with pytest.raises(BadMessage):
        _ = (files.read())[0].message
