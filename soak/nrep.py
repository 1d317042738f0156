"""An NREP entry point under traffic and faults for minutes: nothing lost, memory flat.

Publishers and requesters come, talk, break and come back; one connection is cut every second; noise
and slow peers connect in between. Every byte of a socket that ended well is checked by hash. The
memory of the entry point's process is looked at all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import ssl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from oracles.nrep_live import Program

from wireloom.errors import ConnectionClosed, RefusedError, WireloomError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import set_up_logs
from wireloom.services._shell.loops import new_loop
from wireloom.services.nrep import Client, SocketWriter, Trust

GROWTH = 1.10
"""By how much memory may differ between the second and the last quarter: allocators keep some."""
REMEMBERED_S = 60
REMEMBERED_BYTES = 512
"""Ids of closed sockets are remembered for a minute. A run whose second quarter begins before that
ends with more of them than it had there; each takes about 330 bytes."""


@dataclass
class Tally:
    """What has happened."""

    good: int = 0
    broken: int = 0
    refused: int = 0
    wrong: int = 0
    cut: int = 0
    bytes: int = 0


async def _serve(reader: asyncio.StreamReader, writer: SocketWriter) -> None:
    """Answer with the hash of what was sent."""
    digest = hashlib.sha256()
    left = int.from_bytes(await reader.readexactly(8), "big")
    while left:
        data = await reader.read(min(left, random.randrange(1, 200_000)))
        if not data:
            return
        digest.update(data)
        left -= len(data)
        if random.random() < 0.02:
            await asyncio.sleep(random.random() * 0.05)
    writer.write(digest.digest())
    await writer.drain()


async def _ask(client: Client, tally: Tally) -> None:
    """One socket, from its opening to the comparison of hashes."""
    try:
        reader, writer = await client.open(f"app{random.randrange(3)}")
    except (RefusedError, ConnectionClosed):
        tally.refused += 1
        await asyncio.sleep(0.05)
        return
    size = int(random.paretovariate(0.6) * 1000) % 3_000_000
    digest = hashlib.sha256()
    try:
        writer.write(size.to_bytes(8, "big"))
        left = size
        while left:
            data = random.randbytes(min(left, random.randrange(1, 150_000)))
            digest.update(data)
            writer.write(data)
            await writer.drain()
            left -= len(data)
        answer = await reader.readexactly(32)
    except (ConnectionClosed, asyncio.IncompleteReadError):
        tally.broken += 1  # one of the faults; nothing is promised
        return
    finally:
        writer.close()
    tally.bytes += size
    if answer == digest.digest():
        tally.good += 1
    else:
        tally.wrong += 1


async def _nuisance(at: Address) -> None:
    """A peer that means harm."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
        is_tls = random.random() < 0.7
        async with asyncio.timeout(5):
            opened = asyncio.open_connection(at.host, at.port, ssl=context if is_tls else None)
            reader, writer = await opened
            writer.write(random.randbytes(random.randrange(200)))
            await asyncio.sleep(random.random())
            writer.transport.abort()
            await reader.read()


def _resident(pid: int) -> int:
    """Bytes of a process in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


async def _run(minutes: float, entry: Program, tally: Tally) -> list[int]:
    listen, pin = entry.ready["listen"], entry.ready["fingerprint"]
    at = Address.parse(listen)
    clients = [Client(listen, trust=Trust(pin=pin), name=f"soak {n}") for n in range(6)]
    for client in clients:
        await client.start()
    for number, client in enumerate(clients[:3]):
        for app in (number, (number + 1) % 3):
            await client.publish(f"app{app}", _serve)
    end = time.monotonic() + 60 * minutes
    memory: list[int] = []

    async def ask(client: Client) -> None:
        while time.monotonic() < end:
            await _ask(client, tally)

    async def cut() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(1)
            await _nuisance(at)
            victim = random.choice(clients)
            with contextlib.suppress(WireloomError):
                (await victim.connected(1)).abort()
                tally.cut += 1
            memory.append(_resident(entry.process.pid))

    async with asyncio.TaskGroup() as group:
        group.create_task(cut())
        for client in clients[3:]:
            for _ in range(8):
                group.create_task(ask(client))
    for client in clients:
        await client.close()
    return memory


def main(minutes: float, seed: int) -> None:
    """Run it.

    Raises:
        AssertionError: bytes were wrong, memory has grown, or the entry point did not last.
    """
    set_up_logs("error", "text")
    random.seed(seed)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        words = ("--listen", "127.0.0.1:0", "--no-announce", "--state", f"{folder}/state")
        log = ("--log-level", "error")
        with Program(Path(folder), "serve", "nrep", *words, *log) as entry:
            entry.wait_ready()
            with asyncio.Runner(loop_factory=new_loop) as runner:
                memory = runner.run(_run(minutes, entry, tally))
            assert entry.process.poll() is None, "the entry point has ended"
            code = entry.terminate()
    quarter = max(1, len(memory) // 4)
    quarters = [median(memory[at : at + quarter]) for at in range(0, 4 * quarter, quarter)]
    print(
        f"{tally.good} sockets good, {tally.bytes / 1e6:.0f} MB, {tally.broken} broken by "
        f"{tally.cut} cuts, {tally.refused} not opened, {tally.wrong} wrong; "
        f"memory by quarters: {', '.join(f'{each / 1e6:.0f}' for each in quarters)} MB"
    )
    assert tally.good, "no socket ended well"
    assert not tally.wrong, "bytes were lost or moved"
    most = quarters[1] * GROWTH
    if minutes * 60 / 4 < REMEMBERED_S:
        most += tally.good * REMEMBERED_BYTES
    assert quarters[3] <= most, "memory has grown"
    assert code == 0, f"the entry point ended with {code}"
