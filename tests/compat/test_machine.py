"""The comparison machine: what it finds, and that it finds.

`make compat SEQUENCES=2000 SEED=1` plays many more sequences than fit here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.compat.differences import DIFFERENCES
from tests.compat.machine import first_mismatch, run, shortest
from tests.compat.player import Mismatch, Player
from tests.compat.reference import reference_sql
from tests.compat.sides import Side
from tests.compat.steps import Arg, Call, Chooser, Control, Scene, Step, opening
from tests.compat.values import NAMES, PATTERNS
from tests.databases import Cluster, Database, our_sql


@pytest.fixture(scope="module")
def player(server: Cluster) -> Iterator[Player]:
    """Plays on the reference and on ours."""
    databases = [server.create_database(server.template(script)) for script in (reference_sql(), our_sql())]
    yield Player(Side("pgmq", databases[0]), Side("ours", databases[1], leaves_nothing=True))
    for database in databases:
        database.drop()


@pytest.fixture
def mirror(server: Cluster, reference_db: Database) -> Iterator[tuple[Player, Database]]:
    """Plays on the reference and on a second one, whose database comes with it to be tampered with."""
    other = server.create_database(server.template(reference_sql()))
    yield Player(Side("pgmq", reference_db), Side("the same", other)), other
    other.drop()


@st.composite
def sequences(draw: st.DrawFn) -> list[Step]:
    scene = Scene(
        draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)),
        draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)),
        draw(st.sampled_from((1, 1000))),
    )
    rngs = st.randoms(use_true_random=False)
    more = draw(st.lists(rngs, min_size=5, max_size=25))
    return opening(Chooser(draw(rngs), scene)) + [Chooser(rng, scene).step() for rng in more]


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(steps=sequences())
def test_any_sequence_gives_the_same(player: Player, steps: list[Step]) -> None:
    player.play(steps)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(3))
def test_seeded_sequences_give_the_same(player: Player, seed: int) -> None:
    """A few of those that `make compat` plays, always the same ones."""
    report = run(player, range(15), seed=seed)
    assert not report, report


def test_a_second_reference_never_differs(mirror: tuple[Player, Database]) -> None:
    player, _ = mirror
    report = run(player, range(15), seed=1)
    assert not report, report
    assert player.calls.total() > 300
    assert player.excused.total() == 0


FAULTS = {
    "pop leaves the message": ("pop(", "DELETE from pgmq.%I", "UPDATE pgmq.%I SET vt = vt"),
    "pop takes the newest": ("pop(", "ORDER BY msg_id ASC", "ORDER BY msg_id DESC"),
    "read forgets to count": ("read(", "read_ct = read_ct + 1", "read_ct = read_ct"),
    "read does not hide": (
        "read(",
        "vt = clock_timestamp() + %L",
        "vt = coalesce(m.vt, clock_timestamp() + %L)",
    ),
    "read ignores the condition": (
        "read(",
        "(message @> %2$L)::integer",
        "(message @> %2$L)::integer * 0 + 1",
    ),
    "archive loses headers": (
        "archive(",
        "message, headers\n        FROM archived",
        "message, null\n FROM archived",
    ),
    "delete says true": ("delete(", "RETURN NOT (result IS NULL)", "RETURN true"),
    "set_vt is ten seconds off": ("set_vt(", "SET vt = $1", "SET vt = $1 + interval '10 seconds'"),
    "send drops headers": ("send(", "USING msg, delay, headers", "USING msg, delay, null::jsonb"),
    "a batch is sent backwards": ("_send_batch(", "RETURNING msg_id", "ORDER BY 2 DESC RETURNING msg_id"),
    "groups are not kept apart": ("read_grouped_rr(", "PARTITION BY eg.fifo_key", "PARTITION BY 1"),
    "metrics count wrong": ("metrics(", "count(*) as queue_length", "count(*) + 1 as queue_length"),
    "another SQLSTATE": (
        "validate_topic_pattern(",
        "NULL or empty'",
        "NULL or empty' USING errcode = '22004'",
    ),
    "nobody is notified": ("notify_queue_listeners(", "IF updated_count > 0", "IF updated_count > 1"),
    "a topic is counted twice": ("send_topic(", "matched_count + 1", "matched_count + 2"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_found(mirror: tuple[Player, Database], fault: tuple[str, str, str]) -> None:
    """Each fault is planted into one side's function; a few sequences must show it."""
    player, database = mirror
    function, right, wrong = fault
    with database.connect() as conn:
        query = "select pg_get_functiondef(oid) from pg_proc where pronamespace = 'pgmq'::regnamespace"
        query += " and starts_with(oid::regprocedure::text, %s) and strpos(prosrc, %s) > 0"
        sources = conn.execute(query, [f"pgmq.{function}", right]).fetchall()
        assert sources, "the fault does not fit"
        for (source,) in sources:
            conn.execute(source.replace(right, wrong).encode())
    assert first_mismatch(player, range(80), seed=7) is not None


def test_the_shortest_sequence_is_found() -> None:
    steps: list[Step] = [
        Control(word) for word in ("begin", "savepoint", "commit", "rollback", "savepoint") * 5
    ]
    guilty = [steps[3], steps[22]]
    assert shortest(steps, lambda some: all(any(step is one for step in some) for one in guilty)) == guilty


def test_a_mismatch_says_what_happened(mirror: tuple[Player, Database]) -> None:
    player, database = mirror
    database.connect().execute(
        "create or replace function pgmq.list_queues() returns setof pgmq.queue_record language sql"
        " as $$ select queue_name, true, is_unlogged, created_at from pgmq.meta $$"
    )
    steps = [Call("create", (Arg("queue_name", "text", "plain"),)), Call("list_queues")]
    with pytest.raises(Mismatch, match=r"step 2: select \* from pgmq.list_queues\(\)\n"):
        player.play(steps)


def test_each_difference_has_its_own_name_and_a_reason() -> None:
    names = [difference.name for difference in DIFFERENCES]
    assert len(set(names)) == len(names)
    assert all(difference.reason for difference in DIFFERENCES)
