"""Rights as in pgmq: schema pgmq is closed, and the rights on a queue's tables decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.databases import Database, our_sql
from tests.sql.asking import Connection, column, do, outcome, rows, sqlstate, value
from tests.sql.calls import DENIED, RIGHTS_OF_A_CREATOR, calls, furnish, outcomes

# --- nothing granted ------------------------------------------------------------------------------

STATE = """
    select 'relation', c.oid::regclass::text, concat_ws(' ', c.relowner, c.relacl, c.relkind)
    from pg_class c where c.relnamespace = any(array['pgmq', 'pgqueue']::regnamespace[])
    union all
    select 'function', p.oid::regprocedure::text, concat_ws(' ', p.proowner, p.proacl, p.prosrc)
    from pg_proc p where p.pronamespace = any(array['pgmq', 'pgqueue']::regnamespace[])
    union all select 'meta', queue_name, m::text from pgmq.meta m
    union all select 'throttle', queue_name, t::text from pgmq.notify_insert_throttle t
    union all select 'binding', queue_name, t::text from pgmq.topic_bindings t
    union all select 'policy', queue_name, p::text from pgqueue.policy p
    union all select 'partitioning', table_name, p::text from pgqueue.partitioning p
    union all select 'tick', name, t::text from pgqueue.tick t
    union all select 'migration', name, m::text from pgqueue.migration m
    union all select 'message', msg_id::text, m::text from pgmq.q_orders m
    union all select 'archived', msg_id::text, m::text from pgmq.a_orders m
    order by 1, 2, 3"""


#: Functions of schema pgqueue that touch no data: texts in, text out, or an error about its arguments.
PURE = {
    "_check_batch",
    "_check_characters",
    "_check_name",
    "_check_partitioning",
    "_compiled_texts",
    "_direct_calls",
    "_due_keys",
    "_filled",
    "_may_be_free",
    "_lost_lease",
    "_object_name",
    "_partition_name",
    "_partition_start",
    "_span",
}
#: Those that ask the catalogue or pgqueue.partitioning, which are everybody's to read.
CATALOGUE = {
    "_check_archive",
    "_default_partition",
    "_has_fifo_index",
    "_has_table",
    "_last_id",
    "_is_partitioned",
    "_relation_exists",
    "_is_partitioned_by_id",
    "_leave_partman",
    "_lock_queue",
    "_maintain",
    "_notified",
    "_partition_bounds",
}
#: Open to all, and run as the installation's owner: they must change nothing for a stranger.
OPEN = {
    "_check_case_collision",
    "_compile_as_owner",
    "_forget",
    "_make_notified_sequence",
    "_write_direct_calls",
}


def test_a_stranger_is_denied_everything(db: Database, conn: Connection) -> None:
    """case 107, case 109: a role with no grant gets 42501 from every function that touches data."""
    furnish(conn)
    stranger = db.connect(user=db.create_role())
    statements = calls(conn, "pgmq", "pgqueue")
    before = rows(conn, STATE)
    found = outcomes(stranger, statements)
    assert len(found) > 150
    names = {signature: signature.split("(")[0].split(".")[-1].strip('"') for signature in found}
    wrong = {
        signature: state
        for signature, state in found.items()
        if state != DENIED
        and not names[signature].endswith("$floor")  # sequences alone; the start where it may not
        and not (signature.startswith("pgqueue.") and names[signature] in PURE | CATALOGUE | OPEN)
    }
    assert wrong == {}
    assert set(names.values()) >= (PURE | CATALOGUE | OPEN), "the lists name functions that are gone"
    assert rows(conn, STATE) == before


def test_what_is_open_to_all_changes_nothing_for_strangers(db: Database, conn: Connection) -> None:
    """Helpers that run as the owner, called with every name that might be worth something, and committed."""
    furnish(conn)
    do(conn, "insert into pgqueue.policy (queue_name, compiled) values ('', true)")
    do(conn, "select pgqueue.decompile('other')")
    stranger = db.connect(user=db.create_role())
    before = rows(conn, STATE)
    names = [
        "orders",
        "ORDERS",
        "other",
        "parts",
        "",
        "nope",
        "parts$p0",
        "$walk",
        "orders$walk",
        "migration",
    ]
    for name in names:
        for helper in sorted(OPEN):
            outcome(stranger, f"select pgqueue.{helper}(%s)", name)
    assert rows(conn, STATE) == before
    assert value(conn, "select to_regproc('pgqueue.\"other$read\"') is null"), "decompiled stays so"


def test_public_has_usage_of_pgqueue_and_nothing_of_pgmq(db: Database, conn: Connection) -> None:
    """case 107"""
    furnish(conn)
    stranger = db.create_role()
    query = """
        select n.nspname, has_schema_privilege(%s, n.oid, 'usage'), has_schema_privilege(%s, n.oid, 'create')
        from pg_namespace n where n.nspname in ('pgmq', 'pgqueue') order by 1"""
    assert rows(conn, query, stranger, stranger) == [("pgmq", False, False), ("pgqueue", True, False)]
    query = """
        select c.relname from pg_class c
        where c.relkind in ('r', 'p') and c.relnamespace = any(array['pgmq', 'pgqueue']::regnamespace[])
            and has_table_privilege(%s, c.oid, 'select, insert, update, delete, truncate')
        order by 1"""
    assert column(conn, query, stranger) == ["partitioning", "tick"], "whose rows a trigger guards"


# --- as in pgmq -----------------------------------------------------------------------------------

Grant = Callable[[Connection, str], None]


def nothing_but_usage(conn: Connection, role: str) -> None:
    do(conn, f"grant usage on schema pgmq to {role}")


def one_queue(conn: Connection, role: str) -> None:
    nothing_but_usage(conn, role)
    do(conn, f"grant select, insert, update, delete on pgmq.q_orders, pgmq.a_orders to {role}")


def one_queue_and_its_sequence(conn: Connection, role: str) -> None:
    one_queue(conn, role)
    do(conn, f"grant select on sequence pgmq.q_orders_msg_id_seq to {role}")


def all_tables(conn: Connection, role: str) -> None:
    nothing_but_usage(conn, role)
    do(conn, f"grant select, insert, update, delete, truncate on all tables in schema pgmq to {role}")
    do(conn, f"grant select on all sequences in schema pgmq to {role}")


def one_that_creates(conn: Connection, role: str) -> None:
    nothing_but_usage(conn, role)
    do(conn, f"grant create on schema pgmq to {role}")
    do(conn, f"grant select, insert, delete on pgmq.meta to {role}")


FURNITURE = """
    select pgmq.create('orders'), pgmq.create('other');
    select pgmq.enable_notify_insert('orders'), pgmq.bind_topic('a.*', 'orders');
    select pgmq.send_batch('orders', array['{}', '{}', '{}']::jsonb[]);
