"""Entry points to test against, and hand-written peers that use none of our clients."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Self

from wireloom.formats.nrep import (
    FORMAT,
    DiscoverInstances,
    Hello,
    InstanceReply,
    NrepPacket,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
    app_id,
)
from wireloom.formats.nrep.packets import Unknown
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.program import run_service
from wireloom.services._shell.sections import ProgramSettings
from wireloom.services.nrep import Trust
from wireloom.services.nrep.entrypoint import EntryPoint
from wireloom.services.nrep.settings import DiscoverySettings, EntryPointSettings

__all__ = ["LOCAL", "Program", "RawPeer", "Served", "metric", "run", "served"]

LOCAL = Address("127.0.0.1", 0)
F = SocketFlags


def run(work: Coroutine[Any, Any, None], within_s: float = 60.0) -> None:
    """Run a test on an event loop, for a limited time."""

    async def main() -> None:
        async with asyncio.timeout(within_s):
            await work

    asyncio.run(main())


@dataclasses.dataclass
class Served:
    """An entry point that runs in this process."""

    service: EntryPoint
    said: dict[str, Any]
    trust: Trust
    stop: asyncio.Event

    @property
    def listen(self) -> str:
        return str(self.said["listen"])

    @property
    def address(self) -> Address:
        return Address.parse(self.listen)

    async def raw(self) -> RawPeer:
        """A hand-written peer, connected and greeted."""
        return await RawPeer.connect(self.address, is_plain=self.service.identity is None)

    async def until(self, name: str, value: float, *labels: str) -> None:
        """Wait until a metric has reached a value."""
        async with asyncio.timeout(20):
            while (found := metric(self.service, name, *labels)) < value:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert found >= value


def metric(service: EntryPoint, name: str, *labels: str) -> float:
    """The value of a metric, summed over all labels if none is named."""
    service.metrics.totals(service.table)
    total = 0.0
    for family in service.registry.collect():
        for sample in family.samples:
            is_it = sample.name in (f"wireloom_nrep_{name}", f"wireloom_nrep_{name}_total")
            if is_it and set(labels) <= set(sample.labels.values()):
                total += sample.value
    return total


@contextlib.asynccontextmanager
async def served(folder: Path, drain_s: float = 0.2, **changes: Any) -> AsyncIterator[Served]:
    """An entry point on loopback; `changes` are of its settings."""
    changes.setdefault("listen", LOCAL)
    changes.setdefault("state", folder / "state")
    changes.setdefault("discovery", DiscoverySettings(listen=LOCAL))
    service = EntryPoint(EntryPointSettings(**changes))
    stop, said = asyncio.Event(), asyncio.get_running_loop().create_future()
    program = ProgramSettings(metrics=LOCAL, drain_s=drain_s)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_service(service, program, stop=stop, ready=said.set_result))
        try:
            trust = Trust(known=folder / "known", is_insecure=bool(changes.get("insecure")))
            yield Served(service, await said, trust, stop)
        finally:
            stop.set()


class RawPeer:
    """Speaks the protocol of the document and nothing else."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.hello: NrepPacket | Unknown | None = None
        self._nonce = 0

    @classmethod
    async def connect(cls, address: Address, *, is_plain: bool = False) -> Self:
        context = None
        if not is_plain:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        peer = cls(*await asyncio.open_connection(address.host, address.port, ssl=context))
        peer.hello = await peer.next()
        assert isinstance(peer.hello, Hello)
        return peer

    async def next(self) -> NrepPacket | Unknown:
        """The next packet."""
        async with asyncio.timeout(20):
            head = await self.reader.readexactly(10)
            content = await self.reader.readexactly(int.from_bytes(head[6:10], "little"))
        return FORMAT.decode(head + content, extensions=True)

    def send(self, *packets: NrepPacket | bytes) -> None:
        self.writer.write(b"".join(p if isinstance(p, bytes) else p.encode() for p in packets))

    async def is_shut(self) -> bool:
        """Whether the entry point closes this connection."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(20):
                while await self.reader.read(65_536):
                    pass
        return True

    async def publish(self, app: str) -> bytes:
        self._nonce += 1
        self.send(Publish(nonce=self._nonce, description=app))
        reply = await self.next()
        assert isinstance(reply, PublishReply)
        assert reply.is_success
        assert reply.app_id == app_id(app)
        return reply.instance_id

    async def find(self, app: str) -> tuple[bytes, ...]:
        self._nonce += 1
        self.send(DiscoverInstances(nonce=self._nonce, app_id=app_id(app)))
        reply = await self.next()
        assert isinstance(reply, InstanceReply)
        assert reply.nonce == self._nonce
        return reply.instance_ids

    async def open(self, instance: bytes) -> bytes:
        """Ask for a socket; returns its id once acknowledged."""
        self._nonce += 1
        self.send(OpenSocket(nonce=self._nonce, instance_id=instance))
        ack = await self.next()
        assert isinstance(ack, SocketControl)
        assert (ack.nonce, ack.flags) == (self._nonce, F.OPEN_ACK)
        return ack.socket_id

    async def joined(self, other: RawPeer, instance: bytes) -> tuple[bytes, bytes]:
        """An open socket to an instance of `other`: its id here and there."""
        mine = await self.open(instance)
        request = await other.next()
        assert isinstance(request, SocketControl)
        assert (request.flags, request.instance_id) == (F.OPEN_REQUEST, instance)
        other.send(control(request.socket_id, F.ACCEPT))
        ready = await self.next()
        assert isinstance(ready, SocketControl)
        assert (ready.flags, ready.socket_id) == (F.READY, mine)
        return mine, request.socket_id

    async def data(self, size: int) -> bytes:
        """Bytes of sockets, until there are so many."""
        got = b""
        while len(got) < size:
            packet = await self.next()
            assert isinstance(packet, SocketData), packet
            got += packet.data
        return got

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


def control(socket: bytes, flags: int) -> bytes:
    """A Socket Control."""
    return SocketControl(socket_id=socket, flags=F(flags)).encode()


class Program:
    """``wireloom …`` as a process that reports when it is ready."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.log = folder / f"{words[0]}-{words[1]}-{time.monotonic_ns()}.log"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONASYNCIODEBUG"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wireloom.cli", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**environment, "XDG_STATE_HOME": str(folder / "home")},
            )
        self.ready: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_ready(self, within_s: float = 60.0) -> Self:
        """Wait for the line that says so.

        Raises:
            RuntimeError: it has ended, or takes too long.
        """
        assert self.process.stdout is not None
        found, _, _ = select.select([self.process.stdout], [], [], within_s)
        line = self.process.stdout.readline() if found else b""
        if not line:
            self.kill()
            raise RuntimeError(f"it does not start: {self.log.read_text()}")
        self.ready = json.loads(line)
        return self

    def terminate(self, within_s: float = 30.0) -> int:
        """Send SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(within_s)
        self.kill()
        return code

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
