"""Do the fields fill the frame? Twins of the walkers used by the TIB formats' framing checks.

They count fields as the object path's walkers yield them (a nested message counts once more at its
end), so that a check limited to a few steps stops at the same place.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, find_zero, room, u8
from wireloom.kernel.walk.layouts import Layouts

__all__ = ["FrameCheck"]

BROKEN = cython.declare(cython.int, -1)
"""A field cannot be read."""
ENOUGH = cython.declare(cython.int, -2)
"""There are more fields than steps."""
UNKNOWN_FIELD = cython.declare(cython.int, -3)
"""QForm: a field that is not in the dictionary, so the length cannot be contradicted."""

_HINTS = cython.declare(cython.int, 0b10011111100)
"""Bits 2 to 7 and 10: the TibMsg types that a hint may have."""
_TIBMSG_STRING = cython.declare(cython.uint, 2)
_TIBRV_STRING = cython.declare(cython.uint, 8)
_LAYOUT_WORDS = cython.declare(cython.int, 128)
_DEEPEST = cython.declare(cython.int, 64)
"""The same as the object path's `MAX_DEPTH`s."""
_RV_HEADER = cython.declare(cython.int, 8)
_RV_MAGIC = cython.declare(cython.uint, 0x9955EEAA)
_QFORM_MAGIC = cython.declare(cython.uint, 0x11111112)

# The TibrvMsg table: how the size of each type is encoded, ...
RV_LITERAL = cython.declare(cython.int, 1)
RV_ANY = cython.declare(cython.int, 2)
RV_OWN = cython.declare(cython.int, 3)
# ... what its data must look like, ...
RV_SUBJECT = cython.declare(cython.int, 1)
RV_XML = cython.declare(cython.int, 2)
RV_STRINGS = cython.declare(cython.int, 3)
RV_MESSAGES = cython.declare(cython.int, 4)
# ... and the bits of an entry in which these and the plausible sizes are kept.
RV_CONTENT_SHIFT = cython.declare(cython.int, 4)
RV_STRING_SHIFT = cython.declare(cython.int, 8)
RV_ELEMENT_SHIFT = cython.declare(cython.int, 12)
RV_SIZES_SHIFT = cython.declare(cython.int, 16)

# The QForm table: what a fid's data looks like; its size is in the bits above.
QF_FORM = cython.declare(cython.int, 1)
QF_PARTIAL = cython.declare(cython.int, 2)
QF_FIXED = cython.declare(cython.int, 3)
QF_SHORT = cython.declare(cython.int, 4)
QF_LONG = cython.declare(cython.int, 5)
QF_SIZE_SHIFT = cython.declare(cython.int, 4)


