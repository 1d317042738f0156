"""The NAIS junction over real TCP on loopback."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from wireloom.errors import OptionError
from wireloom.formats.nais import NaisPacket
from wireloom.formats.nais.board import BoardSession
from wireloom.formats.nais.session import Acknowledged, ClientSession
from wireloom.services.nais import Junction, parse_line, parse_route

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def frame(type: int = 10, *, sline: int = 0, payload: bytes = b"\x08\x01") -> bytes:
    return NaisPacket(type=type, sline=sline, payload=payload).encode()


async def dial(address: str) -> Streams:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


def on_junction(test: Callable[[Junction], Awaitable[None]], *lines: str, route: str) -> None:
    async def run() -> None:
        junction = Junction(map(parse_line, lines), [parse_route(route)])
        await junction.start()
        stop = asyncio.Event()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(junction.run(stop))
            try:
                await test(junction)
            finally:
                stop.set()
        assert not junction.connections

    asyncio.run(run())


A, B = "a=tcp://127.0.0.1:0", "b=tcp://127.0.0.1:0"


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is waited for is in another object's state
        await asyncio.sleep(0.01)


def test_frames_and_text_cross_and_many_of_them_stay_in_order() -> None:
    async def test(junction: Junction) -> None:
        reader, writer = await dial(junction.addresses["b"])
        await until(lambda: len(junction.connections) == 1)
        _, sender = await dial(junction.addresses["a"])
        many = [b"%06d" % number for number in range(5000)]
        sender.write(b"boot\n" + b"".join(frame(payload=each) for each in many))
        expected = b"boot\n" + b"".join(frame(sline=2, payload=each) for each in many)
        assert await reader.readexactly(len(expected)) == expected
        for each in (writer, sender):
            each.close()
            await each.wait_closed()

    on_junction(test, A, B, route="a-b")


def test_a_slow_reader_loses_records_and_a_fast_one_does_not() -> None:
    async def test(junction: Junction) -> None:
        _, slow = await dial(junction.addresses["b"])
        reader, fast = await dial(junction.addresses["b"])
        _, sender = await dial(junction.addresses["a"])
        await until(lambda: len(junction.connections) == 3)
        slow.transport.pause_reading()  # type: ignore[attr-defined]
        one = frame(payload=bytes(50_000))
        for _ in range(600):
            sender.write(one)
            await sender.drain()
            got = await reader.readexactly(len(one))
            assert got[6:] == one[6:]
        assert junction.router.counters.overflow > 0
        for each in (slow, fast, sender):
            each.transport.abort()

    on_junction(test, A, B, route="a-b")


def test_garbage_hurts_only_its_sender() -> None:
    async def test(junction: Junction) -> None:
        reader, good = await dial(junction.addresses["b"])
        await until(lambda: len(junction.connections) == 1)
        _, bad = await dial(junction.addresses["a"])
        bad.write(b"\x1e\x0a\x00\x00\x00\xff\xff\xff\xff" * 100)
        _, other = await dial(junction.addresses["a"])
        await until(lambda: len(junction.connections) == 3)
        other.write(frame())
        got = await reader.readexactly(len(frame()))
        assert got == frame(sline=3)
        assert junction.router.counters.problems >= 100
        for each in (good, bad, other):
            each.transport.abort()

    on_junction(test, A, B, route="a-b")


def test_a_client_line_connects_again_and_a_command_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wireloom.services.nais.junction._RECONNECT_S", 0.05)

    async def run() -> None:
        boards: list[asyncio.StreamWriter] = []

        async def board(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            boards.append(writer)
            session = BoardSession()
            while data := await reader.read(4096):
                session.receive(data, 0)
                writer.write(session.data_to_send())
            writer.close()

        server = await asyncio.start_server(board, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        line = f"b=tcp-client://127.0.0.1:{port}?board"
        junction = Junction(map(parse_line, [A, line]), [("a", "b")])
        await junction.start()
        stop = asyncio.Event()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(junction.run(stop))
            reader, writer = await dial(junction.addresses["a"])
            client = ClientSession()
            for attempt in (1, 2):
                await until(lambda n=attempt: len(boards) == n and len(junction.connections) == 2)
                client.command(1, 0, type=10, ivals=[7, 5])
                writer.write(client.data_to_send())
                events = client.receive(await reader.read(4096), 0)
                assert [(type(event), event.status) for event in events] == [(Acknowledged, 5)]
                boards[-1].transport.abort()
            writer.transport.abort()
            stop.set()
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "text",
    ["tcp://h:1", "a b=tcp://h:1", "a=ws://h:1", "a=tcp://h", "a=tcp://h:x", "a=tcp://h:1?fast"],
)
def test_wrong_lines_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="line"):
        parse_line(text)


def test_wrong_routes_are_refused() -> None:
    for text in ("a", "a-", "-b", "a-b-c"):
        with pytest.raises(OptionError, match="route"):
            parse_route(text)


def test_the_command_says_that_it_is_ready_and_stops_when_told() -> None:
    arguments = ["serve", "nais", "--line", A, "--line", B, "--route", "a-b"]
    with subprocess.Popen(
        [sys.executable, "-m", "wireloom.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        assert set(ready["lines"]) == {"a", "b"}
        assert not any(address.endswith(":0") for address in ready["lines"].values())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    assert json.loads(err)["event"] == "stopped"
