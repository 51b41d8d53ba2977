# Made of tests/_async/test_connections.py by tools/unasync.py: change that file, not this one.
"""Connections that are lost, pooled, or seen by others; what is repeated and what is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgqueue import Client
from pgqueue.errors import CannotConnect, Conflict, ConnectionLost, InDoubt, NoSuchQueue, Refused
from tests._sync._compat import Background, is_broken_off, pool_of, sleep
from tests.databases import Database, our_sql, uri
from tests.servers import Server


class Axe:
    """Cuts the connections of the clients of a database, as a superuser can."""

    def __init__(self, db: Database) -> None:
        self._conn = db.connect(user=db.superuser)

    def cut(self, condition: str = "true") -> int:
        """End the sessions of clients, and wait until they are gone; how many there were."""
        sql = f"""\
select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and {condition}"""
        return int(self.ask(sql))

    def ask(self, sql: str) -> Any:
        row = self._conn.execute(sql.encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def axe(db: Database) -> Axe:
    db.connect().execute("select pgmq.create('orders')")
    return Axe(db)


# --- between calls, during a call, at the commit ---------------------------------------------------


def test_a_connection_lost_between_calls_is_replaced(client: Client, axe: Axe) -> None:
    """Case 92: nobody sees it, also for a send: nothing of it had gone out."""
    orders = client.queue("orders")
    assert orders.send(1) == 1
    for turn in range(2, 6):
        assert axe.cut("application_name = 'pgqueue'") == 1
        assert orders.send(turn) == turn
    assert [one.message for one in orders.read(qty=9)] == [1, 2, 3, 4, 5]


def test_a_connection_lost_during_a_send_leaves_it_in_doubt(
    client: Client, axe: Axe, db: Database
) -> None:
    """Case 92: it is told and not repeated."""
    orders = client.queue("orders")
    orders.send(1)
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_orders in access exclusive mode")
    cutting = Background(lambda: when_waiting(axe))
    with pytest.raises(InDoubt, match="not known"):
        orders.send(2)
    cutting.join()
    holder.rollback()
    assert axe.ask("select count(*) from pgmq.q_orders") == 1
    assert orders.send(3) == 2, "and the client goes on"


def when_waiting(axe: Axe) -> None:
    """Cut the client that waits for a lock."""
    while not axe.cut("application_name = 'pgqueue' and wait_event_type = 'Lock'"):
        sleep(0.01)


def test_what_only_looks_is_repeated(client: Client, axe: Axe, db: Database) -> None:
    orders = client.queue("orders")
    orders.send(1)
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_orders in access exclusive mode")

    def cut_and_free() -> None:
        when_waiting(axe)
        holder.rollback()

    cutting = Background(cut_and_free)
    assert [one.message for one in orders.peek()] == [1]
    cutting.join()


def test_a_transaction_that_loses_its_connection_is_gone(client: Client, axe: Axe) -> None:
    """That is sure, and no doubt."""
    orders = client.queue("orders")
    with pytest.raises(ConnectionLost) as caught:
        send_around(client, axe)
    assert not isinstance(caught.value, InDoubt)
    assert axe.ask("select count(*) from pgmq.q_orders") == 0
    assert orders.send(3) > 0


def send_around(client: Client, axe: Axe) -> None:
    with client.transaction():
        client.queue("orders").send(1)
        axe.cut("application_name = 'pgqueue'")
        client.queue("orders").send(2)


def test_a_connection_lost_at_the_begin_is_lost(
    client: Client, axe: Axe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was found to work: nothing of the transaction was said, so that is no doubt."""
    client.queue("orders").read()
    begin = psycopg.Transaction.__enter__

    def begin_with_nobody(self: Any) -> Any:
        axe.cut("application_name = 'pgqueue'")
        return begin(self)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Transaction, begin.__name__, begin_with_nobody)
        with pytest.raises(ConnectionLost) as caught:
            in_a_transaction(client)
        assert not isinstance(caught.value, InDoubt)
        with pytest.raises(ConnectionLost):
            client.queue("orders").send_bulk([1])
    in_a_transaction(client)
    assert axe.ask("select count(*) from pgmq.q_orders") == 1


def test_a_begin_that_the_server_refuses_is_our_error(
    client: Client, owned: psycopg.Connection[Any]
) -> None:
    """In a transaction that has failed already, no savepoint can be made."""
    guest = Client(owned)
    with pytest.raises(NoSuchQueue):
        guest.queue("nope").send(1)
    with pytest.raises(Refused, match="aborted"):
        in_a_transaction(guest)


