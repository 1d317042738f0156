"""The client: trust, streams, windows, balance, and what happens when somebody is gone."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from oracles.nrep_live import Served, control, metric, run, served

from wireloom.errors import (
    ConnectionClosed,
    OptionError,
    RefusedError,
    StateError,
    TrustError,
)
from wireloom.formats.nrep import Hello, OpenSocket, SocketControl, SocketData, SocketFlags
from wireloom.formats.nrep.extensions import (
    NO_FEATURES,
    Feature,
    Reason,
    Tag,
    number,
    write_tags,
)
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import LimitSettings, TlsSettings
from wireloom.services.nrep import BlockingClient, BlockingSocket, Client, SocketWriter, Trust
from wireloom.services.nrep import client as client_module
from wireloom.services.nrep.balance import Balancer
from wireloom.services.nrep.channels import Channel
from wireloom.services.nrep.identity import kept_identity

Reader = asyncio.StreamReader


async def echo(reader: Reader, writer: SocketWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def two(entry: Served, **options: Any) -> AsyncIterator[tuple[Client, Client]]:
    """A publisher and a requester."""
    async with (
        Client(entry.listen, trust=entry.trust, **options) as a,
        Client(entry.listen, trust=entry.trust, **options) as b,
    ):
        yield a, b


@pytest.mark.parametrize("insecure", [False, True], ids=["tls", "plain"])
def test_an_entry_point_is_discovered_and_an_app_reached(tmp_path: Path, insecure: bool) -> None:
    async def main() -> None:
        async with served(tmp_path, insecure=insecure) as entry:
            asked = entry.said["discovery"]
            async with (
                Client(asked=asked, trust=entry.trust, name="a") as a,
                Client(asked=asked, trust=entry.trust) as b,
            ):
                await a.publish("echo", echo)
                assert await b.list_apps() == [("echo", 1)]
                assert len(await b.find("echo")) == 1
                assert await b.ping() < 5
                reader, writer = await b.open("echo")
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                assert writer.can_write_eof()
                writer.write_eof()
                assert await reader.read() == b""
                await writer.wait_closed()
                assert writer.end_reason is Reason.CLOSED
                with pytest.raises(RefusedError, match="nobody publishes") as refused:
                    await b.open("other")
                assert refused.value.code == "no_instance"
                assert entry.service.status()["peers"][0]["name"] == "a"
                assert b.counts.opened == a.counts.accepted == 1

    run(main())


def test_a_certificate_is_trusted_on_first_use_and_a_change_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            address = entry.address
            async with Client(entry.listen, trust=entry.trust):
                pass
            async with Client(entry.listen, trust=entry.trust):
                pass
        other = served(tmp_path, state=tmp_path / "other", listen=address)
        async with other as entry:
            with pytest.raises(TrustError, match=r"it was .* before"):
                await Client(entry.listen, trust=entry.trust).start()
            # And nothing was sent: the entry point has read no byte.
            assert metric(entry.service, "received_bytes") == 0

    run(main())


def test_a_pin_an_authority_and_plain_tcp_decide(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            pin = entry.said["fingerprint"]
            colons = ":".join(pin[at : at + 2] for at in range(0, 64, 2)).upper()
            for trust in (
                Trust(pin=pin),
                Trust(pin=colons),
                Trust(ca=tmp_path / "state" / "certificate.pem"),
            ):
                async with Client(entry.listen, trust=trust) as client:
                    assert await client.find("x") == ()
            stranger = kept_identity(tmp_path / "stranger")
            for trust in (Trust(pin="0" * 64), Trust(ca=stranger.cert)):
                with pytest.raises(TrustError):
                    await Client(entry.listen, trust=trust).start()
        async with served(tmp_path, insecure=True) as entry:
            with pytest.raises(TrustError, match="plain TCP"):
                await Client(asked=entry.said["discovery"], trust=Trust(pin=pin)).start()
            with pytest.raises((ConnectionClosed, OSError)):
                await Client(entry.listen, trust=Trust(pin=pin)).start()
        for wrong in ({"pin": "12"}, {"pin": pin, "is_insecure": True}):
            with pytest.raises(OptionError):
                Trust(**wrong)

    run(main())


def test_a_certificate_that_was_not_announced_is_refused(tmp_path: Path) -> None:
    ours, forged = kept_identity(tmp_path / "a"), kept_identity(tmp_path / "b")
    with pytest.raises(TrustError, match="announced"):
        Trust(pin=forged.fingerprint).check(Address("h", 1), forged.der, ours.der)


def test_clients_need_a_certificate_where_the_entry_point_asks(tmp_path: Path) -> None:
    async def main() -> None:
        mine = kept_identity(tmp_path / "mine")
        tls = TlsSettings(client_ca=tmp_path / "mine" / "certificate.pem")
        async with served(tmp_path, tls=tls) as entry:
            pin = entry.said["fingerprint"]
            async with Client(entry.listen, trust=Trust(pin=pin, cert=mine.cert)) as client:
                assert await client.find("x") == ()
            with pytest.raises((ConnectionClosed, OSError)):
                await Client(entry.listen, trust=Trust(pin=pin)).start()

    run(main())


@pytest.mark.parametrize("is_legacy", [False, True], ids=["windows", "legacy"])
def test_no_byte_is_lost_or_moved_under_random_pauses(tmp_path: Path, is_legacy: bool) -> None:
    noise = random.Random(7)
    sent: dict[bytes, str] = {}
    received: dict[bytes, str] = {}

    async def collect(reader: Reader, writer: SocketWriter) -> None:
        name = await reader.readexactly(4)
        digest = hashlib.sha256()
        left = int.from_bytes(await reader.readexactly(4), "big")
        while left and (data := await reader.read(noise.randrange(1, 200_000))):
            digest.update(data)
            left -= len(data)
            if noise.random() < 0.1:
                await asyncio.sleep(noise.random() * 0.02)
        received[name] = digest.hexdigest()
        writer.write(b"done")
        await writer.drain()

    async def send(client: Client, number: int) -> None:
        reader, writer = await client.open("sink")
        name, size = number.to_bytes(4, "big"), noise.randrange(300_000, 1_500_000)
        writer.write(name + size.to_bytes(4, "big"))
        digest = hashlib.sha256()
        while size:
            data = noise.randbytes(min(size, noise.randrange(1, 300_000)))
            digest.update(data)
            writer.write(data)
            await writer.drain()
            size -= len(data)
            if noise.random() < 0.1:
                await asyncio.sleep(noise.random() * 0.02)
        sent[name] = digest.hexdigest()
        assert await reader.readexactly(4) == b"done"
        writer.close()

    async def main() -> None:
        options = {"features": NO_FEATURES} if is_legacy else {}
        limits = LimitSettings(max_queue_bytes=64 * 1024)
        async with served(tmp_path, limits=limits) as entry, two(entry, **options) as (a, b):
            await a.publish("sink", collect)
            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    group.create_task(send(b, number))
            assert entry.service.table.sockets == 0

    run(main())
    assert received == sent
    assert len(sent) == 12


def test_a_socket_that_nobody_reads_does_not_stop_the_others(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def never(reader: Reader, writer: SocketWriter) -> None:
        await held.wait()
        data = await reader.readexactly(4_000_000)
        writer.write(hashlib.sha256(data).digest())

    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("never", never)
            await a.publish("echo", echo)
            slow_reader, slow = await b.open("never")
            reader, writer = await b.open("echo")
            data = random.Random(1).randbytes(4_000_000)

            async def fill() -> None:
                slow.write(data)
                await slow.drain()

            async with asyncio.TaskGroup() as group:
                group.create_task(fill())
                await asyncio.sleep(0.1)
                for _ in range(20):
                    writer.write(bytes(100_000))
                    await writer.drain()
                    await reader.readexactly(100_000)
                # What waits is bounded by the window, not by what was written.
                assert metric(entry.service, "relayed_bytes") < 4_000_000 + 2 * 2_000_000
                assert not slow_reader.at_eof()
                held.set()
            assert await slow_reader.readexactly(32) == hashlib.sha256(data).digest()
            writer.close()
            slow.close()

    run(main())


def test_a_slow_legacy_publisher_stops_only_whom_it_must(tmp_path: Path) -> None:
    async def main() -> None:
        limits = LimitSettings(max_queue_bytes=64 * 1024)
        async with served(tmp_path, limits=limits) as entry, two(entry) as (a, b):
            old = await entry.raw()
            await old.publish("slow")
            await a.publish("echo", echo)
            reader, writer = await b.open("echo")
            opening = asyncio.gather(b.open("slow"))
            request = await old.next()
            assert isinstance(request, SocketControl)
            old.send(control(request.socket_id, SocketFlags.ACCEPT))
            ((_, slow),) = await opening
            data = random.Random(2).randbytes(6_000_000)
            slow.write(data)  # more than the sockets on the way hold
            await asyncio.sleep(0.3)
            for _ in range(10):
                writer.write(bytes(100_000))
                await writer.drain()
                await reader.readexactly(100_000)
            assert await old.data(len(data)) == data
            writer.close()
            slow.close()
            await old.close()

    run(main())


def test_apps_are_found_again_and_published_again_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            address, trust = entry.address, entry.trust
            a, b = Client(entry.listen, trust=trust), Client(entry.listen, trust=trust)
            await a.start()
            await b.start()
            publication = await a.publish("echo", echo)
            before = publication.instance_id
            reader, _ = await b.open("echo")
        assert await reader.read() == b""
        with pytest.raises(ConnectionClosed, match="no entry point"):
            await b.open("echo", within_s=0.1)
        async with served(tmp_path, listen=address):
            found: tuple[bytes, ...] = ()
            while not found:
                await b.connected(20)
                found = await b.find("echo")
            reader, writer = await b.open("echo", within_s=20)
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
            writer.close()
            assert found == (publication.instance_id,)
            assert found != (before,)
            assert (a.counts.lost, b.counts.lost, b.counts.lost_sockets) == (1, 1, 1)
            await a.close()
            await b.close()

    run(main())


def test_sockets_of_a_lost_publisher_end_with_the_reason(tmp_path: Path) -> None:
    async def hang(_: Reader, writer: SocketWriter) -> None:
        writer.write(b"half of it")
        await asyncio.sleep(30)

    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("x", hang)
            reader, writer = await b.open("x")
            assert await reader.readexactly(10) == b"half of it"
            (await a.connected()).abort()
            assert await reader.read() == b""
            with pytest.raises(ConnectionClosed, match="peer lost"):
                await writer.wait_closed()
            with pytest.raises(ConnectionClosed):
                writer.write(b"late")
            with pytest.raises(ConnectionClosed):
                await writer.drain()

    run(main())


def test_a_refused_socket_is_tried_at_another_instance(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish_offers("db", lambda offer: offer.refuse())
            with pytest.raises(RefusedError) as refused:
                await b.open("db")
            assert refused.value.code == "refused"
            publication = await a.publish("db", echo)
            for _ in range(8):
                _, writer = await b.open("db")
                writer.close()
            await publication.unpublish()
            with pytest.raises(RefusedError):
                await b.open("db")
            assert len(await b.find("db")) == 1

    run(main())


def test_an_offer_that_is_taken_back_at_once_and_a_publisher_that_fails_cost_one_socket(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, Client(entry.listen, trust=entry.trust) as client:

            def fails(offer: Any) -> None:
                raise ValueError("a mistake")

            await client.publish("echo", echo)
            await client.publish_offers("broken", fails)
            raw = await entry.raw()
            ids = iter([b"s" * 10])
            entry.service.table._new_socket_id = ids.__next__
            (instance,) = await raw.find("echo")
            # Both arrive at the publisher in one piece.
            raw.send(OpenSocket(nonce=1, instance_id=instance))
            raw.send(control(b"s" * 10, SocketFlags.CLOSE))
            assert isinstance(await raw.next(), SocketControl)
            await entry.until("sockets_closed", 1)
            entry.service.table._new_socket_id = lambda: random.randbytes(10)
            with pytest.raises(RefusedError):
                await client.open("broken")
            reader, writer = await client.open("echo")
            writer.write(b"still there")
            assert await reader.readexactly(11) == b"still there"
            writer.close()
            assert client.counts.lost == 0
            await raw.close()

    run(main())


def test_sockets_beyond_what_a_publisher_serves_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("echo", echo, max_sockets=2)
            writers = [(await b.open("echo"))[1] for _ in range(2)]
            with pytest.raises(RefusedError) as refused:
                await b.open("echo")
            assert refused.value.code == "refused"
            writers.pop().close()
            async with asyncio.timeout(10):
                while True:
                    with contextlib.suppress(RefusedError):
                        writers.append((await b.open("echo"))[1])
                        break
            for writer in writers:
                writer.close()

    run(main())


def test_an_entry_point_that_falls_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PING_S", 0.1)
    monkeypatch.setattr(client_module, "_PONG_S", 0.2)

    async def main() -> None:
        tags = write_tags({Tag.FEATURES: number(Feature.PING)})

        async def silent(reader: Reader, writer: asyncio.StreamWriter) -> None:
            writer.write(Hello(trailing=tags).encode())
            await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            at = Address.of_socket(server.sockets[0].getsockname())
            client = Client(at, trust=Trust(is_insecure=True))
            await client.start()
            async with asyncio.timeout(10):
                while client.counts.connected < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert client.counts.lost >= 1
            await client.close()

    run(main())


@pytest.mark.parametrize("policy", ["random", "round-robin", "least-open"])
def test_sockets_are_spread_over_instances(tmp_path: Path, policy: Any) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, two(entry, balance=policy) as (a, b):
            served_by: Counter[int] = Counter()

            def server(number: int) -> Any:
                async def serve(reader: Reader, _: SocketWriter) -> None:
                    served_by[number] += 1
                    await reader.read()

                return serve

            for number in range(4):
                await a.publish("db", server(number))
            writers = [(await b.open("db"))[1] for _ in range(40)]
            if policy != "random":
                assert set(served_by.values()) == {10}
            assert sum(served_by.values()) == 40
            for writer in writers:
                writer.close()

    run(main())


def test_the_least_open_instance_is_asked_first() -> None:
    balancer = Balancer("least-open")
    for instance in (b"a", b"a", b"b"):
        balancer.opened(instance)
    assert balancer.order([b"a", b"b", b"c"]) == [b"c", b"b", b"a"]
    balancer.closed(b"b")
    assert set(balancer.order([b"a", b"b", b"c"])[:2]) == {b"b", b"c"}


def test_writes_are_gathered_for_a_turn_unless_they_are_for_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("echo", echo)
            channel = await b.open_channel("echo", Channel)
            assert channel.connection is not None
            session = channel.connection.session
            channel.write(b"later")
            assert session.unsent > 0
            channel.write_now(b"now")  # and what was written before
            assert session.unsent == 0

    run(main())


@pytest.mark.slow
def test_many_sockets_at_once_on_one_connection(tmp_path: Path) -> None:
    count = 1000

    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("echo", echo)
            # What debugging remembers of each of some thousand tasks takes most of the time.
            asyncio.get_running_loop().set_debug(False)
            streams = await asyncio.gather(*(b.open("echo") for _ in range(count)))
            assert entry.service.table.sockets == count

            async def talk(number: int, reader: Reader, writer: SocketWriter) -> None:
                data = number.to_bytes(4, "big") * 250
                writer.write(data)
                assert await reader.readexactly(len(data)) == data

            await asyncio.gather(*(talk(n, *stream) for n, stream in enumerate(streams)))
            for _, writer in streams:
                writer.close()
            await entry.until("sockets_closed", count)
            assert entry.service.table.sockets == 0

    run(main())


def test_an_entry_point_of_the_first_kind_is_enough(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            entry.service.table._features = NO_FEATURES
            async with two(entry) as (a, b):
                await a.publish("echo", echo)
                reader, writer = await b.open("echo")
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                assert not writer.can_write_eof()
                with pytest.raises(StateError):
                    await b.list_apps()
                writer.close()

    run(main())


def test_a_client_without_a_loop_waits(tmp_path: Path) -> None:
    def shout(sock: BlockingSocket) -> None:
        while data := sock.recv():
            sock.sendall(data.upper())

    async def main() -> None:
        async with served(tmp_path) as entry:

            def use() -> None:
                with (
                    BlockingClient(entry.listen, trust=entry.trust) as a,
                    BlockingClient(entry.listen, trust=entry.trust) as b,
                ):
                    a.publish("shout", shout)
                    assert b.list_apps() == [("shout", 1)]
                    assert len(b.find("shout")) == 1
                    with b.open("shout") as sock:
                        sock.sendall(b"hello")
                        assert sock.recv() == b"HELLO"
                    assert b.counts.opened == 1
                with pytest.raises(TrustError):
                    BlockingClient(entry.listen, trust=Trust(pin="0" * 64))

            await asyncio.to_thread(use)

    run(main())


def test_a_thread_that_still_serves_when_its_client_is_closed_is_told(tmp_path: Path) -> None:
    is_closed = threading.Event()
    heard: queue.Queue[bytes | str] = queue.Queue()

    def ask(sock: BlockingSocket) -> None:
        try:
            heard.put(sock.recv())
        except ConnectionClosed as error:
            heard.put(str(error))

    def serve(sock: BlockingSocket) -> None:
        assert sock.recv() == b"hello"
        heard.put(b"hello")
        ask(sock)
        is_closed.wait(20)
        ask(sock)

    async def main() -> None:
        async with served(tmp_path) as entry, Client(entry.listen, trust=entry.trust) as b:

            def publisher() -> BlockingClient:
                made = BlockingClient(entry.listen, trust=entry.trust)
                made.publish("x", serve)
                return made

            a = await asyncio.to_thread(publisher)
            _, writer = await b.open("x")
            writer.write(b"hello")
            assert await asyncio.to_thread(heard.get, timeout=20) == b"hello"
            await asyncio.to_thread(a.close)
            is_closed.set()
            # What was being waited for ended with the socket, or with the client.
            first = await asyncio.to_thread(heard.get, timeout=20)
            assert first in (b"", "the client is closed")
            assert await asyncio.to_thread(heard.get, timeout=20) == "the client is closed"

    run(main())


def test_a_stream_that_is_closed_sends_what_was_written(tmp_path: Path) -> None:
    got = bytearray()
    over = asyncio.Event()

    async def slow(reader: Reader, _: SocketWriter) -> None:
        await asyncio.sleep(0.2)
        while data := await reader.read(50_000):
            got.extend(data)
        over.set()

    async def main() -> None:
        async with served(tmp_path) as entry, two(entry) as (a, b):
            await a.publish("slow", slow)
            _, writer = await b.open("slow")
            data = random.Random(3).randbytes(3_000_000)  # much more than a window
            writer.write(data)
            writer.close()
            await b.close()
            await over.wait()
            assert bytes(got) == data

    run(main())


def test_data_for_a_socket_that_was_given_up_is_nobodys(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry, Client(entry.listen, trust=entry.trust) as b:
            a = await entry.raw()
            await a.publish("late")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await b.open("late")
            request = await a.next()
            assert isinstance(request, SocketControl)
            a.send(
                control(request.socket_id, SocketFlags.ACCEPT),
                SocketData(socket_id=request.socket_id, data=b"x"),
            )
            closed = await a.next()
            assert isinstance(closed, SocketControl)
            assert closed.flags == SocketFlags.CLOSE
            assert entry.service.table.sockets == 0
            await a.close()

    run(main())
