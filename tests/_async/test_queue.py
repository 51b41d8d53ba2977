# The source of tests/_sync/test_queue.py: after a change here run tools/unasync.py.
"""The calls on a queue against a real server: what they do and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.types.json import set_json_dumps, set_json_loads

from pgqueue import AsyncClient, AsyncMessage, Codec, JsonText
from pgqueue.codec import AS_TEXT
from pgqueue.errors import (
    BadMessage,
    BadName,
    BadValue,
    LostLease,
    NoSuchQueue,
    NotAllowed,
    NotInstalled,
    PgqueueError,
    Refused,
)
from pgqueue.statements.moment import When
from tests.databases import Database


def count(db: Database, queue: str = "orders") -> int:
    """Messages in the queue that everybody can see."""
    row = db.connect().execute(f'select count(*) from pgmq."q_{queue}"').fetchone()
    assert row is not None
    return int(row[0])


# --- the life of a message -------------------------------------------------------------------------


async def test_a_message_is_sent_read_and_archived(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    msg_id = await orders.send({"n": 1}, headers={"x-pgmq-group": "a"})
    (message,) = await orders.read(vt=30, qty=5)
    assert (message.msg_id, message.read_ct, message.message) == (msg_id, 1, {"n": 1})
    assert message.headers == {"x-pgmq-group": "a"}
    assert message.last_read_at is not None
    assert timedelta(seconds=29) < message.vt - message.last_read_at < timedelta(seconds=31)
    assert await orders.read() == []
    assert await orders.archive(msg_id) is True
    assert await orders.archive(msg_id) is False
    assert await orders.delete(msg_id) is False


async def test_batches_answer_with_the_ids_that_were_there(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    ids = await orders.send_many([1, 2, 3, 4], headers=[None, {"a": 1}, None, {}])
    assert ids == [1, 2, 3, 4]
    assert [m.headers for m in await orders.read(vt=0, qty=10)] == [None, {"a": 1}, None, {}]
    assert await orders.archive_many([1, 99]) == [1]
    assert await orders.delete_many([2, 98]) == [2]
    assert sorted(m.msg_id for m in await orders.set_vt_many([3, 4, 97], 0)) == [3, 4]
    assert await orders.delete_many([]) == []


async def test_pop_takes_several_in_order(client: AsyncClient) -> None:
    """Case 137."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many(list("abcde"))
    assert [m.message for m in await orders.pop(qty=3)] == ["a", "b", "c"]
    assert [m.message for m in await orders.pop()] == ["d"]


async def test_peek_changes_nothing(client: AsyncClient) -> None:
    """Case 132."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many([1, 2, 3])
    first = await orders.peek(qty=2)
    assert [m.message for m in first] == [1, 2]
    assert await orders.peek(qty=2) == first
    assert [m.message for m in await orders.peek(after_msg_id=2)] == [3]
    assert [m.read_ct for m in await orders.read(qty=3)] == [1, 1, 1]


async def test_a_queue_that_is_empty_gives_nothing(client: AsyncClient) -> None:
    """Case 104."""
    await client.create("orders")
    orders = client.queue("orders")
    assert await orders.pop() == []
    assert await orders.read() == []
    assert await orders.set_vt(1, 5) is None


@pytest.mark.parametrize("body", [None, True, 0, 1.5, "text", [], {}, {"a": [1, {"b": None}]}, "ü\u2028"])
async def test_any_json_value_is_a_message(client: AsyncClient, body: Any) -> None:
    """Cases 96 and 146."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(body)
    await orders.send_many([body, body])
    assert [m.message for m in await orders.read(qty=9)] == [body] * 3


async def test_numbers_keep_their_digits(db: Database, client: AsyncClient) -> None:
    long = "12345678901234567890.123456789012345678901234567890"
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(JsonText(long))
    await orders.send(JsonText("1" * 5000))
    assert [m.message for m in await orders.read(qty=2, vt=0)] == [float(long), Decimal("1" * 5000)]
    async with AsyncClient(db.dsn, codec=AS_TEXT) as exact:
        assert [m.message for m in await exact.queue("orders").read(qty=2)] == [long, "1" * 5000]


