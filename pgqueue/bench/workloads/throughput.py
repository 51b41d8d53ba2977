"""How much goes through: cycles, batches, reading on in one call, many readers."""

from __future__ import annotations

from functools import partial
from statistics import median

from pgqueue.bench import pgbench, rows
from pgqueue.bench.calls import Caller
from pgqueue.bench.lab import Lab
from pgqueue.bench.loops import BATCH, Loop, batch_steps, cycle_steps, totals
from pgqueue.bench.model import COMPILED, PGMQ
from pgqueue.bench.pgbench import Load, ask, ask_id

IN_THE_SERVER = "in the server"
READERS = {4: 2.0, 16: 2.0, 64: 3.0, 256: 6.0}
"""Clients, and how long they read: each first makes its plans, and two hundred take some seconds for that."""
FAST = 20_000
"""Messages a second that nobody reaches: as many are there to read."""


def clients_case(clients: int, synchronous_commit: str = "off") -> str:
    """What a load of pgbench is called in figures and bars."""
    return f"{clients} clients, synchronous_commit={synchronous_commit}"


# --- cycle -----------------------------------------------------------------------------------------


def cycle(lab: Lab) -> None:
    """Send, read and delete a message: in the server without commits, then by pgbench, a transaction each."""
    _in_the_server(lab, lab.callers(), rounds=3000)
    queues = {caller: caller.make_queue("clients") for caller in lab.callers()}
    for caller, queue in queues.items():  # a spare message for each client, or a read may find none
        rows.load(caller.database, queue, rows.READY, 2 * max(lab.options.clients), lab.message)
    for synchronous_commit in ("off", "on"):
        for clients in lab.options.clients:
            if lab.has_room(clients):
                _by_clients(lab, queues, clients, synchronous_commit)


def _in_the_server(lab: Lab, callers: list[Caller], rounds: int) -> None:
    queues = {caller: caller.make_queue("server") for caller in callers}
    loops = {
        caller: Loop(caller.connect(), cycle_steps(caller, queue), lab.message)
        for caller, queue in queues.items()
    }
    for loop in loops.values():
        loop.run(lab.count(500, least=10))
    for caller in lab.turns(callers):
        caller.vacuum(queues[caller])
        times = loops[caller].run(lab.count(rounds, least=10))
        record = partial(lab.record, IN_THE_SERVER, caller.side)
        record("cycle", "µs", median(totals(times)))
        for step, values in times.items():
            record(step, "µs", median(values))


def _by_clients(lab: Lab, queues: dict[Caller, str], clients: int, synchronous_commit: str) -> None:
    for caller in lab.turns(list(queues)):
        queue = queues[caller]
        caller.vacuum(queue)
        load = Load(
            script=cycle_script(caller, queue),
            clients=clients,
            seconds=lab.seconds(2),
            variables={"message": lab.message},
            settings={"synchronous_commit": synchronous_commit},
        )
        done = pgbench.run(caller.database.address, load)
        lab.record(
            clients_case(clients, synchronous_commit),
            caller.side,
            "cycles",
            "/s",
            done.rate,
            more_is_better=True,
        )


def cycle_script(caller: Caller, queue: str) -> str:
    """Send, read and delete one message, for pgbench; :message is its text."""
    return (
        ask(caller.call("send", queue, ":message"))
        + ask_id(caller.call("read", queue, "30", "1"))
        + ask(caller.call("delete", queue, ":msg_id::bigint"))
    )


# --- fetch -----------------------------------------------------------------------------------------


def fetch(lab: Lab) -> None:
    """Read and delete messages that are there, in two calls or in one."""
    queues = {caller: caller.make_queue("fetch") for caller in lab.callers()}
    ways = [(caller, "apart") for caller in queues]
    ways += [(caller, "fetch") for caller in queues if caller.side != PGMQ]
    for caller, way in lab.turns(ways):
        queue = queues[caller]
        script = fetch_script(caller, queue) if way == "fetch" else read_script(caller, queue)
        messages, clients = lab.count(15_000, least=100), 4
        _fill(lab, caller, queue, messages + 2 * clients)
        load = Load(script, clients, transactions=messages // clients, variables={"msg_id": "0"}, log=True)
        done = pgbench.run(caller.database.address, load)
        lab.record(f"{way}, 4 clients", caller.side, "messages", "/s", done.steady_rate, more_is_better=True)


def read_script(caller: Caller, queue: str) -> str:
    """Read and delete one message, for pgbench."""
    return ask_id(caller.call("read", queue, "300", "1")) + ask(
        caller.call("delete", queue, ":msg_id::bigint")
    )


def fetch_script(caller: Caller, queue: str) -> str:
    """Delete the message before and read the next, in one call."""
    return ask_id(caller.call("fetch", queue, "300", "1", "array[:msg_id]::bigint[]"))


def _fill(lab: Lab, caller: Caller, queue: str, messages: int) -> None:
    """Let a queue hold so many messages and nothing else."""
    caller.database.run(f"truncate pgmq.q_{queue}")
    rows.load(caller.database, queue, rows.READY, messages, lab.message)
    caller.vacuum(queue)


# --- batch -----------------------------------------------------------------------------------------


def batch(lab: Lab) -> None:
    """Send, read and delete a hundred messages at once, in the server."""
    queues = {caller: caller.make_queue("batch") for caller in lab.callers()}
    loops = {
        caller: Loop(caller.connect(), batch_steps(caller, queue), lab.message)
        for caller, queue in queues.items()
    }
    for loop in loops.values():
        loop.run(10)
    for caller in lab.turns(list(queues)):
        caller.vacuum(queues[caller])
        times = loops[caller].run(lab.count(100, least=5))
        lab.record(IN_THE_SERVER, caller.side, "batch cycle", "µs", median(totals(times)))
        for step, values in times.items():
            lab.record(IN_THE_SERVER, caller.side, f"{step} {BATCH}", "µs", median(values))


# --- readers ---------------------------------------------------------------------------------------


def readers(lab: Lab) -> None:
    """Read and delete by 4 to 256 clients: what is left of the best rate with the most of them."""
    queues = {caller: caller.make_queue("readers") for caller in lab.callers(PGMQ, COMPILED)}
    possible = [clients for clients in READERS if lab.has_room(clients)]
    for caller in lab.turns(list(queues), most=3):
        rates: list[float] = []
        for clients in possible:
            seconds = lab.seconds(READERS[clients], least=max(1, clients / 50))
            enough = 1.5 * max(rates) if rates else FAST
            _fill(lab, caller, queues[caller], round(enough * seconds))
            load = Load(read_script(caller, queues[caller]), clients, seconds, log=True)
            rates.append(pgbench.run(caller.database.address, load).steady_rate)
            lab.record(f"{clients} clients", caller.side, "messages", "/s", rates[-1], more_is_better=True)
        if possible == list(READERS):
            kept = rates[-1] / max(rates)
            lab.record("256 clients", caller.side, "of the peak", "", kept, more_is_better=True)
