"""Calls on the installation: queues, topics, notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgqueue.codec import JSON, Codec
from pgqueue.model import Metrics, NotifyThrottle, QueueInfo, RoutedId, TopicBinding, Upkeep, Version
from pgqueue.statements.arrays import array
from pgqueue.statements.moment import When, is_now, moment
from pgqueue.statements.statement import Statement, call, each, number, only, truth

# --- queues ---------------------------------------------------------------------------------------


def create(queue_name: str) -> Statement[None]:
    return call("select pgmq.create($1::text)", queue_name)


def create_non_partitioned(queue_name: str) -> Statement[None]:
    return call("select pgmq.create_non_partitioned($1::text)", queue_name)


def create_unlogged(queue_name: str) -> Statement[None]:
    return call("select pgmq.create_unlogged($1::text)", queue_name)


def create_partitioned(
    queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
) -> Statement[None]:
    """premake, how many partitions are made ahead, can be given in SQL only."""
    sql = "select pgmq.create_partitioned($1::text, $2::text, $3::text)"
    return call(sql, queue_name, partition_interval, retention_interval)


def convert_archive_partitioned(
    queue_name: str, partition_interval: str = "10000", retention_interval: str = "100000"
) -> Statement[None]:
    """leading_partition, how many partitions are made ahead, can be given in SQL only."""
    sql = "select pgmq.convert_archive_partitioned($1::text, $2::text, $3::text)"
    return call(sql, queue_name, partition_interval, retention_interval)


def drop_queue(queue_name: str) -> Statement[bool]:
    return Statement(b"select pgmq.drop_queue($1::text)", (queue_name,), truth)


def create_fifo_index(queue_name: str) -> Statement[None]:
    return call("select pgmq.create_fifo_index($1::text)", queue_name)


def list_queues() -> Statement[list[QueueInfo]]:
    return Statement(b"select * from pgmq.list_queues()", (), each(QueueInfo), repeatable=True)


def metrics_all() -> Statement[list[Metrics]]:
    return Statement(b"select * from pgmq.metrics_all()", (), each(Metrics), repeatable=True)


def version() -> Statement[Version]:
    return Statement(b"select * from pgqueue.version()", (), only(Version), repeatable=True)


def maintain() -> Statement[list[Upkeep]]:
    return Statement(b"select * from pgqueue.maintain()", (), each(Upkeep))


# --- topics ---------------------------------------------------------------------------------------


def bind_topic(pattern: str, queue_name: str) -> Statement[None]:
    return call("select pgmq.bind_topic($1::text, $2::text)", pattern, queue_name)


def unbind_topic(pattern: str, queue_name: str) -> Statement[bool]:
    return Statement(b"select pgmq.unbind_topic($1::text, $2::text)", (pattern, queue_name), truth)


def list_topic_bindings(queue_name: str | None = None) -> Statement[list[TopicBinding]]:
    if queue_name is None:
        return Statement(b"select * from pgmq.list_topic_bindings()", (), each(TopicBinding), repeatable=True)
    sql = b"select * from pgmq.list_topic_bindings($1::text)"
    return Statement(sql, (queue_name,), each(TopicBinding), repeatable=True)


def test_routing(routing_key: str) -> Statement[list[TopicBinding]]:
    sql = b"select * from pgmq.test_routing($1::text)"
    return Statement(sql, (routing_key,), each(TopicBinding), repeatable=True)


def send_topic(
    routing_key: str, message: Any, headers: Any = None, delay: int = 0, codec: Codec[Any] = JSON
) -> Statement[int]:
    sql = b"select pgmq.send_topic($1::text, $2::jsonb, $3::jsonb, $4::integer)"
    params = (routing_key, codec.encode(message), None if headers is None else codec.encode(headers), delay)
    return Statement(sql, params, number)


def send_batch_topic(
    routing_key: str,
    messages: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: When | None = None,
    codec: Codec[Any] = JSON,
) -> Statement[list[RoutedId]]:
    bodies = array([codec.encode(message) for message in messages])
    heads = (
        None if headers is None else array([None if one is None else codec.encode(one) for one in headers])
    )
    due = None if delay is None or is_now(delay) else moment(delay, 4)
    last = f", {due.sql}" if due else ""
    sql = f"select * from pgmq.send_batch_topic($1::text, $2::jsonb[], $3::jsonb[]{last})"
    return Statement(
        sql.encode(), (routing_key, bodies, heads, *([due.param] if due else [])), each(RoutedId)
    )


# --- notifications --------------------------------------------------------------------------------


def enable_notify_insert(queue_name: str, throttle_interval_ms: int = 250) -> Statement[None]:
    return call("select pgmq.enable_notify_insert($1::text, $2::integer)", queue_name, throttle_interval_ms)


def disable_notify_insert(queue_name: str) -> Statement[None]:
    return call("select pgmq.disable_notify_insert($1::text)", queue_name)


def update_notify_insert(queue_name: str, throttle_interval_ms: int) -> Statement[None]:
    return call("select pgmq.update_notify_insert($1::text, $2::integer)", queue_name, throttle_interval_ms)


def list_notify_insert_throttles() -> Statement[list[NotifyThrottle]]:
    sql = b"select * from pgmq.list_notify_insert_throttles()"
    return Statement(sql, (), each(NotifyThrottle), repeatable=True)


def notification_queue_usage() -> Statement[float]:
    sql = b"select pg_notification_queue_usage()"
    return Statement(sql, (), lambda reply: float(reply.rows[0][0]), repeatable=True)
