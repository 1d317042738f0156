"""kill -9 in the middle of commits: what was answered is there, and nothing is there twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from oracles.stores import FLEET, all_rows, image, write

from wireloom.formats.blaze.codes import Action, BlazeCode
from wireloom.services.blaze.store import open_store

WRITER = Path(__file__).parents[1] / "oracles" / "store_writer.py"
ROUNDS = 2


def killed(url: str, connection: int, after: float) -> list[int]:
    """The transactions that were answered before the writer was killed."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), url, str(connection)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    # The last line may be cut.
    return [int(line) for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]


@pytest.mark.slow
def test_what_was_answered_survives_a_kill(store_url: str) -> None:
    random = Random(17)
    answered: dict[int, list[int]] = {}
    for connection in range(ROUNDS):
        answered[connection] = killed(store_url, connection, random.uniform(0.02, 0.4))
    assert sum(map(len, answered.values())) > 100

    async def run() -> None:
        store = await open_store(store_url, FLEET)
        assert await store.verify() == []
        rows = await all_rows(store, at_once=500)
        names = {str(image(row)["name"]) for row in rows}
        stamps = [row.stamp for row in rows]
        assert stamps == sorted(set(stamps))
        for connection, numbers in answered.items():
            assert numbers == sorted(set(numbers))
            assert {f"{connection}/{n}" for n in numbers if n % 3} <= names
            repeated = await asyncio.gather(
                *(
                    store.apply(write(Action.INS, 5_000_000 + n, n, connid=connection + 1))
                    for n in numbers
                )
            )
            assert {o.code for o in repeated} <= {BlazeCode.DUPLICATED_TRANSACTION_ID}
            # What is stored is a prefix of what was sent, and at most what flew is beyond it.
            stored = [
                int(name.partition("/")[2]) for name in names if name.startswith(f"{connection}/")
            ]
            wanted = {number for number in range(1, max(stored) + 1) if number % 3}
            assert wanted == {number for number in stored if number % 3}
            assert not numbers or max(stored) <= max(numbers) + 45
        # All changed one object, which has the last of these changes.
        shared = await store.get(302, write(Action.DEL, 999).object)
        assert shared is not None
        connection, number = map(int, str(shared["name"]).split("/"))
        assert connection == ROUNDS - 1
        assert number >= max(n for n in [0, *answered[connection]] if n % 3 == 0)
        await store.close()

    asyncio.run(run())