@pytest.mark.parametrize("body", [object(), float("nan"), {1, 2}, b"bytes", "\ud800", "a\x00b"])
async def test_what_is_not_json_is_refused(client: AsyncClient, body: Any) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    with pytest.raises(BadMessage):
        await orders.send(body)
    with pytest.raises(BadMessage):
        await orders.send_many([1, body])
    assert await orders.read(qty=9) == []


async def test_a_codec_makes_and_reads_the_bodies(db: Database) -> None:
    codec = Codec(dumps=lambda value: f'"<{value}>"', loads=str)
    async with AsyncClient(db.dsn, codec=codec) as client:
        await client.create("orders")
        orders = client.queue("orders")
        await orders.send("x")
        assert [m.message for m in await orders.read()] == ['"<x>"']


# --- leases ----------------------------------------------------------------------------------------


async def test_a_message_knows_its_queue(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many([1, 2, 3])
    first, second, third = await orders.read(qty=3)
    assert first.queue is orders
    assert await first.archive() is True and await first.archive() is False
    assert await second.delete() is True and await second.delete() is False
    await third.complete()
    assert (await orders.metrics()).queue_length == 0
    with pytest.raises(LostLease, match="message 3, delivery 1") as caught:
        await third.complete()
    assert caught.value.sqlstate == "PQ001"


@pytest.mark.parametrize("archive", [True, False])
async def test_complete_archives_or_deletes(client: AsyncClient, db: Database, archive: bool) -> None:
    await client.create("orders")
    await client.queue("orders").send(1)
    message = await client.queue("orders").read_one()
    assert message is not None
    await message.complete(archive=archive)
    row = db.connect().execute("select count(*) from pgmq.a_orders").fetchone()
    assert row == (int(archive),)


async def test_who_lost_the_lease_cannot_touch_the_next_delivery(client: AsyncClient) -> None:
    """Case 101."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send("x")
    (late,) = await orders.read(vt=0)
    (present,) = await orders.read(vt=60)
    assert (late.read_ct, present.read_ct) == (1, 2)
    with pytest.raises(LostLease):
        await late.complete()
    with pytest.raises(LostLease):
        await late.extend(999)
    with pytest.raises(LostLease):
        await late.give_back()
    assert await orders.fetch(done=[late]) == []
    assert (await orders.peek())[0].vt == present.vt
    await present.complete()


async def test_a_lost_lease_rolls_back_the_work_of_its_transaction(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any], db: Database
) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send("x")
    (late,) = await orders.read(vt=0)
    await orders.read(vt=60)
    db.connect().execute("create table work (n int)")
    with pytest.raises(LostLease):
        await work_and_complete(client, late)
    assert db.connect().execute("select count(*) from work").fetchone() == (0,)


async def work_and_complete(client: AsyncClient, message: AsyncMessage[Any]) -> None:
    async with client.transaction() as conn:
        await conn.execute("insert into work values (1)")
        await message.complete()


async def test_a_lease_is_extended_and_given_back(client: AsyncClient) -> None:
    """Case 101: a heartbeat."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send("x")
    (message,) = await orders.read(vt=1)
    before = message.vt
    await message.extend(60)
    assert message.vt - before > timedelta(seconds=50)
    await message.extend(timedelta(seconds=90))
    await message.extend(datetime(2040, 1, 1, tzinfo=timezone.utc))
    assert message.vt == datetime(2040, 1, 1, tzinfo=timezone.utc)
    await message.give_back()
    (again,) = await orders.read()
    await again.give_back(60)
    assert await orders.read() == []
    await again.give_back(timedelta(0))
    assert [one.read_ct for one in await orders.read()] == [3]


async def test_fetch_finishes_and_goes_on(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many(range(5))
    done = await orders.fetch(qty=2)
    done = await orders.fetch(qty=2, done=done, archive=True)
    assert [one.message for one in done] == [2, 3]
    done = await orders.fetch(qty=2, done=[one.msg_id for one in done])
    assert [one.message for one in done] == [4]
    assert await orders.fetch(done=done) == []
    assert (await orders.metrics()).queue_length == 0
    assert db.connect().execute("select count(*) from pgmq.a_orders").fetchone() == (2,)
    with pytest.raises(BadValue, match="not both"):
        await orders.fetch(done=[*done, 5])


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
    orders = client.queue("orders")
    for headers in (None, {"a": 1}):
        await orders.send(1, headers=headers, delay=delay)
        await orders.send_many([1], headers=headers and [headers], delay=delay)
    rows = db.connect().execute("select extract(epoch from vt - enqueued_at)::float from pgmq.q_orders")
    found = [row[0] for row in rows]
    slack = 600 if isinstance(delay, datetime) else 1  # NOW is when the tests were collected
    assert len(found) == 4
    assert all(seconds - slack < one < seconds + slack for one in found), found


@pytest.mark.parametrize("bad", [datetime(2030, 1, 1), "30", True])
async def test_a_moment_without_a_zone_is_refused(client: AsyncClient, bad: Any) -> None:
    """Case 118."""
    await client.create("orders")
    orders = client.queue("orders")
    with pytest.raises(BadValue):
        await orders.send(1, delay=bad)
    with pytest.raises(BadValue):
        await orders.set_vt(1, bad)


async def test_set_vt_hides_and_gives_back(client: AsyncClient) -> None:
    """Cases 100, 103, 118."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send(1)
    moment = datetime(2040, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2)))
    later = await orders.set_vt(1, moment)
    assert isinstance(later, AsyncMessage)
    assert later.vt == moment
    assert await orders.read() == []
    await orders.set_vt(1, 0)
    (message,) = await orders.read(vt=60)
    await orders.set_vt_many([message.msg_id], timedelta(seconds=-1))
    assert [m.read_ct for m in await orders.read()] == [2]


async def test_waiting_looks_at_least_once(client: AsyncClient) -> None:
    """Case 52."""
    await client.create("orders")
    orders = client.queue("orders")
    assert await orders.read_with_poll(max_poll_seconds=0) == []
    await orders.send(1, delay=0.3)
    assert await orders.read_with_poll(max_poll_seconds=0) == []
    assert len(await orders.read_with_poll(max_poll_seconds=30, poll_interval_ms=20)) == 1


async def test_read_can_ask_for_what_a_message_contains(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many([{"kind": "a"}, {"kind": "b"}])
    assert [m.message for m in await orders.read(qty=9, conditional={"kind": "b"})] == [{"kind": "b"}]


async def test_grouped_reads(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    groups = ["a", "a", "b"]
    await orders.send_many([1, 2, 3], headers=[{"x-pgmq-group": group} for group in groups])
    assert [m.message for m in await orders.read_grouped(vt=0, qty=2)] == [1, 2]
    assert [m.message for m in await orders.read_grouped_rr(vt=0, qty=2)] == [1, 3]
    assert sorted(m.message for m in await orders.read_grouped_head(vt=0, qty=9)) == [1, 3]


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
    orders = client.queue("orders")
    owned.adapters.register_loader("jsonb", Upside)
    set_json_loads(lambda data: "something else", owned)
    set_json_dumps(lambda value: '"something else"', owned)
    guest = AsyncClient(owned)
    await guest.queue("orders").send({"a": 1}, headers={"b": 2})
    assert [(m.message, m.headers) for m in await guest.queue("orders").read(vt=0)] == [({"a": 1}, {"b": 2})]
    assert [(m.message, m.headers) for m in await orders.read()] == []
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
        (message,) = await client.queue("orders").read()
    assert (message.msg_id, message.read_ct, message.message) == (7, 1, {})
    assert message.headers == ({} if "headers" in columns else None)
    assert (message.last_read_at is None) == ("last_read_at" not in columns)


async def test_instants_that_python_does_not_know_stop_nothing(client: AsyncClient, db: Database) -> None:
    """Three rows that pgmq's SQL lets anybody write, beside an ordinary one."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many([1, 2, 3, 4])
    for msg_id, vt in ((1, "12000-01-01"), (2, "infinity"), (3, "-infinity")):
        db.connect().execute("update pgmq.q_orders set vt = %s where msg_id = %s", [vt, msg_id])
    far = [message.vt.year for message in await orders.peek()]
    assert far[:3] == [9999, 9999, 1]
    assert {message.vt.tzinfo for message in await orders.peek()} >= {timezone.utc}
    assert [message.message for message in await orders.read(qty=4)] == [3, 4]
    moved = await orders.set_vt(4, 10**12)
    assert moved is not None
    assert moved.vt.year == 9999
    assert (await orders.peek(after_msg_id=3))[0].text == "4"


STYLES = ("German, DMY", "SQL, MDY", "Postgres, DMY")


@pytest.mark.parametrize("style", STYLES)
async def test_no_style_of_dates_is_in_the_way(db: Database, style: str) -> None:
    """The database's, or a role's: a read or a pop that cannot be understood has taken its messages already."""
    db.connect().execute(f"alter database {db.name} set datestyle = '{style}'".encode())
    db.connect().execute(f"alter database {db.name} set intervalstyle = 'sql_standard'".encode())
    async with AsyncClient(db.dsn) as client:
        await client.create("orders")
        orders = client.queue("orders")
        later = datetime.now(timezone.utc) + timedelta(hours=1)
        await orders.send_many([1, 2, 3, {"ü": "\\"}], headers=[None, {"a": 1}, None, None])
        await orders.send_bulk([5], delay=later)
        assert [one.vt for one in await orders.peek(after_msg_id=4)] == [later]
        (first,) = await orders.read(vt=30)
        assert timedelta(seconds=29) < first.vt - first.enqueued_at < timedelta(seconds=40)
        await first.extend(60)
        (second,) = await orders.pop()
        assert (second.message, second.headers) == (2, {"a": 1})
        (third,) = await orders.fetch(done=[first])
        moved = await orders.set_vt(third.msg_id, later)
        assert moved is not None
        assert moved.vt == later
        assert [one.text for one in await orders.read(qty=9)] == [r'{"ü": "\\"}']
        assert [one.created_at for one in await client.list_queues()] != [None]
        assert (await orders.metrics()).queue_length == 3


async def test_a_style_that_is_set_under_way_is_not_in_the_way(
    client: AsyncClient, owned: psycopg.AsyncConnection[Any]
) -> None:
    """On a connection of the caller's, with prepared statements of before; far instants too."""
    await client.create("orders")
    await client.queue("orders").send_many([1, 2, 3])
    orders = AsyncClient(owned).queue("orders")
    (first,) = await orders.peek(qty=1)
    await owned.execute(
        "update pgmq.q_orders set enqueued_at = '12000-01-01', vt = '-infinity' where msg_id = 2"
    )
    for style in STYLES:
        await owned.execute(f"set datestyle = '{style}'".encode())
        assert await orders.peek(qty=1) == [first]
        far = (await orders.peek(after_msg_id=1))[0]
        assert (far.enqueued_at.year, far.vt.year) == (9999, 1)
    assert [one.message for one in await orders.pop(qty=3)] == [1, 2, 3]


async def test_an_instant_that_python_does_not_know_loses_no_message(
    client: AsyncClient, db: Database
) -> None:
    """One that is read, or popped: it has left the queue when the client is told."""
    await client.create("orders")
    orders = client.queue("orders")
    await orders.send_many([1, 2])
    db.connect().execute("update pgmq.q_orders set enqueued_at = '12000-01-01', vt = '-infinity'")
    (read,) = await orders.read()
    assert read.enqueued_at == datetime.max.replace(tzinfo=timezone.utc)
    db.connect().execute("update pgmq.q_orders set enqueued_at = '0044-03-15 BC'")
    (popped,) = await orders.pop()
    assert popped.enqueued_at == datetime.min.replace(tzinfo=timezone.utc)


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, 5, b"orders"])
async def test_a_name_is_a_text(client: AsyncClient, name: Any) -> None:
    with pytest.raises(BadValue, match="name is a text"):
        client.queue(name)


