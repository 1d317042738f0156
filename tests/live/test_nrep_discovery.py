"""Discovery on UDP: who is answered, how often, and what a client believes."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from oracles.nrep_live import LOCAL, metric, run, served
from oracles.nrep_wire import needs_ipv6

from wireloom.captures import Capture, StreamData
from wireloom.formats.nrep import FORMAT, Discover, DiscoverReply, Publish
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import TapSettings
from wireloom.services.nrep import Client, discover
from wireloom.services.nrep import discovery as module
from wireloom.services.nrep import interfaces as networks
from wireloom.services.nrep.discovery import Responder
from wireloom.services.nrep.interfaces import interfaces
from wireloom.services.nrep.settings import DiscoverySettings


def ask(to: str, *datagrams: bytes, wait_s: float = 0.3) -> list[bytes]:
    """Send datagrams; what comes back."""
    answers = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(wait_s)
        address = Address.parse(to)
        for data in datagrams:
            sock.sendto(data, (address.host, address.port))
        try:
            while True:
                answers.append(sock.recv(65_536))
        except TimeoutError:
            return answers


def test_a_question_is_answered_with_its_nonce_port_and_certificate(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tap=TapSettings(tmp_path / "tap")) as entry:
            to = entry.said["discovery"]
            (answer,) = await asyncio.to_thread(ask, to, Discover(nonce=0xDEADBEEF).encode())
            identity = entry.service.identity
            assert identity is not None
            assert FORMAT.decode(answer, transport="udp", strict=True) == DiscoverReply(
                nonce=0xDEADBEEF, tcp_port=entry.address.port, x509=identity.der
            )
            # Bytes behind the packet are nobody's business.
            (again,) = await asyncio.to_thread(ask, to, Discover(nonce=1).encode() + b"more")
            assert again[2:6] == b"\1\0\0\0"
            (found,) = await discover([Address.parse(to)], is_first_enough=True)
            assert found.address == entry.address
            assert found.fingerprint == entry.said["fingerprint"]

    run(main())
    assert len(list(Capture(sorted((tmp_path / "tap").iterdir())))) >= 4


@pytest.mark.skipif(
    not any(str(each.network) == "127.0.0.0/8" for each in interfaces()),
    reason="the loopback interface of this machine has no broadcast address",
)
def test_a_broadcast_is_heard_and_answered_by_unicast(tmp_path: Path) -> None:
    async def main() -> None:
        discovery = DiscoverySettings(listen=Address("0.0.0.0", 0))
        async with served(tmp_path, discovery=discovery) as entry:
            port = Address.parse(entry.said["discovery"]).port
            (found,) = await discover([Address("127.255.255.255", port)], within_s=0.3)
            assert found.address == entry.address

    run(main())


def test_what_is_no_question_is_dropped_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            bad = [
                b"",
                b"\0\1",
                b"\1" + Discover(nonce=1).encode()[1:],
                Discover(nonce=1).encode()[:6] + b"\5\0\0\0",
                Publish(nonce=1, description="x").encode(),
                b"\0\x09" + bytes(8),
                bytes(60_000),
            ]
            assert await asyncio.to_thread(ask, entry.said["discovery"], *bad) == []
            assert metric(entry.service, "discovery_datagrams", "malformed") == len(bad)

    run(main())


def test_one_source_is_answered_only_so_often(tmp_path: Path) -> None:
    async def main() -> None:
        discovery = DiscoverySettings(listen=LOCAL, answers_per_source_per_s=5)
        async with served(tmp_path, discovery=discovery) as entry:
            flood = [Discover(nonce=n).encode() for n in range(1, 201)]
            answers = await asyncio.to_thread(ask, entry.said["discovery"], *flood)
            assert 5 <= len(answers) <= 10
            assert metric(entry.service, "discovery_datagrams", "limited") >= 190
            # Connections do not notice.
            peer = await entry.raw()
            assert await peer.find("x") == ()
            await peer.close()

    run(main())


class _Transport:
    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Any]] = []

    def sendto(self, data: bytes, to: Any) -> None:
        self.sent.append((data, to))


def responder(outcomes: list[str], **settings: Any) -> tuple[Responder, _Transport]:
    made = Responder(DiscoverySettings(**settings), 6700, b"cert", outcomes.append)
    transport = _Transport()
    made.connection_made(transport)  # type: ignore[arg-type]
    return made, transport


def test_sources_that_are_not_on_link_are_not_answered() -> None:
    outcomes: list[str] = []
    made, transport = responder(outcomes)
    question = Discover(nonce=1).encode()
    made.datagram_received(question, ("198.51.100.7", 40_000))
    made.datagram_received(question, ("127.0.0.1", 40_000))
    assert outcomes == ["off_link", "answered"]
    assert [to for _, to in transport.sent] == [("127.0.0.1", 40_000)]
    made, transport = responder(outcomes, any_source=True)
    made.datagram_received(question, ("198.51.100.7", 40_000))
    assert len(transport.sent) == 1


@pytest.mark.skipif(not socket.if_nameindex(), reason="this system names no interfaces")
def test_only_named_interfaces_are_answered() -> None:
    outcomes: list[str] = []
    made, _ = responder(outcomes, interfaces=("no-such-interface",))
    made.datagram_received(Discover(nonce=1).encode(), ("127.0.0.1", 40_000))
    assert outcomes == ["off_link"]
    loop = [each for each in interfaces() if each.network.is_loopback]
    assert loop
    assert loop[0].broadcast is None


def test_a_flood_of_forged_sources_takes_no_memory_and_has_a_limit() -> None:
    outcomes: list[str] = []
    made, transport = responder(outcomes, any_source=True, answers_per_s=50)
    question = Discover(nonce=1).encode()
    for number in range(20_000):
        source = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        made.datagram_received(question, (source, 1))
    assert len(transport.sent) < 500
    assert len(made._sources) <= module._MAX_SOURCES


def test_a_client_keeps_good_answers_of_whom_it_asked(tmp_path: Path) -> None:
    async def main() -> None:
        class Liar(asyncio.DatagramProtocol):
            def connection_made(self, transport: Any) -> None:
                self.transport = transport

            def datagram_received(self, data: bytes, addr: Any) -> None:
                nonce = int.from_bytes(data[2:6], "little")
                for answer in (
                    b"noise",
                    DiscoverReply(nonce=nonce + 1, tcp_port=1, x509=b"").encode(),
                    DiscoverReply(nonce=nonce, tcp_port=0, x509=b"").encode(),
                    DiscoverReply(nonce=nonce, tcp_port=70_000, x509=b"").encode(),
                    DiscoverReply(nonce=nonce, tcp_port=7, x509=b"").encode(),
                    DiscoverReply(nonce=nonce, tcp_port=7, x509=b"second").encode(),
                ):
                    self.transport.sendto(answer, addr)

        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Liar, local_addr=("127.0.0.1", 0))
        at = Address.of_socket(transport.get_extra_info("sockname"))
        (found,) = await discover([at], within_s=0.3)
        assert (found.address.port, found.certificate) == (7, None)
        assert await discover([Address("127.0.0.2", at.port)], within_s=0.3) == []
        transport.close()

    run(main())


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "::"])
def test_an_entry_point_is_found_and_reached_over_ipv6(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        at = Address(host, 0)
        async with served(
            tmp_path,
            listen=at,
            discovery=DiscoverySettings(listen=at),
            tap=TapSettings(folder=tmp_path / "tap"),
        ) as entry:
            port = Address.parse(entry.said["discovery"]).port
            # On all addresses it is there for IPv4, too.
            hosts = ["::1"] if host == "::1" else ["::1", "127.0.0.1"]
            for each in hosts:
                (found,) = await discover([Address(each, port)], within_s=5, is_first_enough=True)
                assert found.address == Address(each, entry.address.port)
                assert found.fingerprint == entry.said["fingerprint"]
                client = Client(asked=Address(each, port), trust=entry.trust)
                async with client:
                    await client.publish(each, _echo)
                    reader, writer = await client.open(each)
                    writer.write(b"hello")
                    assert await reader.readexactly(5) == b"hello"
                    writer.close()
            counted = metric(entry.service, "discovery_datagrams", "answered")
            assert counted >= 2 * len(hosts)
        items = Capture(sorted((tmp_path / "tap").iterdir()))
        names = {str(item.stream) for item in items if isinstance(item, StreamData)}
        assert all(any(each in name for name in names) for each in hosts)

    run(main())


async def _echo(reader: asyncio.StreamReader, writer: Any) -> None:
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()


def test_sources_of_ipv6_are_near_or_far(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "fe80000000000000000000fffe000001 04 40 20 80     eth7\n"
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "20010db8000000000000000000000002 04 40 00 82     eth7\n"
    )
    path = Path(networks.__file__).with_name("no-such-file")
    monkeypatch.setattr(networks, "_IPV6", path)
    assert all(each.network.version == 4 for each in interfaces())
    monkeypatch.setattr(Path, "read_text", lambda *_: table)
    assert {str(each.broadcast) for each in interfaces(["eth7"])} == {"ff02::1%eth7"}
    outcomes: list[str] = []
    made, transport = responder(outcomes)
    question = Discover(nonce=1).encode()
    for source in ("fe80::9%eth7", "2001:db8::9", "::1", "::ffff:127.0.0.1"):
        made.datagram_received(question, (source, 40_000, 0, 0))
    assert outcomes == ["answered"] * 4
    assert transport.sent[0][1] == ("fe80::9%eth7", 40_000, 0, 0)
    for source in ("fe80::9%eth8", "2001:db8:1::9", "::ffff:198.51.100.7"):
        made.datagram_received(question, (source, 40_000, 0, 0))
    assert outcomes[4:] == ["off_link"] * 3
