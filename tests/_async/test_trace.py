# The source of tests/_sync/test_trace.py: after a change here run tools/unasync.py.
"""Trace context by OpenTelemetry: into headers on send, links on read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pgqueue import AsyncClient, trace
from pgqueue.errors import BadMessage
from tests.databases import Database


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans of this test, whose application traces."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(otel, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def ids(headers: Any) -> tuple[int, int]:
    _, trace_id, span_id, _ = headers["traceparent"].split("-")
    return int(trace_id, 16), int(span_id, 16)


async def test_a_send_is_a_span_whose_context_the_message_carries(
    client: AsyncClient, spans: InMemorySpanExporter
) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    with otel.get_tracer("app").start_as_current_span("request") as request:
        await orders.send(1, headers={"a": "b"})
    (send,) = named(spans, "send orders")
    assert send.kind is otel.SpanKind.PRODUCER and send.context is not None and send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    (message,) = await orders.read()
    assert message.headers["a"] == "b"
    assert ids(message.headers) == (send.context.trace_id, send.context.span_id)
    (receive,) = named(spans, "receive orders")
    assert receive.kind is otel.SpanKind.CONSUMER
    assert [(one.context.trace_id, one.context.span_id) for one in receive.links] == [ids(message.headers)]
    assert await orders.read() == []
    assert len(named(spans, "receive orders")) == 1, "a look at an empty queue is no span"


async def test_headers_that_cannot_be_decoded_stop_no_other_message(
    client: AsyncClient, db: Database, spans: InMemorySpanExporter
) -> None:
    await client.create("orders")
    deep = '{"a": ' + "[" * 3000 + "]" * 3000 + "}"
    db.connect().execute("select pgmq.send('orders', '1', %s::jsonb)", [deep])
    orders = client.queue("orders")
    await orders.send(2)
    found = await orders.read(qty=2)
    assert [message.message for message in found] == [1, 2]
    (receive,) = named(spans, "receive orders")
    assert len(receive.links) == 1
    with trace.processing("orders", found[0]):
        pass
    with pytest.raises(BadMessage):
        found[0].headers  # noqa: B018


async def test_every_way_to_send_carries_it(client: AsyncClient, spans: InMemorySpanExporter) -> None:
    await client.create("orders")
    await client.bind_topic("a.#", "orders")
    orders = client.queue("orders")
    await orders.send_many([1, 2], headers=[{"n": 1}, None])
    await orders.send_bulk([3])
    await client.send_topic("a.b", 4)
    await client.send_batch_topic("a.b", [5])
    with otel.get_tracer("app").start_as_current_span("request"):
        await client.send_all([orders.outgoing(6)])
    messages = await orders.read(qty=9)
    assert [one.message for one in messages] == [1, 2, 3, 4, 5, 6]
    assert len({ids(one.headers) for one in messages}) == 5, "one span for the two of a batch"
    (receive,) = named(spans, "receive orders")
    assert len(receive.links) == 6
    assert receive.attributes is not None and receive.attributes["messaging.batch.message_count"] == 6


async def test_what_headers_say_themselves_stays(client: AsyncClient, spans: InMemorySpanExporter) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(1, headers={"traceparent": "mine"})
    await orders.send(2, headers=[1])
    messages = await orders.read(qty=2)
    assert messages[0].headers["traceparent"] == "mine"
    assert messages[1].headers == [1]
    (receive,) = named(spans, "receive orders")
    assert list(receive.links) == []


async def test_work_is_linked_with_the_send(client: AsyncClient, spans: InMemorySpanExporter) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(1)
    (message,) = await orders.read()
    with trace.processing("orders", message):
        otel.get_tracer("app").start_span("inner").end()
    (process,), (inner,) = named(spans, "process orders"), named(spans, "inner")
    assert process.context is not None and inner.parent is not None
    assert inner.parent.span_id == process.context.span_id
    assert len(process.links) == 1


async def test_without_a_provider_nothing_is_added(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(1)
    (message,) = await orders.read()
    with trace.processing("orders", message):
        assert message.headers is None


def test_opentelemetry_is_not_loaded_for_those_who_do_not_use_it() -> None:
    code = "import sys, pgqueue; pgqueue.Client; pgqueue.AsyncClient; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
