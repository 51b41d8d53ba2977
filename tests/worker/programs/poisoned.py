"""A worker that a message kills: its body says so."""

from __future__ import annotations

import os
import signal
from typing import Any

from pgqueue import AsyncDelivery, Worker

worker = Worker(os.environ["PGQUEUE_DSN"], poll=0.05)


@worker.handler("plain", vt=1, max_deliveries=2)
async def plain(message: AsyncDelivery[Any]) -> None:
    if message.message == "poison":
        os.kill(os.getpid(), signal.SIGKILL)


@worker.handler("exact", vt=1, max_deliveries=2, transactional=True, dead_letter="dead")
def exact(message: Any, conn: Any) -> None:
    conn.execute("insert into ledger (msg_id, read_ct, pid) values (%s, %s, %s)", [message.msg_id, 0, 0])
    if message.message == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
