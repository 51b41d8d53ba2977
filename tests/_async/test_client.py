# The source of tests/_sync/test_client.py: after a change here run tools/unasync.py.
"""The client against a real server: every call, what it refuses, and whose transaction it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.types.json import set_json_dumps, set_json_loads

from pgqueue import AsyncClient, Codec, JsonText, Message
from pgqueue.errors import (
    BadDsn,
    BadMessage,
    BadName,
    BadValue,
    CannotConnect,
    Conflict,
    ConnectionLost,
    NoSuchQueue,
    NotAllowed,
    NotInstalled,
    PgqueueError,
    Refused,
    TimedOut,
)
from pgqueue.statements import AS_TEXT, When
from tests.databases import Database


def count(db: Database, queue: str = "orders") -> int:
    """Messages in the queue that everybody can see."""
    row = db.connect().execute(f'select count(*) from pgmq."q_{queue}"').fetchone()
    assert row is not None
    return int(row[0])


# --- the life of a message -------------------------------------------------------------------------


async def test_a_message_is_sent_read_and_archived(client: AsyncClient) -> None:
    await client.create("orders")
    msg_id = await client.send("orders", {"n": 1}, headers={"x-pgmq-group": "a"})
    (message,) = await client.read("orders", vt=30, qty=5)
    assert (message.msg_id, message.read_ct, message.message) == (msg_id, 1, {"n": 1})
    assert message.headers == {"x-pgmq-group": "a"}
    assert message.last_read_at is not None
    assert timedelta(seconds=29) < message.vt - message.last_read_at < timedelta(seconds=31)
    assert await client.read("orders") == []
    assert await client.archive("orders", msg_id) is True
    assert await client.archive("orders", msg_id) is False
    assert await client.delete("orders", msg_id) is False


async def test_batches_answer_with_the_ids_that_were_there(client: AsyncClient) -> None:
    await client.create("orders")
    ids = await client.send_batch("orders", [1, 2, 3, 4], headers=[None, {"a": 1}, None, {}])
    assert ids == [1, 2, 3, 4]
    assert [m.headers for m in await client.read("orders", vt=0, qty=10)] == [None, {"a": 1}, None, {}]
    assert await client.archive_batch("orders", [1, 99]) == [1]
    assert await client.delete_batch("orders", [2, 98]) == [2]
    assert sorted(m.msg_id for m in await client.set_vt_batch("orders", [3, 4, 97], 0)) == [3, 4]
    assert await client.delete_batch("orders", []) == []


async def test_pop_takes_several_in_order(client: AsyncClient) -> None:
    """Case 137."""
    await client.create("orders")
    await client.send_batch("orders", list("abcde"))
    assert [m.message for m in await client.pop("orders", qty=3)] == ["a", "b", "c"]
    assert [m.message for m in await client.pop("orders")] == ["d"]


async def test_peek_changes_nothing(client: AsyncClient) -> None:
    """Case 132."""
    await client.create("orders")
    await client.send_batch("orders", [1, 2, 3])
    first = await client.peek("orders", qty=2)
    assert [m.message for m in first] == [1, 2]
    assert await client.peek("orders", qty=2) == first
    assert [m.message for m in await client.peek("orders", after_msg_id=2)] == [3]
    assert [m.read_ct for m in await client.read("orders", qty=3)] == [1, 1, 1]


async def test_a_queue_that_is_empty_gives_nothing(client: AsyncClient) -> None:
    """Case 104."""
    await client.create("orders")
    assert await client.pop("orders") == []
    assert await client.read("orders") == []
    assert await client.set_vt("orders", 1, 5) is None


@pytest.mark.parametrize("body", [None, True, 0, 1.5, "text", [], {}, {"a": [1, {"b": None}]}, "ü\u2028"])
async def test_any_json_value_is_a_message(client: AsyncClient, body: Any) -> None:
    """Cases 96 and 146."""
    await client.create("orders")
    await client.send("orders", body)
    await client.send_batch("orders", [body, body])
    assert [m.message for m in await client.read("orders", qty=9)] == [body] * 3


async def test_numbers_keep_their_digits(db: Database, client: AsyncClient) -> None:
    long = "12345678901234567890.123456789012345678901234567890"
    await client.create("orders")
    await client.send("orders", JsonText(long))
    await client.send("orders", JsonText("1" * 5000))
    assert [m.message for m in await client.read("orders", qty=2, vt=0)] == [float(long), Decimal("1" * 5000)]
    async with AsyncClient(db.dsn, codec=AS_TEXT) as exact:
        assert [m.message for m in await exact.read("orders", qty=2)] == [long, "1" * 5000]


@pytest.mark.parametrize("body", [object(), float("nan"), {1, 2}, b"bytes", "\ud800", "a\x00b"])
async def test_what_is_not_json_is_refused(client: AsyncClient, body: Any) -> None:
    await client.create("orders")
    with pytest.raises(BadMessage):
        await client.send("orders", body)
    with pytest.raises(BadMessage):
        await client.send_batch("orders", [1, body])
    assert await client.read("orders", qty=9) == []


async def test_a_codec_makes_and_reads_the_bodies(db: Database) -> None:
    codec = Codec(dumps=lambda value: f'"<{value}>"', loads=str)
    async with AsyncClient(db.dsn, codec=codec) as client:
        await client.create("orders")
        await client.send("orders", "x")
        assert [m.message for m in await client.read("orders")] == ['"<x>"']


# --- delays and timeouts ---------------------------------------------------------------------------

NOW = datetime.now(timezone.utc)


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (None, 0),
        (0, 0),
        (30, 30),
        (-30, -30),
        (1.5, 1.5),
        (timedelta(minutes=1), 60),
        (timedelta(0), 0),
        (timedelta(milliseconds=2500), 2.5),
        (NOW + timedelta(hours=1), 3600),
    ],
)
async def test_a_delay_is_seconds_or_an_instant(
    client: AsyncClient, db: Database, delay: When | None, seconds: float
) -> None:
    """Cases 87, 115, 117: every form resolves to one function, single and batch."""
    await client.create("orders")
    for headers in (None, {"a": 1}):
        await client.send("orders", 1, headers=headers, delay=delay)
        await client.send_batch("orders", [1], headers=headers and [headers], delay=delay)
    rows = db.connect().execute("select extract(epoch from vt - enqueued_at)::float from pgmq.q_orders")
    found = [row[0] for row in rows]
    slack = 600 if isinstance(delay, datetime) else 1  # NOW is when the tests were collected
    assert len(found) == 4
    assert all(seconds - slack < one < seconds + slack for one in found), found


@pytest.mark.parametrize("bad", [datetime(2030, 1, 1), "30", True])
async def test_a_moment_without_a_zone_is_refused(client: AsyncClient, bad: Any) -> None:
    """Case 118."""
    await client.create("orders")
    with pytest.raises(BadValue):
        await client.send("orders", 1, delay=bad)
    with pytest.raises(BadValue):
        await client.set_vt("orders", 1, bad)


async def test_set_vt_hides_and_gives_back(client: AsyncClient) -> None:
    """Cases 100, 103, 118."""
    await client.create("orders")
    await client.send("orders", 1)
    moment = datetime(2040, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2)))
    later = await client.set_vt("orders", 1, moment)
    assert isinstance(later, Message)
    assert later.vt == moment
    assert await client.read("orders") == []
    await client.set_vt("orders", 1, 0)
    (message,) = await client.read("orders", vt=60)
    await client.set_vt_batch("orders", [message.msg_id], timedelta(seconds=-1))
    assert [m.read_ct for m in await client.read("orders")] == [2]


async def test_waiting_looks_at_least_once(client: AsyncClient) -> None:
    """Case 52."""
    await client.create("orders")
    assert await client.read_with_poll("orders", max_poll_seconds=0) == []
    await client.send("orders", 1, delay=0.3)
    assert await client.read_with_poll("orders", max_poll_seconds=0) == []
    assert len(await client.read_with_poll("orders", max_poll_seconds=30, poll_interval_ms=20)) == 1


async def test_read_can_ask_for_what_a_message_contains(client: AsyncClient) -> None:
    await client.create("orders")
    await client.send_batch("orders", [{"kind": "a"}, {"kind": "b"}])
    assert [m.message for m in await client.read("orders", qty=9, conditional={"kind": "b"})] == [
        {"kind": "b"}
    ]


async def test_grouped_reads(client: AsyncClient) -> None:
    await client.create("orders")
    groups = ["a", "a", "b"]
    await client.send_batch("orders", [1, 2, 3], headers=[{"x-pgmq-group": group} for group in groups])
    assert [m.message for m in await client.read_grouped("orders", vt=0, qty=2)] == [1, 2]
    assert [m.message for m in await client.read_grouped_rr("orders", vt=0, qty=2)] == [1, 3]
    assert sorted(m.message for m in await client.read_grouped_head("orders", vt=0, qty=9)) == [1, 3]


# --- queues, topics, notifications -----------------------------------------------------------------


async def test_queues_are_made_listed_counted_emptied_and_dropped(client: AsyncClient) -> None:
    await client.create("orders")
    await client.create("orders")
    await client.create_unlogged("quick")
    await client.create_partitioned("parted", "100", "1000")
    queues = {q.queue_name: (q.is_partitioned, q.is_unlogged) for q in await client.list_queues()}
    assert queues == {"orders": (False, False), "quick": (False, True), "parted": (True, False)}
    await client.send_batch("orders", [1, 2, 3])
    await client.read("orders")
    metrics = await client.metrics("orders")
    assert (metrics.queue_name, metrics.queue_length, metrics.total_messages) == ("orders", 3, 3)
    assert metrics.queue_visible_length == 2
    assert {m.queue_name for m in await client.metrics_all()} == set(queues)
    assert await client.purge_queue("orders") == 3
    assert await client.drop_queue("orders") is True
    assert await client.drop_queue("orders") is False, "case 35"


async def test_topics_route(client: AsyncClient) -> None:
    await client.create("errors")
    await client.bind_topic("logs.*.error", "errors")
    (binding,) = await client.list_topic_bindings()
    assert (binding.pattern, binding.queue_name) == ("logs.*.error", "errors")
    assert await client.list_topic_bindings("errors") == [binding]
    assert [b.queue_name for b in await client.test_routing("logs.api.error")] == ["errors"]
    assert await client.send_topic("logs.api.error", {"n": 1}, headers={"a": 1}) == 1
    assert await client.send_topic("elsewhere", {"n": 1}) == 0
    routed = await client.send_batch_topic("logs.api.error", [1, 2], headers=[None, {}], delay=1)
    assert [(one.queue_name, one.msg_id) for one in routed] == [("errors", 2), ("errors", 3)]
    assert await client.unbind_topic("logs.*.error", "errors") is True
    assert await client.unbind_topic("logs.*.error", "errors") is False


async def test_notifications_are_switched_and_listed(client: AsyncClient) -> None:
    """Case 43."""
    await client.create("orders")
    await client.enable_notify_insert("orders", throttle_interval_ms=500)
    await client.update_notify_insert("orders", throttle_interval_ms=100)
    (throttle,) = await client.list_notify_insert_throttles()
    assert (throttle.queue_name, throttle.throttle_interval_ms) == ("orders", 100)
    await client.disable_notify_insert("orders")
    assert await client.list_notify_insert_throttles() == []


async def test_the_version_of_the_schema(client: AsyncClient) -> None:
    version = await client.version()
    assert version.schema_version >= 1
    assert version.pgmq_version == "1.13.1"


# --- whose transaction -----------------------------------------------------------------------------


async def test_a_callers_transaction_stays_the_callers(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    """Case 89: lost on rollback, there after commit; the client commits and closes nothing."""
    await client.create("orders")
    async with AsyncClient(owned) as guest:
        await guest.send("orders", 1)
        assert count(db) == 0
        await owned.rollback()
        assert count(db) == 0
        await guest.send("orders", 1)
        await owned.commit()
        assert count(db) == 1
        await guest.send("orders", 2)
    assert not owned.closed
    assert count(db) == 1
    await owned.rollback()
    assert count(db) == 1


async def test_calls_of_a_transaction_stand_or_fall_together(client: AsyncClient, db: Database) -> None:
    async def send_both() -> None:
        async with client.transaction():
            await client.send("orders", 1)
            await client.send("nope", 1)

    await client.create("orders")
    with pytest.raises(NoSuchQueue):
        await send_both()
    assert count(db) == 0
    async with client.transaction():
        await client.send("orders", 1)
        assert count(db) == 0
    assert count(db) == 1


async def test_a_transaction_inside_the_callers_commits_nothing(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    await client.create("orders")
    guest = AsyncClient(owned)
    await guest.send("orders", 1)
    async with guest.transaction():
        await guest.send("orders", 2)
    assert count(db) == 0
    await owned.rollback()
    assert count(db) == 0


async def test_making_a_client_asks_nothing_of_a_server(db: Database) -> None:
    """Cases 85 and 94: no connection, no DDL, no rights needed."""
    AsyncClient("postgresql://nobody@nowhere.invalid/x")
    await AsyncClient("postgresql://nobody@nowhere.invalid/x").close()
    role = db.create_role()
    async with AsyncClient(db.dsn_for(role)):
        pass


async def test_a_closed_client_opens_again(client: AsyncClient) -> None:
    await client.create("orders")
    await client.close()
    await client.close()
    assert await client.send("orders", 1) == 1


# --- the caller's codecs, other servers' columns ---------------------------------------------------


class Upside(Loader):
    """A jsonb codec of the caller's that gives something of its own."""

    def load(self, data: Any) -> str:
        return "something else"


