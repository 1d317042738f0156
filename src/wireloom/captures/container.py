"""What the readers of packet captures share: bad regions, damage in pieces, link types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from wireloom.captures.bytesource import ByteSource
from wireloom.captures.events import NO_TIME, Damage
from wireloom.captures.window import Window
from wireloom.kernel import Kernel

__all__ = [
    "LINK_TYPES",
    "MAX_DAMAGE",
    "NO_END",
    "PacketReader",
    "damage_of",
    "fault_of",
    "unknown_link",
]

MAX_DAMAGE = 1 << 20
"""Longest `Damage`; a longer bad region becomes several, to bound memory on garbage."""

NO_END = 1 << 62
"""An offset behind the end of every file."""

LINK_TYPES = {
    0: "BSD loopback",
    1: "Ethernet",
    9: "PPP",
    12: "raw IP",
    14: "raw IP",
    50: "PPP",
    51: "PPPoE",
    101: "raw IP",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    108: "OpenBSD loopback",
    113: "Linux cooked",
    127: "IEEE 802.11 with radiotap",
    228: "raw IPv4",
    229: "raw IPv6",
    239: "NFLOG",
    276: "Linux cooked v2",
}
"""Link types that can be read."""


class PacketReader(ABC):
    """Reads one capture, a batch of packets at a time; what the containers have in common."""

    def __init__(self, window: Window, kernel: Kernel, until: int) -> None:
        """Read from the start of `window` on.

        Args:
            window: whose first byte is that of the file, or of one of its records.
            kernel: compiled or interpreted.
            until: offset in the file; records that start at or after it are left out.
        """
        self._name = window.source.name
        self._kernel: Any = kernel
        self.window = window
        self.is_done = False
        self._pos = 0
        self._until = until
        # A bad region, as offsets in the file: where it starts, and how far it was searched.
        self._bad: int | None = None
        self._searched = 0
        self._why = ("", "")

    def read(self, rows: Any) -> list[Damage]:
        """Fill `rows` with the next packets of `window`; return the damage found on the way.

        Raises:
            SourceError: the file cannot be read.
        """
        found: list[Damage] = []
        rows.clear()
        while not self.is_done and rows.count == 0 and len(found) < 64:
            if self._bad is not None:
                found += self._search(rows)
            elif self.position >= self._until:
                self.is_done = True
            else:
                found += self._go_on(rows)
        return found

    @property
    def position(self) -> int:
        """Offset in the file of what comes next."""
        return self.window.base + self._pos

    @abstractmethod
    def _go_on(self, rows: Any) -> Iterable[Damage]:
        """Read on from the current place; one step."""

    @abstractmethod
    def _search(self, rows: Any) -> Iterable[Damage]:
        """Look for the end of the bad region; one step, which may need more bytes."""

    def _more(self, pos: int) -> None:
        """Release what is before `pos` in the window, and read on."""
        self.window.advance(pos)
        self._pos -= pos

    def _found(self, at: int) -> Iterable[Damage]:
        """The bad region ends here."""
        assert self._bad is not None
        start, self._bad, self._pos = self._bad - self.window.base, None, at
        return damage_of(self._name, self.window, start, at, *self._why)

    def _wait(self, start: int, at: int) -> Iterable[Damage]:
        """More bytes are needed; return the bytes before `at` that can no longer be in a record."""
        found: list[Damage] = []
        while at - start > MAX_DAMAGE:
            found += damage_of(self._name, self.window, start, start + MAX_DAMAGE, *self._why)
            start += MAX_DAMAGE
        self._bad = self.window.base + start
        self._pos = start
        self._more(start)
        return found


def damage_of(
    source: str, window: Window, start: int, stop: int, code: str, reason: str
) -> Iterator[Damage]:
    """The bytes ``data[start:stop]`` of a window as damage of the container."""
    for at in range(start, stop, MAX_DAMAGE):
        data = bytes(window.data[at : min(stop, at + MAX_DAMAGE)])
        yield Damage(source, window.base + at, len(data), "container", code, reason, data, NO_TIME)


def fault_of(source: ByteSource) -> Iterator[Damage]:
    """The part of a compressed file that could not be unpacked."""
    fault = source.fault
    if fault is not None:
        left = max(0, (source.size or 0) - fault.offset)
        kind = source.compression
        yield Damage(source.name, fault.offset, left, "compression", kind, fault.reason)


def unknown_link(source: str, offset: int, link: int) -> Damage:
    """The note that a link type is not supported; its packets are looked at one by one."""
    reason = f"link type {link} is unknown; its packets are read as what they look like"
    return Damage(source, offset, 0, "container", "link_type", reason)
