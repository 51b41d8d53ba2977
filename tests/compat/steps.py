"""What a random sequence is made of: calls of every function of pgmq, and what surrounds them.

A step is plain data and prints as the SQL it runs. Amounts of time are multiples of ten seconds, so that no
message becomes visible by the seconds that a run takes; only `travel` makes time pass.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.compat.values import (
    BEGINS,
    BY_HAND,
    CONDITIONS,
    GROUPS,
    HEADERS,
    KEYS,
    MESSAGES,
    MOMENTS,
    NAMES,
    ODD_KEYS,
    ODD_NAMES,
    ODD_PATTERNS,
    PATTERNS,
    QUANTITIES,
    SECONDS,
    THROTTLES,
    TRAVELS,
    At,
)


@dataclass(frozen=True)
class Arg:
    name: str
    type: str
    value: Any  # None, bool, int, str (for jsonb: its text), At, or a tuple of these

    def __str__(self) -> str:
        return f"{self.name} => {literal(self.type, self.value)}"


@dataclass(frozen=True)
class Call:
    """A call of pgmq.FUNCTION by argument names."""

    function: str
    args: tuple[Arg, ...] = ()

    def __str__(self) -> str:
        return f"select * from pgmq.{self.function}({', '.join(map(str, self.args))})"

    def value(self, name: str) -> Any:
        """The value of an argument; None if it is not given."""
        return next((arg.value for arg in self.args if arg.name == name), None)

    def has(self, name: str) -> bool:
        return any(arg.name == name for arg in self.args)


@dataclass(frozen=True)
class Control:
    """begin …, commit, rollback, savepoint, rollback to: played where they make sense, else passed over."""

    word: str

    def __str__(self) -> str:
        return f"{self.word} s" if self.word in ("savepoint", "rollback to") else self.word


@dataclass(frozen=True)
class Travel:
    """Time passes: every message of both sides becomes `seconds` older."""

    seconds: int

    def __str__(self) -> str:
        return f"-- {self.seconds} seconds pass"


@dataclass(frozen=True)
class Compiling:
    """On our side only: pgqueue.compile or pgqueue.decompile of a queue."""

    word: str
    queue: str

    def __str__(self) -> str:
        return f"select pgqueue.{self.word}({literal('text', self.queue)})  -- ours only"


@dataclass(frozen=True)
class ByHand:
    """A statement over a queue's table past the API, as users write them; {table} is its place in the text."""

    queue: str
    text: str

    def __str__(self) -> str:
        return self.text.replace("{table}", queue_table(self.queue))


@dataclass(frozen=True)
class StartIds:
    """The queue's next message gets this id: ours keeps a floor only once ids are above 256."""

    queue: str
    first: int

    def __str__(self) -> str:
        return f"alter table {queue_table(self.queue)} alter column msg_id restart with {self.first}"


Step = Call | Control | Travel | Compiling | ByHand | StartIds


def queue_table(queue: str) -> str:
    """The table of a queue as SQL."""
    name = f"q_{queue}".lower().replace('"', '""')
    return f'pgmq."{name}"'


def literal(kind: str, value: Any) -> str:
    """A value as SQL of that type."""
    if value is None:
        return f"null::{kind}"
    if isinstance(value, At):
        return f"clock_timestamp() + make_interval(secs => {value.seconds})"
    if isinstance(value, tuple):
        items = ", ".join(literal(kind.removesuffix("[]"), item) for item in value)
        return f"array[{items}]::{kind}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}::{kind}" if value >= 0 else f"({value})::{kind}"
    return "'" + str(value).replace("'", "''") + f"'::{kind}"


@dataclass(frozen=True)
class Scene:
    """What a sequence plays with: few queues and patterns, so that its calls meet."""

    queues: Sequence[str]
    patterns: Sequence[str]
    first_id: int


