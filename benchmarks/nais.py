"""Frames per second through a junction and through Mosquitto, for the same fan-out.

Each runs in its own process; one sender and one or ten receivers are in this one. A window limits
the frames in flight, and the receivers open it, so that neither side has to drop any. The junction
is reached over TCP, with plain sockets and with this package's client. Mosquitto is reached with
aiomqtt, which is what a program would use, and with plain sockets and prepared packets, which shows
what the broker itself can carry. QoS is 0.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from oracles.naislive import MOSQUITTO, dial, mosquitto

from wireloom.formats.nais import NaisPacket
from wireloom.services._shell.loops import new_loop
from wireloom.services.nais import Client

EVENT = NaisPacket.from_message(
    "Event", {"id": 12, "svals": ["hall"], "fvals": [21.5], "ivals": [-3, 70]}
)
FRAME = EVENT.encode()
WINDOW = 2000
"""Frames in flight."""
BATCH = 50
FANS = (1, 10)
ROUNDS = 3


class Window:
    """Lets the sender continue when every receiver has caught up."""

    def __init__(self, receivers: int, frames: int) -> None:
        self.counts = [0] * receivers
        self._frames = frames
        self._sent = 0
        self._moved = asyncio.Event()
        self.done = asyncio.Event()

    def got(self, receiver: int, count: int = 1) -> None:
        self.counts[receiver] += count
        self._moved.set()
        if min(self.counts) >= self._frames:
            self.done.set()

    async def next_batch(self) -> int:
        while self._sent - min(self.counts) > WINDOW - BATCH:
            self._moved.clear()
            await self._moved.wait()
        count = min(BATCH, self._frames - self._sent)
        self._sent += count
        return count


class Receiver(asyncio.Protocol):
    def __init__(self, window: Window, number: int, size: int) -> None:
        self._window, self._number, self._left = window, number, 0
        self._size = size
        self._counts = False

    def begin(self) -> None:
        self._counts = True

    def data_received(self, data: bytes) -> None:
        if self._counts:
            count, self._left = divmod(self._left + len(data), self._size)
            self._window.got(self._number, count)


async def _plain(
    to: str, at: str, one: bytes, fan: int, frames: int, hello: bytes = b"", subscribe: bytes = b""
) -> float:
    """From one socket to others; `one` is a frame, or an MQTT packet with one in it."""
    loop = asyncio.get_running_loop()
    window = Window(fan, frames)
    host, _, port = at.rpartition(":")
    made = [
        await loop.create_connection(lambda n=n: Receiver(window, n, len(one)), host, int(port))
        for n in range(fan)
    ]
    _, sender = await dial(to)
    if hello:
        for number, each in enumerate((sender, *(transport for transport, _ in made))):
            each.write(hello % number)
        await asyncio.sleep(0.2)
    for transport, _ in made:
        transport.write(subscribe)
    await asyncio.sleep(0.3)
    for _, receiver in made:
        receiver.begin()
    start = time.perf_counter()
    while count := await window.next_batch():
        sender.write(one * count)
        await sender.drain()
    await window.done.wait()
    took = time.perf_counter() - start
    sender.close()
    for transport, _ in made:
        transport.close()
    return frames / took


async def _clients(ready: dict[str, Any], fan: int, frames: int) -> float:
    window = Window(fan, frames)

    async def receive(client: Client, number: int) -> None:
        with client.events() as events:
            async for _ in events:
                window.got(number)

    receivers = [Client(f"tcp://{ready['lines']['b']}") for _ in range(fan)]
    async with Client(f"tcp://{ready['lines']['a']}") as sender, asyncio.TaskGroup() as group:
        for client in receivers:
            await client.connect()
        tasks = [group.create_task(receive(c, n)) for n, c in enumerate(receivers)]
        await asyncio.sleep(0.3)
        start = time.perf_counter()
        while count := await window.next_batch():
            for _ in range(count):
                await sender.send_packet(EVENT)
        await window.done.wait()
        took = time.perf_counter() - start
        for task in tasks:
            task.cancel()
    for client in receivers:
        await client.close()
    return frames / took


async def _mqtt(port: int, fan: int, frames: int) -> float:
    import aiomqtt

    window = Window(fan, frames)

    async def receive(client: Any, number: int) -> None:
        async for _ in client.messages:
            window.got(number)

    receivers = [aiomqtt.Client("127.0.0.1", port) for _ in range(fan)]
    quiet = logging.getLogger("bench")
    quiet.setLevel(logging.ERROR)  # it warns of every publish that waits for others
    sending = aiomqtt.Client("127.0.0.1", port, max_concurrent_outgoing_calls=BATCH, logger=quiet)
    async with sending as sender, asyncio.TaskGroup() as group:
        tasks = []
        for number, client in enumerate(receivers):
            await client.__aenter__()
            await client.subscribe("hb/bench")
            tasks.append(group.create_task(receive(client, number)))
        await asyncio.sleep(0.3)
        start = time.perf_counter()
        while count := await window.next_batch():
            await asyncio.gather(*(sender.publish("hb/bench", FRAME) for _ in range(count)))
        await window.done.wait()
        took = time.perf_counter() - start
        for task in tasks:
            task.cancel()
    for client in receivers:
        await client.__aexit__(None, None, None)
    return frames / took


TOPIC = b"\0\x08hb/bench"
HELLO = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04b%03d"
SUBSCRIBE = b"\x82\x0d\0\1" + TOPIC + b"\0"
PUBLISH = b"\x30" + bytes([len(TOPIC) + len(FRAME)]) + TOPIC + FRAME


def _run(work: Callable[[], Awaitable[float]]) -> float:
    async def main() -> float:
        async with asyncio.timeout(120):
            return await work()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


def main(quick: bool) -> dict[str, object]:
    if MOSQUITTO is None:
        print("no mosquitto on this machine (Debian: apt install mosquitto): nothing to compare")
        return {"skipped": "no mosquitto"}
    frames = {"plain": 100_000 if quick else 400_000, "other": 2_000 if quick else 10_000}
    lines = ["--line", "a=tcp://127.0.0.1:0", "--line", "b=tcp://127.0.0.1:0", "--route", "a-b"]
    command = [sys.executable, "-m", "wireloom.cli", "serve", "nais", *lines]
    results: dict[str, object] = {"frame_bytes": len(FRAME), "window": WINDOW}
    print(f"{'fan-out':>8} {'way':<28} {'frames/s in':>12} {'out':>12} {'to Mosquitto':>13}")
    with (
        tempfile.TemporaryDirectory() as folder,
        mosquitto(Path(folder)) as broker,
        subprocess.Popen(
            [*command, "--log-level", "warning"], stdout=subprocess.PIPE, env=os.environ
        ) as junction,
    ):
        assert junction.stdout is not None
        ready = json.loads(junction.stdout.readline())
        at = f"127.0.0.1:{broker.port}"
        try:
            for fan in FANS:
                other = frames["other"] // (1 if fan == 1 else 4)
                plain = frames["plain"] // (1 if fan == 1 else 4)
                ways: dict[str, Callable[[], Awaitable[float]]] = {
                    "Mosquitto, aiomqtt": lambda n=other, f=fan: _mqtt(broker.port, f, n),
                    "Mosquitto, plain sockets": lambda n=plain, f=fan: _plain(
                        at, at, PUBLISH, f, n, HELLO, SUBSCRIBE
                    ),
                    "junction, plain sockets": lambda n=plain, f=fan: _plain(
                        ready["lines"]["a"], ready["lines"]["b"], FRAME, f, n
                    ),
                    "junction, our client": lambda n=other, f=fan: _clients(ready, f, n),
                }
                # In turns, so that other load on the machine affects all of them.
                found: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(1 if quick else ROUNDS):
                    for way, work in ways.items():
                        found[way].append(_run(work))
                base = statistics.median(found["Mosquitto, aiomqtt"])
                for way, rates in found.items():
                    rate = statistics.median(rates)
                    ratio = rate / base
                    figures = f"{rate:>12,.0f} {rate * fan:>12,.0f} {ratio:>12.1f}×"
                    print(f"{f'1→{fan}':>8} {way:<28} {figures}")
                    results[f"1 to {fan}: {way}"] = {"frames_per_s": rate, "ratio": ratio}
        finally:
            junction.terminate()
    return results
