"""Where frames start and how long they are: the columnar twin of the formats' `FrameRules`.

What is specific to a format is in a table of numbers that `wireloom.columnar.framing` derives from
its declarations. The reason why something is not a frame comes from the object path, which the
driver asks.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.frames.framecheck import BROKEN, FrameCheck
from wireloom.kernel.primitives import be16, be32, find_byte, le32, le64, u8

__all__ = ["HeaderRules"]

FORMAT_BLAZE = cython.declare(cython.int, 1)
FORMAT_NREP = cython.declare(cython.int, 2)
FORMAT_TIBMSG = cython.declare(cython.int, 3)
FORMAT_TIBRV = cython.declare(cython.int, 4)
FORMAT_QFORM = cython.declare(cython.int, 5)

NO_HEADER = cython.declare(cython.int, -1)
"""`HeaderRules.measure`: there is no header."""
CUT_HEADER = cython.declare(cython.int, -2)
"""The data ends before the header does; `needed` is how many bytes the header takes."""

FAILED = cython.declare(cython.int, -1)
UNPROVEN = cython.declare(cython.int, 0)
PROVEN = cython.declare(cython.int, 1)

# The Blaze table: header length and position of PKTLEN for each of the 1024 keys that a first word
# can have, then the version; NREP: a row of eight numbers per type, see `nrep_size`.
BLAZE_KEYS = cython.declare(cython.int, 1024)
NREP_ROW = cython.declare(cython.int, 8)

_EACH_BYTE = cython.declare(cython.ulonglong, 0x0101010101010101)
_TOP_BITS_OF_BYTES = cython.declare(cython.ulonglong, 0x8080808080808080)
_NREP_HEADER = cython.declare(cython.int, 10)
_TIBMSG_HEADER = cython.declare(cython.int, 9)
_TIBMSG_MAGIC = cython.declare(cython.uint, 0xCE13AA1F)
_TIBRV_HEADER = cython.declare(cython.int, 8)
_TIBRV_MAGIC = cython.declare(cython.uint, 0x9955EEAA)
_LAYOUTS = cython.declare(cython.int, 256)
"""Layouts of messages that a scanner remembers."""
_QFORM_HEADER = cython.declare(cython.int, 8)
_QFORM_MAGIC_WORD = cython.declare(cython.uint, 0x11111112)


@cython.final
@cython.cclass
class HeaderRules:
    """What the scanner must know about a format."""

    def __init__(
        self, format: int, table: memoryview, options: int, max_frame: int, has_magic: bool
    ) -> None:
        self.format = format
        self.table = table
        self.options = options
        self.max_frame = max_frame
        self.has_magic = has_magic
        self.needed = 0
        has_layouts = format in (FORMAT_TIBMSG, FORMAT_TIBRV)
        self.frame_check = FrameCheck(table, _LAYOUTS if has_layouts else 0)

    def measure(self, data, pos, end):
        """Bytes of the frame whose header starts at `pos`; or `NO_HEADER`, `CUT_HEADER`."""
        size: cython.Py_ssize_t
        if self.format == FORMAT_BLAZE:
            size = self.measure_blaze(data, pos, end)
        elif self.format == FORMAT_NREP:
            size = self.measure_nrep(data, pos, end)
        elif self.format == FORMAT_TIBMSG:
            size = self.measure_magic(data, pos, end, pos, _TIBMSG_MAGIC, _TIBMSG_HEADER)
            if size > 0:
                size += be32(data, pos + 5, end)
        elif self.format == FORMAT_QFORM:
            size = self.measure_magic(data, pos, end, pos, _QFORM_MAGIC_WORD, _QFORM_HEADER)
            if size > 0:
                size += be32(data, pos + 4, end)
        else:
            size = self.measure_magic(data, pos, end, pos + 4, _TIBRV_MAGIC, _TIBRV_HEADER)
            if size > 0:
                size = be32(data, pos, end)
                if size < _TIBRV_HEADER:
                    return NO_HEADER
        return NO_HEADER if size > self.max_frame else size

    def measure_blaze(self, data, pos, end):
        """See `measure`."""
        head: cython.uint
        key: cython.uint
        length: cython.longlong
        at: cython.longlong
        size: cython.Py_ssize_t
        if end - pos < 4:
            self.needed = 4
            return CUT_HEADER
        head = be16(data, pos, end)
        key = 2 * (head & 0x3FF)
        length = self.table[key]
        if length == 0 or head >> 10 == 0:
            return NO_HEADER
        at = self.table[key + 1]
        if at == 0:
            return length
        if end - pos < at + 4:
            self.needed = at + 4
            return CUT_HEADER
        size = be32(data, pos + at, end)
        return NO_HEADER if size < length else size

    def measure_nrep(self, data, pos, end):
        """See `measure`."""
        size: cython.Py_ssize_t
        if end > pos and u8(data, pos, end):
            return NO_HEADER
        if end - pos > 1 and not self.table[NREP_ROW * u8(data, pos + 1, end)]:
            return NO_HEADER
        if end - pos < _NREP_HEADER:
            self.needed = _NREP_HEADER
            return CUT_HEADER
        size = _NREP_HEADER + cython.cast(cython.Py_ssize_t, le32(data, pos + 6, end))
        return NO_HEADER if size > self.options else size

    def measure_magic(self, data, pos, end, at, magic, length):
        """`length`, if there is a header of that size with a magic at `at`; see `measure`."""
        if not starts_magic(data, at, end, magic):
            return NO_HEADER
        if end - pos < length:
            self.needed = length
            return CUT_HEADER
        return length

    def check(self, data, pos, end, steps):
        """Whether the content proves the frame ``data[pos:end]``: `PROVEN`, `UNPROVEN`, `FAILED`.

        At most `steps` fields are checked; negative: all.
        """
        count: cython.Py_ssize_t
        if self.format == FORMAT_BLAZE:
            pos += self.table[2 * (be16(data, pos, end) & 0x3FF)]
            return end - pos >= 4 and end - pos - 4 == le32(data, pos, end)
        if self.format == FORMAT_NREP:
            return self.check_nrep(data, pos, end, steps)
        if self.format == FORMAT_TIBMSG:
            pos += _TIBMSG_HEADER
            count = self.frame_check.tibmsg(data, pos, end, steps, True)
            if count == BROKEN:
                # Where only a nested message is broken, the frame may be whole.
                return FAILED if self.frame_check.tibmsg(data, pos, end, -1, False) == BROKEN else 0
            return count > 0
        if self.format == FORMAT_QFORM:
            if (end - pos) & 1:
                return FAILED
            count = self.frame_check.qform(data, pos + _QFORM_HEADER, end, steps)
            return FAILED if count == BROKEN else count > 0
        return self.check_tibrv(data, pos + _TIBRV_HEADER, end, steps)

    def check_tibrv(self, data, pos, end, steps):
        """See `check`; bits 0 and 1 of `options` choose the dialects to try."""
        count: cython.Py_ssize_t
        reading: cython.int
        for reading in range(2):
            if self.options >> reading & 1:
                count = self.frame_check.tibrv(data, pos, end, steps, reading == 1, True)
                if count != BROKEN:
                    return count > 0
        # Where only the content of a field is broken, the frame may be whole.
        for reading in range(2):
            if self.options >> reading & 1:
                count = self.frame_check.tibrv(data, pos, end, steps, reading == 1, False)
                if count != BROKEN:
                    return UNPROVEN
        return FAILED

    def check_nrep(self, data, pos, end, steps):
        """See `check`."""
        row: cython.Py_ssize_t = NREP_ROW * u8(data, pos + 1, end)
        size: cython.Py_ssize_t
        at: cython.Py_ssize_t
        if self.table[row] != 1:
            return UNPROVEN
        pos += _NREP_HEADER
        size = self.nrep_size(row, data, pos, end)
        if size > end - pos:
            return FAILED
        if size == end - pos:
            return size > 0 or steps < 0
        # A whole packet in the trailing bytes: the size was damaged, and that packet would be lost.
        at = pos + size
        size = self.measure_nrep(data, at, end)
        row = NREP_ROW * u8(data, at + 1, end)
        if size <= _NREP_HEADER or at + size > end or self.table[row] != 1:
            return UNPROVEN
        if self.nrep_size(row, data, at + _NREP_HEADER, at + size) == size - _NREP_HEADER:
            return FAILED
        return UNPROVEN

    def nrep_size(self, row, data, pos, end):
        """Bytes that the fields of the content ``data[pos:end]`` need.

        A row of the table: 1 if the type is declared (2 if by an extension), the fixed bytes, bytes
        per unit of a count, the count's position and size, a mask of flags that add bytes, their
        position, and how many bytes they add.
        """
        size: cython.Py_ssize_t = self.table[row + 1]
        at: cython.Py_ssize_t
        number: cython.Py_ssize_t
        if end - pos < size:
            return size
        if self.table[row + 2]:
            at = pos + (self.table[row + 3] >> 4)
            number = u8(data, at, end)
            if self.table[row + 3] & 15 == 4:
                number = le32(data, at, end)
            size += self.table[row + 2] * number
        if self.table[row + 4] & u8(data, pos + self.table[row + 5], end):
            size += self.table[row + 6]
        return size

    def find(self, data, pos, end):
        """The first position in ``[pos, end)`` where a frame might start; `end` if there is none.

        A start of which only the first bytes are available counts too.
        """
        wanted: cython.uint
        if self.format == FORMAT_TIBMSG:
            return find_magic(data, pos, end, _TIBMSG_MAGIC)
        if self.format == FORMAT_QFORM:
            return find_magic(data, pos, end, _QFORM_MAGIC_WORD)
        if self.format == FORMAT_BLAZE:
            wanted = cython.cast(cython.uint, self.options << 2)
            pos = find_masked(data, pos, end, 0xFC, wanted)
            while pos < end and not self.starts_blaze(data, pos, end):
                pos = find_masked(data, pos + 1, end, 0xFC, wanted)
            return pos
        if self.format == FORMAT_NREP:
            while pos < end:
                pos = find_byte(data, pos, end, 0)
                if pos >= end - 1 or self.table[NREP_ROW * u8(data, pos + 1, end)]:
                    return pos
                pos += 1
            return end
        # A TibrvMsg's magic follows its length, which may be all that is available.
        if pos >= end:
            return end
        if pos + 4 >= end:
            return pos
        return find_magic(data, pos + 4, end, _TIBRV_MAGIC) - 4

    def starts_blaze(self, data, pos, end):
        """Whether a header of this version without unused bits might start at `pos`."""
        left: cython.Py_ssize_t = end - pos
        first: cython.uint = u8(data, pos, end)
        head: cython.uint
        if first >> 2 != self.options:
            return False
        if left == 1:
            # Bits 8 and 9 of the key are the upper half of HDRLEN.
            return self.table[2 * BLAZE_KEYS + (first & 3)] != 0
        head = be16(data, pos, end)
        if not self.table[2 * (head & 0x3FF)]:
            return False
        return (left < 3 or not u8(data, pos + 2, end)) and (left < 4 or not u8(data, pos + 3, end))


def find_masked(data, pos, end, mask, wanted):
    """The first byte of ``data[pos:end]`` whose bits in `mask` are `wanted`; `end` if none is."""
    masks: cython.ulonglong = _EACH_BYTE * mask
    pattern: cython.ulonglong = _EACH_BYTE * wanted
    word: cython.ulonglong
    while end - pos >= 8:
        word = le64(data, pos, end) & masks ^ pattern
        # Nonzero if a byte is zero. Only a byte above a zero byte can be a false hit.
        if (word - _EACH_BYTE) & ~word & _TOP_BITS_OF_BYTES:
            break
        pos += 8
    while pos < end and u8(data, pos, end) & mask != wanted:
        pos += 1
    return pos


def starts_magic(data, pos, end, magic):
    """Whether `magic` is at `pos`, as far as the data goes."""
    i: cython.int
    for i in range(4):
        if pos + i >= end:
            break
        if u8(data, pos + i, end) != magic >> (24 - 8 * i) & 0xFF:
            return False
    return True


def find_magic(data, pos, end, magic):
    """The first position of `magic` in ``[pos, end)``, even if `end` cuts it off; else `end`."""
    first: cython.int = magic >> 24
    while pos < end:
        pos = find_byte(data, pos, end, first)
        if pos >= end:
            return end
        if starts_magic(data, pos, end, magic):
            return pos
        pos += 1
    return end