class Chooser:
    """Draws steps of a scene."""

    def __init__(self, rng: random.Random, scene: Scene) -> None:
        self.rng = rng
        self.scene = scene

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.rng.randrange(len(values))]

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def queue(self) -> Arg:
        return Arg("queue_name", "text", self.queue_name())

    def queue_name(self) -> Any:
        name = self.pick(ODD_NAMES) if self.chance(6) else self.pick(self.scene.queues)
        return name.swapcase() if name is not None and self.chance(2) else name

    def id(self) -> Any:
        return (
            self.pick((0, -1, 99, 2**63 - 1, None))
            if self.chance(8)
            else self.scene.first_id + self.rng.randrange(8)
        )

    def ids(self) -> Any:
        if self.chance(12):
            return self.pick((None, ()))
        return tuple(self.id() for _ in range(self.rng.randrange(1, 5)))

    def headers(self) -> Any:
        if self.chance(50):
            return json.dumps({"x-pgmq-group": self.pick(GROUPS)})
        return self.pick(HEADERS)

    def jsons(self, one: Callable[[], Any], size: int) -> Any:
        return tuple(one() for _ in range(size))

    def pattern(self) -> Arg:
        return Arg(
            "pattern", "text", self.pick(ODD_PATTERNS) if self.chance(12) else self.pick(self.scene.patterns)
        )

    def key(self) -> Arg:
        return Arg("routing_key", "text", self.pick(ODD_KEYS) if self.chance(12) else self.pick(KEYS))

    def delay(self) -> tuple[Arg, ...]:
        """No delay, one in seconds or a moment: the overloads that send functions have."""
        kind = self.rng.randrange(3)
        if kind == 0:
            return ()
        if kind == 1:
            return (Arg("delay", "integer", self.pick(SECONDS)),)
        return (Arg("delay", "timestamptz", self.pick(MOMENTS)),)

    # --- one method a group of functions ---

    def create(self) -> Call:
        return Call(
            self.pick(("create", "create", "create_non_partitioned", "create_unlogged")), (self.queue(),)
        )

    def on_queue(self, function: str) -> Call:
        return Call(function, (self.queue(),))

    def drop_queue(self) -> Call:
        flag = (Arg("partitioned", "boolean", self.pick((True, False, None))),) if self.chance(30) else ()
        return Call("drop_queue", (self.queue(), *flag))

    def send(self) -> Call:
        headers = (Arg("headers", "jsonb", self.headers()),) if self.chance(60) else ()
        return Call("send", (self.queue(), Arg("msg", "jsonb", self.pick(MESSAGES)), *headers, *self.delay()))

    def batch(self) -> tuple[Arg, ...]:
        size = self.rng.randrange(1, 5)
        msgs = self.pick((None, ())) if self.chance(6) else self.jsons(lambda: self.pick(MESSAGES), size)
        if self.chance(40):
            return (Arg("msgs", "jsonb[]", msgs),)
        odd = self.chance(10)
        headers = self.pick((None, (), ("{}",))) if odd else self.jsons(self.headers, size)
        return (Arg("msgs", "jsonb[]", msgs), Arg("headers", "jsonb[]", headers))

    def send_batch(self) -> Call:
        return Call("send_batch", (self.queue(), *self.batch(), *self.delay()))

    def vt_qty(self) -> tuple[Arg, Arg]:
        return (
            Arg("vt", "integer", self.pick(SECONDS)),
            Arg("qty", "integer", self.pick(QUANTITIES)),
        )

    def condition(self, percent: int) -> tuple[Arg, ...]:
        return (Arg("conditional", "jsonb", self.pick(CONDITIONS)),) if self.chance(percent) else ()

    def read(self) -> Call:
        return Call("read", (self.queue(), *self.vt_qty(), *self.condition(25)))

    def pop(self) -> Call:
        qty = (Arg("qty", "integer", self.pick(QUANTITIES)),) if self.chance(60) else ()
        return Call("pop", (self.queue(), *qty))

    def read_grouped(self) -> Call:
        return Call(
            self.pick(("read_grouped", "read_grouped_rr", "read_grouped_head")),
            (self.queue(), *self.vt_qty()),
        )

    def poll(self) -> Call:
        function = self.pick(("read", "read", "read_grouped", "read_grouped_rr", "read_grouped_head"))
        window = (
            Arg("max_poll_seconds", "integer", self.pick((1, 1, 1, 0, -1, None))),
            Arg("poll_interval_ms", "integer", self.pick((10, 100, 0))),
        )
        condition = self.condition(25) if function == "read" else ()
        return Call(f"{function}_with_poll", (self.queue(), *self.vt_qty(), *window, *condition))

    def end(self) -> Call:
        function = self.pick(("delete", "archive"))
        if self.chance(50):
            return Call(function, (self.queue(), Arg("msg_id", "bigint", self.id())))
        return Call(function, (self.queue(), Arg("msg_ids", "bigint[]", self.ids())))

    def set_vt(self) -> Call:
        which = Arg("msg_id", "bigint", self.id())
        if self.chance(50):
            which = Arg("msg_ids", "bigint[]", self.ids())
        until = Arg("vt", "integer", self.pick(SECONDS))
        if self.chance(40):
            until = Arg("vt", "timestamptz", self.pick(MOMENTS))
        return Call("set_vt", (self.queue(), which, until))

    def notify(self) -> Call:
        # Never the default of 250 ms: a run's own speed would decide who is throttled.
        throttle = Arg("throttle_interval_ms", "integer", self.pick(THROTTLES))
        function = self.pick(
            ("enable_notify_insert", "enable_notify_insert", "update_notify_insert", "disable")
        )
        if function == "disable":
            return Call("disable_notify_insert", (self.queue(),))
        return Call(function, (self.queue(), throttle))

    def topic(self) -> Call:
        function = self.pick(("bind_topic", "bind_topic", "bind_topic", "unbind_topic"))
        return Call(function, (self.pattern(), self.queue()))

    def send_topic(self) -> Call:
        msg = Arg("msg", "jsonb", self.pick(MESSAGES))
        delay = Arg("delay", "integer", self.pick(SECONDS))
        headers = Arg("headers", "jsonb", self.headers())
        return Call("send_topic", (self.key(), *self.pick(((msg,), (msg, delay), (msg, headers, delay)))))

    def send_batch_topic(self) -> Call:
        return Call("send_batch_topic", (self.key(), *self.batch(), *self.delay()))

    def list_bindings(self) -> Call:
        return Call("list_topic_bindings", (self.queue(),) if self.chance(50) else ())

    def check(self) -> Call:
        calls = (
            Call("validate_queue_name", (self.queue(),)),
            Call("validate_routing_key", (self.key(),)),
            Call("validate_topic_pattern", (self.pattern(),)),
            Call("test_routing", (self.key(),)),
            Call(
                "format_table_name",
                (self.queue(), Arg("prefix", "text", self.pick(("q", "a", "X", "", None)))),
            ),
            Call("acquire_queue_lock", (self.queue(),)),
            Call("detach_archive", (self.queue(),)),
            Call("notify_queue_listeners"),
        )
        return calls[self.rng.randrange(len(calls))]

    def control(self) -> Control:
        words = ("begin", "begin", "begin", "commit", "commit", "rollback", "savepoint", "rollback to")
        word = self.pick(words)
        return Control(self.pick(BEGINS) if word == "begin" else word)

    def by_hand(self) -> ByHand:
        text = self.pick(BY_HAND)
        text = text.replace("{row}", f"msg_id = {self.scene.first_id + self.rng.randrange(8)}")
        text = text.replace("{low}", str(self.scene.first_id - self.rng.randrange(1, 4)))
        text = text.replace("{message}", literal("jsonb", self.pick(MESSAGES[:-1])))
        return ByHand(self.pick(self.scene.queues), text)

    def compiling(self) -> Compiling:
        return Compiling(self.pick(("compile", "decompile")), self.pick(self.scene.queues))

    def step(self) -> Step:
        """One step, by the weights below."""
        mark = self.rng.randrange(TOTAL)
        for weight, draw in WEIGHTS:
            mark -= weight
            if mark < 0:
                return draw(self)
        raise AssertionError("weights do not add up")


