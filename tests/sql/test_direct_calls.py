"""Functions that take a queue's name call the functions of the first 32 queues directly, all others by text."""

from __future__ import annotations

import re

import pytest

from tests.databases import Database, our_sql
from tests.sql.asking import Connection, column, do, rows, sqlstate, value
from tests.sql.sessions import Session

#: What is written into: six overloads of send, two of set_vt, one each of the others.
FUNCTIONS = """
    select p.oid::regprocedure::text, p.prosrc from pg_proc p
    where p.pronamespace = any(array['pgmq', 'pgqueue']::regnamespace[]) and p.prosrc ~ '\n *-- direct: '
    order by 1"""
COUNTS = {"archive": 1, "complete": 1, "delete": 1, "fetch": 1, "pop": 1, "read": 1, "send": 6, "set_vt": 2}

#: Every way to call one of them, with what it gives for a queue that holds messages 1 to 9.
CALLS = {
    "select pgmq.send('{0}', '{{}}')": "10",
    "select pgmq.send('{0}', '{{}}', 0)": "11",
    "select pgmq.send('{0}', '{{}}', now())": "12",
    "select pgmq.send('{0}', '{{}}', '{{\"a\": 1}}'::jsonb)": "13",
    "select pgmq.send('{0}', '{{}}', null, 0)": "14",
    "select pgmq.send('{0}', '{{}}', null, now())": "15",
    "select msg_id from pgmq.read('{0}', 60, 1)": "1",
    "select msg_id from pgmq.set_vt('{0}', 1, 60)": "1",
    "select msg_id from pgmq.set_vt('{0}', 1, now() + interval '1 minute')": "1",
    "select pgmq.delete('{0}', 1)": "True",
    "select msg_id from pgmq.pop('{0}')": "2",
    "select pgmq.archive('{0}', 3)": "True",
    "select msg_id from pgqueue.fetch('{0}', 60, 1, array[4])": "5",
    "select pgqueue.complete('{0}', 5, 1)": "",
    "select count(*) from pgmq.q_{0}": "10",
}


def make(conn: Connection, *names: str) -> None:
    for name in names:
        conn.execute("select pgmq.create(%s)", [name])


def called(conn: Connection) -> set[str]:
    """Names of the queues that are called directly: the same in every function."""
    found = {
        function: tuple(re.findall(r'^ *[a-z:= _*]* pgqueue."(\w+)\$\w+"\(', body, re.M))
        for function, body in rows(conn, FUNCTIONS)
    }
    kinds = [re.sub(r'.*\.|\(.*|"', "", function) for function in found]
    assert {kind: kinds.count(kind) for kind in kinds} == COUNTS
    (names,) = set(found.values())
    assert list(names) == sorted(names), "two databases with the same queues have the same functions"
    listed = {
        match for _, body in rows(conn, FUNCTIONS) for match in re.findall("array_position\\('(.*?)'", body)
    }
    assert listed == ({"{" + ",".join(names) + "}"} if names else set())
    return set(names)


def let_others_fail(conn: Connection) -> None:
    """Whoever does not call directly hears of it."""
    definitions = "select pg_get_functiondef(f.name::regprocedure) from unnest(%s::text[]) f (name)"
    for definition in column(conn, definitions, [row[0] for row in rows(conn, FUNCTIONS)]):
        changed, count = re.subn(r"( *-- others.*\n)", r"\1raise division_by_zero;\n", definition)
        assert count == 1
        conn.execute(changed.encode())


def test_every_call_of_a_queue_is_direct(conn: Connection) -> None:
    make(conn, "orders", "b", "z_9", "0")
    let_others_fail(conn)
    assert called(conn) == {"orders", "b", "z_9", "0"}
    for queue in ("orders", "b", "z_9"):
        do(conn, f"select pgmq.send_batch('{queue}', array_fill('{{}}'::jsonb, array[9]))")
        for call, right in CALLS.items():
            assert str(value(conn, call.format(queue))) == right, call
    for call in list(CALLS)[:-1]:
        assert sqlstate(conn, call.format("ORDERS")) == "22012", "capitals go the other way"


def test_none_is_called_where_there_is_none(conn: Connection) -> None:
    assert called(conn) == set()
    make(conn, "a")
    assert called(conn) == {"a"}
    conn.execute("select pgmq.drop_queue('a')")
    assert called(conn) == set()


def test_the_first_32_are_and_all_others_work(conn: Connection) -> None:
    names = [f"q{number:02}" for number in range(40, 0, -1)]
    make(conn, *names)
    assert called(conn) == set(names[:32])
    conn.execute("select pgmq.drop_queue('q30')")
    assert called(conn) == set(names[:33]) - {"q30"}
    sent = "select count(*) from unnest(%s::text[]) n (name), pgmq.send(n.name, to_jsonb(n.name))"
    names.remove("q30")
    assert value(conn, sent, names) == 39
    read = "select n.name = m.message #>> '{}' from unnest(%s::text[]) n (name), pgmq.read(n.name, 60, 1) m"
    assert column(conn, read, names) == [True] * 39


