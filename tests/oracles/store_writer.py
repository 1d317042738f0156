"""A broker's store that writes until it is killed.

``python store_writer.py URL CONNECTION`` prints ``ready``, then the number of each transaction once
its outcome is known to be good.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles.stores import FLEET, write
from wireloom.formats.blaze.codes import Action
from wireloom.services.blaze.store import Outcome, open_store

FLYING = 40
"""Transactions in flight."""


async def run(url: str, connection: int) -> None:
    store = await open_store(url, FLEET)
    await store.start(lambda changes: None, lambda nclsid: None)
    room = asyncio.Semaphore(FLYING)
    print("ready", flush=True)

    def done(number: int, outcome: Outcome) -> None:
        if outcome.is_ok:
            print(number, flush=True)
        room.release()

    number = 0
    while True:
        number += 1
        await room.acquire()
        # Each inserts a new object, and all change the same one.
        key = 1000 + connection * 1_000_000 + number if number % 3 else 999
        action = Action.INS if number % 3 else Action.UPD
        if number == 3:
            action = Action.INS
        each = write(action, key, number, connid=connection + 1, name=f"{connection}/{number}")
        store.submit(each, lambda outcome, n=number: done(n, outcome))  # type: ignore[misc]


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2])))
