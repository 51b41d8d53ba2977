"""The SQL API over groups, once for pgmq and ours: reads that keep the order inside a group."""

from __future__ import annotations

import pytest

from tests.compat.conftest import Api


@pytest.fixture(params=[False, True], ids=["", "with index"])
def groups(q: Api, request: pytest.FixtureRequest) -> Api:
    """Messages 1 to 8 of the groups a a b - b a c -, where - is none; with and without the index."""
    if request.param:
        q.run("select pgmq.create_fifo_index('q')")
    for group in "aab-bac-":
        headers = None if group == "-" else f'{{"x-pgmq-group": "{group}"}}'
        q.rows("select pgmq.send('q', '1', %s::jsonb)", headers)
    return q


def test_read_grouped_fills_up_from_the_earliest_group(groups: Api) -> None:
    assert groups.column("select msg_id from pgmq.read_grouped('q', 60, 2)") == [1, 2]
    # Group a waits until its head is done, whatever else of it is visible.
    assert groups.column("select msg_id from pgmq.read_grouped('q', 60, 3)") == [3, 4, 5]
    assert groups.column("select msg_id from pgmq.read_grouped('q', 60, 10)") == [7]
    groups.run("select pgmq.delete('q', array[1, 2, 4])")
    assert groups.column("select msg_id from pgmq.read_grouped('q', 60, 10)") == [6, 8]


def test_read_grouped_rr_takes_turns(groups: Api) -> None:
    assert groups.column("select msg_id from pgmq.read_grouped_rr('q', 60, 6)") == [1, 3, 4, 7, 2, 5]
    assert groups.column("select msg_id from pgmq.read_grouped_rr('q', 60, 6)") == []
    groups.run("select pgmq.delete('q', array[1, 2, 4])")
    assert groups.column("select msg_id from pgmq.read_grouped_rr('q', 60, 6)") == [6, 8]


def test_read_grouped_head_takes_one_of_each(groups: Api) -> None:
    assert sorted(groups.column("select msg_id from pgmq.read_grouped_head('q', 60, 3)")) == [1, 3, 4]
    assert groups.column("select msg_id from pgmq.read_grouped_head('q', 60, 10)") == [7]
    groups.run("select pgmq.delete('q', 1)")
    assert groups.column("select msg_id from pgmq.read_grouped_head('q', 60, 10)") == [2]


@pytest.mark.parametrize("function", ["read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_what_grouped_reads_return(groups: Api, function: str) -> None:
    query = f"""select msg_id, read_ct, message, headers, extract(epoch from vt - last_read_at)::integer = 30
        from pgmq.{function}('q', 30, 1)"""
    assert groups.rows(query) == [(1, 1, 1, {"x-pgmq-group": "a"}, True)]
    assert groups.rows(f"select * from pgmq.{function}('q', 30, 0)") == []
    groups.travel(30)
    assert groups.rows(f"select msg_id, read_ct from pgmq.{function}('q', 30, 1)") == [(1, 2)]


def test_no_group_and_the_default_group_are_one(q: Api) -> None:
    q.run("select pgmq.send('q', '1')")
    for headers in ('{"x-pgmq-group": "_default_fifo_group"}', "[1]", "7", '{"x-pgmq-group": null}', "{}"):
        q.rows("select pgmq.send('q', '1', %s::jsonb)", headers)
    assert q.column("select msg_id from pgmq.read_grouped_head('q', 60, 10)") == [1]
    assert q.column("select msg_id from pgmq.read_grouped_head('q', 60, 10)") == []


@pytest.mark.parametrize("function", ["read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_a_delayed_head_holds_its_group(q: Api, function: str) -> None:
    q.run("""select pgmq.send('q', '1', '{"x-pgmq-group": "a"}', 20)""")
    q.run("""select pgmq.send('q', '2', '{"x-pgmq-group": "a"}'::jsonb)""")
    q.run("""select pgmq.send('q', '3', '{"x-pgmq-group": "b"}'::jsonb)""")
    assert q.column(f"select msg_id from pgmq.{function}('q', 60, 10)") == [3]
    q.travel(20)
    assert q.column(f"select msg_id from pgmq.{function}('q', 60, 1)") == [1]


@pytest.mark.parametrize("function", ["read", "read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_a_lease_that_ended_comes_before_what_was_sent_later(q: Api, function: str) -> None:
    """With high ids and a large read: then our readers keep a floor under each index."""
    q.run("alter table pgmq.q_q alter column msg_id restart with 1000", "select pgmq.create_fifo_index('q')")
    q.run("""select pgmq.send('q', '1', '{"x-pgmq-group": "a"}'::jsonb)""", "select pgmq.read('q', 3600, 1)")
    q.run("""select pgmq.send('q', '2', '{"x-pgmq-group": "b"}'::jsonb)""")
    assert q.column(f"select msg_id from pgmq.{function}('q', 60, 1000)") == [1001]
    q.run("select pgmq.delete('q', 1001)")
    q.travel(4000)
    q.run("""select pgmq.send('q', '3', '{"x-pgmq-group": "c"}'::jsonb)""")
    assert q.column(f"select msg_id from pgmq.{function}('q', 60, 1)") == [1000]
