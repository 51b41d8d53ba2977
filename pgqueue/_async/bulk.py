# The source of pgqueue/_sync/bulk.py: after a change here run tools/unasync.py.
"""Many messages at once, by COPY where nothing stands against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import islice, repeat
from typing import Any, Protocol, TypeVar

import psycopg

from pgqueue._async.lenders import Lent
from pgqueue._async.wire import Line, not_text
from pgqueue.errors import BadValue, ConnectionLost
from pgqueue.sqlstate import from_server
from pgqueue.statements.moment import When
from pgqueue.statements.queue import BulkTerms, QueueCalls, copy_line
from pgqueue.trace import with_carrier

T = TypeVar("T")
BLOCK_CHARACTERS = 256 * 1024
"""COPY is handed so much text at a time."""
BATCH = 1000
"""Without COPY, so many messages go in one call."""


class Joins(Protocol):
    """Gives a connection on which several statements stand or fall together."""

    def joined(self) -> AbstractAsyncContextManager[Lent]: ...


async def send_bulk(
    client: Joins,
    calls: QueueCalls[T, Any],
    messages: Iterable[T],
    headers: Iterable[Any] | None,
    delay: When | None,
    context: Mapping[str, str],
) -> int:
    """Send them all or none, and say how many there were. context: headers that each of them gets.

    Raises a PgqueueError.
    """
    pairs = _pairs(messages, headers, context)
    async with client.joined() as line:
        terms = await line.run(calls.bulk_terms(delay))
        if terms.free and isinstance(line, Line):
            return await _copy(line, calls, pairs, terms)
        return await _send_batches(line, calls, pairs, delay)


def _pairs(
    messages: Iterable[T], headers: Iterable[Any] | None, context: Mapping[str, str]
) -> Iterator[tuple[T, Any]]:
    heads = repeat(None) if headers is None else iter(headers)
    for message in messages:
        head = next(heads, _END)
        if head is _END:
            raise BadValue("there are fewer headers than messages")
        yield message, with_carrier(head, context)
    if headers is not None and next(heads, _END) is not _END:
        raise BadValue("there are more headers than messages")


_END: Any = object()


async def _copy(
    line: Line, calls: QueueCalls[T, Any], pairs: Iterator[tuple[T, Any]], terms: BulkTerms
) -> int:
    count = size = 0
    block: list[str] = []
    try:
        async with line.conn.cursor() as cursor, cursor.copy(terms.copy) as copy:
            for message, headers in pairs:
                block.append(copy_line(terms.vt, calls.codec.encode(message), calls.encode_headers(headers)))
                count += 1
                size += len(block[-1])
                if size >= BLOCK_CHARACTERS:
                    await copy.write("".join(block))
                    block, size = [], 0
            await copy.write("".join(block))
    except psycopg.Error as error:
        if line.conn.closed:
            raise ConnectionLost(sqlstate=error.sqlstate) from error
        raise from_server(error) from error
    except UnicodeEncodeError as error:
        raise not_text() from error
    return count


async def _send_batches(
    line: Lent, calls: QueueCalls[T, Any], pairs: Iterator[tuple[T, Any]], delay: When | None
) -> int:
    count = 0
    while batch := list(islice(pairs, BATCH)):
        heads = [one for _, one in batch]
        bodies = [message for message, _ in batch]
        headers = heads if any(one is not None for one in heads) else None
        ids = await line.run(calls.send_batch(bodies, headers, delay))
        count += len(ids)
    return count