async def test_a_codec_of_the_connection_does_not_matter(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any]
) -> None:
    """Case 83."""
    await client.create("orders")
    owned.adapters.register_loader("jsonb", Upside)
    set_json_loads(lambda data: "something else", owned)
    set_json_dumps(lambda value: '"something else"', owned)
    guest = AsyncClient(owned)
    await guest.send("orders", {"a": 1}, headers={"b": 2})
    assert [(m.message, m.headers) for m in await guest.read("orders", vt=0)] == [({"a": 1}, {"b": 2})]
    assert [(m.message, m.headers) for m in await client.read("orders")] == []
    row = await (await owned.execute("select '1'::jsonb")).fetchone()
    assert row == ("something else",), "the caller's own queries keep the caller's codec"


BASE = ["msg_id", "read_ct", "enqueued_at", "vt", "message"]
TYPES = {"msg_id": "bigint", "read_ct": "integer", "message": "jsonb", "headers": "jsonb", "extra": "text"}


@pytest.mark.parametrize(
    "columns",
    [
        BASE,
        [*BASE, "headers"],
        ["msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers"],
        ["extra", "headers", "message", "vt", "last_read_at", "enqueued_at", "read_ct", "msg_id"],
    ],
    ids=len,
)
async def test_fields_are_found_by_name(empty_db: Database, columns: Sequence[str]) -> None:
    """Cases 81 and 82: servers with 5, 6, 7 columns, and one with an unknown column, in any order."""
    values = {"msg_id": "7", "read_ct": "1", "message": "'{}'", "headers": "'{}'", "extra": "'?'"}
    parts = ", ".join(f"{name} {TYPES.get(name, 'timestamptz')}" for name in columns)
    row = ", ".join(f"{values.get(name, 'now()')}::{TYPES.get(name, 'timestamptz')}" for name in columns)
    empty_db.connect().execute(
        f"""create schema pgmq;
        create function pgmq.read(queue_name text, vt integer, qty integer) returns table ({parts})
        language sql as $$ select {row} $$"""
    )
    async with AsyncClient(empty_db.dsn) as client:
        (message,) = await client.read("orders")
    assert (message.msg_id, message.read_ct, message.message) == (7, 1, {})
    assert message.headers == ({} if "headers" in columns else None)
    assert (message.last_read_at is None) == ("last_read_at" not in columns)