"""

#: Where one refuses a role and the other does not: (pgmq works, ours works), and why.
BETTER = {
    "send": (
        (False, True),
        "pgmq's notify trigger writes its throttle table as the sender; ours runs as the owner",
    ),
    "send_batch": ((False, True), "the same"),
    "purge_queue": ((False, True), "row by row for who may not truncate"),
    "enable_notify_insert": ((False, True), "nothing to do: the trigger is there"),
    "drop_queue": ((True, False), "pgmq says of a queue that this role cannot see: it does not exist"),
}


@pytest.mark.parametrize(
    "grant", [nothing_but_usage, one_queue, one_queue_and_its_sequence, all_tables, one_that_creates]
)
def test_a_role_needs_the_rights_that_pgmq_asks(db: Database, reference_db: Database, grant: Grant) -> None:
    """case 106, case 113: with the same grants, each function works where it does in pgmq."""
    works = []
    for database in (reference_db, db):
        owner = database.connect()
        do(owner, FURNITURE)
        role = database.create_role()
        grant(owner, role)
        user = database.connect(user=role)
        statements = {
            signature: statement
            for signature, statement in calls(owner, "pgmq", poll=1).items()
            if not signature.startswith("pgmq._") and "partitioned" not in signature
        }
        works.append({s: state == "" for s, state in outcomes(user, statements).items()})
    reference, ours = works
    public = reference.keys() & ours.keys()
    assert len(public) > 60
    differing = {s: (reference[s], ours[s]) for s in public if reference[s] != ours[s]}
    name = {s: s.split("(")[0].removeprefix("pgmq.") for s in differing}
    assert {s: pair for s, pair in differing.items() if BETTER.get(name[s], ((), ""))[0] != pair} == {}


@pytest.mark.parametrize("missing", [None, *RIGHTS_OF_A_CREATOR])
def test_a_role_that_could_create_under_pgmq_can_under_ours(
    db: Database, reference_db: Database, missing: str | None
) -> None:
    """Creating, using and dropping need no more rights than with pgmq; with one less, both refuse."""
    seen = []
    for database in (reference_db, db):
        role = database.create_role("maker")
        for right, grant in RIGHTS_OF_A_CREATOR.items():
            if right != missing:
                do(database.connect(), grant.format(role))
        maker = database.connect(user=role)
        seen.append(
            [
                sqlstate(maker, statement)
                for statement in (
                    "select pgmq.create('mine')",
                    "select pgmq.send('mine', '{}')",
                    "select pgmq.read('mine', 0, 1)",
                    "select pgmq.archive('mine', 1)",
                    "select pgmq.drop_queue('mine')",
                )
            ]
        )
    reference, ours = seen
    assert ours == reference
    assert (set(ours) == {""}) == (missing is None)


# --- rights on one queue --------------------------------------------------------------------------

#: What a consumer or producer does with one queue, by name and by its compiled functions.
USE = {
    "send": "select pgmq.send('{q}', '{{}}')",
    "send delayed": "select pgmq.send('{q}', '{{}}', '{{}}', 5)",
    "send_batch": "select pgmq.send_batch('{q}', array['{{}}', '{{}}']::jsonb[])",
    "read": "select pgmq.read('{q}', 30, 1)",
    "read where": "select pgmq.read('{q}', 30, 1, '{{\"a\": 1}}')",
    "read_with_poll": "select pgmq.read_with_poll('{q}', 30, 1, 0)",
    "read_grouped": "select pgmq.read_grouped('{q}', 30, 1)",
    "read_grouped_rr": "select pgmq.read_grouped_rr('{q}', 30, 1)",
    "read_grouped_head": "select pgmq.read_grouped_head('{q}', 30, 1)",
    "pop": "select pgmq.pop('{q}')",
    "set_vt": "select pgmq.set_vt('{q}', 1, 30)",
    "set_vt many": "select pgmq.set_vt('{q}', array[1, 2]::bigint[], 30)",
    "archive": "select pgmq.archive('{q}', 1)",
    "archive many": "select pgmq.archive('{q}', array[1, 2]::bigint[])",
    "delete": "select pgmq.delete('{q}', 1)",
    "delete many": "select pgmq.delete('{q}', array[1, 2]::bigint[])",
    "purge": "select pgmq.purge_queue('{q}')",
    "peek": "select pgqueue.peek('{q}')",
    "counts": "select pgqueue.counts('{q}')",
    "fetch": "select pgqueue.fetch('{q}', 30, 1, array[1]::bigint[], array[1])",
}
COMPILED = {
    "compiled send": "select pgqueue.\"{q}$send\"('{{}}')",
    "compiled send_batch": "select pgqueue.\"{q}$send_batch\"(array['{{}}']::jsonb[])",
    "compiled read": 'select pgqueue."{q}$read"(30, 1)',
    "compiled pop": 'select pgqueue."{q}$pop"()',
    "compiled archive": 'select pgqueue."{q}$archive"(1)',
    "compiled delete": 'select pgqueue."{q}$delete"(1)',
    "compiled set_vt": 'select pgqueue."{q}$set_vt"(1, now())',
    "compiled fetch": 'select pgqueue."{q}$fetch"(30, 1)',
}
KINDS = {
    "plain": "select pgmq.create('{q}')",
    "unlogged": "select pgmq.create_unlogged('{q}')",
    "partitioned": "select pgmq.create_partitioned('{q}', '10', '100')",
    "grouped": "select pgmq.create('{q}'), pgmq.create_fifo_index('{q}')",
    "loud": "select pgmq.create('{q}'), pgmq.enable_notify_insert('{q}', 0)",
    "uncompiled": "select pgmq.create('{q}'), pgqueue.decompile('{q}')",
}


@pytest.mark.parametrize("kind", KINDS)
def test_rights_on_two_tables_are_rights_on_one_queue(db: Database, conn: Connection, kind: str) -> None:
    """case 110, case 112: rights on a queue's tables let a role use it and no other; no search path."""
    for queue in ("mine", "yours"):
        do(conn, KINDS[kind].format(q=queue))
        do(conn, f"select pgmq.send('{queue}', '{{}}') from generate_series(1, 40)")
    role = db.create_role("user")
    do(conn, f"grant usage on schema pgmq to {role}")
    do(conn, f"grant select, insert, update, delete on pgmq.q_mine, pgmq.a_mine to {role}")
    user = db.connect(user=role, options="-c search_path=")
    statements = USE | (COMPILED if kind != "uncompiled" else {})
    allowed = {what: outcome(user, sql.format(q="mine")) for what, sql in statements.items()}
    assert {what: found for what, found in allowed.items() if found[0]} == {}
    messages = rows(conn, "select * from pgmq.q_yours order by msg_id")
    refused = {what: sqlstate(user, sql.format(q="yours")) for what, sql in statements.items()}
    assert {what: state for what, state in refused.items() if state != DENIED} == {}
    assert rows(conn, "select * from pgmq.q_yours order by msg_id") == messages
    makes = {"pgmq.drop_queue", "pgmq.create_fifo_index", "pgmq.enable_notify_insert", "pgqueue.compile"}
    makes |= {"pgqueue.decompile", "pgmq.convert_archive_partitioned"}
    nothing_to_do = {
        "grouped": {"pgmq.create_fifo_index"},
        "partitioned": {"pgmq.convert_archive_partitioned"},
    }
    for function in makes - nothing_to_do.get(kind, set()):
        assert sqlstate(user, f"select {function}('mine')") == DENIED, function
    assert sqlstate(user, "select pgmq.create('more')") == DENIED