def test_a_connection_lost_at_the_commit_leaves_all_in_doubt(client: Client, axe: Axe) -> None:
    client.queue("orders").read()
    with pytest.raises(InDoubt):
        commit_to_nobody(client, axe)
    client.queue("orders").read()


def commit_to_nobody(client: Client, axe: Axe) -> None:
    with client.transaction():
        client.queue("orders").send(1)
        axe.cut("application_name = 'pgqueue'")


def test_an_error_that_the_server_tells_at_the_commit_is_that_error(
    client: Client, db: Database
) -> None:
    client.create("orders")
    db.connect().execute("""\
create function late() returns trigger language plpgsql as $$
begin
    raise exception 'not today' using errcode = 'serialization_failure';
end $$;
create constraint trigger late after insert on pgmq.q_orders initially deferred
for each row execute function late()""")
    with pytest.raises(Conflict, match="not today"):
        in_a_transaction(client)
    with pytest.raises(Conflict, match="not today"):
        client.queue("orders").send(1)


def in_a_transaction(client: Client) -> None:
    with client.transaction():
        client.queue("orders").send(1)


def test_a_call_that_is_broken_off_harms_no_later_one(
    client: Client, axe: Axe, db: Database
) -> None:
    orders = client.queue("orders")
    orders.send(1)
    holder = db.connect(autocommit=False)
    holder.execute("lock table pgmq.q_orders in access exclusive mode")
    assert is_broken_off(orders.send, 2, when=lambda: bool(axe.ask(WAITING)))
    holder.rollback()
    assert orders.send(3) > 1
    assert axe.ask("select count(*) from pgmq.q_orders") == 2


WAITING = (
    "select count(*) from pg_stat_activity where application_name = 'pgqueue' and wait_event_type = 'Lock'"
)


def test_a_conflict_is_tried_again_where_nothing_else_was_done(
    client: Client, db: Database
) -> None:
    """Case 139: up to three times; in a transaction it is the caller who must run it again."""
    client.create("orders")
    orders = client.queue("orders")
    db.connect().execute("""\
create sequence tries;
create function twice() returns trigger language plpgsql as $$
begin
    if nextval('tries') % 3 <> 0 then
        raise exception 'not now' using errcode = 'serialization_failure';
    end if;
    return null;
end $$;
create trigger twice after insert on pgmq.q_orders for each row execute function twice()""")
    assert orders.send(1) == 3
    assert orders.send(2) == 6
    with pytest.raises(Conflict, match="not now"):
        in_a_transaction(client)


def test_the_callers_connection_is_not_replaced(axe: Axe, db: Database) -> None:
    conn = psycopg.Connection.connect(db.dsn, application_name="callers")
    orders = Client(conn).queue("orders")
    orders.send(1)
    assert axe.cut("application_name = 'callers'") == 1
    with pytest.raises(ConnectionLost) as caught:
        orders.send(2)
    assert not isinstance(caught.value, InDoubt), "its transaction was open, and is gone"
    with pytest.raises(ConnectionLost):
        orders.send(3)
    conn.close()
    with pytest.raises(ConnectionLost):
        Client(conn).queue("orders").send(4)


def test_a_server_that_is_gone_cannot_be_connected(new_server: Callable[..., Server]) -> None:
    server = new_server(synchronous_commit="on")
    dsn = uri(server.conninfo)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(our_sql().encode())
    with Client(dsn) as client:
        client.create("orders")
        orders = client.queue("orders")
        orders.send(1)
        server.crash()
        with pytest.raises(CannotConnect):
            orders.send(2)
        server.start()
        assert orders.send(3) > 1


# --- pools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pool_lends_a_connection_for_each_call(db: Database, axe: Axe, autocommit: bool) -> None:
    with pool_of(db.dsn, 2, autocommit=autocommit) as pool:
        client = Client(pool)
        orders = client.queue("orders")
        assert orders.send(1) == 1
        assert axe.ask("select count(*) from pgmq.q_orders") == 1, "each call commits by itself"
        with client.transaction() as conn:
            orders.send(2)
            (conn.execute("select 1")).fetchone()
            assert axe.ask("select count(*) from pgmq.q_orders") == 1
        assert axe.ask("select count(*) from pgmq.q_orders") == 2
        with pytest.raises(ZeroDivisionError):
            send_and_fail(client)
        assert axe.ask("select count(*) from pgmq.q_orders") == 2
        assert orders.send_bulk([3, 4]) == 2
        assert len(client.send_all([orders.outgoing(5), orders.outgoing(6)])) == 2
        with pool.connection() as conn:
            assert conn.autocommit is autocommit, "it goes back as it came"
        assert axe.ask("select count(*) from pg_stat_activity where state like 'idle in%'") == 0
        client.close()
        assert not pool.closed


