"""Flows: each direction between two hosts and ports is a small number."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes
from wireloom.kernel.walk.names import FULL, Names

__all__ = ["KEY_SIZE", "Flows"]

KEY_SIZE = cython.declare(cython.int, 40)
"""Bytes kept of each flow: 40 for IPv6 (addresses, ports, protocol), 16 of them for IPv4."""

_SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_WORD = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def _array(code: str, rows: int) -> memoryview:
    size = {"B": 1, "i": 4, "I": 4, "q": 8, "Q": 8}[code]
    return memoryview(bytearray(size * max(rows, 1))).cast(code)


def _wider(old, code: str, rows: int) -> memoryview:
    """An array of `rows` that starts as a copy of the first rows of another."""
    new = _array(code, rows)
    count = min(len(old), len(new))
    new[:count] = old[:count]
    return new


@cython.final
@cython.cclass
class Flows:
    """Directions between two hosts → 0, 1, 2, …; the bytes that name each are kept.

    Of `parts` readers of the same capture, this one is for the flows of `part`. A router is for
    all of them: it numbers no flows, but gives the part of each. Bits of `tunnels` say which UDP
    datagrams carry packets that are read in their place (`tunnels`).
    """

    def __init__(
        self,
        limit: int,
        part: int = 0,
        parts: int = 1,
        slots: int = 1024,
        is_router: bool = False,
        tunnels: int = 0,
    ) -> None:
        self.limit = limit
        self.tunnels = tunnels
        self.is_router = is_router
        self.part = part
        self.parts = parts
        self.names = Names(slots)
        self.capacity = slots
        self.keys = _array("B", KEY_SIZE * slots)
        self.sizes = _array("B", slots)

    @property
    def count(self) -> int:
        """Number of flows."""
        return self.names.count

    def key_of(self, flow: cython.Py_ssize_t) -> bytes:
        """The bytes that name a flow: addresses, ports, protocol."""
        at: cython.Py_ssize_t = flow * KEY_SIZE
        return bytes(self.keys[at : at + self.sizes[flow]])

    def grow(self) -> bool:
        """Make room for more flows; False when the limit is reached."""
        if self.names.count >= self.limit:
            return False
        self.names.grow()
        if self.names.count >= self.capacity:
            self.capacity *= 2
            self.keys = _wider(self.keys, "B", KEY_SIZE * self.capacity)
            self.sizes = _wider(self.sizes, "B", self.capacity)
        return True

    def add(self, key: bytes) -> int:
        """The number of the flow with these bytes."""
        place: cython.const[cython.uchar][::1] = key
        flow: cython.int = FULL
        start = cython.address(place[0]) if cython.compiled else key
        while flow == FULL:
            flow = self.intern(start, len(key))
            if flow == FULL and not self.grow():
                raise ValueError("no room for one more flow")
        return flow

    def part_of(self, key, width):
        """The part that a flow belongs to; both directions belong to the same one."""
        i: cython.Py_ssize_t
        a: cython.ulonglong = 0
        b: cython.ulonglong = 0
        for i in range(width):
            a = (a ^ key[i]) * _SPREAD & _WORD
            b = (b ^ key[width + i]) * _SPREAD & _WORD
        for i in range(2 * width, 2 * width + 2):
            a = (a ^ key[i]) * _SPREAD & _WORD
            b = (b ^ key[i + 2]) * _SPREAD & _WORD
        # The order of the two must not matter, so they are added; the upper bits are well mixed.
        a = (a + b & _WORD) >> 33
        return cython.cast(cython.int, a % self.parts)

    def intern(self, key, size):
        """The number of a flow, new if need be; `FULL` when there is no room for it."""
        before: cython.int = self.names.count
        flow: cython.int
        if before >= self.capacity:
            return FULL
        flow = self.names.intern(key, 0, size)
        if flow >= self.limit:
            return FULL
        if flow == before:
            if cython.compiled:
                copy_bytes(cython.address(self.keys[0]), flow * KEY_SIZE, key, 0, size, size)
            else:
                copy_bytes(self.keys, flow * KEY_SIZE, key, 0, size, size)
            self.sizes[flow] = size
        return flow
