"""How adopt waits, and how long."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import InternalError_, UndefinedTable

from pgqueue.adopt.waiting import MOST_DROPPED, unless_dropped, unless_going
from tests.databases import Database
from tests.sql.asking import value


def test_a_look_at_what_goes_is_taken_again_but_not_for_ever(empty_db: Database) -> None:
    conn: psycopg.Connection = empty_db.connect()
    looks: list[int] = []

    def look() -> str:
        looks.append(1)
        if len(looks) < 3:
            raise InternalError_("could not open relation")
        return "seen"

    assert unless_going(conn, look) == "seen"

    def never() -> str:
        looks.append(2)
        raise InternalError_("could not open relation")

    with pytest.raises(InternalError_):
        unless_going(conn, never)
    assert looks.count(2) == MOST_DROPPED + 1


def test_a_queue_made_anew_under_the_name_is_another_one(empty_db: Database) -> None:
    """What failed for want of the first has nothing to do any more, although there is one of that name."""
    conn: psycopg.Connection = empty_db.connect()
    conn.execute("create table q_x ()")
    first = value(conn, "select 'q_x'::regclass::oid::bigint")
    with pytest.raises(UndefinedTable), unless_dropped(conn, first):
        conn.execute("select from nothing_of_that_name")
    with unless_dropped(conn, first):
        conn.execute("drop table q_x")
        try:
            conn.execute("select from q_x")
        finally:
            conn.execute("create table q_x ()")