def test_rights_to_send_only(db: Database, conn: Connection) -> None:
    """INSERT (and SELECT, for the id) let a role send and neither read nor delete."""
    do(conn, "select pgmq.create('orders')")
    role = db.create_role("sender")
    do(conn, f"grant usage on schema pgmq to {role}")
    do(conn, f"grant insert, select on pgmq.q_orders to {role}")
    sender = db.connect(user=role)
    assert value(sender, "select pgmq.send('orders', '{}')") == 1
    for statement in ("read('orders', 0, 1)", "pop('orders')", "delete('orders', 1)", "archive('orders', 1)"):
        assert sqlstate(sender, f"select pgmq.{statement}") == DENIED, statement


def test_a_sender_without_rights_on_the_throttle_notifies(db: Database, conn: Connection) -> None:
    do(conn, "select pgmq.create('loud'), pgmq.enable_notify_insert('loud', 0)")
    role = db.create_role("sender")
    do(conn, f"grant usage on schema pgmq to {role}; grant insert, select on pgmq.q_loud to {role}")
    do(conn, 'listen "pgmq.q_loud.INSERT"')
    do(db.connect(user=role), "select pgmq.send('loud', '{}')")
    assert [note.channel for note in conn.notifies(timeout=5, stop_after=1)] == ["pgmq.q_loud.INSERT"]


