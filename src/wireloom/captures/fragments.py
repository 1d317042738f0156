"""IP fragments → whole IP packets, within limits.

Fragments of one packet share addresses, protocol and identification. A repeated
fragment is a duplicate; one that partly overlaps others discredits the whole packet (as RFC 5722
demands for IPv6), and so does a size beyond 64 KB. What cannot be completed is given up: when
too much is waiting, when the identification comes again much later, or at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field

from wireloom.captures.events import NO_TIME

__all__ = ["Fragments", "Lost"]

_LARGEST = 0xFFFF
_COST = 256
"""What a fragment costs beyond its bytes, so that tiny ones cannot fill memory either."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A fragment that did not become part of a packet."""

    offset: int
    """Where its packet starts in the capture."""
    ts_ns: int
    reason: str
    data: bytes


@dataclass(slots=True)
class _Packet:
    """The fragments of one packet so far."""

    started_ns: int
    head: bytes = b""
    """The headers of the first fragment, without those of fragmentation."""
    total: int | None = None
    """Bytes of the payload, known from the last fragment."""
    starts: list[int] = field(default_factory=list)
    """Where the payloads start, ascending."""
    stops: list[int] = field(default_factory=list)
    parts: list[Lost] = field(default_factory=list)
    """The fragments as captured, in case the packet is given up."""
    held: int = 0
    payload: int = 0
    is_broken: bool = False

    def add(self, start: int, stop: int, is_last: bool, fragment: Lost) -> bool:
        """Take a fragment; False if it contradicts the others."""
        at = bisect_left(self.starts, start)
        if at < len(self.starts) and (start, stop) == (self.starts[at], self.stops[at]):
            # A duplicate, if the bytes are the same.
            return self.parts[at].data[start - stop :] == fragment.data[start - stop :]
        if at < len(self.starts) and self.starts[at] < stop:
            return False
        if at and self.stops[at - 1] > start:
            return False
        if is_last:
            if self.total is not None or at < len(self.starts):
                return False
            self.total = stop
        if self.total is not None and stop > self.total:
            return False
        self.starts.insert(at, start)
        self.stops.insert(at, stop)
        self.parts.insert(at, fragment)
        self.held += len(fragment.data) + _COST
        self.payload += stop - start
        return True

    def join(self) -> bytes | None:
        """The whole packet with its new length; None while a part is missing."""
        if self.payload != self.total:
            return None
        head = bytearray(self.head)
        body = b"".join(
            part.data[len(part.data) - (stop - start) :]
            for start, stop, part in zip(self.starts, self.stops, self.parts, strict=True)
        )
        at, base = (2, 0) if head[0] >> 4 == 4 else (4, 40)
        total = len(head) - base + len(body)
        # Zero means "to the end": with its headers the packet may not fit the length field.
        head[at : at + 2] = (total if total <= _LARGEST else 0).to_bytes(2, "big")
        return bytes(head) + body


class Fragments:
    """Packets that wait for their other fragments."""

    def __init__(self, max_bytes: int, max_packets: int, max_wait_ns: int) -> None:
        self._max_bytes = max_bytes
        self._max_packets = max_packets
        self._max_wait_ns = max_wait_ns
        self._waiting: OrderedDict[bytes, _Packet] = OrderedDict()
        self._held = 0
        self.lost: list[Lost] = []
        """Fragments given up since this list was last emptied by its reader."""

    def add(self, packet: bytes, extension: int, ts_ns: int, offset: int) -> bytes | None:
        """Take an IP packet that is a fragment; return the whole packet if it completes it.

        Args:
            packet: from the IP header on, as far as it was captured.
            extension: where the fragment header is (IPv6), or the header ends (IPv4).
            ts_ns: capture time.
            offset: of the packet in the capture.
        """
        fragment = Lost(offset, ts_ns, "", packet)
        if packet[0] >> 4 == 4:
            key = packet[12:20] + packet[9:10] + packet[4:6]
            where = int.from_bytes(packet[6:8], "big")
            start, is_last = (where & 0x1FFF) * 8, not where & 0x2000
            body, is_cut = extension, len(packet) < int.from_bytes(packet[2:4], "big")
            head = packet[:6] + b"\0\0" + packet[8:extension]
        else:
            key = packet[8:40] + packet[extension + 4 : extension + 8]
            where = int.from_bytes(packet[extension + 2 : extension + 4], "big")
            start, is_last = where & 0xFFF8, not where & 1
            body = extension + 8
            is_cut = len(packet) < int.from_bytes(packet[4:6], "big") + 40
            head = _without_fragment_header(packet, extension)
        size = len(packet) - body
        if is_cut or size <= 0 or start + size > _LARGEST or (not is_last and size % 8):
            self.lost.append(Lost(offset, ts_ns, "a fragment that cannot be", packet))
            return None
        waiting = self._waiting.get(key)
        if waiting is not None and self._is_old(waiting, ts_ns):
            self._give_up(key, "its other fragments did not come in time")
            waiting = None
        if waiting is None:
            waiting = self._waiting[key] = _Packet(ts_ns)
        before = waiting.held
        if waiting.is_broken or not waiting.add(start, start + size, is_last, fragment):
            waiting.is_broken = True
            self.lost.append(Lost(offset, ts_ns, "fragments overlap", packet))
            return None
        self._held += waiting.held - before
        if start == 0:
            waiting.head = head
        whole = waiting.join()
        if whole is None:
            self._limit()
        else:
            del self._waiting[key]
            self._held -= waiting.held
        return whole

    def close(self) -> None:
        """Give up everything that is waiting."""
        while self._waiting:
            self._give_up(next(iter(self._waiting)), "its other fragments did not come")

    def _is_old(self, waiting: _Packet, ts_ns: int) -> bool:
        if NO_TIME in (ts_ns, waiting.started_ns):
            return False
        return abs(ts_ns - waiting.started_ns) > self._max_wait_ns

    def _limit(self) -> None:
        while self._held > self._max_bytes or len(self._waiting) > self._max_packets:
            self._give_up(next(iter(self._waiting)), "too many fragments are waiting")

    def _give_up(self, key: bytes, reason: str) -> None:
        waiting = self._waiting.pop(key)
        self._held -= waiting.held
        for part in waiting.parts:
            self.lost.append(Lost(part.offset, part.ts_ns, reason, part.data))


def _without_fragment_header(packet: bytes, extension: int) -> bytes:
    """The headers of an IPv6 packet up to the fragment header, which the one behind it replaces."""
    head = bytearray(packet[:extension])
    at, kind_at = 40, 6
    while at < extension:
        is_authentication = head[kind_at] == 51
        kind_at = at
        at += (head[at + 1] + 2) * 4 if is_authentication else (head[at + 1] + 1) * 8
    head[kind_at] = packet[extension]
    return bytes(head)
