"""A broker under faults for minutes: ``./run soak blaze``.

Writers change objects all the time; subscribers of every kind follow; others send garbage, reset
connections, read nothing, come and go. At the end memory is flat, and the images in the store, in
the subscribers and in the tap, brought through the pipeline, are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from oracles.blaze_peers import MODEL, Raw, truck
from oracles.blaze_program import Program
from oracles.blaze_taps import Image, store_objects, tap_objects

from wireloom.errors import WireloomError
from wireloom.formats.blaze import (
    Action,
    Encoding,
    SubscriptionType,
    trimmed,
)
from wireloom.services.blaze import Client

WRITERS = 3
KEYS = 400
"""Objects of each writer."""
PAUSE_S = 0.01
SAMPLE_S = 1.0
GROWTH = 1.10
"""By how much memory may differ between the second and the last quarter; a leak of a few bytes per
transaction is more."""
GROWTH_MB = 8.0

OPTIONS = ("--window", "64", "--max-queue", "2000", "--protocol-stall-s", "5", "--idle-s", "10")


def main(minutes: float, seed: int) -> None:
    """Run it, and compare.

    Raises:
        AssertionError: something is not as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="wlsoak-") as name:
        folder = Path(name)
        store, tap = f"sqlite:///{folder / 'fleet.db'}", folder / "tap"
        with Program.start(
            folder, store, *OPTIONS, "--tap", str(tap), "--log-level", "error"
        ) as program:
            soak = Soak(program, Random(seed), minutes * 60)
            asyncio.run(soak.run())
            assert program.terminate() == 0, program.log.read_text()
        print(soak.summary(), flush=True)
        held = asyncio.run(store_objects(store, MODEL, "TRUCK"))
        for follower, images in soak.images.items():
            assert images == held, f"{follower}: {_difference(images, held)}"
        tapped = tap_objects(tap, folder / "fleet.blz", folder / "lake")
        assert tapped == held, f"tap: {_difference(tapped, held)}"
        soak.check_memory()
        assert program.log.read_text() == "", program.log.read_text()[-2000:]


def _difference(found: dict[str, Image], wanted: dict[str, Image]) -> str:
    keys = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
    shown = [(key, found.get(key), wanted.get(key)) for key in sorted(keys)[:3]]
    return f"{len(keys)} objects differ, such as {shown}"


def used(program: Program) -> float:
    """MB of memory."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Soak:
    """Everybody who talks to the broker."""

    def __init__(self, program: Program, rng: Random, seconds: float) -> None:
        self.program = program
        self.rng = rng
        self.ends = time.monotonic() + seconds
        host, _, port = program.address.rpartition(":")
        self.at = host, int(port)
        self.images: dict[str, dict[str, Image]] = {}
        self.memory: list[float] = []
        self.transactions = 0
        self.faults = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def summary(self) -> str:
        return (
            f"{self.transactions:,} transactions, {self.faults:,} faults, memory "
            f"{self.memory[0]:.0f} .. {max(self.memory):.0f} MB, at the end {self.memory[-1]:.0f}"
        )

    def check_memory(self) -> None:
        quarter = len(self.memory) // 4
        early, late = median(self.memory[quarter : 2 * quarter]), median(self.memory[-quarter:])
        assert late < early * GROWTH + GROWTH_MB, f"memory grew from {early:.0f} to {late:.0f} MB"

    async def run(self) -> None:
        kinds: dict[str, dict[str, Any]] = {
            "images": {},
            "deltas": {
                "kind": SubscriptionType.INCREMENTAL,
                "encoding": Encoding.INDEXDELTA,
            },
        }
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(self.follow(name, stop, **given)) for name, given in kinds.items()
            ]
            # Its connection is cut now and then, and it goes on where it was.
            followers.append(group.create_task(self.follow("cut off", stop, cuts=True)))
            measuring = group.create_task(self.measure())
            async with asyncio.TaskGroup() as work:
                for number in range(WRITERS):
                    work.create_task(self.write(number * KEYS + 1, Random(self.rng.random())))
                for fault in (self.garbage, self.reset, self.deaf, self.leaver):
                    work.create_task(self.again(fault))
            async with Client.connect(*self.at, model=MODEL) as client:
                # The last change of all: who has seen it has seen everything.
                await client.insert(truck(10**9))
            stop.set()
            await asyncio.gather(*followers)
            measuring.cancel()

    async def write(self, first: int, rng: Random) -> None:
        alive: set[int] = set()
        async with Client.connect(*self.at, model=MODEL) as client:
            while not self.is_over:
                objects = {}
                for _ in range(rng.randrange(1, 9)):
                    key = first + rng.randrange(KEYS)
                    objects[key] = truck(
                        key, x=rng.randrange(1, 10**6), name=f"n{rng.randrange(99)}"
                    )
                for key, value in objects.items():
                    if key not in alive:
                        await client.insert(value)
                        alive.add(key)
                    elif rng.random() < 0.1:
                        await client.delete(value)
                        alive.discard(key)
                    elif rng.random() < 0.5:
                        await client.merge(truck(key, x=rng.randrange(1, 10**6)), fields=["x"])
                    else:
                        await client.update(value)
                    self.transactions += 1
                await asyncio.sleep(PAUSE_S)

    async def follow(
        self, name: str, stop: asyncio.Event, cuts: bool = False, **given: Any
    ) -> None:
        images = self.images[name] = {}
        async with Client.connect(*self.at, model=MODEL) as client:
            cut_at = time.monotonic() + 5
            async for event in client.subscribe("TRUCK", **given):
                if not event.is_download_end:
                    value = event.value
                    key = json.dumps([str(value.read("truck_id"))])
                    if event.action == Action.DEL:
                        images.pop(key, None)
                    else:
                        images[key] = (event.stamp, trimmed(value).to_values())
                    if value.read("truck_id") == 10**9:
                        return
                if cuts and not stop.is_set() and time.monotonic() > cut_at:
                    cut_at = time.monotonic() + 5
                    self.faults += 1
                    connection = client._connection
                    if connection is not None:
                        connection.abort()

    async def again(self, fault: Any) -> None:
        rng = Random(self.rng.random())
        while not self.is_over:
            with contextlib.suppress(ConnectionError, TimeoutError, WireloomError, AssertionError):
                await fault(rng)
            self.faults += 1
            await asyncio.sleep(rng.uniform(0.05, 0.3))

    async def garbage(self, rng: Random) -> None:
        async with await Raw.open(self.program.address) as raw:
            raw.send(rng.randbytes(rng.choice((1, 7, 100, 70_000))))
            await raw.packet(1)

    async def reset(self, rng: Random) -> None:
        async with await Raw.connect(self.program.address) as raw:
            raw.send(raw.subscription(), raw.request(Action.UPD, truck(1)).encode()[:30])
            sock = raw.writer.get_extra_info("socket")
            sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: closing resets
            await asyncio.sleep(rng.uniform(0, 0.1))

    async def deaf(self, rng: Random) -> None:
        async with await Raw.connect(self.program.address) as raw:
            raw.send(raw.subscription())
            await asyncio.sleep(rng.uniform(0, 8))

    async def leaver(self, rng: Random) -> None:
        async with Client.connect(*self.at, model=MODEL, reconnect=None) as client:
            seen = 0
            async for _ in client.subscribe("TRUCK"):
                seen += 1
                if seen > rng.randrange(1, 2000):
                    break

    async def measure(self) -> None:
        while True:
            self.memory.append(used(self.program))
            await asyncio.sleep(SAMPLE_S)
