"""pcapng: blocks with their length at both ends; some are sections, interfaces and packets.

Several sections (each in its own byte order), several interfaces with their own resolution and time
offset, enhanced, simple and old packet blocks; blocks of other kinds are skipped and counted.
The two lengths of a block check each other, so damage is found at once, and the search for the next
good block looks for two in a row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from wireloom.captures.container import LINK_TYPES, NO_END, PacketReader, damage_of, unknown_link
from wireloom.captures.events import Damage
from wireloom.captures.window import Window
from wireloom.errors import EncodeError
from wireloom.kernel import Kernel
from wireloom.kernel.packets.records import (
    MAX_BLOCK,
    RECORDS_BAD,
    RECORDS_BLOCK,
    RECORDS_END,
    RECORDS_FOUND,
    RECORDS_MORE,
    RECORDS_PACKET,
)

__all__ = ["PcapngReader", "PcapngState", "PcapngWriter", "is_pcapng"]

_SECTION = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x1a\x2b\x3c\x4d": True, b"\x4d\x3c\x2b\x1a": False}
_IF_TSRESOL = 9
_IF_TSOFFSET = 14
_MAX_INTERFACES = 4096
"""Interfaces of one section; each takes memory as long as the section lasts."""
_MAX_GUESSED = 16
"""Interfaces that packets may name without a description, which damage may have destroyed."""
_NO_LINK = -1
_NO_CLOCK = 1 << 62
"""An offset that makes every time invalid: packets of guessed interfaces have none."""


def is_pcapng(head: bytes | memoryview) -> bool:
    """Whether a file with these first bytes is a pcapng capture."""
    return bytes(head[:4]) == _SECTION and bytes(head[8:12]) in _ORDERS


class PcapngState(NamedTuple):
    """What a reader knows at the start of a block: the section that it is in."""

    is_big: bool
    interfaces: tuple[tuple[int, int, int, int], ...]
    """Link type, snap length, resolution and time offset of each."""


class PcapngReader(PacketReader):
    """The packets of a pcapng capture, or those of a part of it."""

    def __init__(
        self, window: Window, kernel: Kernel, state: PcapngState | None = None, until: int = NO_END
    ) -> None:
        """As for every reader; `state` is that of another reader that has come to this block."""
        super().__init__(window, kernel, until)
        self._is_big = state is not None and state.is_big
        self._interfaces: Any = self._kernel.Interfaces()
        self._known: list[tuple[int, int, int, int]] = []
        for interface in state.interfaces if state is not None else ():
            self._add(*interface)

    @property
    def state(self) -> PcapngState:
        """What another reader needs to know to continue at `position`."""
        return PcapngState(self._is_big, tuple(self._known))

    def _add(self, link: int, snap: int, resolution: int, offset: int) -> None:
        self._interfaces.add(link, snap, resolution, offset)
        self._known.append((link, snap, resolution, offset))

    def _go_on(self, rows: Any) -> Iterable[Damage]:
        window = self.window
        self._pos = self._kernel.pcapng_records(
            rows,
            self._interfaces,
            window.data,
            self._pos,
            window.is_end,
            self._is_big,
            self._until - window.base,
        )
        stop = rows.stop
        if stop == RECORDS_END:
            self.is_done = True
        elif rows.count:
            pass  # The rest waits: these packets lie in this window.
        elif stop == RECORDS_MORE:
            self._more(self._pos)
        elif stop == RECORDS_BAD:
            left = len(window.data) - self._pos
            size = self._word(4) if left >= 8 else 0
            # Only a good length is waited for, so that the chunking makes no difference.
            if left < 12 or (left < size <= MAX_BLOCK and size % 4 == 0):
                self._suspect("truncated", "the file ends inside a block")
            else:
                self._suspect("block", "the block's lengths do not agree")
        elif stop == RECORDS_BLOCK:
            return self._block()
        elif stop == RECORDS_PACKET:
            return self._packet()
        return ()

    def _word(self, at: int) -> int:
        """Four bytes at an offset in the current block."""
        order = ">I" if self._is_big else "<I"
        value: int = struct.unpack_from(order, self.window.data, self._pos + at)[0]
        return value

    def _suspect(self, code: str, reason: str) -> None:
        self._bad = self.window.base + self._pos
        self._searched = self._bad + 1
        self._why = (code, reason)

    def _block(self) -> Iterable[Damage]:
        """A section's header or an interface's description."""
        data = self.window.data
        if bytes(data[self._pos : self._pos + 4]) != _SECTION:
            return self._interface()
        left = len(data) - self._pos
        if left < 28 and not self.window.is_end:
            self._more(self._pos)
            return ()
        order = _ORDERS.get(bytes(data[self._pos + 8 : self._pos + 12]))
        if order is None:
            self._suspect("section", "a section without byte order")
            return ()
        is_big, self._is_big = self._is_big, order
        size = self._word(4)
        is_whole = size <= left
        if 28 <= size <= MAX_BLOCK and not size & 3 and not is_whole and not self.window.is_end:
            self._is_big = is_big
            self._more(self._pos)
            return ()
        if not 28 <= size <= MAX_BLOCK or size & 3 or not is_whole or self._word(size - 4) != size:
            self._suspect("section", "the section's lengths do not agree")
            return ()
        self._interfaces.clear()
        self._known.clear()
        self._pos += size
        return ()

    def _interface(self) -> Iterable[Damage]:
        """An interface: the kernel has checked that the block is whole."""
        size = self._word(4)
        start, self._pos = self._pos, self._pos + size
        if size < 20:
            return self._bad_block(start, size, "interface", "an interface without link type")
        if self._interfaces.count >= _MAX_INTERFACES:
            return self._bad_block(start, size, "limit", f"more than {_MAX_INTERFACES} interfaces")
        order = ">" if self._is_big else "<"
        link, _, snap = struct.unpack_from(order + "HHI", self.window.data, start + 8)
        resolution, offset = 6, 0
        body = bytes(self.window.data[start + 16 : start + size - 4])
        for code, value in _options(body, order):
            if code == _IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _IF_TSOFFSET and len(value) == 8:
                (offset,) = struct.unpack(order + "q", value)
        self._add(link, snap, resolution, offset)
        if link in LINK_TYPES:
            return ()
        return (unknown_link(self._name, self.window.base + start, link),)

    def _packet(self) -> Iterable[Damage]:
        """A packet block that contradicts itself, or names an interface that was not described."""
        size = self._word(4)
        kind = self._word(0)
        start = self._pos
        number = 0
        if kind == 6:
            number = self._word(8)
        elif kind == 2:
            order = ">H" if self._is_big else "<H"
            (number,) = struct.unpack_from(order, self.window.data, start + 8)
        is_short = size < (16 if kind == 3 else 32)
        if not is_short and self._interfaces.count <= number < _MAX_GUESSED:
            while self._interfaces.count <= number:
                self._add(_NO_LINK, 0, 6, _NO_CLOCK)
            reason = f"interface {number} was not described: its packets have no time"
            return (
                Damage(self._name, self.window.base + start, 0, "container", "interface", reason),
            )
        self._pos += size
        reason = "a packet longer than its block"
        if not is_short and number >= self._interfaces.count:
            reason = f"interface {number} was not described"
        return self._bad_block(start, size, "packet", reason)

    def _bad_block(self, start: int, size: int, code: str, reason: str) -> Iterator[Damage]:
        return damage_of(self._name, self.window, start, start + size, code, reason)

    def _search(self, rows: Any) -> Iterable[Damage]:
        """Look for the next good block; one step, which may need more bytes."""
        window = self.window
        assert self._bad is not None
        base = window.base
        start = self._bad - base
        at = self._kernel.find_block(
            rows, window.data, self._searched - base, window.is_end, self._is_big
        )
        self._searched = base + at
        if rows.stop == RECORDS_FOUND:
            return self._found(at)
        if rows.stop == RECORDS_END:
            self.is_done = True
            return self._found(len(window.data))
        return self._wait(start, at)


def _options(body: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The options of a block; a damaged list ends early."""
    at = 0
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == 0:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class PcapngWriter:
    """Writes a pcapng capture of one section, with times in nanoseconds."""

    def __init__(
        self,
        file: BinaryIO,
        link_type: int = 1,
        *,
        is_big: bool = False,
        application: str = "wireloom",
    ) -> None:
        self._file = file
        self._order = ">" if is_big else "<"
        self._interfaces = 0
        option = application.encode()
        options = self._option(4, option) + self._option(0, b"") if option else b""
        body = struct.pack(self._order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options
        self._block(0x0A0D0D0A, body)
        self.add_interface(link_type)

    def _option(self, code: int, value: bytes) -> bytes:
        return struct.pack(self._order + "HH", code, len(value)) + _pad(value)

    def _block(self, kind: int, body: bytes) -> None:
        size = struct.pack(self._order + "I", 12 + len(body))
        self._file.write(struct.pack(self._order + "I", kind) + size + body + size)

    def add_interface(self, link_type: int, name: str = "") -> int:
        """Describe one more interface; return its number for `write`."""
        options = self._option(2, name.encode()) if name else b""
        options += self._option(_IF_TSRESOL, b"\x09") + self._option(0, b"")
        self._block(1, struct.pack(self._order + "HHI", link_type, 0, 0) + options)
        self._interfaces += 1
        return self._interfaces - 1

    def write(
        self, ts_ns: int, packet: bytes, length: int | None = None, interface: int = 0
    ) -> None:
        """Append a packet; `length` is its length on the wire, if only a part of it is given.

        Raises:
            EncodeError: the time is before 1970 or does not fit, or there is no such interface.
        """
        if not 0 <= interface < self._interfaces:
            raise EncodeError(f"interface {interface} was not added")
        if not 0 <= ts_ns < 1 << 64:
            raise EncodeError(f"{ts_ns} ns do not fit a packet block")
        length = len(packet) if length is None else length
        high, low = ts_ns >> 32, ts_ns & 0xFFFFFFFF
        head = struct.pack(self._order + "5I", interface, high, low, len(packet), length)
        self._block(6, head + _pad(packet))