# --- hardened defaults ----------------------------------------------------------------------------

HARDEN = """
    alter default privileges revoke execute on functions from public;
    alter default privileges revoke usage on types from public;
"""


@pytest.mark.parametrize("when", ["before install", "before create"])
def test_hardened_default_privileges_need_no_further_grant(empty_db: Database, when: str) -> None:
    owner = empty_db.connect()
    if when == "before install":
        do(owner, HARDEN)
    do(owner, our_sql())
    if when == "before create":
        do(owner, HARDEN)
    do(owner, "select pgmq.create('mine'), pgmq.create_fifo_index('mine')")
    do(owner, "select pgmq.enable_notify_insert('mine')")
    do(owner, "select pgmq.send('mine', '{}') from generate_series(1, 20)")
    role = empty_db.create_role("user")
    do(owner, f"grant usage on schema pgmq to {role}")
    do(owner, f"grant select, insert, update, delete on pgmq.q_mine, pgmq.a_mine to {role}")
    user = empty_db.connect(user=role)
    found = {what: outcome(user, sql.format(q="mine")) for what, sql in (USE | COMPILED).items()}
    assert {what: failure for what, failure in found.items() if failure[0]} == {}


# --- a wrapper of the user's own ------------------------------------------------------------------


def test_a_definer_wrapper_sends_for_who_may_not(db: Database, conn: Connection) -> None:
    """case 105: a trigger that sends, by a definer function with a pinned search path."""
    do(
        conn,
        """
        select pgmq.create('signups');
        create schema app;
        create table app.users (id bigint primary key, name text);
        create function app.announce() returns trigger
        language plpgsql security definer set search_path = '' as $$
        begin
            perform pgmq.send('signups', pg_catalog.to_jsonb(new));
            return new;
        end $$;
        create trigger announce after insert on app.users for each row execute function app.announce();
        """,
    )
    role = db.create_role("web")
    do(conn, f"grant usage on schema app to {role}; grant insert on app.users to {role}")
    web = db.connect(user=role)
    do(web, "insert into app.users values (1, 'ann')")
    assert sqlstate(web, "select pgmq.send('signups', '{}')") == DENIED
    assert rows(conn, "select message from pgmq.read('signups', 0, 10)") == [({"id": 1, "name": "ann"},)]