@cython.final
@cython.cclass
class FrameCheck:
    """The walkers, with a stack for the levels of nesting."""

    def __init__(self, table: memoryview, layouts: int) -> None:
        """Walkers that remember up to so many good layouts."""
        self.table = table
        self.known = Layouts(layouts, _LAYOUT_WORDS if layouts else 0, 0)
        self.ends = memoryview(bytearray(8 * 256)).cast("q")
        self.array_ends = memoryview(bytearray(8 * 256)).cast("q")
        self.is_open = memoryview(bytearray(256))

    def tibmsg(self, data, pos, end, steps, is_deep):
        """Fields in the TibMsg body ``data[pos:end]``; `BROKEN`, or `ENOUGH` at more than `steps`.

        `steps` is negative where there is no limit. Unless `is_deep`, nested messages are stepped
        over.
        """
        depth: cython.int = 0
        count: cython.Py_ssize_t = 0
        key_at: cython.Py_ssize_t
        data_at: cython.Py_ssize_t
        data_end: cython.Py_ssize_t
        hint_at: cython.Py_ssize_t
        hint_size: cython.Py_ssize_t
        hint_key: cython.uint
        key: cython.uint
        code: cython.uint
        start: cython.Py_ssize_t = pos
        is_flat: cython.bint = steps < 0
        found: cython.Py_ssize_t
        if is_flat:
            found = self.known.find(data, pos, end)
            if found >= 0:
                return self.known.counts[found]
        while True:
            if pos == end:
                if depth == 0:
                    if is_flat and self.known.is_due(data, start, end):
                        self.keep_tibmsg(data, start, end, count)
                    return count
                depth -= 1
                end = self.ends[depth]
                if count == steps:
                    return ENOUGH
                count += 1
                continue
            key_at = pos + 1 + u8(data, pos, end)
            if key_at + 2 > end:
                return BROKEN
            key = u8(data, key_at, end)
            code = key & 15
            if code < 1 or code > 10:
                return BROKEN
            if key & 0x80:
                data_at = key_at + 5
                if data_at > end:
                    return BROKEN
                data_end = data_at + be32(data, key_at + 1, end)
            else:
                data_at = key_at + 2
                data_end = data_at + u8(data, key_at + 1, end)
            if data_end > end:
                return BROKEN
            pos = data_end
            if code == 1:
                is_flat = False
                if count == steps:
                    return ENOUGH
                count += 1
                if is_deep:
                    if depth >= _DEEPEST:
                        return BROKEN
                    self.ends[depth] = end
                    depth += 1
                    pos = data_at
                    end = data_end
                continue
            if key & 0x40 or code == 8 or code == 9:
                hint_at = data_end + 2
                if hint_at > end:
                    return BROKEN
                hint_key = u8(data, data_end, end)
                if not _HINTS >> (hint_key & 15) & 1:
                    return BROKEN
                hint_size = u8(data, data_end + 1, end)
                if hint_key & 0x80:
                    hint_at = data_end + 5
                    if hint_at > end:
                        return BROKEN
                    hint_size = be32(data, data_end + 1, end)
                pos = hint_at
                if code != 8 and code != 9:
                    if not room(hint_at, end, hint_size):
                        return BROKEN
                    pos = hint_at + hint_size
            if count == steps:
                return ENOUGH
            count += 1

    def keep_tibmsg(self, data, pos, end, count):
        """Keep the layout of a good body without nested messages."""
        self.known.start(data, pos, end)
        self.cover_tibmsg(data, pos, end)
        if self.known.has_twin(pos):
            self.cover_tibmsg(data, pos, end)
        self.known.finish(data, end, count)

    def cover_tibmsg(self, data, pos, end):
        """Make every byte of a good body that was checked part of its layout."""
        key_at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        key: cython.uint
        code: cython.uint
        while pos < end:
            key_at = pos + 1 + u8(data, pos, end)
            key = u8(data, key_at, end)
            code = key & 15
            stop = key_at + (5 if key & 0x80 else 2)
            if code == _TIBMSG_STRING and not key & 0xC0:
                self.known.cover(data, pos, stop - 1)
                pos = self.known.cover_text(data, stop - 1, end, False)
                continue
            self.known.cover(data, pos, stop)
            pos = stop
            pos += be32(data, key_at + 1, end) if key & 0x80 else u8(data, key_at + 1, end)
            if key & 0x40 or code == 8 or code == 9:
                stop = pos + (5 if u8(data, pos, end) & 0x80 else 2)
                self.known.cover(data, pos, stop)
                if code != 8 and code != 9:
                    stop += be32(data, pos + 1, end) if stop - pos == 5 else u8(data, pos + 1, end)
                pos = stop

    def qform(self, data, pos, end, steps):
        """Fields in the QForm body ``data[pos:end]``; or `BROKEN`, `ENOUGH`, `UNKNOWN_FIELD`."""
        count: cython.Py_ssize_t = 0
        size: cython.longlong
        start: cython.Py_ssize_t
        fid: cython.uint
        kind: cython.longlong
        while pos < end:
            if pos + 2 > end:
                return BROKEN
            start = pos
            fid = be16(data, pos, end) & 0x3FFF
            kind = self.table[fid] & 15
            if kind == 0 and fid == 0:
                return count if pos + 2 == end else BROKEN
            if kind == 0 or kind == QF_FORM:
                # It says nothing about the length, unless another message starts there.
                return BROKEN if be32(data, start, end) == _QFORM_MAGIC else UNKNOWN_FIELD
            if kind == QF_FIXED:
                pos += 2
                size = self.table[fid] >> QF_SIZE_SHIFT
            elif kind == QF_SHORT:
                pos += 4
                size = be16(data, start + 2, end)
            else:
                pos += 6
                size = be16(data, start + 4, end)
                if kind == QF_LONG:
                    size = be32(data, start + 2, end)
            # Everything before the data is even, so a pad byte follows data of odd size.
            if pos > end or not room(pos, end, size + (size & 1)):
                return BROKEN
            pos += size + (size & 1)
            if count == steps:
                return ENOUGH
            count += 1
        return count

    def tibrv(self, data, pos, end, steps, is_document, is_deep):
        """Fields in the TibrvMsg body ``data[pos:end]``; see `tibmsg`.

        With `is_document` one-byte sizes count themselves, and must be plausible. Unless `is_deep`,
        the content of fields is not looked at.
        """
        depth: cython.int = 0
        count: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t
        data_at: cython.Py_ssize_t
        data_end: cython.Py_ssize_t
        size: cython.uint
        sizing: cython.longlong
        kind: cython.longlong
        content: cython.longlong
        start: cython.Py_ssize_t = pos
        is_flat: cython.bint = steps < 0 and not is_document
        found: cython.Py_ssize_t
        if is_flat:
            found = self.known.find(data, pos, end)
            if found >= 0:
                return self.known.counts[found]
        while True:
            if pos == end:
                if depth == 0:
                    if is_flat and self.known.is_due(data, start, end):
                        self.keep_tibrv(data, start, end, count)
                    return count
                if self.is_open[depth - 1]:
                    # The end of a message, which may be an element.
                    if count == steps:
                        return ENOUGH
                    count += 1
                if self.array_ends[depth - 1] >= 0:
                    # The next element begins, or the array ends.
                    if count == steps:
                        return ENOUGH
                    count += 1
                    if pos < self.array_ends[depth - 1]:
                        self.is_open[depth - 1] = 1
                        end = pos + be32(data, pos, self.array_ends[depth - 1])
                        pos += _RV_HEADER
                        continue
                depth -= 1
                end = self.ends[depth]
                continue
            at = pos + 1 + u8(data, pos, end)
            if at + 2 > end:
                return BROKEN
            kind = self.table[u8(data, at, end)]
            sizing = kind & 15
            content = kind >> RV_CONTENT_SHIFT & 15
            size = u8(data, at + 1, end)
            data_at = at + 2
            if sizing == RV_LITERAL or (sizing == RV_ANY and size != 0x79 and size != 0x7A):
                data_end = data_at + size - (1 if is_document else 0)
            elif sizing == 0:
                return BROKEN
            elif size == 0x7A:
                if at + 6 > end:
                    return BROKEN
                data_end = data_at + be32(data, data_at, end)
                if sizing == RV_ANY:
                    data_at += 4
            elif sizing == RV_ANY:
                if at + 4 > end:
                    return BROKEN
                data_end = data_at + be16(data, data_at, end)
                data_at += 2
            else:
                return BROKEN
            if data_end < data_at or data_end > end:
                return BROKEN
            if sizing == RV_OWN and data_end < data_at + _RV_HEADER:
                return BROKEN
            if content or sizing == RV_OWN:
                is_flat = False
            if is_document and not rv_plausible(kind, data, data_at, data_end):
                return BROKEN
            if is_deep and content and not rv_content(content, data, data_at, data_end):
                return BROKEN
            if count == steps:
                return ENOUGH
            count += 1
            pos = data_end
            if not is_deep or (sizing != RV_OWN and content != RV_MESSAGES):
                continue
            if depth >= _DEEPEST:
                return BROKEN
            self.ends[depth] = end
            end = data_end
            if sizing == RV_OWN:
                self.array_ends[depth] = -1
                self.is_open[depth] = 1
                pos = data_at + _RV_HEADER
            else:
                if not rv_elements(data, data_at, data_end):
                    return BROKEN
                self.array_ends[depth] = data_end
                self.is_open[depth] = 0
                pos = data_at + 4
                end = pos
            depth += 1

    def keep_tibrv(self, data, pos, end, count):
        """Keep the layout of a good body of unstructured fields."""
        self.known.start(data, pos, end)
        self.cover_tibrv(data, pos, end)
        if self.known.has_twin(pos):
            self.cover_tibrv(data, pos, end)
        self.known.finish(data, end, count)

    def cover_tibrv(self, data, pos, end):
        """Make every byte of a good body that was checked part of its layout."""
        at: cython.Py_ssize_t
        code: cython.uint
        size: cython.uint
        is_long: cython.bint
        while pos < end:
            at = pos + 1 + u8(data, pos, end)
            code = u8(data, at, end)
            is_long = self.table[code] & 15 != RV_LITERAL
            size = u8(data, at + 1, end)
            at += 2
            if code == _TIBRV_STRING and size != 0x79 and size != 0x7A:
                self.known.cover(data, pos, at - 1)
                pos = self.known.cover_text(data, at - 1, end, False)
            elif is_long and size == 0x7A:
                self.known.cover(data, pos, at + 4)
                pos = at + be32(data, at, end)
            elif is_long and size == 0x79:
                self.known.cover(data, pos, at + 2)
                pos = at + be16(data, at, end)
            else:
                self.known.cover(data, pos, at)
                pos = at + size


