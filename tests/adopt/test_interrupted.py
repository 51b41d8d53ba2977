"""An adoption that is cut off anywhere leaves queues that work, and goes on when it is run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from pgqueue.adopt.plan import Step
from pgqueue.errors import CannotAdopt
from tests.adopt.pictures import MADE, THEIRS, picture, take_back, take_over
from tests.adopt.test_forth import furnish, ours
from tests.databases import Cluster, Database
from tests.sql.asking import Connection, column, do, value

Way = Callable[..., None]


class CutOff(BaseException):
    """In place of a kill: the connections are closed, nothing is tidied up."""


def cut_off_at(number: int) -> Callable[[Step, int, int], None]:
    """A watcher that cuts off at the given time it is told something."""
    told = iter(range(number))

    def watch(step: Step, done: int, total: int) -> None:
        if next(told, None) is None:
            raise CutOff

    return watch


def still_works(conn: Connection) -> None:
    """Under pgmq or under ours."""
    do(conn, "select pgmq.create('tried')")
    do(conn, "select pgmq.send('tried', '{}', 0)")
    assert column(conn, "select msg_id from pgmq.read('tried', 30, 1)") == [1]
    assert value(conn, "select pgmq.archive('tried', 1::bigint)") is True
    assert column(conn, "select msg_id from pgmq.pop('tried')") == []
    assert value(conn, "select count(*) from pgmq.metrics('tried')") == 1
    assert value(conn, "select pgmq.drop_queue('tried', false)") is True


def walk(db: Database, conn: Connection, way: Way, most: int = 100) -> int:
    """Cut off at each place in turn, until it comes to its end; says how many places there were."""
    for place in range(most):
        try:
            way(db, watch=cut_off_at(place))
        except CutOff:
            still_works(conn)
        except CannotAdopt as error:  # cut off when all was done
            if "already" in str(error) or "nothing to give back" in str(error):
                return place
            raise
        else:
            return place
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize(("version", "kind"), [("1.4.4", "extension"), ("1.13.0", "sql")])
def test_cut_off_at_every_place(old_server: Cluster, old_db: Database, version: str, kind: str) -> None:
    conn = old_db.connect()
    furnish(conn, version, kind)
    before = picture(conn, THEIRS)
    assert walk(old_db, conn, take_over) > 3
    assert picture(conn, THEIRS) == before
    if version == "1.4.4":
        do(conn, "select pgmq.enable_notify_insert('x', 100)")
    assert picture(conn, MADE) == ours(old_server)
    walk(old_db, conn, take_back)
    assert picture(conn, THEIRS) == before
    assert value(conn, "select to_regnamespace('pgqueue') is null")


def test_the_ruin_of_an_index_is_built_anew(old_db: Database) -> None:
    conn = old_db.connect()
    furnish(conn, "1.13.0", "sql")
    do(conn, "create unique index q_x_ready_idx on pgmq.q_x (msg_id)")
    superuser = old_db.connect(user=old_db.superuser)
    do(superuser, "update pg_index set indisvalid = false where indexrelid = 'pgmq.q_x_ready_idx'::regclass")
    take_over(old_db)
    assert "isfinite" in value(conn, "select pg_get_indexdef('pgmq.q_x_ready_idx'::regclass)")
    assert value(conn, "select count(*) from pg_index where not indisvalid") == 0


KILLED = """
import os, signal, sys, psycopg
from pgqueue.adopt.{module} import {way} as way
step, dsn = sys.argv[1:]
def watch(told, done, total):
    if told.key == step and (done or not total or step == "swap"):
        os.kill(os.getpid(), signal.SIGKILL)
way(psycopg.connect(dsn, autocommit=True), psycopg.connect(dsn, autocommit=True), watch=watch)
"""


@pytest.mark.chaos
@pytest.mark.parametrize("step", ["indexes", "columns", "release", "swap", "compile", "tidy"])
def test_killed(old_server: Cluster, old_db: Database, step: str) -> None:
    """kill -9 in each step, then run again."""
    conn = old_db.connect()
    furnish(conn, "1.5.1", "extension")
    before = picture(conn, THEIRS)
    program = KILLED.format(module="forth", way="adopt")
    ended = subprocess.run([sys.executable, "-c", program, step, old_db.dsn], check=False)
    assert ended.returncode == -signal.SIGKILL
    still_works(conn)
    take_over(old_db)
    do(conn, "select pgmq.enable_notify_insert('x', 100)")
    assert picture(conn, THEIRS) == before
    assert picture(conn, MADE) == ours(old_server)
