"""Rows of packets: position and time of each, and what `scan_packets` found in its headers."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import KEY_SIZE, _array

__all__ = [
    "PACKET_BAD_IP",
    "PACKET_BAD_LINK",
    "PACKET_BAD_TCP",
    "PACKET_BAD_UDP",
    "PACKET_CUT",
    "PACKET_FRAGMENT",
    "PACKET_NOT_IP",
    "PACKET_OTHER",
    "PACKET_TCP",
    "PACKET_TUNNEL",
    "PACKET_UDP",
    "SCAN_DONE",
    "SCAN_FLOWS",
    "SCAN_FRAGMENT",
    "Packets",
]

# What a packet turned out to be; index into `Packets.tally` and `Packets.sizes`.
PACKET_TCP = cython.declare(cython.int, 1)
PACKET_UDP = cython.declare(cython.int, 2)
PACKET_OTHER = cython.declare(cython.int, 3)
PACKET_NOT_IP = cython.declare(cython.int, 4)
PACKET_TUNNEL = cython.declare(cython.int, 5)
"""Something that carries packets in a way that is not read."""
PACKET_FRAGMENT = cython.declare(cython.int, 6)
PACKET_BAD_LINK = cython.declare(cython.int, 7)
PACKET_BAD_IP = cython.declare(cython.int, 8)
PACKET_BAD_TCP = cython.declare(cython.int, 9)
PACKET_BAD_UDP = cython.declare(cython.int, 10)
PACKET_CUT = cython.declare(cython.int, 11)
"""The capture kept too little of it to tell its flow."""

# Why `scan_packets` came back.
SCAN_DONE = cython.declare(cython.int, 0)
SCAN_FLOWS = cython.declare(cython.int, 1)
"""No room for one more flow: make room, and continue with the same packet."""
SCAN_FRAGMENT = cython.declare(cython.int, 2)
"""The packet is a fragment: reassemble it, and continue with the next packet."""


@cython.final
@cython.cclass
class Packets:
    """Rows of packets; offsets are those of the chunk they lie in."""

    def __init__(self, rows: int) -> None:
        self.capacity = rows
        self.count = 0
        self.stop = 0
        self.skipped = 0
        self.odd_count = 0
        self.at = _array("q", rows)
        self.captured = _array("i", rows)
        self.length = _array("i", rows)
        self.ts = _array("q", rows)
        self.link = _array("i", rows)
        self.status = _array("B", rows)
        self.flow = _array("i", rows)
        self.seq = _array("I", rows)
        self.flags = _array("B", rows)
        self.net_at = _array("q", rows)
        self.host_at = _array("q", rows)
        self.payload_at = _array("q", rows)
        self.payload = _array("i", rows)
        self.missing = _array("i", rows)
        self.odd = _array("i", rows)
        self.tally = _array("q", 16)
        self.sizes = _array("q", 16)
        self.key = _array("B", KEY_SIZE)

    def clear(self) -> None:
        """Forget the rows, and what was noted about them."""
        self.count = self.odd_count = self.skipped = 0
        for index in range(16):
            self.tally[index] = self.sizes[index] = 0

    def put(self, at: cython.Py_ssize_t, captured: cython.int, link: cython.int) -> None:
        """Make one row of one whole packet without a time; `scan_packets` reads it."""
        self.at[0] = at
        self.captured[0] = captured
        self.length[0] = captured
        self.link[0] = link
        self.ts[0] = 0
        self.count = 1

    def take(self, index: cython.Py_ssize_t, other: Packets) -> None:
        """Give a row the headers and the payload of `other`'s first row, which is in the store.

        The row keeps its position and time. Negative offsets point into the reorder buffer's store.
        """
        self.status[index] = other.status[0]
        self.flow[index] = other.flow[0]
        self.seq[index] = other.seq[0]
        self.flags[index] = other.flags[0]
        self.net_at[index] = ~other.net_at[0]
        self.host_at[index] = ~other.host_at[0]
        self.payload_at[index] = ~other.payload_at[0]
        self.payload[index] = other.payload[0]
        self.missing[index] = other.missing[0]

    def begin(self, index, at, captured, length, ts, link):
        """Set what a container knows about a packet."""
        self.at[index] = at
        self.captured[index] = cython.cast(cython.int, captured)
        self.length[index] = cython.cast(cython.int, length)
        self.ts[index] = ts
        self.link[index] = link
