"""The round trip: what was there is there again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgqueue.errors import CannotAdopt
from tests.adopt import layouts
from tests.adopt.pictures import MADE, THEIRS, picture, take_back, take_over
from tests.adopt.test_forth import furnish
from tests.compat.reference import reference_sql
from tests.databases import Database
from tests.sql.asking import column, do, row, value

TABLES = {
    "bindings": "select pattern, queue_name, bound_at, compiled_regex from pgmq.topic_bindings order by 1",
    "throttles": "select queue_name, throttle_interval_ms, last_notified_at from pgmq.notify_insert_throttle",
}


@pytest.mark.parametrize("way", ["wheel", "file", "extension"])
def test_round_trip(old_db: Database, tmp_path: Path, way: str) -> None:
    """pgmq 1.13.0 as it was: rows, ids, leases, rights; functions, indexes, triggers."""
    conn = old_db.connect()
    furnish(conn, "1.13.0", "extension" if way == "extension" else "sql")
    do(conn, "select pgmq.create_fifo_index('x')")
    role = old_db.create_role()
    do(
        conn,
        f"revoke execute on function pgmq.purge_queue from public; grant select on pgmq.q_x, pgmq.meta to {role}",
    )
    do(conn, f"grant usage on schema pgmq to {role}; grant execute on function pgmq.purge_queue to {role}")
    before = picture(conn, THEIRS, MADE, TABLES)
    take_over(old_db)
    assert "ours" in before and picture(conn, MADE)["ours"]
    file = tmp_path / "pgmq.sql"
    file.write_text(reference_sql())
    options = {"wheel": {}, "file": {"sql_file": file}, "extension": {"extension": True}}[way]
    take_back(old_db, **options)
    assert picture(conn, THEIRS, MADE, TABLES) == before
    assert value(conn, "select to_regnamespace('pgqueue') is null")
    assert value(conn, "select count(*) from pg_extension where extname = 'pgmq'") == int(way == "extension")
    assert column(conn, "select msg_id from pgmq.read('x', 30, 2)") == [3, 4]


def test_from_an_old_version_it_goes_back_to_the_newest(old_db: Database) -> None:
    conn = old_db.connect()
    furnish(conn, "1.4.4", "extension")
    before = picture(conn, THEIRS)
    take_over(old_db)
    take_back(old_db)
    after = picture(conn, THEIRS)
    assert after == before
    assert row(conn, "select msg_id, read_ct from pgmq.read('x', 30, 1)") == (3, 1)
    assert value(conn, "select count(*) from pgmq.metrics_all()") == 3


def test_queues_made_meanwhile_come_along(old_db: Database) -> None:
    conn = old_db.connect()
    layouts.build(conn, "1.13.0", "sql")
    take_over(old_db)
    do(
        conn,
        "select pgmq.create('later'), pgmq.create_partitioned('cut', '10', '100'), pgmq.send('later', '1')",
    )
    do(conn, "select pgmq.send('cut', '1')")
    take_back(old_db)
    for queue in ("later", "cut"):
        assert column(conn, f"select msg_id from pgmq.read('{queue}', 30, 1)") == [1]
    assert column(conn, "select indexname from pg_indexes where tablename = 'q_later' order by 1") == [
        "q_later_pkey",
        "q_later_vt_idx",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select 1;", "is not pgmq's SQL"),
        ("begin;\n" + "create function pgmq.{}()".replace("{}", "x"), "is not pgmq's SQL"),
    ],
    ids=["no functions", "other functions"],
)
def test_a_file_that_is_not_pgmq(old_db: Database, tmp_path: Path, text: str, reason: str) -> None:
    layouts.build(old_db.connect(), "1.13.0", "sql")
    take_over(old_db)
    file = tmp_path / "other.sql"
    file.write_text(text)
    with pytest.raises(CannotAdopt, match=reason):
        take_back(old_db, sql_file=file)
    assert value(old_db.connect(), "select count(*) from pgqueue.migration") > 0


def test_a_file_with_transactions_of_its_own(old_db: Database, tmp_path: Path) -> None:
    layouts.build(old_db.connect(), "1.13.0", "sql")
    take_over(old_db)
    file = tmp_path / "pgmq.sql"
    file.write_text("begin;\n" + reference_sql() + "\ncommit;\n")
    with pytest.raises(CannotAdopt, match="must leave transactions to us"):
        take_back(old_db, sql_file=file)


def test_what_uses_ours_is_named(old_db: Database) -> None:
    conn = old_db.connect()
    layouts.build(conn, "1.13.0", "sql")
    take_over(old_db)
    do(conn, "create schema app; create view app.look as select * from pgqueue.peek('x', 10)")
    with pytest.raises(CannotAdopt, match=r"app\.look"):
        take_back(old_db)
    with pytest.raises(CannotAdopt, match="installed in this database already"):
        take_over(old_db)