def send_and_fail(client: Client) -> None:
    with client.transaction():
        client.queue("orders").send(3)
        raise ZeroDivisionError


def test_a_pool_whose_connections_were_all_lost_goes_on(db: Database, axe: Axe) -> None:
    with pool_of(db.dsn, 4) as pool:
        pool.wait()
        orders = Client(pool).queue("orders")
        assert axe.cut("application_name = 'pool'") == 4
        assert orders.send(1) == 1


def test_a_pool_that_is_busy_is_told(db: Database, axe: Axe) -> None:
    with pool_of(db.dsn, 1, timeout=0.1) as pool, pool.connection():
        with pytest.raises(CannotConnect, match="the pool gave no connection"):
            Client(pool).queue("orders").send(1)


def undone(client: Client, beside: Callable[[], Background]) -> None:
    """A transaction that waits for others to come to an end, and is rolled back."""
    with client.transaction():
        client.queue("orders").send("undone")
        beside().join()
        raise ZeroDivisionError


def test_transactions_of_two_tasks_do_not_mix(db: Database, axe: Axe) -> None:
    with pool_of(db.dsn, 2) as pool:
        client = Client(pool)

        def elsewhere() -> None:
            client.queue("orders").send("elsewhere")

        with pytest.raises(ZeroDivisionError):
            undone(client, lambda: Background(elsewhere, own_context=True))
    assert axe.ask("select message #>> '{}' from pgmq.q_orders") == "elsewhere"


def test_what_a_transaction_started_and_outlives_it_is_not_drawn_into_the_next(
    db: Database, axe: Axe
) -> None:
    ended = False
    with pool_of(db.dsn, 2) as pool:
        client = Client(pool)

        def later() -> None:
            while not ended:
                sleep(0.01)
            client.queue("orders").send("later")

        with client.transaction():
            other = Background(later)
            with client.transaction():
                client.queue("orders").send("first")

        def begun() -> Background:
            nonlocal ended
            ended = True
            return other

        with pytest.raises(ZeroDivisionError):
            undone(client, begun)
    assert (
        axe.ask("select string_agg(message #>> '{}', ' ' order by msg_id) from pgmq.q_orders")
        == "first later"
    )


def test_a_pools_connection_that_has_been_notified(db: Database, axe: Axe) -> None:
    """What the server said unasked is no lost connection, nor the begin of a transaction."""
    with pool_of(db.dsn, 1, timeout=5) as pool:
        with pool.connection() as conn:
            conn.execute("listen here")
        orders = Client(pool).queue("orders")
        for turn in range(1, 4):
            axe.ask("select 1 from pg_notify('here', '')")
            assert orders.send(turn) == turn
        with pool.connection() as conn:
            assert not conn.autocommit
    assert axe.ask("select count(*) from pgmq.q_orders") == 3


def test_others_wait_while_the_one_connection_has_a_transaction(db: Database, axe: Axe) -> None:
    """They are not drawn into it."""
    with Client(db.dsn) as client:

        def elsewhere() -> None:
            client.queue("orders").send("elsewhere")

        other = None
        try:
            with client.transaction():
                other = Background(elsewhere, own_context=True)
                client.queue("orders").send("here")
                sleep(0.05)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert other is not None
        other.join()
    assert axe.ask("select message #>> '{}' from pgmq.q_orders") == "elsewhere"


# --- by compiled functions, or by name -------------------------------------------------------------


def statements_of(client: Client) -> str:
    with client.transaction() as conn:
        cursor = conn.execute(
            "select coalesce(string_agg(statement, ';'), '') from pg_prepared_statements"
        )
        row = cursor.fetchone()
        assert row is not None
        return str(row[0])


