"""Fan-out by topics: one message to every queue that has asked for its kind.

    export PGQUEUE_DSN=postgresql://…
    pgqueue install
    python examples/fan_out.py

A pattern is words with dots between; * is one word, # any number. Each queue gets a copy of its own, reads it
in its own time and finishes it without the others noticing.
"""

from __future__ import annotations

from pgqueue import Client

WANTED = {
    "billing": ["order.*.paid"],
    "shipping": ["order.eu.#", "order.us.paid"],
    "audit": ["#"],
}
EVENTS = ["order.eu.placed", "order.eu.paid", "order.us.placed", "order.us.paid", "login"]


def main() -> None:
    with Client() as client:
        for queue_name, patterns in WANTED.items():
            client.create(queue_name)
            for pattern in patterns:
                client.bind_topic(pattern, queue_name)
        for event in EVENTS:
            copies = client.send_topic(event, {"event": event})
            print(f"{event}: {copies} queues")
        for queue_name in WANTED:
            queue = client.queue(queue_name)
            messages = queue.read(qty=10)
            print(f"{queue_name}:", ", ".join(one.message["event"] for one in messages))
            queue.delete_many([one.msg_id for one in messages])


if __name__ == "__main__":
    main()
