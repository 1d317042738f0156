"""Peers of a junction that do wrong: only they suffer."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Awaitable, Callable

import pytest
from oracles.naislive import dial, frame, junction_of, serving, until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from wireloom.services._shell.sections import LimitSettings
from wireloom.services.nais import Junction, JunctionSettings

A, B, W = "a=tcp://127.0.0.1:0", "b=tcp://127.0.0.1:0", "w=ws://127.0.0.1:0"
Attack = Callable[[Junction, asyncio.StreamWriter], Awaitable[None]]


async def _garbage(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(os.urandom(1 << 20))
    await bad.drain()


async def _false_starts(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(b"\x1e" * (1 << 16))
    await bad.drain()


async def _long_lengths(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(b"\x1e\x0a\x00\x00\x00\xff\xff\xff\xff\x7f" * 2000)
    bad.write(b"\x1e\x0a\x00\x00\x00\xff\xff\x7f" * 2000)
    await bad.drain()
    await until(lambda: junction.router.line_counters("a").problems >= 4000)


async def _half_a_frame(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(frame(payload=bytes(1000))[:500])
    await until(lambda: junction.router.line_counters("a").problems > 0)


async def _slow_loris(junction: Junction, bad: asyncio.StreamWriter) -> None:
    for byte in frame(payload=bytes(100))[:30]:
        bad.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def _text_without_end(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(b"x" * (1 << 20))
    await bad.drain()


async def _flood(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(frame(dline=200) * 100_000)
    await until(lambda: junction.router.line_counters("a").undeliverable == 100_000)


async def _reset(junction: Junction, bad: asyncio.StreamWriter) -> None:
    bad.write(frame()[:3])
    bad.transport.abort()


@pytest.mark.parametrize(
    "attack",
    [
        _garbage,
        _false_starts,
        _long_lengths,
        _half_a_frame,
        _slow_loris,
        _text_without_end,
        _flood,
        _reset,
    ],
    ids=lambda attack: attack.__name__.strip("_"),
)
def test_an_attack_on_tcp_hurts_only_its_sender(attack: Attack) -> None:
    """A good pair on the same lines goes on, frame by frame, while it lasts."""

    async def main() -> None:
        settings = junction_of(A + "?idle-s=0.3", B, "c=tcp://127.0.0.1:0", routes=("a-b", "c-b"))
        async with serving(settings) as junction:
            reader, good = await dial(junction.addresses["b"])
            _, sender = await dial(junction.addresses["c"])
            await until(lambda: len(junction.sessions) == 2)
            _, bad = await dial(junction.addresses["a"])
            await until(lambda: len(junction.sessions) == 3)
            other = next(s.id for s in junction.router.sessions() if s.line == "c")
            sent = 0
            found = bytearray()
            wanted = frame(77, sline=other)

            async def read() -> None:
                while data := await reader.read(1 << 16):
                    found.extend(data)

            async with asyncio.TaskGroup() as group:
                task = group.create_task(read())
                attacking = group.create_task(attack(junction, bad))  # type: ignore[arg-type]
                while not attacking.done() or sent < 20:
                    sender.write(frame(77))
                    sent += 1
                    await asyncio.sleep(0.01)
                await until(lambda: found.count(wanted) == sent)
                for each in (good, sender, bad):
                    each.transport.abort()
                task.cancel()
            assert junction.router.line_counters("b").overflow == 0

    asyncio.run(main())


def test_a_flood_over_the_quota_is_slowed_down() -> None:
    async def main() -> None:
        settings = JunctionSettings(
            line=(A, B), route=("a-b",), limits=LimitSettings(max_bytes_per_s=50_000)
        )
        async with serving(settings) as junction:
            _, bad = await dial(junction.addresses["a"])
            bad.write(b"x\n" * 500_000)
            await until(lambda: junction.hub.metrics.slowed._value.get() > 0)
            await asyncio.sleep(0.2)
            assert junction.lines["a"].received_bytes < 600_000
            bad.transport.abort()

    asyncio.run(main())


@pytest.mark.slow
def test_what_is_no_websocket_is_refused_and_large_messages_end_their_connection() -> None:
    async def main() -> None:
        async with serving(junction_of(A, W + "?max-payload=1000", routes=("a-w",))) as junction:
            address = junction.addresses["w"]
            reader, writer = await dial(address)
            writer.write(frame() * 100)
            assert b"101" not in await reader.read()
            writer.close()
            reader, writer = await dial(address)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10_000)
            await reader.read()
            writer.close()
            async with connect(f"ws://{address}") as good, connect(f"ws://{address}") as bad:
                await until(lambda: len(junction.sessions) == 2)
                await bad.send(bytes(1 << 20))
                with pytest.raises(ConnectionClosed) as caught:
                    await bad.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1009
                _, sender = await dial(junction.addresses["a"])
                sender.write(frame())
                assert (await good.recv())[3:] == frame()[3:]  # type: ignore[index]
                sender.close()
            with pytest.raises((InvalidMessage, OSError)):
                await connect(f"ws://{junction.addresses['a']}", open_timeout=0.5)

    asyncio.run(main())


@pytest.mark.slow
def test_many_connections_at_once_leave_the_other_lines_alone() -> None:
    async def main() -> None:
        async with serving(junction_of(A + "?max-sessions=128", B)) as junction:
            streams = [await dial(junction.addresses["a"]) for _ in range(300)]
            counters = junction.router.line_counters("a")
            await until(lambda: counters.refused == 300 - 128)
            reader, writer = await dial(junction.addresses["b"])
            await until(lambda: len(junction.lines["b"].peers) == 1)
            streams[0][1].write(frame())
            assert (await reader.readexactly(len(frame())))[3:] == frame()[3:]
            for _, each in (*streams, (reader, writer)):
                each.transport.abort()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1500, hard), hard))
    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_never_says_the_token_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wireloom.services.nais.peers.TOKEN_S", 0.2)

    async def main() -> None:
        async with serving(junction_of(A + "?token=word", B)) as junction:
            reader, writer = await dial(junction.addresses["a"])
            writer.write(b"tok")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            assert not junction.sessions
            writer.close()

    asyncio.run(main())


def test_a_peer_that_is_gone_before_it_is_greeted_does_no_harm() -> None:
    async def main() -> None:
        async with serving(junction_of(A, B)) as junction:
            host, _, port = junction.addresses["a"].rpartition(":")
            for _ in range(20):
                sock = socket.create_connection((host, int(port)))
                # Closed with a reset, not a goodbye.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            _, writer = await dial(junction.addresses["b"])
            await until(lambda: [s.line for s in junction.router.sessions()] == ["b"])
            writer.close()

    asyncio.run(main())
