"""Interning: field names, types and paths become small numbers, and each text is kept once.

An open-addressing hash table over byte strings. The hash is keyed at random per process, so that
names chosen by an attacker cannot be made to collide; growing needs the interpreter and is left to
the caller, who is told by `FULL`.
"""

from __future__ import annotations

import secrets
from struct import calcsize
from typing import Any

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import low_bytes, u8

__all__ = ["FULL", "Names"]

FULL = cython.declare(cython.int, -2)
"""`Names.intern` cannot take one more: `grow`, then try again."""

_WORD64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def high_product(a, b):
    """The upper 64 bits of ``a * b``."""
    if cython.compiled:
        return wireloom_high_product(a, b)
    return a * b >> 64


def folded_product(a, b):
    """Both halves of ``a * b``, folded; unpredictable when `a` or `b` contains a secret."""
    return a * b & _WORD64 ^ high_product(a, b)


def longer(old: Any, code: str, size: int, count: int) -> memoryview:
    """An array of `size` numbers, the first `count` copied from an old one."""
    new = memoryview(bytearray(calcsize(code) * max(1, size))).cast(code)
    if count:
        new[:count] = old[:count]
    return new


@cython.final
@cython.cclass
class Names:
    """Byte strings → 0, 1, 2, … in order of first appearance."""

    def __init__(self, slots: int = 1024, text: int = 16384) -> None:
        self.key0 = secrets.randbits(64)
        self.key1 = secrets.randbits(64)
        self.key2 = secrets.randbits(64)
        self.count = 0
        self.used = 0
        self.text = memoryview(bytearray(text))
        self.hashes = self.heads = self.tails = memoryview(bytearray(8)).cast("Q")
        self.ends = self.followers = memoryview(bytearray(4)).cast("i")
        self._resize(slots)

    def _resize(self, slots: int) -> None:
        """New arrays for so many slots, half of which can be used; existing entries are kept."""
        count = self.count
        self.hashes = longer(self.hashes, "Q", slots, count)
        self.heads = longer(self.heads, "Q", slots, count)
        self.tails = longer(self.tails, "Q", slots, count)
        self.ends = longer(self.ends, "i", slots, count)
        # One extra in front, for what precedes the first.
        self.followers = longer(self.followers, "i", slots + 1, count + 1)
        self.slots = memoryview(bytearray(4 * slots)).cast("i")
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        mask: cython.Py_ssize_t = slots - 1
        for index in range(count):
            at = self.hashes[index] & mask
            while self.slots[at]:
                at = (at + 1) & mask
            self.slots[at] = index + 1

    def grow(self) -> None:
        """Double the room; numbers stay as they are."""
        text = memoryview(bytearray(2 * len(self.text)))
        text[: self.used] = self.text[: self.used]
        self.text = text
        self._resize(2 * len(self.slots))

    def intern(self, data, pos, end):
        """The number of ``data[pos:end]``, new if need be; `FULL` when there is no room for it."""
        size: cython.Py_ssize_t = end - pos
        head: cython.ulonglong = low_bytes(data, pos, size, end)
        tail: cython.ulonglong = low_bytes(data, end - 8, 8, end) if size > 8 else 0
        digest: cython.ulonglong
        at: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        mask: cython.Py_ssize_t = self.slots.shape[0] - 1
        index: cython.Py_ssize_t
        start: cython.Py_ssize_t
        i: cython.Py_ssize_t
        digest = folded_product(head ^ self.key0, tail ^ self.key1)
        at = pos + 8
        while end - at > 8:
            digest = folded_product(digest ^ self.key2, low_bytes(data, at, 8, end) ^ self.key1)
            at += 8
        digest = folded_product(digest ^ self.key2, self.key0 ^ size)
        slot = digest & mask
        while self.slots[slot]:
            index = self.slots[slot] - 1
            if self.hashes[index] == digest and self.heads[index] == head:
                start = self.ends[index - 1] if index else 0
                if self.ends[index] - start == size:
                    i = 8
                    while i < size and self.text[start + i] == u8(data, pos + i, end):
                        i += 1
                    if i >= size:
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
        self.heads[index] = head
        self.tails[index] = tail
        self.slots[slot] = index + 1
        self.count += 1
        return index

    def add(self, text: bytes) -> int:
        """The number of a text, for callers with the interpreter at hand; grows if need be."""
        view: cython.const[cython.uchar][::1] = text if text else b"\0"
        while True:
            if cython.compiled:
                found = self.intern(cython.address(view[0]), 0, len(text))
            else:
                found = self.intern(view, 0, len(text))
            if found != FULL:
                return found
            self.grow()

    def texts(self, first: int = 0) -> list[bytes]:
        """The byte strings from number `first` on."""
        found = []
        start: cython.Py_ssize_t = self.ends[first - 1] if first else 0
        index: cython.Py_ssize_t
        for index in range(first, self.count):
            found.append(bytes(self.text[start : self.ends[index]]))
            start = self.ends[index]
        return found
