"""How each side is called: pgmq, ours by name, ours compiled."""

from __future__ import annotations

import json
import random
import string
from dataclasses import dataclass

from pgqueue.bench.databases import Connection, Database
from pgqueue.bench.model import COMPILED, NOT_COMPILED

#: The public name of what a compiled function does, where it is not pgmq.FUNCTION.
PUBLIC = {
    "delete_batch": "pgmq.delete",
    "grouped_head": "pgmq.read_grouped_head",
    "fetch": "pgqueue.fetch",
}


@dataclass(frozen=True)
class Caller:
    """A side of the comparison: in which database, and how its functions are called there.

    side: one of model.SIDES.
    """

    side: str
    database: Database

    def call(self, function: str, queue: str, *arguments: str) -> str:
        """A call as SQL text. function: the name of a compiled one. arguments: SQL."""
        if self.side == COMPILED:
            return f'pgqueue."{queue}${function}"({", ".join(arguments)})'
        return f"{PUBLIC.get(function, f'pgmq.{function}')}({', '.join([f'{queue!r}', *arguments])})"

    def connect(self) -> Connection:
        """A new autocommit connection that lasts as long as the database."""
        return self.database.connect()

    def make_queue(self, name: str) -> str:
        """Make a queue for this side alone; gives its name, which tells the side too."""
        queue = f"{name}_{self.side.replace(' ', '_')}"
        self.database.run(f"select pgmq.create('{queue}')")
        if self.side == NOT_COMPILED:
            self.database.run(f"select pgqueue.decompile('{queue}')")
        return queue

    def vacuum(self, queue: str) -> None:
        """Take out the dead rows of a queue and renew its statistics."""
        self.database.run(f"vacuum (analyze) pgmq.q_{queue}")


def message(size: int) -> str:
    """A JSON object of `size` bytes (at least 9) as text; always the same, and hard to compress."""
    letters = random.Random(size).choices(string.ascii_letters, k=max(size - 9, 0))
    return json.dumps({"x": "".join(letters)})