WEIGHTS: tuple[tuple[int, Callable[[Chooser], Step]], ...] = (
    (30, Chooser.send),
    (16, Chooser.send_batch),
    (30, Chooser.read),
    (12, Chooser.pop),
    (18, Chooser.read_grouped),
    (8, Chooser.poll),
    (20, Chooser.end),
    (16, Chooser.set_vt),
    (8, lambda c: c.on_queue("metrics")),
    (4, lambda c: Call("metrics_all")),
    (3, lambda c: Call("list_queues")),
    (7, Chooser.create),
    (4, Chooser.drop_queue),
    (4, lambda c: c.on_queue("purge_queue")),
    (2, lambda c: c.on_queue("create_fifo_index")),
    (1, lambda c: Call("create_fifo_indexes_all")),
    (8, Chooser.notify),
    (3, lambda c: Call("list_notify_insert_throttles")),
    (9, Chooser.topic),
    (8, Chooser.send_topic),
    (6, Chooser.send_batch_topic),
    (3, Chooser.list_bindings),
    (7, Chooser.check),
    (16, Chooser.control),
    (12, lambda c: Travel(c.pick(TRAVELS))),
    (4, Chooser.compiling),
    (5, Chooser.by_hand),
)
TOTAL = sum(weight for weight, _ in WEIGHTS)


def opening(chooser: Chooser) -> list[Step]:
    """How most sequences begin: the scene's queues are there, half of them not compiled on our side."""
    steps: list[Step] = []
    for name in chooser.scene.queues:
        if chooser.chance(92):
            function = "create_unlogged" if chooser.chance(25) else "create"
            steps.append(Call(function, (Arg("queue_name", "text", name),)))
            if chooser.chance(50):
                steps.append(Compiling("decompile", name))
            if chooser.scene.first_id > 1:
                steps.append(StartIds(name, chooser.scene.first_id))
    return steps


def sequence(rng: random.Random, length: int) -> list[Step]:
    """A whole random sequence of about that many steps, with one to three queues."""
    names = rng.sample(NAMES, rng.randrange(1, 4))
    scene = Scene(names, rng.sample(PATTERNS, rng.randrange(1, 4)), rng.choice((1, 1000)))
    chooser = Chooser(rng, scene)
    return opening(chooser) + [chooser.step() for _ in range(length)]
