"""The networks that this machine is in, by interface."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_network,
)
from pathlib import Path

__all__ = ["Interface", "interfaces"]

_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
_NEAR = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("::1/128", "fe80::/10", "fc00::/7"),
)
"""Networks that are never far away, for systems whose interfaces cannot be asked."""
_IPV6 = Path("/proc/net/if_inet6")
"""One address a line: itself in hex, then the index, the length of the prefix, the scope and flags,
each in hex, and the interface's name."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of an interface."""

    name: str
    network: IPv4Network | IPv6Network

    @property
    def broadcast(self) -> IPv4Address | IPv6Address | None:
        """Where all of the network hear; None for networks without such an address."""
        if isinstance(self.network, IPv6Network):
            is_alone = self.network.is_loopback or not self.name
            return None if is_alone else IPv6Address(f"ff02::1%{self.name}")
        is_wide = self.network.prefixlen < 31 and not self.network.is_loopback
        return self.network.broadcast_address if is_wide else None


def interfaces(names: Collection[str] = ()) -> list[Interface]:
    """The addresses of all interfaces; only of the named ones, if any are named."""
    if not sys.platform.startswith("linux"):
        return [Interface("", ip_network(text)) for text in _NEAR]
    return [each for each in (*_ipv4(), *_ipv6()) if not names or each.name in names]


def _ipv4() -> Iterator[Interface]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                address, mask = (
                    socket.inet_ntoa(_ask(asked, question, name))
                    for question in (_SIOCGIFADDR, _SIOCGIFNETMASK)
                )
            except OSError:  # it has no IPv4 address
                continue
            yield Interface(name, IPv4Interface(f"{address}/{mask}").network)


def _ipv6() -> Iterator[Interface]:
    try:
        text = _IPV6.read_text("ascii")
    except OSError:  # this machine has no IPv6
        return
    for line in text.splitlines():
        address, _, prefix, _, _, name = line.split()
        at = IPv6Address(bytes.fromhex(address))
        yield Interface(name, IPv6Interface((at, int(prefix, 16))).network)


def _ask(asked: socket.socket, question: int, name: str) -> bytes:
    import fcntl

    answer = fcntl.ioctl(asked.fileno(), question, struct.pack("16s24x", name.encode()[:15]))
    return bytes(answer[20:24])
