"""Peers that mean harm: only their own connection suffers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from oracles.nrep_live import RawPeer, Served, control, metric, run, served

from wireloom.formats.nrep import (
    DiscoverInstances,
    OpenSocket,
    Publish,
    SocketControl,
    SocketData,
    SocketFlags,
    app_id,
)
from wireloom.formats.nrep.extensions import (
    ALL_FEATURES,
    Extension,
    Tag,
    number,
    packet,
    write_tags,
)
from wireloom.services._shell import listening
from wireloom.services._shell.sections import LimitSettings
from wireloom.services.nrep.settings import QuotaSettings, TimeSettings

F = SocketFlags
HELLO = packet(Extension.CLIENT_HELLO, write_tags({Tag.FEATURES: number(ALL_FEATURES)}))


@contextlib.asynccontextmanager
async def witnesses(
    tmp_path: Path, **settings: Any
) -> AsyncIterator[tuple[Served, RawPeer, RawPeer, bytes, bytes]]:
    """An entry point with an innocent socket that has to go on talking, before and after."""
    async with served(tmp_path, **settings) as entry:
        a = await entry.raw()
        innocent = await a.publish("innocent")
        b = await entry.raw()
        mine, theirs = await b.joined(a, innocent)
        yield entry, a, b, mine, theirs
        for number_ in range(3):
            data = bytes([number_]) * 1000
            b.send(SocketData(socket_id=mine, data=data))
            assert await a.data(1000) == data
            a.send(SocketData(socket_id=theirs, data=data))
            assert await b.data(1000) == data
        assert entry.service.table.sockets == 1
        await a.close()
        await b.close()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "reserved"),
        (b"\x00\x0b" + bytes(8), "type"),
        (b"\x00\x3f" + bytes(8), "type"),
        (b"\x00\x0a" + bytes(4) + b"\xff\xff\xff\xff", "too_large"),
        (b"\x00\x04" + bytes(4) + b"\x01\x00\x10\x00", "too_large"),
        (b"\x01", "reserved"),
    ],
)
def test_what_is_no_header_ends_its_connection(tmp_path: Path, data: bytes, why: str) -> None:
    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            enemy = await entry.raw()
            await enemy.publish("bait")
            enemy.send(data)
            assert await enemy.is_shut()
            assert metric(entry.service, "peers_failed", why) == 1
            await entry.until("unpublishes", 1)
            await enemy.close()

    run(main())


def test_noise_ends_one_connection_after_the_other_and_nothing_else(tmp_path: Path) -> None:
    noise = random.Random(11)

    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            for _ in range(20):
                enemy = await entry.raw()
                good = [
                    Publish(nonce=1, description="x").encode(),
                    OpenSocket(nonce=2, instance_id=b"x" * 10).encode(),
                    HELLO,
                    packet(Extension.WINDOW, noise.randbytes(14)),
                    packet(Extension.LIST, number(noise.randrange(1 << 32)), 3),
                    SocketData(socket_id=noise.randbytes(10), data=b"?").encode(),
                ]
                enemy.send(*noise.sample(good, 4))
                damaged = bytearray(noise.choice(good))
                for _ in range(3):
                    damaged[noise.randrange(len(damaged))] = noise.randrange(256)
                enemy.send(bytes(damaged), noise.randbytes(200))
                enemy.writer.write_eof() if enemy.writer.can_write_eof() else enemy.writer.close()
                assert await enemy.is_shut()
                await enemy.close()

    run(main())


@pytest.mark.slow
def test_no_tls_half_a_handshake_and_silence_are_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "TLS_HANDSHAKE_S", 2.0)

    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            at = entry.address
            enemies = [await asyncio.open_connection(at.host, at.port) for _ in range(100)]
            for number_, (_, writer) in enumerate(enemies):
                writer.write([b"", b"\x16\x03\x01", b"GET / HTTP/1.0\r\n\r\n"][number_ % 3])
            friend = await entry.raw()
            assert len(await friend.find("innocent")) == 1
            for reader, writer in enemies:
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(20):
                        await reader.read()
                writer.close()
            await friend.close()

    run(main())


@pytest.mark.slow
def test_half_a_handshake_counts_as_a_connection_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "TLS_HANDSHAKE_S", 2.0)

    async def main() -> None:
        limits = LimitSettings(max_connections=3)
        async with served(tmp_path, limits=limits) as entry:
            at = entry.address
            raw = await entry.raw()
            silent = [await asyncio.open_connection(at.host, at.port) for _ in range(2)]
            # Whoever comes now is not even read.
            reader, writer = await asyncio.open_connection(at.host, at.port)
            assert await reader.read() == b""
            writer.close()
            await entry.until("connections_refused", 1, "max_connections")
            assert await raw.find("x") == ()
            await entry.until("connections_refused", 2, "handshake")
            others = [await entry.raw() for _ in range(2)]
            for reader, writer in silent:
                assert await reader.read() == b""
                writer.close()
            for each in (raw, *others):
                await each.close()

    run(main())


@pytest.mark.slow
def test_who_drips_a_packet_is_cut_off_and_who_is_silent_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with witnesses(tmp_path, times=TimeSettings(packet_s=0.6)) as (entry, *_):
            enemy, friend = await entry.raw(), await entry.raw()
            whole = Publish(nonce=1, description="x" * 500).encode()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                for byte in whole[:200]:
                    enemy.send(bytes([byte]))
                    await enemy.writer.drain()
                    if metric(entry.service, "peers_cut_off", "packet"):
                        break
                    await asyncio.sleep(0.02)
            await entry.until("peers_cut_off", 1, "packet")
            assert await enemy.is_shut()
            assert len(await friend.find("innocent")) == 1
            await enemy.close()
            await friend.close()

    run(main())


def test_an_idle_connection_without_anything_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with witnesses(tmp_path, times=TimeSettings(idle_s=0.5)) as (entry, *_):
            idle = await entry.raw()
            assert await idle.is_shut()
            assert metric(entry.service, "peers_cut_off", "idle") == 1
            await idle.close()

    run(main())


def test_forged_ids_touch_nobodys_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with witnesses(tmp_path) as (entry, _, _, mine, _):
            enemy = await entry.raw()
            for flags in (F.CLOSE, F.REFUSE, F.ACCEPT, F.READY, F(0xBF), F(0)):
                enemy.send(control(mine, flags))
            enemy.send(SocketData(socket_id=mine, data=b"forged"), HELLO)
            enemy.send(packet(Extension.WINDOW, mine + number(0xFFFF_FFFF)))
            enemy.send(packet(Extension.UNPUBLISH, (await _instances(entry))[0], 4))
            answer = await enemy.next()
            assert answer.encode()[10] == 0  # not its own
            assert metric(entry.service, "packets_ignored") >= 8
            await enemy.close()

    run(main())


async def _instances(entry: Served) -> tuple[bytes, ...]:
    friend = await entry.raw()
    found = await friend.find("innocent")
    await friend.close()
    return found


def test_a_wrong_inner_length_ends_only_its_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            p, enemy = await entry.raw(), await entry.raw()
            instance = await p.publish("other")
            bad, _ = await enemy.joined(p, instance)
            good, _ = await enemy.joined(p, instance)
            data = bytearray(SocketData(socket_id=bad, data=b"abcd").encode())
            data[20] = 200
            enemy.send(bytes(data), SocketData(socket_id=good, data=b"fine"))
            assert await enemy.next() == SocketControl(socket_id=bad, flags=F.CLOSE)
            assert await p.next() == SocketControl(socket_id=bad, flags=F.CLOSE)
            assert await p.data(4) == b"fine"
            await p.close()
            await enemy.close()

    run(main())


def test_more_than_a_window_ends_only_its_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            p, enemy = await entry.raw(), await entry.raw()
            p.send(HELLO)
            instance = await p.publish("other")
            enemy.send(HELLO)
            mine, _ = await enemy.joined(p, instance)
            for _ in range(9):
                enemy.send(SocketData(socket_id=mine, data=bytes(65_536)))
            closed = await enemy.next()
            assert isinstance(closed, SocketControl)
            assert closed.flags == F.CLOSE
            assert await enemy.find("other") == (instance,)
            await p.close()
            await enemy.close()

    run(main())


def test_a_flood_of_questions_whose_answers_nobody_reads_is_not_read_either(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        limits = LimitSettings(max_queue_bytes=64 * 1024)
        async with witnesses(tmp_path, limits=limits, insecure=True) as (entry, *_):
            friend = await entry.raw()
            for number_ in range(200):
                await friend.publish("many") if number_ % 2 else await friend.publish("few")
            enemy = await entry.raw()
            question = DiscoverInstances(nonce=1, app_id=app_id("many")).encode() * 1000

            async def flood() -> None:
                while True:
                    enemy.writer.write(question)
                    await enemy.writer.drain()

            flooding = asyncio.get_running_loop().create_task(flood())
            await entry.until("held_connections", 1)
            await asyncio.sleep(0.3)  # it stays held, however much is sent
            flooding.cancel()
            waiting = max(each.unsent_bytes for each in entry.service.connections.values())
            assert waiting < 32 << 20
            assert metric(entry.service, "held_connections") == 1
            assert len(await friend.find("innocent")) == 1
            enemy.writer.transport.abort()
            await friend.close()

    run(main())


def test_who_does_not_read_is_cut_off_and_its_senders_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        limits = LimitSettings(max_queue_bytes=64 * 1024)
        times = TimeSettings(stall_s=0.5, legacy_stall_s=0.5)
        settings: dict[str, Any] = {"limits": limits, "times": times, "insecure": True}
        async with witnesses(tmp_path, **settings) as (entry, a, b, *_):
            enemy = await entry.raw()
            sock: socket.socket = enemy.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            mine, _ = await b.joined(enemy, await enemy.publish("trap"))
            enemy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                b.send(SocketData(socket_id=mine, data=bytes(65_536)))
            await entry.until("peers_cut_off", 1, "stalled")
            assert await b.next() == SocketControl(socket_id=mine, flags=F.CLOSE)
            assert len(await a.find("innocent")) == 1
            enemy.writer.transport.abort()

    run(main())


def test_what_waits_for_one_connection_has_an_end(tmp_path: Path) -> None:
    """A watcher that does not read is told of every change, by others that are not slowed down."""

    async def main() -> None:
        limits = LimitSettings(max_queue_bytes=16 * 1024)
        quotas = QuotaSettings(backlog_bytes=64 * 1024, watches=10)
        settings: dict[str, Any] = {"limits": limits, "quotas": quotas, "insecure": True}
        async with witnesses(tmp_path, **settings) as (entry, *_):
            enemy, friend = await entry.raw(), await entry.raw()
            sock: socket.socket = enemy.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            enemy.send(HELLO, packet(Extension.WATCH, app_id("busy"), 1))
            friend.send(HELLO)
            await enemy.writer.drain()
            enemy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for each in entry.service.connections.values():  # the kernel would hold megabytes
                assert each.transport is not None
                each.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDBUF, 4096
                )
            async with asyncio.timeout(40):
                while not metric(entry.service, "peers_cut_off", "backlog"):
                    instances = [await friend.publish("busy") for _ in range(200)]
                    friend.send(*(packet(Extension.UNPUBLISH, each, 2) for each in instances))
                    for _ in instances:
                        await friend.next()
            enemy.writer.transport.abort()
            await friend.close()

    run(main())


def test_one_requester_cannot_use_up_a_publisher(tmp_path: Path) -> None:
    async def main() -> None:
        quotas = QuotaSettings(requests=20, sockets=50)
        async with witnesses(tmp_path, quotas=quotas) as (entry, *_):
            p, enemy, friend = await entry.raw(), await entry.raw(), await entry.raw()
            instance = await p.publish("wanted")
            for number_ in range(1, 101):
                enemy.send(OpenSocket(nonce=number_, instance_id=instance))
            answers = [await enemy.next() for _ in range(100)]
            refused = [
                each for each in answers if isinstance(each, SocketControl) and each.flags & F.CLOSE
            ]
            assert len(refused) == 80
            for _ in range(20):
                assert await p.next()
            mine, _ = await friend.joined(p, instance)
            friend.send(SocketData(socket_id=mine, data=b"x"))
            assert await p.data(1) == b"x"
            for each in (p, enemy, friend):
                await each.close()

    run(main())


def test_a_connection_that_is_reset_in_the_middle_of_a_packet_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with witnesses(tmp_path) as (entry, *_):
            p, enemy = await entry.raw(), await entry.raw()
            mine, _ = await enemy.joined(p, await p.publish("other"))
            enemy.send(SocketData(socket_id=mine, data=b"whole"))
            enemy.send(SocketData(socket_id=mine, data=bytes(50_000)).encode()[:30_000])
            await enemy.writer.drain()
            assert await p.data(5) == b"whole"
            enemy.writer.transport.abort()
            assert await p.next() == SocketControl(socket_id=mine, flags=F.CLOSE)
            await p.close()

    run(main())