@pytest.mark.parametrize("name", ["Orders", 'a"b', "a\nb", "a b", "\\2", "ä", "@a"])
def test_only_plain_names_are_written_into_functions(conn: Connection, name: str) -> None:
    longest = "x" * 47
    make(conn, "plain", name, longest)
    assert called(conn) == {"plain", longest}
    assert value(conn, "select pgmq.send(%s, '{}')", name) == 1
    assert value(conn, "select msg_id from pgmq.read(%s, 60, 1)", name) == 1


def test_which_queue_is_meant_hangs_on_its_whole_name(conn: Connection) -> None:
    names = ["a", "aa", "a_", "_a", "b", "a0", "0a"]
    make(conn, *names)
    for name in names:
        assert value(conn, "select pgmq.send(%s, %s)", name, f'"{name}"') == 1
    for name in names:
        assert value(conn, "select message #>> '{}' from pgmq.pop(%s)", name) == name


def test_a_queue_that_is_not_compiled_is_not(conn: Connection) -> None:
    make(conn, "a", "b")
    conn.execute("select pgqueue.decompile('a')")
    assert called(conn) == {"b"}
    assert value(conn, "select pgmq.send('a', '{}')") == 1
    conn.execute("select pgqueue.compile('a')")
    assert called(conn) == {"a", "b"}


def test_while_another_transaction_is_at_it(conn: Connection, db: Database) -> None:
    """Nobody waits: what was made or dropped meanwhile goes the other way until the next change."""
    make(conn, "a", "b")
    other = db.connect(autocommit=False)
    make(other, "late")
    make(conn, "c")
    conn.execute("select pgmq.drop_queue('a')")
    assert called(conn) == {"a", "b"}
    assert sqlstate(conn, "select pgmq.send('a', '{}')") == "42P01"
    assert value(conn, "select pgmq.send('c', '{}')") == 1
    other.rollback()
    make(conn, "d")
    assert called(conn) == {"b", "c", "d"}


def test_while_rights_are_granted(conn: Connection, db: Database) -> None:
    """Postgres cannot change a function twice at once: creating a queue waits, but does not fail."""
    make(conn, "a")
    admin, creator, observer = (
        db.connect(autocommit=False),
        Session(db.dsn),
        Session(db.dsn_for(db.superuser)),
    )
    admin.execute("grant execute on function pgmq.pop(text, integer) to public")
    creator.start("select pgmq.create('b')")
    assert not creator.settles(observer)
    admin.commit()
    creator.finish()
    creator.close()
    observer.close()
    assert called(conn) == {"a"}
    assert value(conn, "select pgmq.send('b', '{}')") == 1
    make(conn, "c")
    assert called(conn) == {"a", "b", "c"}


def test_a_queue_made_anew_under_its_name(conn: Connection, db: Database) -> None:
    """A session that has called it keeps no plan of what is gone."""
    make(conn, "a")
    caller = db.connect()
    for _ in range(3):
        assert value(caller, "select pgmq.send('a', '{}')") == 1
        assert value(caller, "select msg_id from pgmq.pop('a')") == 1
        conn.execute("select pgmq.drop_queue('a')")
        assert sqlstate(caller, "select pgmq.pop('a')") == "42P01"
        make(conn, "a")


def test_installing_again_keeps_them(db: Database, conn: Connection) -> None:
    make(conn, "a", "b")
    before = rows(conn, FUNCTIONS)
    conn.execute(our_sql().encode())
    assert rows(conn, FUNCTIONS) == before
    assert called(conn) == {"a", "b"}


def test_who_may_create_a_queue_has_it_called(db: Database, conn: Connection) -> None:
    """The functions are the installation's owner's."""
    make(conn, "a")
    role = db.create_role()
    conn.execute(f"grant usage, create on schema pgmq to {role}".encode())
    for right in ("select, insert", "update, delete"):
        conn.execute(f"grant {right} on all tables in schema pgmq to {role}".encode())
    conn.execute(f"grant usage on all sequences in schema pgmq to {role}".encode())
    theirs = db.connect(user=role)
    make(theirs, "theirs")
    assert called(conn) == {"a", "theirs"}
    conn.execute(f"revoke create on schema pgmq from {value(conn, 'select current_user')}".encode())
    make(theirs, "late")
    assert value(theirs, "select pgmq.send('late', '1')") == 1
    assert called(conn) == {"a", "theirs"}, "the owner may make no function there"


def test_a_function_of_somebody_else_is_left_alone(db: Database, conn: Connection) -> None:
    """It would be made by the installation's owner, of text that is not ours."""
    role = db.create_role()
    conn.execute(f"grant usage, create on schema pgmq to {role}".encode())
    body = "begin\n    -- direct: $function$; drop table pgmq.meta; --\n    -- others\nend"
    do(
        db.connect(user=role),
        f"create function pgmq.send(text) returns void language plpgsql as $x${body}$x$",
    )
    make(conn, "a")
    assert value(conn, "select prosrc from pg_proc where oid = 'pgmq.send(text)'::regprocedure") == body
