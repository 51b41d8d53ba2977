"""Push, pop, defer, complete: three messages, of which only one is wanted now.

    export PGQUEUE_DSN=postgresql://…
    pgqueue install
    python examples/pushpop.py

To pop a message here is to take it for half a minute. Whoever dies with it loses nothing: it comes again.
"""

from __future__ import annotations

from pgqueue import Client, Message, Queue

TOPIC = "fruit"
DEFER_SECONDS = 5


def pop(queue: Queue[str]) -> Message[str] | None:
    """The next message, for 30 seconds; None if there is none now."""
    return queue.read_one(vt=30)


def take(queue: Queue[str], wanted: str) -> Message[str] | None:
    """Pop until the wanted message comes. The others are deferred: nobody sees them for five seconds."""
    while message := pop(queue):
        if message.message == wanted:
            return message
        print(f"deferred by {DEFER_SECONDS} s: {message.message}")
        message.give_back(DEFER_SECONDS)
    return None


def main() -> None:
    with Client() as client:
        client.create(TOPIC)
        queue = client.queue(TOPIC, str)
        for body in ("apple", "pear", "plum"):
            queue.send(body)
        if message := take(queue, "plum"):
            message.complete()
            print(f"completed: {message.message}")
        print(f"nobody sees the others yet: {pop(queue)}")
        for message in queue.messages():  # waits until their time has come
            message.complete()
            print(f"completed later: {message.message}")
            if queue.metrics().queue_length == 0:
                break


if __name__ == "__main__":
    main()
