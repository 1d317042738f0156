"""The IPv4 networks that this machine is in, by interface."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

__all__ = ["Interface", "interfaces"]

_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
_NEAR = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
"""Networks that are never far away, for systems whose interfaces cannot be asked."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of an interface."""

    name: str
    network: IPv4Network

    @property
    def broadcast(self) -> IPv4Address | None:
        """Where all of the network hear; None for networks without such an address."""
        is_wide = self.network.prefixlen < 31 and not self.network.is_loopback
        return self.network.broadcast_address if is_wide else None


def interfaces(names: Collection[str] = ()) -> list[Interface]:
    """Those with an IPv4 address; only the named ones, if any are named."""
    if not sys.platform.startswith("linux"):
        return [Interface("", IPv4Network(text)) for text in _NEAR]
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            if names and name not in names:
                continue
            try:
                address, mask = (
                    socket.inet_ntoa(_ask(asked, question, name))
                    for question in (_SIOCGIFADDR, _SIOCGIFNETMASK)
                )
            except OSError:  # it has no IPv4 address
                continue
            found.append(Interface(name, IPv4Interface(f"{address}/{mask}").network))
    return found


def _ask(asked: socket.socket, question: int, name: str) -> bytes:
    import fcntl

    answer = fcntl.ioctl(asked.fileno(), question, struct.pack("16s24x", name.encode()[:15]))
    return bytes(answer[20:24])
