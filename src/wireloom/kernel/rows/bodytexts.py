"""The rows of nclass bodies → JSON objects, as `json.dumps` writes them: the column `nclass`."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes
from wireloom.kernel.rows.bodyrows import (
    HAS_BINARY,
    HAS_INT,
    HAS_NAME,
    HAS_REAL,
    HAS_TEXT,
    BodyRows,
)
from wireloom.kernel.rows.nclass import BODY_GOOD, MOST_BODY_LEVELS

__all__ = ["BodyTexts"]

_QUOTE = cython.declare(cython.int, 34)
_BACKSLASH = cython.declare(cython.int, 92)
_OPEN = cython.declare(cython.int, 123)
_CLOSE = cython.declare(cython.int, 125)


@cython.final
@cython.cclass
class BodyTexts:
    """Writes bodies; for one worker at a time."""

    def __init__(
        self,
        keys: bytes,
        key_ends: memoryview,
        hex_keys: bytes,
        hex_key_ends: memoryview,
        bool_type: int,
    ) -> None:
        """A writer.

        Args:
            keys: what is written before a value, for every name: ``"price": ``.
            key_ends: where each one's ends.
            hex_keys: the same for text that is not UTF-8: ``"note_hex": ``.
            hex_key_ends: where each one's ends.
            bool_type: the number of the type whose values are true and false.
        """
        self.keys = memoryview(keys or b"\0")
        self.key_ends = key_ends
        self.hex_keys = memoryview(hex_keys or b"\0")
        self.hex_key_ends = hex_key_ends
        self.bool_type = bool_type
        self.words = memoryview(b"truefalse--0123456789abcdefbfnrt")
        self.digits = memoryview(bytearray(20))
        self.stack = memoryview(bytearray(4 * (MOST_BODY_LEVELS + 1))).cast("i")

    def write(
        self,
        rows: BodyRows,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        outcome: cython.const[cython.uchar][::1],
        reals: cython.const[cython.uchar][::1],
        real_ends: cython.const[cython.int][::1],
        out: cython.uchar[::1],
        ends: cython.int[::1],
        valid: cython.uchar[::1],
    ) -> int:
        """Write the bodies of the frames from `first` up to `last`; return how many there are.

        Args:
            rows: the rows of these frames.
            first: number of the first frame.
            last: number after the last.
            outcome: `BODY_GOOD` for the frames that have a text.
            reals: the texts of all rows with a real, in order.
            real_ends: where each one ends.
            out: where the texts go; there is room.
            ends: where each ends, after an initial zero.
            valid: a bit for each frame that has one.
        """
        frame: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        real: cython.Py_ssize_t = 0
        used: cython.Py_ssize_t = 0
        found: cython.Py_ssize_t = 0
        begin: cython.Py_ssize_t
        level: cython.int
        is_first: cython.bint
        ends[0] = 0
        with cython.nogil:
            for frame in range(first, last):
                if outcome[frame] == BODY_GOOD:
                    found += 1
                    valid[(frame - first) >> 3] |= 1 << ((frame - first) & 7)
                    out[used] = _OPEN
                    used += 1
                    level = 0
                    self.stack[0] = 0
                    is_first = True
                    while row < rows.count and rows.frame[row] == frame:
                        while self.stack[level] != rows.path[row] and level > 0:
                            out[used] = _CLOSE
                            used += 1
                            level -= 1
                            is_first = False
                        if not is_first:
                            out[used] = 44
                            out[used + 1] = 32
                            used += 2
                        is_first = False
                        used = self.key(out, used, rows, row)
                        if rows.mask[row] & ~HAS_NAME == 0:
                            # An object or an array: its contents follow.
                            out[used] = _OPEN
                            used += 1
                            level += 1
                            self.stack[level] = rows.step(
                                rows.path[row],
                                2 * rows.name[row]
                                if rows.mask[row] & HAS_NAME
                                else 2 * rows.position[row] + 1,
                            )
                            is_first = True
                        elif rows.mask[row] & HAS_REAL:
                            begin = self.start(real_ends, real)
                            used = self.copy(out, used, reals, begin, real_ends[real])
                            real += 1
                        else:
                            used = self.value(out, used, rows, row)
                        row += 1
                    while level >= 0:
                        out[used] = _CLOSE
                        used += 1
                        level -= 1
                ends[frame - first + 1] = cython.cast(cython.int, used)
        return found

    def start(self, ends, number):
        """Where the text of a number starts, of texts that end there."""
        return ends[number - 1] if number > 0 else 0

    def copy(self, out, used, texts, pos, end):
        """Append ``texts[pos:end]``; return the bytes used then."""
        if cython.compiled:
            copy_bytes(cython.address(out[0]), used, cython.address(texts[0]), pos, end, end)
        else:
            copy_bytes(out, used, texts, pos, end, end)
        return used + end - pos

    def key(self, out, used, rows, row):
        """Append a row's name, or its position in quotes."""
        name: cython.int = rows.name[row]
        start: cython.Py_ssize_t
        if not rows.mask[row] & HAS_NAME:
            out[used] = _QUOTE
            used = self.number(out, used + 1, cython.cast(cython.ulonglong, rows.position[row]))
            out[used] = _QUOTE
            out[used + 1] = 58
            out[used + 2] = 32
            return used + 3
        if rows.mask[row] & HAS_BINARY:
            start = self.start(self.hex_key_ends, name)
            return self.copy(out, used, self.hex_keys, start, self.hex_key_ends[name])
        start = self.start(self.key_ends, name)
        return self.copy(out, used, self.keys, start, self.key_ends[name])

    def value(self, out, used, rows, row):
        """Append a row's value, if it is not a real."""
        mask: cython.int = rows.mask[row]
        number: cython.longlong = rows.value_int[row]
        end: cython.Py_ssize_t
        if mask & HAS_TEXT:
            return self.text(out, used, rows.text, rows.text_ends[row], rows.text_ends[row + 1])
        if mask & HAS_BINARY:
            end = rows.binary_ends[row + 1]
            return self.hex(out, used, rows.binary, rows.binary_ends[row], end)
        if rows.type[row] == self.bool_type:
            return self.copy(out, used, self.words, 0 if number else 4, 4 if number else 9)
        if mask & HAS_INT and number < 0:
            out[used] = 45
            return self.number(out, used + 1, cython.cast(cython.ulonglong, -(number + 1)) + 1)
        if cython.compiled:
            return self.number(out, used, cython.cast(cython.ulonglong, number))
        return self.number(out, used, number & 0xFFFFFFFFFFFFFFFF)

    def number(self, out, used, value):
        """Append a number in decimal."""
        count: cython.int = 0
        while True:
            self.digits[count] = cython.cast(cython.uchar, 48 + value % 10)
            value = value // 10
            count += 1
            if value == 0:
                break
        while count > 0:
            count -= 1
            out[used] = self.digits[count]
            used += 1
        return used

    def hex(self, out, used, data, pos, end):
        """Append bytes in hex, in quotes."""
        out[used] = _QUOTE
        used += 1
        while pos < end:
            out[used] = self.words[11 + (data[pos] >> 4)]
            out[used + 1] = self.words[11 + (data[pos] & 15)]
            used += 2
            pos += 1
        out[used] = _QUOTE
        return used + 1

    def text(self, out, used, data, pos, end):
        """Append text, which is UTF-8, in quotes; what is not ASCII as escapes."""
        byte: cython.uint
        more: cython.int
        out[used] = _QUOTE
        used += 1
        while pos < end:
            byte = data[pos]
            pos += 1
            if byte == _QUOTE or byte == _BACKSLASH:
                out[used] = _BACKSLASH
                out[used + 1] = cython.cast(cython.uchar, byte)
                used += 2
            elif byte < 32:
                used = self.control(out, used, byte)
            elif byte < 127:
                out[used] = cython.cast(cython.uchar, byte)
                used += 1
            elif byte == 127:
                used = self.escape(out, used, byte)
            else:
                more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
                byte = byte & (0x3F >> more)
                while more > 0 and pos < end:
                    byte = byte << 6 | (data[pos] & 0x3F)
                    pos += 1
                    more -= 1
                if byte < 0x10000:
                    used = self.escape(out, used, byte)
                else:
                    byte -= 0x10000
                    used = self.escape(out, used, 0xD800 | byte >> 10)
                    used = self.escape(out, used, 0xDC00 | (byte & 0x3FF))
        out[used] = _QUOTE
        return used + 1

    def control(self, out, used, byte):
        """Append a control character: some have short escapes."""
        place: cython.int = -1
        if byte == 8:
            place = 27
        elif byte == 12:
            place = 28
        elif byte == 10:
            place = 29
        elif byte == 13:
            place = 30
        elif byte == 9:
            place = 31
        if place < 0:
            return self.escape(out, used, byte)
        out[used] = _BACKSLASH
        out[used + 1] = self.words[place]
        return used + 2

    def escape(self, out, used, code):
        """Append the escape of a character of 16 bits."""
        out[used] = _BACKSLASH
        out[used + 1] = 117
        out[used + 2] = self.words[11 + (code >> 12 & 15)]
        out[used + 3] = self.words[11 + (code >> 8 & 15)]
        out[used + 4] = self.words[11 + (code >> 4 & 15)]
        out[used + 5] = self.words[11 + (code & 15)]
        return used + 6
