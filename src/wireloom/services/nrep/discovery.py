"""Discovery on UDP, both sides: who answers, and who asks.

An answer is much longer than its question, and the source of a datagram is easily forged. So the
entry point answers only sources in its own networks, and each of them only so often.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import cast

from wireloom.errors import DecodeError
from wireloom.formats.nrep import DISCOVERY_PORT, FORMAT, Discover, DiscoverReply
from wireloom.formats.nrep.certificates import fingerprint
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.buckets import TokenBucket
from wireloom.services.nrep.interfaces import interfaces
from wireloom.services.nrep.settings import DiscoverySettings

__all__ = ["BROADCAST", "Found", "Responder", "discover"]

BROADCAST = Address("255.255.255.255", DISCOVERY_PORT)

_MAX_SOURCES = 4096
"""Sources whose rate is remembered; the one seen longest ago is forgotten first."""
_MAX_FOUND = 1024
"""Answers that one question can have: more is a flood."""
_NETWORKS_S = 10.0
"""How long the list of this machine's networks is believed."""
_RESEND_S = (0.0, 0.25, 0.5)
"""When a question is sent, and sent again: datagrams get lost."""

_DISCOVER = Discover.code


class Responder(asyncio.DatagramProtocol):
    """Answers Discover.

    Args:
        settings: who is answered, and how often.
        port: where clients connect.
        certificate: of the entry point, in DER; empty without TLS.
        count: told what became of each datagram: ``answered``, ``malformed``, ``off_link``,
            ``limited``.
        record: told of each question and answer: the source, the data, whether it was received.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        port: int,
        certificate: bytes,
        count: Callable[[str], None],
        record: Callable[[Address, bytes, bool], None] | None = None,
    ) -> None:
        self._settings = settings
        self._reply = DiscoverReply(tcp_port=port, x509=certificate).encode()
        self._count = count
        self._record = record
        self._transport: asyncio.DatagramTransport | None = None
        now = time.monotonic()
        self._all = TokenBucket(settings.answers_per_s, now)
        self._sources: OrderedDict[str, TokenBucket] = OrderedDict()
        self._networks: list[IPv4Network] = []
        self._networks_at = float("-inf")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.DatagramTransport", transport)  # not always a subclass

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Called by the event loop."""
        outcome = self._answer(data, addr[0])
        self._count(outcome)
        if outcome != "answered" or self._transport is None:
            return
        # The header with the nonce of the question; the rest is always the same.
        answer = self._reply[:2] + data[2:6] + self._reply[6:]
        self._transport.sendto(answer, addr)
        if self._record is not None:
            self._record(Address(addr[0], addr[1]), data, True)
            self._record(Address(addr[0], addr[1]), answer, False)

    def error_received(self, exc: Exception) -> None:
        """Called by the event loop: somebody did not wait for the answer."""

    def _answer(self, data: bytes, source: str) -> str:
        is_whole = len(data) >= 10 and int.from_bytes(data[6:10], "little") <= len(data) - 10
        if not is_whole or data[0] or data[1] != _DISCOVER:
            return "malformed"
        now = time.monotonic()
        if not self._settings.any_source and not self._is_near(source, now):
            return "off_link"
        bucket = self._sources.get(source)
        if bucket is None:
            bucket = TokenBucket(self._settings.answers_per_source_per_s, now)
            self._sources[source] = bucket
            if len(self._sources) > _MAX_SOURCES:
                self._sources.popitem(last=False)
        else:
            self._sources.move_to_end(source)
        # Its own share first: what one source is refused is not taken from the others.
        return "answered" if bucket.has(1, now) and self._all.has(1, now) else "limited"

    def _is_near(self, source: str, now: float) -> bool:
        if now - self._networks_at > _NETWORKS_S:
            self._networks = [each.network for each in interfaces(self._settings.interfaces)]
            self._networks_at = now
        try:
            address = IPv4Address(source)
        except AddressValueError:
            return False
        return any(address in network for network in self._networks)


@dataclass(frozen=True, slots=True)
class Found:
    """An entry point that has answered."""

    address: Address
    """Where clients connect."""
    certificate: bytes | None
    """In DER; None: it speaks plain TCP."""

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate in hex."""
        return fingerprint(self.certificate) if self.certificate else None


class _Asker(asyncio.DatagramProtocol):
    def __init__(self, nonce: int, sources: frozenset[str]) -> None:
        self.nonce = nonce
        self.sources = sources
        self.found: dict[Address, Found] = {}
        self.has_found = asyncio.Event()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(self.found) >= _MAX_FOUND or (self.sources and addr[0] not in self.sources):
            return
        try:
            reply = FORMAT.decode(data, transport="udp")
        except DecodeError:
            return  # a bad answer is nobody's
        if not isinstance(reply, DiscoverReply) or reply.nonce != self.nonce:
            return
        if not 0 < reply.tcp_port <= 0xFFFF:
            return
        address = Address(addr[0], reply.tcp_port)
        self.found.setdefault(address, Found(address, reply.x509 or None))
        self.has_found.set()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there; others may."""


def _is_broadcast(host: str) -> bool:
    """Whether many hear it there, and answer from addresses of their own."""
    ends = {str(each.network.broadcast_address) for each in interfaces()}
    return host == BROADCAST.host or host in ends


def _targets(asked: Sequence[Address]) -> list[tuple[str, int]]:
    """Each address, and for the broadcast also the broadcast address of each network."""
    targets = []
    for address in asked:
        targets.append((address.host, address.port))
        if address.host == BROADCAST.host:
            wide = [each.broadcast for each in interfaces()]
            targets += [(str(each), address.port) for each in wide if each is not None]
    return targets


async def discover(
    asked: Sequence[Address] = (BROADCAST,), *, within_s: float = 1.0, is_first_enough: bool = False
) -> list[Found]:
    """Ask for entry points; those that answer within a time.

    Args:
        asked: hosts, with their UDP port; by default everybody on every network of this machine.
            An answer counts only if it comes from a host that was asked, unless one of them is a
            broadcast address.
        within_s: how long answers are waited for.
        is_first_enough: whether to stop at the first answer.

    Raises:
        OSError: there is no network at all, or a name is unknown.
    """
    loop = asyncio.get_running_loop()
    is_wide = any(_is_broadcast(address.host) for address in asked)
    targets = await asyncio.gather(
        *(
            loop.getaddrinfo(*target, family=socket.AF_INET, type=socket.SOCK_DGRAM)
            for target in _targets(asked)
        )
    )
    addresses = [each[0][4] for each in targets]
    sources = frozenset() if is_wide else frozenset(str(each[0]) for each in addresses)
    asker = _Asker(secrets.randbelow(0x7FFF_FFFF) + 1, sources)
    transport, _ = await loop.create_datagram_endpoint(
        lambda: asker, local_addr=("0.0.0.0", 0), allow_broadcast=True
    )
    question = Discover(nonce=asker.nonce).encode()
    start = loop.time()
    moments = [*(each for each in _RESEND_S if each < within_s), within_s]
    try:
        for until in moments[1:]:
            for address in addresses:
                with contextlib.suppress(OSError):  # one network may be down; others may not
                    transport.sendto(question, address)
            left = max(0.0, start + until - loop.time())
            if not is_first_enough:
                await asyncio.sleep(left)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asker.has_found.wait(), left)
                break
    finally:
        transport.close()
    return list(asker.found.values())
