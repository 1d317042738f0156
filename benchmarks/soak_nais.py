"""A junction under faults for minutes: answers stay right, everybody comes back, memory is flat.

A junction and two simulated boards are processes of their own; one board is faulty, the other one
is behind Mosquitto where that is installed. Clients switch LEDs all the time. Meanwhile boards and
broker are killed and started again, peers send garbage or vanish, and the configuration is read
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0:1] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from oracles.naislive import MOSQUITTO, Mosquitto, Program, dial, frame

from wireloom.services.nais import Client

EVERY_S = 1.0
"""Between two faults."""
GROWTH = 1.3
"""The memory at the end, to that after the first third, at most; below it is noise."""
SLACK_KB = 8_192

CONFIG = """\
[lines.board]
url = "tcp://127.0.0.1:0"
board = true
idle_s = 0.2
[lines.mqtt]
url = "mqtt://127.0.0.1:{port}/soak/board"
role = "client"
retry_s = 0.1
max_retry_s = 1.0
[lines.app]
url = "tcp://127.0.0.1:0"
[lines.web]
url = "ws://127.0.0.1:0"
[[routes]]
a = "board"
b = "app"
[[routes]]
a = "mqtt"
b = "web"
[program]
log_level = "error"
"""


def _memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise OSError("no VmRSS")


class _Board:
    """A board that can be killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._program: Program | None = None

    def start(self) -> None:
        self._program = Program("nais", "board", "--log-level", "error", *self._arguments)

    def stop(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None


async def _ask(url: str, seen: Counter[str], name: str) -> None:
    """Switch LEDs for ever; wrong answers and requests that fail are counted."""
    async with Client(url, timeout_s=0.5, retries=60) as client:
        value = 0
        while True:
            value = (value + 1) % 8
            try:
                lit = await client.leds(7, value)
            except TimeoutError:
                seen[f"{name}: unanswered"] += 1
                continue
            seen[f"{name}: answered"] += 1
            seen[f"{name}: wrong"] += lit != value
            await asyncio.sleep(0.002)


async def _attack(address: str, chance: random.Random) -> None:
    with contextlib.suppress(OSError):
        _, writer = await dial(address)
        kind = chance.randrange(3)
        if kind == 0:
            writer.write(chance.randbytes(20_000))
        elif kind == 1:
            writer.write(frame()[:4])
        else:
            writer.write(frame(dline=200) * 500 + b"\x1e" * 2000)
        await asyncio.sleep(0.2)
        writer.transport.abort()


@contextlib.asynccontextmanager
async def _asking(
    said: dict[str, str], seen: Counter[str], has_broker: bool
) -> AsyncIterator[list[asyncio.Task[None]]]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(f"tcp://{said['app']}", seen, "board"))]
        if has_broker:
            tasks.append(group.create_task(_ask(f"ws://{said['web']}", seen, "mqtt board")))
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[Mosquitto | None]:
    if MOSQUITTO is None:
        print("no mosquitto on this machine: without MQTT")
        yield None
        return
    broker = Mosquitto(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


async def _run(minutes: float, folder: Path) -> list[str]:
    seen: Counter[str] = Counter()
    chance = random.Random(1)
    config = folder / "junction.toml"
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(_broker(folder))
        config.write_text(CONFIG.format(port=broker.port if broker else 1))
        junction = stack.enter_context(Program("serve", "nais", "--config", str(config)))
        lines = junction.said["lines"]
        boards = [
            _Board(
                *("--connect", f"tcp://{lines['board']}", "--event-every-s", "0.05"),
                *("--fault", "garbage", "--fault", "text", "--fault", "half"),
                *("--fault-rate", "0.1"),
            )
        ]
        if broker is not None:
            boards.append(_Board("--connect", f"mqtt://127.0.0.1:{broker.port}/soak/board"))
        for board in boards:
            stack.callback(board.stop)
            await asyncio.to_thread(board.start)

        faults: list[Callable[[], None]] = [lambda: junction.signal(signal.SIGHUP)]
        for each in (*boards, *([broker] if broker is not None else [])):

            def restart(one: _Board | Mosquitto = each) -> None:
                one.stop()
                one.start()

            faults.append(restart)
        end = time.monotonic() + minutes * 60
        first = end - minutes * 40
        early = 0
        async with _asking(lines, seen, broker is not None):
            while (now := time.monotonic()) < end:
                await asyncio.sleep(min(EVERY_S, end - now))
                if not early and now > first:
                    early = _memory_kb(junction.pid)
                if chance.random() < 0.4:
                    await asyncio.to_thread(chance.choice(faults))
                    seen["faults"] += 1
                await _attack(lines["app"], chance)
                seen["attacks"] += 1
            before = Counter(seen)
            # Everything has been put back: both must answer again.
            await asyncio.sleep(8)
        late = _memory_kb(junction.pid)
        status, log = await asyncio.to_thread(junction.stop)
    print(", ".join(f"{count:,} {name}" for name, count in sorted(seen.items())))
    print(f"memory of the junction: {early:,} kB early, {late:,} kB late")
    wrong = [
        name for name, count in seen.items() if name.endswith(("wrong", "unanswered")) and count
    ]
    answers = [name for name in seen if name.endswith(": answered")]
    wrong += [f"{name} no more" for name in answers if seen[name] == before[name]]
    if early and late > early * GROWTH + SLACK_KB:
        wrong.append("memory grows")
    if status or log:
        wrong.append(f"the junction ended with {status} and said {log[:3]}")
    return wrong


def soak(minutes: float) -> int:
    """Run for so long; 0 when all was well."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(_run(minutes, Path(folder)))
    for each in wrong:
        print(f"wrong: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.pop("PYTHONASYNCIODEBUG", None)
    sys.exit(soak(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
