"""``wireloom blaze replay``: recorded clients against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracles.blaze_broker import MODEL, Broker, broker_in_a_thread

from wireloom.captures import PcapWriter, Recorder
from wireloom.formats.blaze import Action, BlazeCode, RefusalCode, SubscriptionMode
from wireloom.formats.blaze.classes import classes_of
from wireloom.services.blaze import Client, ConnectionRefused, TransactionRefused

Run = Callable[..., Any]
TRUCK: Any = classes_of(MODEL).TRUCK


class Tap:
    """A relay in front of a broker that records what crosses it."""

    def __init__(self, broker: Broker, path: Path) -> None:
        self.port = 0
        self._broker = broker
        self._file = path.open("wb")
        self._recorder = Recorder(self._file)
        self._count = 0
        self._ts = 1_700_000_000_000_000_000

    async def __aenter__(self) -> Tap:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        await asyncio.sleep(0.05)
        self._file.close()

    def _now(self) -> int:
        self._ts += 1_000_000
        return self._ts

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        client = ("10.0.0.1", 40_000 + self._count)
        recording = self._recorder.connect(client, ("10.0.0.2", 12345), self._now())
        back, out = await asyncio.open_connection("127.0.0.1", self._broker.port)

        async def pump(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, note: Callable[..., None]
        ) -> None:
            while data := await source.read(1 << 16):
                note(data, self._now())
                sink.write(data)
                await sink.drain()
            sink.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, out, recording.from_client))
            group.create_task(pump(back, writer, recording.from_server))
        recording.close(self._now())


async def _conversation(port: int, broker: Broker) -> None:
    async with (
        Client.connect("127.0.0.1", port, model=MODEL, reconnect=None) as writer,
        Client.connect("127.0.0.1", port, model=MODEL, reconnect=None) as reader,
    ):
        await writer.insert(TRUCK(truck_id=1, name="one"), wants_result=True)
        events = reader.subscribe(TRUCK)
        assert not (await anext(events)).is_download_end
        assert (await anext(events)).is_download_end
        for i in range(2, 30):
            await writer.insert(TRUCK(truck_id=i, name=f"n{i}"))
            assert (await anext(events)).object.truck_id == i
        with pytest.raises(TransactionRefused):
            await writer.insert(TRUCK(truck_id=1))
        await writer.insert_many(TRUCK(truck_id=i) for i in range(100, 140))
        for _ in range(40):
            await anext(events)
        position = events.position
        events.close()
        await writer.delete(TRUCK(truck_id=5))
        past = reader.subscribe(TRUCK, mode=SubscriptionMode.PAST, resume=position)
        assert [event.action async for event in past] == [Action.DEL, Action.NONE]
    broker.refusal = RefusalCode.TOO_MANY_CONNECTIONS
    with pytest.raises(ConnectionRefused):
        await Client.connect("127.0.0.1", port).__aenter__()
    broker.refusal = None


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clients of a broker, and a third that it refused."""
    path = tmp_path_factory.mktemp("replay") / "day.pcapng"

    async def run() -> None:
        async with asyncio.timeout(30), Broker(window=4) as broker, Tap(broker, path) as tap:
            await _conversation(tap.port, broker)

    asyncio.run(run())
    return path


@pytest.mark.parametrize("speed", [0, 5])
def test_a_broker_that_does_the_same(run: Run, capture: Path, speed: int) -> None:
    with broker_in_a_thread(window=4, connids=70, refuse_from=3) as broker:
        at = ["--at", f"127.0.0.1:{broker.port}", "--speed", speed]
        done = run("blaze", "replay", capture, *at, "--json")
        report = json.loads(done.stdout)
        assert report["equal"], report
        assert report["connections"] == 3
        assert report["packets"]["TXRESP"]["equal"] == 71
        assert report["packets"]["SBSEVT"]["equal"] == 2 + 28 + 40 + 3
        assert report["packets"]["CONRES"]["equal"] == 3
        assert broker.connids == 72


def test_a_broker_that_answers_otherwise(run: Run, capture: Path) -> None:
    with broker_in_a_thread(window=4, refuse_from=3) as broker:
        broker.code = lambda request: (
            BlazeCode.UNAUTHORIZED
            if request.nclass is not None and request.nclass.get("truck_id") == 7
            else None
        )
        at = ["--at", f"127.0.0.1:{broker.port}", "--speed", 0, "--wait", 0.1]
        done = run("blaze", "replay", capture, *at, "--show", 1, code=1)
        table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[:6]}
        assert table["packet"] == ["equal", "different", "missing", "extra"]
        assert table["TXRESP"] == ["70", "1", "0", "0"]
        assert table["SBSEVT"] == ["72", "0", "1", "0"]  # one event less
        assert "recorded: txresl=1 rescls=0 blzcod=0\n" in done.stdout
        assert "live:     txresl=2 rescls=0 blzcod=10\n" in done.stdout


def test_a_broker_that_hangs_up(run: Run, capture: Path) -> None:
    with broker_in_a_thread(refusal=RefusalCode.SERVER_ERROR) as broker:
        at = ["--at", f"127.0.0.1:{broker.port}", "--speed", 0, "--wait", 0.1]
        report = json.loads(run("blaze", "replay", capture, *at, "--json", code=1).stdout)
        assert report["packets"]["CONRES"]["different"] == 3
        assert report["packets"]["TXRESP"]["missing"] == 71
        assert report["skipped"] > 0


def test_captures_without_a_connection(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    with path.open("wb") as file:
        PcapWriter(file)
    done = run("blaze", "replay", path, "--at", "127.0.0.1:1", code=1)
    assert "no Blaze connection to replay" in done.stderr
    raw = tmp_path / "raw.bin"
    raw.write_bytes(bytes.fromhex("048300001e000000"))
    done = run("blaze", "replay", raw, "--at", "127.0.0.1:1", code=1)
    assert "1 streams are no Blaze connections" in done.stderr