# --- what is refused -------------------------------------------------------------------------------


CALLS: list[tuple[str, list[Any]]] = [
    ("send", ["nope", 1]),
    ("send_batch", ["nope", [1]]),
    ("read", ["nope"]),
    ("read_grouped", ["nope"]),
    ("read_grouped_rr", ["nope"]),
    ("read_grouped_head", ["nope"]),
    ("read_with_poll", ["nope"]),
    ("pop", ["nope"]),
    ("peek", ["nope"]),
    ("archive", ["nope", 1]),
    ("archive_batch", ["nope", [1]]),
    ("delete", ["nope", 1]),
    ("delete_batch", ["nope", [1]]),
    ("set_vt", ["nope", 1, 1]),
    ("set_vt_batch", ["nope", [1], 1]),
    ("metrics", ["nope"]),
    ("purge_queue", ["nope"]),
    ("bind_topic", ["a", "nope"]),
    ("enable_notify_insert", ["nope"]),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_an_unknown_queue_is_one_error(client: AsyncClient, name: str, arguments: list[Any]) -> None:
    """Case 39."""
    with pytest.raises(NoSuchQueue, match=r'(?i)^queue "nope" does not exist'):
        await getattr(client, name)(*arguments)


async def test_a_name_that_is_too_long_is_refused(client: AsyncClient) -> None:
    """Case 2."""
    await client.create("x" * 47)
    with pytest.raises(BadName, match="too long"):
        await client.create("x" * 48)
    assert [q.queue_name for q in await client.list_queues()] == ["x" * 47]


@pytest.mark.parametrize("name", ["image-worker-queue", 'a"b', "a.b", "a b", "größe", "Foo", "100%"])
async def test_odd_names_work_throughout(client: AsyncClient, name: str) -> None:
    """Cases 5 and 11."""
    await client.create(name)
    await client.send_batch(name, [1, 2, 3])
    await client.read(name, vt=0)
    await client.archive(name, 1)
    await client.delete(name, 2)
    assert (await client.metrics(name)).queue_length == 1
    assert await client.purge_queue(name) == 1
    assert await client.drop_queue(name) is True


async def test_a_hostile_name_is_only_a_name(client: AsyncClient) -> None:
    """Cases 6 and 11: whatever the answer, nothing executes."""
    await client.create("orders")
    for name in ("'; drop schema pgmq cascade; --", "$1", "%I", "orders\\", "\x01"):
        with pytest.raises(PgqueueError):
            await client.send(name, 1)
    assert [q.queue_name for q in await client.list_queues()] == ["orders"]


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
async def test_text_that_postgres_cannot_hold_is_refused(client: AsyncClient, name: str) -> None:
    with pytest.raises(BadValue):
        await client.read(name)


async def test_numbers_out_of_range_are_refused(client: AsyncClient) -> None:
    await client.create("orders")
    with pytest.raises(BadValue, match="out of range"):
        await client.delete("orders", 2**63)
    with pytest.raises(BadValue, match="out of range"):
        await client.delete_batch("orders", [1, 2**70])
    with pytest.raises(BadValue, match="out of range"):
        await client.read("orders", vt=2**31)
    with pytest.raises(BadValue):
        await client.send("orders", 1, delay=1e300)
    assert await client.read("orders") == []


async def test_a_batch_needs_messages_and_as_many_headers(client: AsyncClient) -> None:
    await client.create("orders")
    with pytest.raises(Refused, match="empty"):
        await client.send_batch("orders", [])
    with pytest.raises(Refused, match="length"):
        await client.send_batch("orders", [1, 2], headers=[{}])


async def test_a_database_without_the_schema(empty_db: Database) -> None:
    async with AsyncClient(empty_db.dsn) as client:
        with pytest.raises(NotInstalled, match="pgqueue install"):
            await client.send("orders", 1)
        with pytest.raises(NotInstalled, match="pgqueue install"):
            await client.version()


async def test_a_role_without_rights(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    stranger = AsyncClient(db.dsn_for(db.create_role()))
    with pytest.raises(NotAllowed, match="permission denied"):
        await stranger.send("orders", 1)
    await stranger.close()


async def test_the_sqlstate_stays_known(client: AsyncClient) -> None:
    with pytest.raises(NoSuchQueue) as caught:
        await client.read("nope")
    assert caught.value.sqlstate == "42P01"
    assert isinstance(caught.value.__cause__, psycopg.Error)


# --- servers that are away, slow or gone -----------------------------------------------------------


async def test_a_server_that_is_not_there(db: Database) -> None:
    dsn = "postgresql://somebody:hush%40hush@127.0.0.1:1/x"
    with pytest.raises(CannotConnect, match="Connection refused") as caught:
        await AsyncClient.connect(dsn)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CannotConnect, match="no_such"):
        await AsyncClient.connect(db.dsn.replace(db.name, "no_such"))


async def test_a_dsn_that_is_none(db: Database) -> None:
    for dsn in ("nonsense", "mysql://u:hush@h/x", "postgresql://u:hu@sh@h/x", "postgresql//u:hush@h"):
        with pytest.raises(BadDsn) as caught:
            await AsyncClient.connect(dsn)
        assert "hu" not in str(caught.value)


async def test_a_statement_timeout_is_told(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    holder = db.connect(autocommit=False)
    holder.execute('lock table pgmq."q_orders" in access exclusive mode')
    await (await client.connection()).execute("set statement_timeout = '50ms'")
    with pytest.raises(TimedOut, match="statement timeout"):
        await client.send("orders", 1)
    await (await client.connection()).execute("set statement_timeout = 0; set lock_timeout = '50ms'")
    with pytest.raises(TimedOut, match="lock timeout"):
        await client.send("orders", 1)


async def test_a_lost_connection_is_told_and_opened_again(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    pid = (await client.connection()).info.backend_pid
    db.connect(user=db.superuser).execute("select pg_terminate_backend(%s, 10000)", [pid])
    with pytest.raises(ConnectionLost):
        await client.send("orders", 1)
    assert await client.read("orders") == [], "the client has connected again"


async def test_a_serialization_failure_is_a_conflict(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any]
) -> None:
    """Case 139."""
    await client.create("orders")
    await client.send("orders", 1)
    await owned.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
    await owned.execute("select 1 from pgmq.q_orders")
    await client.set_vt("orders", 1, 0)
    with pytest.raises(Conflict):
        await AsyncClient(owned).set_vt("orders", 1, 5)


async def test_without_prepared_statements(db: Database) -> None:
    async with AsyncClient(db.dsn, prepare=False) as client:
        await client.create("orders")
        for n in range(10):
            await client.send("orders", n)
        conn = await client.connection()
        row = await (await conn.execute("select count(*) from pg_prepared_statements")).fetchone()
    assert row == (0,)