# --- sequences that everybody may set -------------------------------------------------------------

ABUSES = ["-4611686018427387904", "0", "1", "9223372036854775807", "1, false"]


@pytest.mark.parametrize("abuse", ABUSES)
def test_who_sets_the_sequences_loses_nothing_of_others(db: Database, conn: Connection, abuse: str) -> None:
    """Every message is delivered, sends go through, and the queue is right again within the second."""
    do(conn, "select pgmq.create('orders'), pgmq.enable_notify_insert('orders', 0)")
    do(conn, "select pgmq.send('orders', '{}') from generate_series(1, 600)")
    do(conn, "select pgmq.pop('orders', 400)")
    do(conn, "select pgmq.read('orders', -5, 3)")
    stranger = db.connect(user=db.create_role())
    for sequence in ("walk", "floor_id", "floor_vt", "notified"):
        refused = sqlstate(stranger, f"select setval('pgqueue.\"orders${sequence}\"', {abuse})")
        assert refused == ("22003" if sequence == "floor_vt" and abuse.startswith("-") else "")
    do(conn, 'listen "pgmq.q_orders.INSERT"')
    do(conn, "select pgmq.send('orders', '{}')")
    assert len(list(conn.notifies(timeout=5, stop_after=1))) == 1
    do(conn, "select pgmq.set_vt('orders', 450, 0)")
    found = set()
    while batch := column(conn, "select msg_id from pgmq.pop('orders', 50)"):
        found.update(batch)
    assert found == set(range(401, 602))


@pytest.mark.parametrize("sequence", ["walk", "floor_vt", "notified"])
def test_a_sequence_takes_no_value_that_overflows(db: Database, conn: Connection, sequence: str) -> None:
    do(conn, "select pgmq.create('orders'), pgmq.enable_notify_insert('orders', 0)")
    stranger = db.connect(user=db.create_role())
    least = f"select setval('pgqueue.\"orders${sequence}\"', -9223372036854775808)"
    assert sqlstate(stranger, least) == "22003"
    assert sqlstate(stranger, f'alter sequence pgqueue."orders${sequence}" minvalue -9') == DENIED
    assert sqlstate(stranger, f'drop sequence pgqueue."orders${sequence}"') == DENIED
