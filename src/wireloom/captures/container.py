"""What the readers of packet captures share: damage in pieces, link types, the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

from wireloom.captures.bytesource import ByteSource
from wireloom.captures.events import NO_TIME, Damage
from wireloom.captures.window import Window

__all__ = [
    "LINK_TYPES",
    "MAX_DAMAGE",
    "NO_END",
    "Kernel",
    "PacketReader",
    "damage_of",
    "fault_of",
    "unknown_link",
]

Kernel = ModuleType | SimpleNamespace
"""The kernel's names, compiled or interpreted."""

MAX_DAMAGE = 1 << 20
"""Longest `Damage`; a longer bad region becomes several, to bound memory on garbage."""

NO_END = 1 << 62
"""An offset behind the end of every file."""

LINK_TYPES = {
    0: "BSD loopback",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "OpenBSD loopback",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked v2",
}
"""Link types that can be read."""


class PacketReader(Protocol):
    """Reads one capture, a batch of packets at a time."""

    window: Window
    is_done: bool

    def read(self, rows: Any) -> list[Damage]:
        """Fill `rows` with the next packets of `window`; give the damage found on the way.

        Raises:
            SourceError: the file cannot be read.
        """
        ...


def damage_of(
    source: str, window: Window, start: int, stop: int, code: str, reason: str
) -> Iterator[Damage]:
    """The bytes ``data[start:stop]`` of a window as damage of the container."""
    for at in range(start, stop, MAX_DAMAGE):
        data = bytes(window.data[at : min(stop, at + MAX_DAMAGE)])
        yield Damage(source, window.base + at, len(data), "container", code, reason, data, NO_TIME)


def fault_of(source: ByteSource) -> Iterator[Damage]:
    """What of a compressed file could not be unpacked."""
    fault = source.fault
    if fault is not None:
        left = max(0, (source.size or 0) - fault.offset)
        kind = source.compression
        yield Damage(source.name, fault.offset, left, "compression", kind, fault.reason)


def unknown_link(source: str, offset: int, link: int) -> Damage:
    """The note that a link type is none that can be read; its packets are looked at one by one."""
    reason = f"link type {link} is unknown; its packets are read as what they look like"
    return Damage(source, offset, 0, "container", "link_type", reason)
