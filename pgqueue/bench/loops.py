"""Loads without a client: a procedure calls, and the server's clock is read around each call.

Commits lie between the calls and are not counted, so what is left is what the SQL itself costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from pgqueue.bench.calls import Caller
from pgqueue.bench.databases import Connection

#: Messages in a batch.
BATCH = 100

_numbers = count()


@dataclass(frozen=True)
class Step:
    """A call that is timed: the name of its figure, and a PL/pgSQL statement.

    It may use v_message, v_batch (BATCH messages), and for what one step hands to the next v_id and v_ids.
    """

    name: str
    statement: str


class Loop:
    """Steps that are done again and again by one session, a transaction each.

    ending: "commit", or "rollback" to leave the queue as it was.
    until: a PL/pgSQL condition that ends the loop after the first step.
    """

    def __init__(
        self,
        conn: Connection,
        steps: Sequence[Step],
        message: str,
        *,
        ending: str = "commit",
        until: str = "false",
    ) -> None:
        self.conn = conn
        self.steps = steps
        self._name = f"pg_temp.loop_{next(_numbers)}"
        conn.execute(_procedure(self._name, steps, message, ending, until).encode())

    def run(self, rounds: int, most_seconds: float = 30.0) -> dict[str, list[float]]:
        """Go round `rounds` times, or until `most_seconds` are over; gives the microseconds of each call."""
        nulls = ", ".join(["null"] * len(self.steps))
        row = self.conn.execute(f"call {self._name}({rounds}, {most_seconds}, {nulls})".encode()).fetchone()
        assert row is not None
        return {step.name: list(times) for step, times in zip(self.steps, row, strict=True)}


def _procedure(name: str, steps: Sequence[Step], message: str, ending: str, until: str) -> str:
    results = "".join(f", inout t_{step.name} real[]" for step in steps)
    empty = "".join(f"t_{step.name} := '{{}}';\n" for step in steps)
    timed = [
        f"""
        v_start := clock_timestamp();
        {step.statement};
        v_end := clock_timestamp();
        {"exit when " + until if place == 0 else "null"};
        t_{step.name}[v_round] := extract(epoch from v_end - v_start) * 1000000;
        {ending};
        """
        for place, step in enumerate(steps)
    ]
    return f"""
    create procedure {name}(p_count integer, p_seconds double precision{results})
    language plpgsql
    as $loop$
    declare
        v_message jsonb := '{message}';
        v_batch jsonb[] := array_fill(v_message, array[{BATCH}]);
        v_id bigint;
        v_ids bigint[];
        v_start timestamptz;
        v_end timestamptz;
        v_stop timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
    begin
        {empty}
        for v_round in 1 .. p_count loop
            {"".join(timed)}
            exit when v_end > v_stop;
        end loop;
    end
    $loop$
    """


def sending(caller: Caller, queue: str) -> Step:
    """Send one message."""
    return Step("send", f"select {caller.call('send', queue, 'v_message')} into v_id")


def reading(caller: Caller, queue: str, function: str = "read", vt: int = 30) -> Step:
    """Read one message."""
    return Step("read", f"select m.msg_id into v_id from {caller.call(function, queue, str(vt), '1')} m")


def deleting(caller: Caller, queue: str) -> Step:
    """Delete what was read."""
    return Step("delete", f"perform {caller.call('delete', queue, 'v_id')}")


def batch_steps(caller: Caller, queue: str) -> tuple[Step, Step, Step]:
    """Send, read and delete a batch."""
    sent = caller.call("send_batch", queue, "v_batch")
    read = caller.call("read", queue, "30", str(BATCH))
    return (
        Step("send", f"select array_agg(f.id) into v_ids from {sent} as f (id)"),
        Step("read", f"select array_agg(m.msg_id) into v_ids from {read} m"),
        Step("delete", f"perform f.id from {caller.call('delete_batch', queue, 'v_ids')} as f (id)"),
    )


def cycle_steps(caller: Caller, queue: str) -> tuple[Step, Step, Step]:
    """Send, read and delete one message."""
    return sending(caller, queue), reading(caller, queue), deleting(caller, queue)


def totals(times: dict[str, list[float]]) -> list[float]:
    """The time of each round, all steps together."""
    return [sum(one) for one in zip(*times.values(), strict=True)]