def rv_plausible(kind, data, pos, end):
    """Whether data looks as the document's reading of its size says."""
    size: cython.Py_ssize_t = end - pos
    element: cython.longlong = kind >> RV_ELEMENT_SHIFT & 15
    sizes: cython.longlong = kind >> RV_SIZES_SHIFT
    if sizes and (size > 16 or not sizes >> size & 1):
        return False
    if element and size % element:
        return False
    if kind >> RV_STRING_SHIFT & 1:
        return size > 0 and u8(data, end - 1, end) == 0
    return True


def rv_content(content, data, pos, end):
    """Whether structured data is what its type says; an array of messages is only counted."""
    if content == RV_SUBJECT:
        return rv_subject(data, pos, end)
    if content == RV_XML:
        return rv_xml(data, pos, end)
    if content == RV_STRINGS:
        return rv_strings(data, pos, end)
    return end - pos >= 4


def rv_subject(data, pos, end):
    """Whether segments fill the data exactly."""
    left: cython.uint
    stop: cython.Py_ssize_t
    if pos == end:
        return False
    left = u8(data, pos, end)
    pos += 1
    while left:
        if pos >= end:
            return False
        stop = pos + u8(data, pos, end)
        if stop > end or stop < pos + 2 or u8(data, stop - 1, end):
            return False
        pos = stop
        left -= 1
    return pos == end


def rv_xml(data, pos, end):
    """Whether the data starts with a length."""
    first: cython.uint = u8(data, pos, end)
    if first == 0x79:
        return end - pos >= 3 and be16(data, pos + 1, end) >= 2
    if first == 0x7A:
        return end - pos >= 5 and be32(data, pos + 1, end) >= 4
    return end > pos


def rv_strings(data, pos, end):
    """Whether there are as many strings as stated, and nothing else."""
    left: cython.longlong
    if end - pos < 4:
        return False
    left = be32(data, pos, end)
    pos += 4
    if pos < end and u8(data, end - 1, end):
        return False
    while pos < end:
        pos = find_zero(data, pos, end) + 1
        left -= 1
    return left == 0


def rv_elements(data, pos, end):
    """Whether whole messages fill the array, as many as stated."""
    left: cython.longlong = be32(data, pos, end)
    size: cython.longlong
    pos += 4
    while left:
        size = be32(data, pos, end)
        if end - pos < _RV_HEADER or size < _RV_HEADER or size > end - pos:
            return False
        if be32(data, pos + 4, end) != _RV_MAGIC:
            return False
        pos += size
        left -= 1
    return pos == end
