"""Plays the golden scenarios of a junction over real connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any, Literal, Protocol

import aiomqtt
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from oracles.naislive import dial, junction_of, serving, until
from wireloom.formats.nais import StreamDecoder
from wireloom.services.nais import Junction

Kind = Literal["tcp", "ws", "mqtt"]
SETTLE_S = 0.02
"""How long to wait for what should not arrive."""


class _Peer(Protocol):
    got: bytearray

    async def send(self, chunks: list[bytes]) -> None: ...

    async def close(self) -> None: ...


def _records(chunks: list[bytes]) -> list[bytes]:
    decoder = StreamDecoder()
    found = [*decoder.feed(b"".join(chunks)), *decoder.close()]
    return [record.data for record in found]


class _Tcp:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got = bytearray()
        self._writer = writer
        self._task = asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(4096):
            self.got += data

    async def send(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._writer.write(chunk)
            await self._writer.drain()
            await asyncio.sleep(0.005)  # so that chunks arrive as chunks

    async def close(self) -> None:
        self._writer.close()
        await self._task


class _Ws:
    def __init__(self, connection: ClientConnection) -> None:
        self.got = bytearray()
        self._connection = connection
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = await self._connection.recv()
                self.got += message.encode() if isinstance(message, str) else message

    async def send(self, chunks: list[bytes]) -> None:
        for record in _records(chunks):
            await self._connection.send(record)

    async def close(self) -> None:
        await self._connection.close()
        await self._task


class _Mqtt:
    def __init__(self, client: aiomqtt.Client, topic: str) -> None:
        self.got = bytearray()
        self._client, self._topic = client, topic
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for message in self._client.messages:
            self.got += message.payload

    async def send(self, chunks: list[bytes]) -> None:
        for record in _records(chunks):
            await self._client.publish(self._topic, record)

    async def close(self) -> None:
        self._task.cancel()


def _is_mqtt(case: dict[str, Any]) -> bool:
    """Whether its first session is the only one of its line, as on an MQTT line."""
    connects = [step for step in case["steps"] if step["op"] == "connect"]
    first = connects[0]
    closes = {step["who"] for step in case["steps"] if step["op"] == "close"}
    lines = Counter(step["line"] for step in connects)
    return case["steps"][0] is first and lines[first["line"]] == 1 and first["as"] not in closes


async def play(case: dict[str, Any], kind: Kind, broker_port: int) -> bool:
    """Play a scenario; False when it is impossible on MQTT."""
    if kind == "mqtt" and not _is_mqtt(case):
        return False
    names = list(dict.fromkeys(name for route in case["routes"] for name in route))
    scheme = "ws" if kind == "ws" else "tcp"
    urls = {name: f"{name}={scheme}://127.0.0.1:0" for name in names}
    topic = f"scenario/{case['id']}"
    async with contextlib.AsyncExitStack() as stack:
        over_mqtt = ""
        client: aiomqtt.Client | None = None
        if kind == "mqtt":
            over_mqtt = case["steps"][0]["line"]
            urls[over_mqtt] = f"{over_mqtt}=mqtt://127.0.0.1:{broker_port}/{topic}"
            client = await stack.enter_async_context(aiomqtt.Client("127.0.0.1", broker_port))
            await client.subscribe(f"hb/{topic}")
        routes = tuple(f"{a}-{b}" for a, b in case["routes"])
        settings = junction_of(*urls.values(), routes=routes)
        junction = await stack.enter_async_context(serving(settings))
        if kind == "mqtt":
            await until(lambda: len(junction.sessions) == 1)
        peers: dict[str, _Peer] = {}
        for step, expected in zip(case["steps"], case["expect_after_step"], strict=True):
            if step["op"] == "connect":
                if step["line"] == over_mqtt:
                    assert client is not None
                    peers[step["as"]] = _Mqtt(client, topic)
                else:
                    peers[step["as"]] = await _joined(junction, step["line"], scheme)
            elif step["op"] == "close":
                count = len(junction.sessions)
                await peers.pop(step["who"]).close()
                await until(lambda n=count: len(junction.sessions) == n - 1)  # type: ignore[misc]
            else:
                await peers[step["who"]].send([bytes.fromhex(each) for each in step["chunks"]])
            await _expect(case["id"], kind, peers, expected)
        for peer in peers.values():
            await peer.close()
    return True


async def _joined(junction: Junction, line: str, scheme: str) -> _Peer:
    count = len(junction.sessions)
    peer: _Peer
    if scheme == "tcp":
        peer = _Tcp(*await dial(junction.addresses[line]))
    else:
        peer = _Ws(await connect(f"ws://{junction.addresses[line]}", compression=None))
    await until(lambda: len(junction.sessions) == count + 1)
    return peer


async def _expect(id: str, kind: str, peers: dict[str, _Peer], expected: dict[str, str]) -> None:
    wanted = {name: bytes.fromhex(expected.get(name, "")) for name in peers}
    if expected:
        await until(lambda: all(len(peers[n].got) >= len(data) for n, data in wanted.items()))
    await asyncio.sleep(SETTLE_S)
    got = {name: bytes(peer.got) for name, peer in peers.items()}
    assert got == wanted, (id, kind)
    for peer in peers.values():
        peer.got.clear()
