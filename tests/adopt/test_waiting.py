"""How adopt waits, and how long."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import InternalError_

from pgqueue.adopt.waiting import MOST_DROPPED, unless_going
from tests.databases import Database


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
