"""The examples of the driver, run as their readers would run them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tests.databases import Database

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Run = Callable[[str], str]


@pytest.fixture
def run(db: Database) -> Run:
    """Runs an example on this test's database; what it printed."""

    def run(name: str) -> str:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name)],
            env={**os.environ, "PGQUEUE_DSN": db.dsn},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_outbox_with_sqlalchemy(run: Run, db: Database) -> None:
    assert run("outbox_sqlalchemy.py") == "to pack: {'order': 1, 'customer': 'Ada'}\n"
    assert db.connect().execute("select array_agg(customer) from shop_order").fetchone() == (["Ada"],)
    assert db.connect().execute("select count(*) from pgmq.a_packing").fetchone() == (1,)


def test_fan_out(run: Run) -> None:
    assert run("fan_out.py").splitlines() == [
        "order.eu.placed: 2 queues",
        "order.eu.paid: 3 queues",
        "order.us.placed: 1 queues",
        "order.us.paid: 3 queues",
        "login: 1 queues",
        "billing: order.eu.paid, order.us.paid",
        "shipping: order.eu.placed, order.eu.paid, order.us.paid",
        "audit: order.eu.placed, order.eu.paid, order.us.placed, order.us.paid, login",
    ]


def test_pushpop(run: Run) -> None:
    lines = run("pushpop.py").splitlines()
    assert lines[:4] == [
        "deferred by 5 s: apple",
        "deferred by 5 s: pear",
        "completed: plum",
        "nobody sees the others yet: None",
    ]
    assert sorted(lines[4:]) == ["completed later: apple", "completed later: pear"]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_fastapi_sends_in_the_requests_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGQUEUE_DSN", db.dsn)
    example = load("fastapi_send.py")
    transport = httpx.ASGITransport(example.app, raise_app_exceptions=False)
    async with (
        example.lifespan(example.app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as web,
    ):
        for n in range(3):
            answer = await web.post("/orders", json={"customer": f"c{n}"})
            assert (answer.status_code, answer.json()) == (202, {"order": n + 1})
        db.connect().execute("alter table web_order add unique (customer) deferrable initially deferred")
        assert (await web.post("/orders", json={"customer": "c1"})).status_code == 500
        assert (await web.get("/orders/waiting")).json() == {"orders": 3, "to pack": 3}
    bodies = db.connect().execute("select message from pgmq.q_packing order by msg_id").fetchall()
    assert [body for (body,) in bodies] == [{"order": n + 1, "customer": f"c{n}"} for n in range(3)]