@pytest.mark.parametrize("bad", ["1", None, 1.5, timedelta(seconds=1)])
async def test_numbers_are_whole(client: AsyncClient, bad: Any) -> None:
    orders = client.queue("orders")
    for call in (orders.archive, orders.delete):
        with pytest.raises(BadValue, match="msg_id is a whole number"):
            await call(bad)
    for read in (orders.read, orders.fetch, orders.read_grouped, orders.read_grouped_rr, orders.read_one):
        with pytest.raises(BadValue, match="vt is a whole number"):
            await read(vt=bad)
    with pytest.raises(BadValue, match="qty is a whole number"):
        await orders.pop(qty=bad)


@pytest.mark.parametrize("one", ["text", b"bytes", {"id": 1}])
async def test_one_message_is_not_several(client: AsyncClient, one: Any) -> None:
    """Its letters, or the names of its fields, would be sent."""
    await client.create("orders")
    for send in (client.queue("orders").send_many, client.queue("orders").send_bulk):
        with pytest.raises(BadValue, match="several messages"):
            await send(one)


CALLS: list[tuple[str, list[Any]]] = [
    ("send", [1]),
    ("send_many", [[1]]),
    ("read", []),
    ("read_one", []),
    ("fetch", []),
    ("read_grouped", []),
    ("read_grouped_rr", []),
    ("read_grouped_head", []),
    ("read_with_poll", []),
    ("pop", []),
    ("peek", []),
    ("archive", [1]),
    ("archive_many", [[1]]),
    ("delete", [1]),
    ("delete_many", [[1]]),
    ("set_vt", [1, 1]),
    ("set_vt_many", [[1], 1]),
    ("metrics", []),
    ("purge", []),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_an_unknown_queue_is_one_error(client: AsyncClient, name: str, arguments: list[Any]) -> None:
    """Case 39."""
    with pytest.raises(NoSuchQueue, match=r'^queue "nope" does not exist'):
        await getattr(client.queue("nope"), name)(*arguments)


@pytest.mark.parametrize(("name", "arguments"), [("bind_topic", ["a"]), ("enable_notify_insert", [])])
async def test_an_unknown_queue_is_the_same_error_on_the_client(
    client: AsyncClient, name: str, arguments: list[Any]
) -> None:
    with pytest.raises(NoSuchQueue, match=r'(?i)^queue "nope" does not exist'):
        await getattr(client, name)(*arguments, "nope")


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
    await client.queue(name).send_many([1, 2, 3])
    await client.queue(name).read(vt=0)
    await client.queue(name).archive(1)
    await client.queue(name).delete(2)
    assert (await client.queue(name).metrics()).queue_length == 1
    assert await client.queue(name).purge() == 1
    assert await client.drop_queue(name) is True


async def test_a_hostile_name_is_only_a_name(client: AsyncClient) -> None:
    """Cases 6 and 11: whatever the answer, nothing executes."""
    await client.create("orders")
    for name in ("'; drop schema pgmq cascade; --", "$1", "%I", "orders\\", "\x01"):
        with pytest.raises(PgqueueError):
            await client.queue(name).send(1)
    assert [q.queue_name for q in await client.list_queues()] == ["orders"]


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
async def test_text_that_postgres_cannot_hold_is_refused(client: AsyncClient, name: str) -> None:
    with pytest.raises(BadValue):
        await client.queue(name).read()


async def test_numbers_out_of_range_are_refused(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    with pytest.raises(BadValue, match="out of range"):
        await orders.delete(2**63)
    with pytest.raises(BadValue, match="out of range"):
        await orders.delete_many([1, 2**70])
    with pytest.raises(BadValue, match="out of range"):
        await orders.read(vt=2**31)
    with pytest.raises(BadValue):
        await orders.send(1, delay=1e300)
    assert await orders.read() == []


async def test_a_batch_needs_as_many_headers_as_messages(client: AsyncClient) -> None:
    await client.create("orders")
    orders = client.queue("orders")
    assert await orders.send_many([]) == []
    with pytest.raises(Refused, match="length"):
        await orders.send_many([1, 2], headers=[{}])


async def test_a_database_without_the_schema(empty_db: Database) -> None:
    async with AsyncClient(empty_db.dsn) as client:
        with pytest.raises(NotInstalled, match="pgqueue install"):
            await client.queue("orders").send(1)
        with pytest.raises(NotInstalled, match="pgqueue install"):
            await client.version()


async def test_a_role_without_rights(client: AsyncClient, db: Database) -> None:
    await client.create("orders")
    stranger = AsyncClient(db.dsn_for(db.create_role()))
    with pytest.raises(NotAllowed, match="permission denied"):
        await stranger.queue("orders").send(1)
    await stranger.close()


async def test_the_sqlstate_stays_known(client: AsyncClient) -> None:
    with pytest.raises(NoSuchQueue) as caught:
        await client.queue("nope").read()
    assert caught.value.sqlstate == "42P01"
    assert isinstance(caught.value.__cause__, psycopg.Error)
