"""Layouts that repeat: the same fields in the same order, so that only values differ.

Most messages of a feed look like an earlier one. Its layout is what they have in common: all bytes
except the values. Where only the sizes of texts differ, the layout is cut there into segments, with
a text of any size between two of them. Comparing the bytes confirms that a message has a layout;
then nothing in it has to be looked up or decided. The message's size tells which layout to try
first, and the names of the first fields which others.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import is_alike, low_bytes, u8
from wireloom.kernel.walk.names import longer

__all__: list[str] = []

_FEWEST = cython.declare(cython.Py_ssize_t, 16)
_GROWTH = cython.declare(cython.Py_ssize_t, 4)
"""The slots at first, and how many times as many there are when these are full."""
_KINDS = cython.declare(cython.int, 256)
"""Chains of layouts: one for each kind, as far as kinds do not share a number."""
_TRIED = cython.declare(cython.int, 64)
"""Layouts that a message is compared with, at most."""
_SEGMENTS = cython.declare(cython.int, 16)
"""The most segments; texts after these keep their sizes."""
_PATIENCE = cython.declare(cython.int, 8)
"""Messages that match no layout before a new one replaces an old one."""
_MOST_PATIENCE = cython.declare(cython.int, 4096)
"""The most of these, for layouts that never come again: the number doubles each time."""
_RESPITE = cython.declare(cython.int, 100)
"""Messages to wait before trying again where a layout could not be kept."""
_FOUND_ONCE = cython.declare(cython.int, 1)
_FOUND_LATELY = cython.declare(cython.int, 2)
_BYTE = cython.declare(cython.ulonglong, 0xFF)
_LAYOUT_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LAYOUT_SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
"""Spreads the bits of a number over all bits of a product."""
LONGEST_TEXT = cython.declare(cython.Py_ssize_t, 64)
"""Bytes of a text, with its NUL, that may have any size."""


@cython.final
@cython.cclass
class Layouts:
    """A table of layouts; it grows when it is full."""

    def __init__(self, slots: int, words: int, fields: int) -> None:
        """Room for messages of so many words of eight bytes, and so many fields.

        Args:
            slots: how many layouts at most, a power of two.
            words: those of the longest message.
            fields: how many of them have facts, which `layoutrows` puts here.
        """
        self.most_slots = slots
        self.slots = self.used = 0
        self.room = words
        self.most = fields
        # Which slot was found last for a message of a size.
        self.by_size = longer(b"", "i", 8 * words + 1, 0)
        # Of each chain: one more than its first slot, the messages that were missed, and how many
        # it takes before a new layout takes the place of another.
        self.heads = longer(b"", "i", _KINDS, 0)
        self.misses = longer(b"", "i", _KINDS, 0)
        self.patience = longer(b"", "i", _KINDS, 0)
        for index in range(_KINDS):
            self.patience[index] = _PATIENCE
        # The slot to replace next.
        self.turn = 0
        # Of each slot; one without segments is free. `nexts` is one more than the next in its
        # chain, `sizes` that of its messages if it is the same for all.
        self.nexts = self.sizes = self.kinds = self.hits = longer(b"", "i", 1, 0)
        self.segments = self.segment_sizes = self.counts = self.nexts
        self.signatures = self.words = self.masks = longer(b"", "Q", 1, 0)
        # What the rows of a message have in common with those of the last one.
        self.seen = self.name = self.size = self.nexts
        self.type = longer(b"", "b", 1, 0)
        self.low = self.high = longer(b"", "B", 1, 0)
        self.hint = longer(b"", "q", 1, 0)
        # Where values are: first the decimals, then other numbers, then texts.
        self.places = self.signatures
        self.decimals = self.numbers = self.nexts
        self.widen(min(slots, _FEWEST))
        self.position = longer(b"", "i", fields, 0)
        for index in range(fields):
            self.position[index] = index
        self.new_places = longer(b"", "Q", fields, 0)
        # Where the segments of the message found last begin.
        self.begins = longer(b"", "q", _SEGMENTS, 0)
        # The layout that is being made: its slot, whether texts keep their sizes, its segments so
        # far, and where the next one begins in the message and in `words`, with room up to
        # `word_end`. The signature is that of the bytes so far, without the sizes of texts.
        self.slot = self.made = self.begin = self.word = self.word_end = 0
        self.is_fixed = True
        self.signature = 0

    def widen(self, slots: int) -> None:
        """Make room for so many layouts; those that are known are kept."""
        count = self.slots
        self.nexts = longer(self.nexts, "i", slots, count)
        self.sizes = longer(self.sizes, "i", slots, count)
        self.kinds = longer(self.kinds, "i", slots, count)
        self.hits = longer(self.hits, "i", slots, count)
        self.counts = longer(self.counts, "i", slots, count)
        self.seen = longer(self.seen, "i", slots, count)
        self.segments = longer(self.segments, "i", slots, count)
        self.signatures = longer(self.signatures, "Q", slots, count)
        self.decimals = longer(self.decimals, "i", slots, count)
        self.numbers = longer(self.numbers, "i", slots, count)
        size = _SEGMENTS
        self.segment_sizes = longer(self.segment_sizes, "i", slots * size, count * size)
        size = self.room
        self.words = longer(self.words, "Q", slots * size, count * size)
        self.masks = longer(self.masks, "Q", slots * size, count * size)
        size = self.most
        self.name = longer(self.name, "i", slots * size, count * size)
        self.size = longer(self.size, "i", slots * size, count * size)
        self.type = longer(self.type, "b", slots * size, count * size)
        self.low = longer(self.low, "B", slots * size, count * size)
        self.high = longer(self.high, "B", slots * size, count * size)
        self.hint = longer(self.hint, "q", slots * size, count * size)
        self.places = longer(self.places, "Q", slots * size, count * size)
        self.slots = slots

    def grow(self):
        """Make room for more layouts, for which the compiled kernel calls the interpreter."""
        self.widen(min(self.most_slots, _GROWTH * self.slots))

    def kind_of(self, data, pos, end):
        """A number that messages have in common whose first two fields have the same names.

        Fields start with the size of the name, the name, a type, and the size of the data.
        """
        size: cython.Py_ssize_t = 1 + u8(data, pos, end)
        kind: cython.ulonglong = low_bytes(data, pos, min(8, size), end)
        pos += size
        pos += 2 + u8(data, pos + 1, end)
        size = 1 + u8(data, pos, end)
        kind = kind * 31 + low_bytes(data, pos, min(8, size), end) & _LAYOUT_BITS
        return cython.cast(cython.int, (kind * _LAYOUT_SPREAD & _LAYOUT_BITS) >> 40)

    def find(self, data, pos, end):
        """The slot with the layout of the message ``data[pos:end]``; -1 if none has it."""
        size: cython.Py_ssize_t = end - pos
        slot: cython.Py_ssize_t
        if size > 8 * self.room or size <= 0:
            return -1
        slot = self.by_size[size]
        if not self.is_like(slot, data, pos, end):
            slot = self.search(data, pos, end)
            if slot < 0:
                return -1
            self.by_size[size] = cython.cast(cython.int, slot)
        if self.hits[slot] != _FOUND_LATELY:
            if self.hits[slot] == 0:
                # It was not kept in vain.
                self.patience[self.kinds[slot] & _KINDS - 1] = _PATIENCE
            self.hits[slot] = _FOUND_LATELY
        return slot

    def search(self, data, pos, end):
        """The slot with the layout of a message, by its kind; it is then the first of its chain."""
        kind: cython.int = self.kind_of(data, pos, end)
        size: cython.Py_ssize_t = end - pos
        before: cython.int = 0
        at: cython.int = self.heads[kind & _KINDS - 1]
        tried: cython.int = 0
        while at and tried < _TRIED:
            if self.kinds[at - 1] == kind and (
                self.sizes[at - 1] == size or self.sizes[at - 1] == 0
            ):
                tried += 1
                if self.is_like(at - 1, data, pos, end):
                    if before:
                        self.nexts[before - 1] = self.nexts[at - 1]
                        self.link(at - 1)
                    return at - 1
            before = at
            at = self.nexts[at - 1]
        return -1

    def link(self, slot):
        """Make a slot the first of its chain."""
        chain: cython.int = self.kinds[slot] & _KINDS - 1
        self.nexts[slot] = self.heads[chain]
        self.heads[chain] = cython.cast(cython.int, slot + 1)

    def drop(self, slot):
        """Forget the layout of a slot."""
        chain: cython.int = self.kinds[slot] & _KINDS - 1
        at: cython.int = self.heads[chain]
        if at == slot + 1:
            self.heads[chain] = self.nexts[slot]
        else:
            while self.nexts[at - 1] != slot + 1:
                at = self.nexts[at - 1]
            self.nexts[at - 1] = self.nexts[slot]
        self.segments[slot] = 0
        self.used -= 1

    def is_like(self, slot, data, pos, end):
        """Whether a message has the layout of a slot; `begins` then says where its segments are."""
        word: cython.Py_ssize_t = slot * self.room
        segment: cython.Py_ssize_t = slot * _SEGMENTS
        last: cython.Py_ssize_t = segment + self.segments[slot]
        number: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        size: cython.Py_ssize_t
        found: cython.bint
        while segment < last:
            size = self.segment_sizes[segment]
            stop = pos + size
            if stop > end:
                return False
            if cython.compiled:
                found = is_alike(
                    data,
                    pos,
                    stop,
                    end,
                    cython.address(self.words[word]),
                    cython.address(self.masks[word]),
                )
            else:
                found = is_alike(data, pos, stop, end, self.words[word:], self.masks[word:])
            if not found:
                return False
            self.begins[number] = pos
            segment += 1
            if segment == last:
                return stop == end
            number += 1
            word += (size + 7) >> 3
            size = u8(data, stop, end)
            pos = stop + 1 + size
            if size == 0 or size > LONGEST_TEXT or pos > end or u8(data, pos - 1, end):
                return False
        return False

    def is_due(self, data, pos, end):
        """Whether to keep the layout of a message, which was not found."""
        chain: cython.int
        if end - pos > 8 * self.room or end <= pos:
            return False
        chain = self.kind_of(data, pos, end) & _KINDS - 1
        self.misses[chain] += 1
        if self.used < self.most_slots:
            return self.misses[chain] > 0
        return self.misses[chain] >= self.patience[chain]

    def start(self, data, pos, end):
        """Begin to keep a layout: no byte counts yet, and nothing is found before `finish`."""
        kind: cython.int = self.kind_of(data, pos, end)
        self.slot = self.choose(kind & _KINDS - 1)
        self.kinds[self.slot] = kind
        self.hits[self.slot] = 0
        self.begin_at(pos, True)
        return self.slot

    def choose(self, chain):
        """The next slot in turn that is free, or was not found since its last turn."""
        slot: cython.Py_ssize_t
        self.misses[chain] = 0
        if self.used == self.slots < self.most_slots:
            self.turn = self.slots
            self.grow()
        while self.segments[self.turn] and self.hits[self.turn] == _FOUND_LATELY:
            self.hits[self.turn] = _FOUND_ONCE
            self.turn = self.turn + 1 & self.slots - 1
        slot = self.turn
        self.turn = slot + 1 & self.slots - 1
        if self.segments[slot]:
            self.patience[chain] = min(_MOST_PATIENCE, 2 * self.patience[chain])
            self.drop(slot)
        return slot

    def begin_at(self, pos, is_fixed):
        """Begin with the first segment, at `pos`."""
        at: cython.Py_ssize_t
        self.is_fixed = is_fixed
        self.signature = 0
        self.made = 0
        self.begin = pos
        self.word = self.slot * self.room
        self.word_end = self.word + self.room
        for at in range(self.word, self.word_end):
            self.masks[at] = 0

    def has_twin(self, pos):
        """Whether there is a layout that only differs in the sizes of texts.

        That one is given up, and this one begins again, at `pos`, for texts of any size.
        """
        kind: cython.int = self.kinds[self.slot]
        at: cython.int = self.heads[kind & _KINDS - 1]
        while at:
            if self.kinds[at - 1] == kind and self.signatures[at - 1] == self.signature:
                self.drop(at - 1)
                self.begin_at(pos, False)
                return True
            at = self.nexts[at - 1]
        return False

    def cover(self, data, first, last):
        """Make the bytes of the message from `first` up to `last` part of the layout."""
        at: cython.Py_ssize_t
        for at in range(first, last):
            self.signature = (self.signature ^ u8(data, at, last)) * _LAYOUT_SPREAD & _LAYOUT_BITS
        self.select(first, last)

    def select(self, first, last):
        """Compare these bytes of the message."""
        at: cython.Py_ssize_t
        word: cython.Py_ssize_t
        for at in range(first - self.begin, last - self.begin):
            word = self.word + (at >> 3)
            if word < self.word_end:
                self.masks[word] |= _BYTE << (8 * (at & 7))

    def cover_text(self, data, pos, end, is_fixed):
        """Make the text whose size is at `pos` part of the layout; return where it ends.

        With `is_fixed`, other messages with that layout have the same size there.
        """
        size: cython.Py_ssize_t = u8(data, pos, end)
        stop: cython.Py_ssize_t = pos + 1 + size
        if size == 0 or size > LONGEST_TEXT or self.made >= _SEGMENTS - 1:
            is_fixed = True
        if is_fixed or self.is_fixed or u8(data, stop - 1, end):
            self.select(pos, pos + 1)
            self.select(max(pos, stop - 1), stop)
        else:
            self.cut(data, pos, end)
            self.begin = stop
        return stop

    def cut(self, data, stop, end):
        """End the segment at `stop`; false if there is no room for it."""
        at: cython.Py_ssize_t = self.begin
        rest: cython.Py_ssize_t = (stop - at) & 7
        while at < stop:
            if self.word == self.word_end:
                self.made = _SEGMENTS
                return False
            self.words[self.word] = low_bytes(data, at, min(8, stop - at), end)
            self.word += 1
            at += 8
        if rest and stop - self.begin > 8:
            # The last word of a segment is that of its last eight bytes.
            at = self.word - 1
            self.words[at] = low_bytes(data, stop - 8, 8, end)
            self.masks[at] = self.masks[at] << (8 * (8 - rest)) & _LAYOUT_BITS
        self.segment_sizes[self.slot * _SEGMENTS + self.made] = cython.cast(
            cython.int, stop - self.begin
        )
        self.made += 1
        return True

    def give_up(self):
        """This layout cannot be kept: do not try the next ones that start like it."""
        self.misses[self.kinds[self.slot] & _KINDS - 1] = -_RESPITE

    def finish(self, data, end, count):
        """Finish a layout of so many fields: from now on it is found, if there was room for it."""
        slot: cython.Py_ssize_t = self.slot
        if self.made < _SEGMENTS and self.cut(data, end, end):
            self.segments[slot] = self.made
            self.sizes[slot] = self.segment_sizes[slot * _SEGMENTS] if self.made == 1 else 0
            self.signatures[slot] = self.signature
            self.counts[slot] = cython.cast(cython.int, count)
            self.link(slot)
            self.used += 1
        else:
            self.give_up()
