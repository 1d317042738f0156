"""Layouts that repeat: the same fields in the same places, so that only values differ.

Most messages of a feed look like an earlier one. The size tells which one that may be, and
comparing all bytes except the values confirms it. Then nothing in the message has to be looked up
or decided.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import is_alike, low_bytes

__all__: list[str] = []

_WAYS = cython.declare(cython.int, 4)
"""Slots per message size: a feed may have several templates of the same size."""
_PATIENCE = cython.declare(cython.int, 8)
"""Messages in a row that match no layout before a new one replaces an old one."""
_MOST_PATIENCE = cython.declare(cython.int, 4096)
"""The most of these, for layouts that never come again: the number doubles each time."""
_RESPITE = cython.declare(cython.int, 100)
"""Messages to wait before trying again where a layout could not be kept."""
_BYTE = cython.declare(cython.ulonglong, 0xFF)


@cython.final
@cython.cclass
class Layouts:
    """A table of layouts; the number of slots is a power of two, and a message size has a few."""

    def __init__(self, slots: int, words: int, fields: int) -> None:
        """Room for messages of so many words of eight bytes, and so many fields.

        Args:
            slots: how many layouts.
            words: those of the longest message.
            fields: how many of them have facts, which `layoutrows` puts here.
        """
        self.slots = slots
        self.room = words
        self.most = fields
        places, rows = max(1, slots * words), max(1, slots * fields)
        self.sizes = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.misses = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.patience = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.hits = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.turns = memoryview(bytearray(4 * max(1, slots))).cast("i")
        for index in range(slots):
            self.patience[index] = _PATIENCE
        self.counts = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.seen = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.words = memoryview(bytearray(8 * places)).cast("Q")
        self.masks = memoryview(bytearray(8 * places)).cast("Q")
        # What the rows of a message have in common with those of the last one.
        self.position = memoryview(bytearray(4 * max(1, fields))).cast("i")
        for index in range(fields):
            self.position[index] = index
        self.name = memoryview(bytearray(4 * rows)).cast("i")
        self.size = memoryview(bytearray(4 * rows)).cast("i")
        self.type = memoryview(bytearray(rows)).cast("b")
        self.low = memoryview(bytearray(rows))
        self.high = memoryview(bytearray(rows))
        self.hint = memoryview(bytearray(8 * rows)).cast("q")
        self.text_end = memoryview(bytearray(4 * rows)).cast("i")
        # Where values are: first the decimals, then other numbers, then texts.
        self.places = memoryview(bytearray(8 * rows)).cast("Q")
        self.decimals = memoryview(bytearray(4 * max(1, slots))).cast("i")
        self.numbers = memoryview(bytearray(4 * max(1, slots))).cast("i")

    def first_of(self, size):
        """The first slot of a message size."""
        # Sizes differ by a few bytes, so neighbouring sizes must not share slots.
        return (size * _WAYS) & (self.slots - 1)

    def find(self, data, pos, end):
        """The slot with the layout of the message ``data[pos:end]``; -1 if none has it."""
        size: cython.Py_ssize_t = end - pos
        slot: cython.Py_ssize_t
        last: cython.Py_ssize_t
        at: cython.Py_ssize_t
        found: cython.bint
        if size > 8 * self.room or size <= 0:
            return -1
        slot = self.first_of(size)
        last = slot + _WAYS
        while slot < last:
            if self.sizes[slot] == size:
                at = slot * self.room
                if cython.compiled:
                    found = is_alike(
                        data,
                        pos,
                        end,
                        cython.address(self.words[at]),
                        cython.address(self.masks[at]),
                    )
                else:
                    found = is_alike(data, pos, end, self.words[at:], self.masks[at:])
                if found:
                    if self.misses[last - _WAYS] > 0:
                        self.misses[last - _WAYS] = 0
                    self.hits[slot] = 1
                    return slot
            slot += 1
        return -1

    def is_due(self, size):
        """Whether to keep the layout of a message of so many bytes, which was not found."""
        slot: cython.Py_ssize_t
        at: cython.Py_ssize_t
        if size > 8 * self.room or size <= 0:
            return False
        slot = self.first_of(size)
        self.misses[slot] += 1
        if self.misses[slot] <= 0:
            return False
        for at in range(slot, slot + _WAYS):
            if self.sizes[at] == 0:
                return True
        return self.misses[slot] >= self.patience[slot]

    def start(self, data, pos, end):
        """Begin to keep a layout: no byte counts yet, and nothing is found before `finish`."""
        slot: cython.Py_ssize_t = self.choose(end - pos)
        at: cython.Py_ssize_t = slot * self.room
        self.sizes[slot] = 0
        self.hits[slot] = 0
        while pos < end:
            self.words[at] = low_bytes(data, pos, min(8, end - pos), end)
            self.masks[at] = 0
            at += 1
            pos += 8
        return slot

    def choose(self, size):
        """The slot for a new layout: a free one, else one whose layout does not recur, in turn."""
        first: cython.Py_ssize_t = self.first_of(size)
        slot: cython.Py_ssize_t
        turn: cython.int
        self.misses[first] = 0
        for slot in range(first, first + _WAYS):
            if self.sizes[slot] == 0:
                return slot
        for turn in range(_WAYS):
            slot = first + (self.turns[first] + turn) % _WAYS
            if not self.hits[slot]:
                # It was kept in vain.
                self.patience[first] = min(_MOST_PATIENCE, 2 * self.patience[first])
                break
            self.hits[slot] = 0
        else:
            self.patience[first] = _PATIENCE
            slot = first + self.turns[first]
        self.turns[first] = (cython.cast(cython.int, slot - first) + 1) % _WAYS
        return slot

    def cover(self, slot, first, last):
        """Make the bytes of the message from `first` up to `last` part of the layout."""
        at: cython.Py_ssize_t
        for at in range(first, last):
            self.masks[slot * self.room + (at >> 3)] |= _BYTE << (8 * (at & 7))

    def give_up(self, slot):
        """This layout cannot be kept: do not try the next ones of that size."""
        self.misses[slot - slot % _WAYS] = -_RESPITE

    def finish(self, slot, size, count):
        """Finish a layout of so many bytes and fields: from now on it is found."""
        self.sizes[slot] = cython.cast(cython.int, size)
        self.counts[slot] = cython.cast(cython.int, count)
