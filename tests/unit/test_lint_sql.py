"""Each rule of tools/lint_sql.py finds what it is for, and lets good text pass."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def lint_sql() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "lint_sql.py"
    spec = importlib.util.spec_from_file_location("lint_sql", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lint_sql"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def function(body: str, head: str = "returns void language plpgsql volatile parallel unsafe") -> str:
    return f"create or replace function pgqueue.f(a text) {head} as $body$ {body} $body$;"


GOOD = [
    "select a from pgmq.meta",
    "select count(*) from pgmq.meta",
    "select * from pgqueue.f($1)",
    "update pgmq.q_orders set vt = $1 where msg_id = $2",
    "create table t (made_at timestamptz default clock_timestamp())",
    function("begin execute format('update pgmq.%1$I set vt = $1', a) using clock_timestamp(); end"),
    function("declare t regclass; begin execute format('delete from %s where a = %L', t, a); end"),
    function("begin execute pgqueue._filled('create index %25$I on pgmq.%1$I (b)', a); end"),
    function("begin perform has_schema_privilege(a, 'create'); end"),
    function("declare v pgmq.message_record; w pgmq.meta%rowtype; begin v.vt := clock_timestamp(); end"),
    function("declare\n v pgqueue.policy;\n w pgqueue.policy := null;\n begin v := w; end"),
    function("begin execute format('select a from %1$s', pg_get_serial_sequence('t', 'b')); end"),
    function("begin execute format('select a from %s', 'pgmq.meta'::regclass); end"),
    function("begin raise exception 'select the queue'; end", "returns setof pgmq.message_record language "
             "plpgsql stable parallel safe security definer set search_path = pg_catalog, pg_temp"),
]  # fmt: skip

BAD = [
    ("select *", "select * from pgmq.meta"),
    ("select *", "delete from pgmq.meta m returning m.*"),
    ("select *", "select * from pgqueue.f($1), pgmq.meta"),
    ("select *", "select * from pgqueue.f((select a from (select * from pgmq.meta) m))"),
    ("volatile clock_timestamp", "update t set vt = clock_timestamp()"),
    ("volatile random", "with a as (select b from t order by random()) delete from u using a"),
    ("does not parse", "selec 1"),
    ("volatility is not stated", function("begin end", "returns void language plpgsql parallel safe")),
    ("parallel is not stated", function("begin end", "returns void language plpgsql stable")),
    ("search_path", function("begin return a; end", "returns trigger language plpgsql stable parallel safe")),
    ("search_path", function("select 1", "returns int language sql stable parallel safe security definer "
                             "set search_path = pg_catalog, public")),
    ("the body does not parse", function("begin nonsense; end")),
    ("the body does not parse", "do $$ begin nonsense; end $$"),
    ("does not parse", function("selec 1", "returns int language sql stable parallel safe")),
    ("select *", function("begin perform * from pgmq.meta; end")),
    ("volatile clock", function("begin delete from t where vt < clock_timestamp(); end")),
    ("volatile clock", function("begin execute format('delete from %I where b<clock_timestamp()', a); end")),
    ("does not parse", function("begin execute format('select a frm %I where', a); end")),
    ("select *", function("begin execute 'select * from t'; end")),
    ("%s in SQL", function("begin execute format('select a from %s', a); end")),
    ("does not parse", function("begin execute pgqueue._filled('create indx %25$I on %1$I (b)', a); end")),
    ("%s in SQL", function("declare t regclass; begin execute format('select %2$s from %1$s', t, a); end")),
    ("select *", function("declare q text; begin q := format('select * from %I', a); execute q; end")),
]  # fmt: skip


@pytest.mark.parametrize("script", GOOD)
def test_good_text_passes(lint_sql: ModuleType, script: str) -> None:
    assert list(lint_sql.check_statements("here", script)) == []


@pytest.mark.parametrize(("finding", "script"), BAD)
def test_each_rule_finds_its_fault(lint_sql: ModuleType, finding: str, script: str) -> None:
    found = [str(one) for one in lint_sql.check_statements("here", script)]
    assert any(finding in one for one in found), found