def test_compiled_functions_are_called_with_few_prepared_statements(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    for size in (1, 100_000, 2**40):
        orders.delete(size)
        orders.delete_many([size])
    statements = statements_of(client)
    assert statements.count('pgqueue."orders$delete"(') == 1, "whatever the size of the number"
    assert statements.count('pgqueue."orders$delete_batch"(') == 1
    assert "pgmq.delete" not in statements


def test_a_queue_without_compiled_functions_is_called_by_name(
    client: Client, db: Database
) -> None:
    client.create("x" * 47)
    client.create("y" * 20 + "ä" * 20)
    db.connect().execute("select pgqueue.decompile(%s)", ["x" * 47])
    for name in ("x" * 47, "y" * 20 + "ä" * 20):
        queue = client.queue(name)
        queue.send(1)
        (message,) = queue.read()
        message.extend(30)
        assert queue.fetch(done=[message]) == []
        assert (queue.metrics()).queue_length == 0


def test_a_queue_that_is_compiled_no_more_is_called_by_name(client: Client, db: Database) -> None:
    client.create("orders")
    orders = client.queue("orders")
    orders.send(1)
    db.connect().execute("select pgqueue.decompile('orders')")
    assert orders.send(2) == 2


def test_to_several_queues_of_which_one_is_compiled_no_more(client: Client, db: Database) -> None:
    client.create("orders")
    client.create("bills")
    messages = [client.queue(name).outgoing(1) for name in ("orders", "bills", "orders")]
    assert client.send_all(messages) == [1, 1, 2]
    db.connect().execute("select pgqueue.decompile('orders')")
    assert client.send_all(messages) == [3, 2, 4]
    db.connect().execute("select pgqueue.decompile('bills')")
    with pytest.raises(Conflict, match="run the transaction again"):
        with client.transaction():
            client.send_all(messages)
    client.drop_queue("bills")
    with pytest.raises(NoSuchQueue, match='"bills" does not exist'):
        client.send_all(messages)
    assert (client.queue("orders").metrics()).queue_length == 4


def test_in_a_transaction_that_is_a_conflict(client: Client, db: Database) -> None:
    """Another statement of the same transaction cannot follow: it is to be run again."""
    client.create("orders")
    client.queue("orders").send(1)
    db.connect().execute("select pgqueue.decompile('orders')")
    with pytest.raises(Conflict, match="run the transaction again"):
        in_a_transaction(client)
    in_a_transaction(client)
    assert (client.queue("orders").metrics()).queue_length == 2


def test_a_queue_that_is_dropped_and_made_again(client: Client) -> None:
    client.create("orders")
    orders = client.queue("orders")
    orders.send(1)
    client.drop_queue("orders")
    with pytest.raises(NoSuchQueue, match='"orders" does not exist'):
        orders.send(2)
    client.create("orders")
    assert orders.send(3) == 1


def test_a_queue_that_is_made_after_it_was_missed_is_called_by_its_functions(
    client: Client,
) -> None:
    orders = client.queue("orders")
    with pytest.raises(NoSuchQueue, match='"orders" does not exist'):
        orders.send(2)
    client.create("orders")
    orders.send(3)
    assert 'pgqueue."orders$send"' in statements_of(client)


def test_asking_whether_a_queue_is_compiled_breaks_no_transaction(
    reference_db: Database,
) -> None:
    """Also on pgmq's own SQL, which has no schema pgqueue."""
    with psycopg.Connection.connect(reference_db.dsn) as conn:
        guest = Client(conn)
        guest.create("orders")
        orders = guest.queue("orders")
        orders.send({"a": 1})
        (message,) = orders.read()
        message.extend(30)
        assert orders.archive_many([message.msg_id]) == [1]
        assert orders.send_bulk([1, 2], headers=[{"h": 1}, None]) == 2
        assert [one.headers for one in orders.pop(qty=2)] == [{"h": 1}, None]
        conn.rollback()


# --- several queues at once ------------------------------------------------------------------------


def test_messages_to_several_queues_stand_or_fall_together(client: Client, axe: Axe) -> None:
    client.create("mails")
    orders, mails = client.queue("orders"), client.queue("mails")
    assert client.send_all([orders.outgoing(1), mails.outgoing(2, delay=5), orders.outgoing(3)]) == [
        1,
        1,
        2,
    ]
    with pytest.raises(NoSuchQueue):
        client.send_all([orders.outgoing(1), client.queue("nope").outgoing(1), mails.outgoing(1)])
    assert axe.ask("select count(*) from pgmq.q_orders") == 2
    assert axe.ask("select count(*) from pgmq.q_mails where vt > now()") == 1
    assert client.send_all([]) == []


def test_several_in_the_callers_transaction(
    client: Client, owned: psycopg.Connection[Any], axe: Axe
) -> None:
    guest = Client(owned)
    assert guest.send_all([guest.queue("orders").outgoing(n) for n in range(3)]) == [1, 2, 3]
    assert axe.ask("select count(*) from pgmq.q_orders") == 0
    owned.commit()
    assert axe.ask("select count(*) from pgmq.q_orders") == 3
