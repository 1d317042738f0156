"""Interning: field names, types and paths become small numbers, and each text is kept once.

An open-addressing hash table over byte strings. The hash is keyed at random per process, so that
names chosen by an attacker cannot be made to collide; growing needs the interpreter and is left to
the caller, who is told by `FULL`.
"""

from __future__ import annotations

import secrets

from wireloom.columnar.kernel import shim as cython
from wireloom.columnar.kernel.primitives import be64, u8

__all__ = ["FULL", "Names"]

FULL = cython.declare(cython.int, -2)
"""`Names.intern` cannot take one more: `grow`, then try again."""

_PRIME = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_MASK64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cclass
class Names:
    """Byte strings → 0, 1, 2, … in order of first appearance."""

    def __init__(self, slots: int = 1024, text: int = 16384) -> None:
        self.key = secrets.randbits(64) | 1
        self.count = 0
        self.used = 0
        self.slots = memoryview(bytearray(4 * slots)).cast("i")
        self.hashes = memoryview(bytearray(8 * slots)).cast("Q")
        self.ends = memoryview(bytearray(4 * slots)).cast("i")
        self.text = memoryview(bytearray(text))

    def grow(self) -> None:
        """Double the room; numbers stay as they are."""
        slots = 2 * len(self.slots)
        text = memoryview(bytearray(2 * len(self.text)))
        text[: self.used] = self.text[: self.used]
        hashes = memoryview(bytearray(8 * slots)).cast("Q")
        hashes[: self.count] = self.hashes[: self.count]
        ends = memoryview(bytearray(4 * slots)).cast("i")
        ends[: self.count] = self.ends[: self.count]
        self.text, self.hashes, self.ends = text, hashes, ends
        self.slots = memoryview(bytearray(4 * slots)).cast("i")
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        mask: cython.Py_ssize_t = slots - 1
        for index in range(self.count):
            at = self.hashes[index] & mask
            while self.slots[at]:
                at = (at + 1) & mask
            self.slots[at] = index + 1

    def intern(self, data, pos, end):
        """The number of ``data[pos:end]``, new if need be; `FULL` when there is no room for it."""
        size: cython.Py_ssize_t = end - pos
        digest: cython.ulonglong = self.key ^ size
        at: cython.Py_ssize_t = pos
        slot: cython.Py_ssize_t
        mask: cython.Py_ssize_t = self.slots.shape[0] - 1
        index: cython.Py_ssize_t
        start: cython.Py_ssize_t
        i: cython.Py_ssize_t
        while end - at >= 8:
            digest = (digest ^ be64(data, at, end)) * _PRIME & _MASK64
            digest = digest ^ digest >> 29
            at += 8
        while at < end:
            digest = (digest ^ u8(data, at, end)) * _PRIME & _MASK64
            at += 1
        digest = digest ^ digest >> 32
        slot = digest & mask
        while self.slots[slot]:
            index = self.slots[slot] - 1
            if self.hashes[index] == digest:
                start = self.ends[index - 1] if index else 0
                if self.ends[index] - start == size:
                    i = 0
                    while i < size and self.text[start + i] == u8(data, pos + i, end):
                        i += 1
                    if i == size:
                        return index
            slot = (slot + 1) & mask
        if 2 * (self.count + 1) > mask or self.used + size > self.text.shape[0]:
            return FULL
        index = self.count
        for i in range(size):
            self.text[self.used + i] = u8(data, pos + i, end)
        self.used += size
        self.ends[index] = self.used
        self.hashes[index] = digest
        self.slots[slot] = index + 1
        self.count += 1
        return index

    def texts(self) -> list[bytes]:
        """All byte strings, by number."""
        found = []
        start: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        for index in range(self.count):
            found.append(bytes(self.text[start : self.ends[index]]))
            start = self.ends[index]
        return found
