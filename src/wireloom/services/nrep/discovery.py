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
from ipaddress import IPv4Network, ip_address
from typing import cast

from wireloom.errors import DecodeError
from wireloom.formats.nrep import DISCOVERY_PORT, FORMAT, Discover, DiscoverReply
from wireloom.formats.nrep.certificates import fingerprint
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.buckets import TokenBucket
from wireloom.services.nrep.interfaces import Interface, interfaces
from wireloom.services.nrep.settings import DiscoverySettings

__all__ = ["BROADCAST", "Found", "Responder", "discover", "udp_socket"]

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

Sockname = tuple[str, int] | tuple[str, int, int, int]
"""The address of a datagram, as event loops give it."""


def udp_socket(at: Address) -> socket.socket:
    """A socket that is bound there; ``[::]`` is for IPv4 as well.

    Raises:
        OSError: it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, at.host != "::")
        found = socket.getaddrinfo(at.host, at.port, family, socket.SOCK_DGRAM)
        made.bind(found[0][4])
    except BaseException:
        made.close()
        raise
    return made


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
        self._networks: list[Interface] = []
        self._networks_at = float("-inf")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.DatagramTransport", transport)  # not always a subclass

    def datagram_received(self, data: bytes, addr: Sockname) -> None:
        """Called by the event loop."""
        source = Address.of_socket(addr)
        outcome = self._answer(data, source.host)
        self._count(outcome)
        if outcome != "answered" or self._transport is None:
            return
        # The header with the nonce of the question; the rest is always the same.
        answer = self._reply[:2] + data[2:6] + self._reply[6:]
        self._transport.sendto(answer, addr)
        if self._record is not None:
            self._record(source, data, True)
            self._record(source, answer, False)

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
            self._networks = interfaces(self._settings.interfaces)
            self._networks_at = now
        address = ip_address(source.partition("%")[0])
        # Addresses like fe80::1 are in a network of every interface.
        scope = source.partition("%")[2]
        return any(
            address in each.network and (not scope or scope == each.name or not each.name)
            for each in self._networks
        )


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

    def datagram_received(self, data: bytes, addr: Sockname) -> None:
        source = Address.of_socket(addr).host
        is_asked = not self.sources or _bare(source) in self.sources
        if len(self.found) >= _MAX_FOUND or not is_asked:
            return
        try:
            reply = FORMAT.decode(data, transport="udp")
        except DecodeError:
            return  # a bad answer is nobody's
        if not isinstance(reply, DiscoverReply) or reply.nonce != self.nonce:
            return
        if not 0 < reply.tcp_port <= 0xFFFF:
            return
        address = Address(source, reply.tcp_port)
        self.found.setdefault(address, Found(address, reply.x509 or None))
        self.has_found.set()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there; others may."""


def _bare(host: str) -> str:
    """An address without its interface."""
    return host.partition("%")[0]


def _is_broadcast(host: str) -> bool:
    """Whether many hear it there, and answer from addresses of their own."""
    with contextlib.suppress(ValueError):  # a name
        if ip_address(_bare(host)).is_multicast:
            return True
    networks = (each.network for each in interfaces())
    ends = {str(each.broadcast_address) for each in networks if isinstance(each, IPv4Network)}
    return host == BROADCAST.host or host in ends


def _targets(asked: Sequence[Address]) -> list[tuple[str, int]]:
    """Each address, and for the broadcast also that of each network, IPv6 included."""
    targets = []
    for address in asked:
        targets.append((address.host, address.port))
        if address.host == BROADCAST.host:
            wide = [each.broadcast for each in interfaces()]
            targets += [(str(each), address.port) for each in wide if each is not None]
    return list(dict.fromkeys(targets))


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
    found = await asyncio.gather(
        *(loop.getaddrinfo(*target, type=socket.SOCK_DGRAM) for target in _targets(asked))
    )
    addresses = dict.fromkeys((each[0], each[4]) for answer in found for each in answer)
    sources = frozenset(() if is_wide else (_bare(str(at[0])) for _, at in addresses))
    asker = _Asker(secrets.randbelow(0x7FFF_FFFF) + 1, sources)
    transports: dict[int, asyncio.DatagramTransport] = {}
    failure: OSError | None = None
    for family in {family for family, _ in addresses}:
        try:
            sock = udp_socket(Address("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        except OSError as error:  # this machine may have only the other kind
            failure = error
            continue
        made = await loop.create_datagram_endpoint(lambda: asker, sock=sock)
        transports[family] = made[0]
    if not transports and failure is not None:
        raise failure
    question = Discover(nonce=asker.nonce).encode()
    start = loop.time()
    moments = [*(each for each in _RESEND_S if each < within_s), within_s]
    try:
        for until in moments[1:]:
            for family, at in addresses:
                with contextlib.suppress(OSError):  # one network may be down; others may not
                    if family in transports:
                        transports[family].sendto(question, at)
            left = max(0.0, start + until - loop.time())
            if not is_first_enough:
                await asyncio.sleep(left)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asker.has_found.wait(), left)
                break
    finally:
        for transport in transports.values():
            transport.close()
    return list(asker.found.values())
