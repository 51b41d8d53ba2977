"""Trace context in headers, by OpenTelemetry where the application uses it; nothing at all where not.

OpenTelemetry is never imported from here: an application that traces has imported it and set a provider.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pgqueue.errors import BadMessage


class HasHeaders(Protocol):
    """A message, as far as its trace goes."""

    @property
    def headers(self) -> Any: ...


def active() -> bool:
    """Whether the application traces."""
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return False
    provider = otel.get_tracer_provider()
    return not isinstance(provider, (otel.ProxyTracerProvider, otel.NoOpTracerProvider))


@contextmanager
def sending(destination: str, count: int = 1) -> Iterator[Mapping[str, str]]:
    """A span of a send, and what is to go into the headers of its messages; nothing unless active()."""
    if not active():
        yield {}
        return
    from opentelemetry import trace

    attributes = _attributes(destination, "send", count)
    tracer = trace.get_tracer("pgqueue")
    with tracer.start_as_current_span(
        f"send {destination}", kind=trace.SpanKind.PRODUCER, attributes=attributes
    ):
        yield carrier()


def carrier() -> Mapping[str, str]:
    """The trace context of now, as headers; empty where there is none."""
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def with_carrier(headers: Any, context: Mapping[str, str]) -> Any:
    """Headers with the trace context; what they say themselves stays. What is no object stays as it is."""
    if headers is None:
        return dict(context) or None
    return {**context, **headers} if isinstance(headers, Mapping) else headers


def received(destination: str, messages: Iterable[HasHeaders], began: int) -> None:
    """A span of a read that began at that time (nanoseconds), linked with the sends of what it found."""
    from opentelemetry import trace

    found = list(messages)
    if not found:
        return
    span = trace.get_tracer("pgqueue").start_span(
        f"receive {destination}",
        kind=trace.SpanKind.CONSUMER,
        attributes=_attributes(destination, "receive", len(found)),
        links=_links(found),
        start_time=began,
    )
    span.end()


@contextmanager
def processing(destination: str, message: HasHeaders) -> Iterator[None]:
    """A span around the work for a message, linked with its send; nothing unless the application traces."""
    if not active():
        yield
        return
    from opentelemetry import trace

    attributes = _attributes(destination, "process", 1)
    with trace.get_tracer("pgqueue").start_as_current_span(
        f"process {destination}",
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=_links([message]),
    ):
        yield


def _attributes(destination: str, operation: str, count: int) -> dict[str, str | int]:
    return {
        "messaging.system": "pgqueue",
        "messaging.destination.name": destination,
        "messaging.operation.type": operation,
        "messaging.batch.message_count": count,
    }


def _links(messages: Iterable[HasHeaders]) -> list[Any]:
    from opentelemetry import propagate, trace

    contexts = []
    for message in messages:
        try:
            headers = message.headers
        except BadMessage:  # whoever asks for them is told
            continue
        if isinstance(headers, Mapping):
            sent = {name: value for name, value in headers.items() if isinstance(value, str)}
            contexts.append(trace.get_current_span(propagate.extract(sent)).get_span_context())
    return [trace.Link(context) for context in contexts if context.is_valid]
