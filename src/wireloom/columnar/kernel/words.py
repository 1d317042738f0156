"""Packets → columns: one table-driven kernel for every format that is declared in words.

`wireloom.columnar.program` derives the operations from a format's declarations: for each form of a
packet a list of rows of numbers. Frames are taken in blocks; those of one form are worked on
together, one operation after the other, so that choosing an operation costs nothing per frame and a
column that is not asked for is not touched.

Row i is frame i, also where the frame is refused (`outcome`): the driver asks the object path about
those, and drops their rows. A row without a value has zero. Which rows have one follows from their
form; of a blob the size tells.
"""

from __future__ import annotations

from wireloom.columnar.kernel import shim as cython
from wireloom.columnar.kernel.exact import is_utf8
from wireloom.columnar.kernel.primitives import (
    be16,
    be32,
    be64,
    copy_bytes,
    is_ascii,
    le16,
    le32,
    le64,
    room,
    u8,
)

__all__ = ["WordProgram", "WordRows", "to_micros"]

# Operations. Each is a row of six numbers: its code and what it takes (1 to 5).
OP_ROW = cython.declare(cython.int, 6)
OP_LOAD = cython.declare(cython.int, 1)
"""Load the word at a place (1) from the cursor on, of so many bytes (2), little-endian if (3)."""
OP_FIT = cython.declare(cython.int, 2)
"""So many bytes (1) are there."""
OP_LEAST = cython.declare(cython.int, 3)
"""The word's bits, from a lowest one (1) under a mask (2), are at least a value (3).

Of a field that is no column here. All operations on bits take the first two like this.
"""
OP_CONST = cython.declare(cython.int, 4)
"""The bits are a value (3)."""
OP_CONTENT = cython.declare(cython.int, 5)
"""The bits are the bytes from a place (3) from the cursor on to the end; -1: of the whole frame."""
OP_INT32 = cython.declare(cython.int, 6)
"""The bits, at least (3), go to a column (4)."""
OP_INT64 = cython.declare(cython.int, 7)
OP_NAME = cython.declare(cython.int, 8)
"""The number of their name goes to a column (4), whose list of names is described at (5)."""
OP_FILL = cython.declare(cython.int, 9)
"""A value (3) goes to a 32-bit column (4)."""
OP_KEEP = cython.declare(cython.int, 10)
"""The bits go to a register (3)."""
OP_KEY = cython.declare(cython.int, 11)
"""The bits are a part of the flaw table's index, from bit (3) on."""
OP_KEY_SIZE = cython.declare(cython.int, 12)
"""Whether anything is left is bit (3) of that index."""
OP_FLAW = cython.declare(cython.int, 13)
"""The packet is refused if the table at a place (3) in `maps` says so."""
OP_STEP = cython.declare(cython.int, 14)
"""So many bytes (1) are stepped over."""
OP_VARINT = cython.declare(cython.int, 15)
"""A number in base 128 of at most (2) bytes goes to a register (3) and is stepped over."""
OP_BLOB = cython.declare(cython.int, 16)
"""As many bytes as a number (1) or, if that is negative, a register (2) says go to a blob (4).

Text if (3). Unless (5) is negative, only where the register of its low byte has one of its upper
bits.
"""
OP_ITEMS = cython.declare(cython.int, 17)
"""As many items of so many bytes (1) as a register (2) says go to a blob (4)."""
OP_REST = cython.declare(cython.int, 18)
"""Everything that is left goes to a blob (4)."""
OP_END = cython.declare(cython.int, 19)
"""Nothing is left."""

REGISTERS = cython.declare(cython.int, 4)
BLOCK = cython.declare(cython.int, 4096)
"""Frames worked on together: their headers and cursors stay in the cache."""
MAX_BLOB = cython.declare(cython.longlong, 1 << 28)
"""Longer ones are left to the object path."""
_NO_FORM = cython.declare(cython.int, 255)
_TOO_LONG = cython.declare(cython.longlong, 1 << 62)


@cython.final
@cython.cclass
class WordProgram:
    """What is known of a format: its forms, their operations, and tables of names and flaws."""

    def __init__(
        self,
        selector: memoryview,
        forms: memoryview,
        ops: memoryview,
        firsts: memoryview,
        maps: memoryview,
        lists: memoryview,
    ) -> None:
        """A program.

        Args:
            selector: for each field that chooses a form, its word's place, bytes and order, its
                lowest bit and mask, and its place in the index of `forms`.
            forms: the form of each index, 255 if there is none.
            ops: the operations of all forms.
            firsts: where each form's start, and where the last one's end.
            maps: names' numbers, and flaws. A number that has no name yet is -1.
            lists: for each list of names, where its map starts and how many names it has, which
                grows with numbers that have none.
        """
        self.selector = selector
        self.selector_end = len(selector)
        self.forms = forms
        self.ops = ops
        self.firsts = firsts
        self.form_count = len(firsts) - 1
        self.maps = maps
        self.lists = lists


@cython.final
@cython.cclass
class WordRows:
    """The columns of a batch while they are filled."""

    def __init__(self, program: WordProgram, capacity: int) -> None:
        self.program = program
        self.capacity = capacity
        self.form = memoryview(bytearray(capacity))
        self.counts = memoryview(bytearray(4 * 256)).cast("i")
        self.order = memoryview(bytearray(4 * BLOCK)).cast("i")
        self.places = memoryview(bytearray(4 * 257)).cast("i")
        self.cursor = memoryview(bytearray(8 * BLOCK)).cast("q")
        self.ends = memoryview(bytearray(8 * BLOCK)).cast("q")
        self.word = memoryview(bytearray(8 * BLOCK)).cast("Q")
        self.key = memoryview(bytearray(4 * BLOCK)).cast("i")
        self.registers = memoryview(bytearray(8 * BLOCK * REGISTERS)).cast("q")
        self.stride = capacity // 8 + 8
        self.bitmaps = memoryview(bytearray(self.stride * (program.form_count + 1)))

    def classify(
        self,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.longlong][::1],
        lengths: cython.const[cython.int][::1],
    ) -> None:
        """Find the form of each frame, and count how many there are of each."""
        index: cython.Py_ssize_t
        form: cython.int
        count: cython.Py_ssize_t = len(offsets)
        self.count = count
        for index in range(256):
            self.counts[index] = 0
        if count == 0:
            return
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            for index in range(len(self.bitmaps)):
                self.bitmaps[index] = 0
            for index in range(count):
                form = self.form_at(start, offsets[index], offsets[index] + lengths[index])
                self.form[index] = form
                self.counts[form] += 1
                if form != _NO_FORM:
                    self.bitmaps[form * self.stride + (index >> 3)] |= 1 << (index & 7)

    def merge_bits(self, forms: cython.const[cython.uchar][::1], out: cython.uchar[::1]) -> None:
        """Set the bit of every frame that has one of these forms."""
        form: cython.Py_ssize_t
        index: cython.Py_ssize_t
        with cython.nogil:
            for form in range(self.program.form_count):
                if forms[form] and self.counts[form]:
                    for index in range((self.count + 7) >> 3):
                        out[index] |= self.bitmaps[form * self.stride + index]

    def form_at(self, data, pos, end):
        """The form of the frame ``data[pos:end]``."""
        index: cython.ulonglong = 0
        word: cython.ulonglong
        row: cython.Py_ssize_t = 0
        while row < self.program.selector_end:
            word = word_at(
                data,
                pos + self.program.selector[row],
                end,
                self.program.selector[row + 1],
                self.program.selector[row + 2] != 0,
            )
            word = word >> self.program.selector[row + 3] & self.program.selector[row + 4]
            index |= word << self.program.selector[row + 5]
            row += OP_ROW
        return self.program.forms[index]

    def run(
        self,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.longlong][::1],
        lengths: cython.const[cython.int][::1],
        slots: cython.const[cython.int][::1],
        ints32: cython.int[::1],
        ints64: cython.longlong[::1],
        blob_starts: cython.longlong[::1],
        blob_sizes: cython.int[::1],
        outcome: cython.uchar[::1],
    ) -> None:
        """Fill the columns with the frames of the last `classify`.

        Args:
            data: where the frames are.
            offsets: where each one starts.
            lengths: how long it is.
            slots: where each column starts in `ints32`, `ints64` or the blobs.
            ints32: columns of 32 bits, and numbers of names, one behind the other.
            ints64: columns of 64 bits.
            blob_starts: where a blob starts in `data`.
            blob_sizes: one more than its bytes, or items; 0 for none.
            outcome: gets 1 for each frame that is refused.
        """
        first: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        form: cython.int
        row: cython.Py_ssize_t
        if self.count == 0:
            return
        self.slots = slots
        self.ints32 = ints32
        self.ints64 = ints64
        self.blob_starts = blob_starts
        self.blob_sizes = blob_sizes
        self.outcome = outcome
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            self.clear()
            while first < self.count:
                last = min(first + BLOCK, self.count)
                self.sort(offsets, lengths, first, last)
                for form in range(self.program.form_count):
                    if self.places[form] < self.places[form + 1]:
                        row = self.program.firsts[form]
                        while row < self.program.firsts[form + 1]:
                            self.work(
                                row, start, first, self.places[form], self.places[form + 1], offsets
                            )
                            row += OP_ROW
                first = last

    def clear(self):
        """Set the columns to zero; their memory may have been used before."""
        index: cython.Py_ssize_t
        ints32 = self.ints32
        ints64 = self.ints64
        sizes = self.blob_sizes
        for index in range(len(ints32)):
            ints32[index] = 0
        for index in range(len(ints64)):
            ints64[index] = 0
        for index in range(len(sizes)):
            sizes[index] = 0

    def sort(self, offsets, lengths, first, last):
        """Order the frames of a block by form; those of no form are refused."""
        index: cython.Py_ssize_t
        form: cython.int
        sum: cython.int = 0
        for form in range(257):
            self.places[form] = 0
        for index in range(first, last):
            self.places[self.form[index]] += 1
            self.cursor[index - first] = offsets[index]
            self.ends[index - first] = offsets[index] + lengths[index]
            self.key[index - first] = 0
        for form in range(257):
            sum += self.places[form]
            self.places[form] = sum - self.places[form]
        for index in range(first, last):
            form = self.form[index]
            if form == _NO_FORM:
                self.outcome[index] = 1
            self.order[self.places[form]] = cython.cast(cython.int, index - first)
            self.places[form] += 1
        # Each place is now the next one's: move them on.
        form = 256
        while form > 0:
            self.places[form] = self.places[form - 1]
            form -= 1
        self.places[0] = 0

    def work(self, row, data, first, low, high, offsets):
        """One operation on the frames ``order[low:high]`` of the block that starts at `first`."""
        code: cython.longlong = self.program.ops[row]
        one: cython.longlong = self.program.ops[row + 1]
        mask: cython.ulonglong = self.program.ops[row + 2]
        three: cython.longlong = self.program.ops[row + 3]
        least: cython.ulonglong = three
        column: cython.longlong = self.program.ops[row + 4]
        slot: cython.Py_ssize_t = 0
        value: cython.ulonglong
        j: cython.Py_ssize_t
        i: cython.Py_ssize_t
        # Local names, so that no store can be taken to change where they lie.
        order = self.order
        word = self.word
        outcome = self.outcome
        ints32 = self.ints32
        ints64 = self.ints64
        if OP_INT32 <= code <= OP_FILL:
            slot = self.slots[column] + first
        if code == OP_LOAD:
            self.load(data, low, high, one, mask, three != 0)
        elif code == OP_INT64:
            for j in range(low, high):
                value = word[j] >> one & mask
                ints64[slot + order[j]] = value
                if value < least:
                    outcome[first + order[j]] = 1
        elif code == OP_INT32:
            for j in range(low, high):
                value = word[j] >> one & mask
                ints32[slot + order[j]] = cython.cast(cython.int, value)
                if value < least:
                    outcome[first + order[j]] = 1
        elif code == OP_NAME:
            for j in range(low, high):
                value = word[j] >> one & mask
                if value < least:
                    outcome[first + order[j]] = 1
                else:
                    ints32[slot + order[j]] = self.number_of(row, value)
        elif code == OP_FILL:
            for j in range(low, high):
                ints32[slot + order[j]] = cython.cast(cython.int, three)
        elif code == OP_LEAST:
            for j in range(low, high):
                if (word[j] >> one & mask) < least:
                    outcome[first + order[j]] = 1
        elif code == OP_CONST:
            for j in range(low, high):
                if (word[j] >> one & mask) != least:
                    outcome[first + order[j]] = 1
        elif code == OP_CONTENT:
            for j in range(low, high):
                i = order[j]
                value = word[j] >> one & mask
                value += offsets[first + i] if three < 0 else self.cursor[i] + three
                if value != cython.cast(cython.ulonglong, self.ends[i]):
                    outcome[first + i] = 1
        elif code == OP_KEY:
            for j in range(low, high):
                value = word[j] >> one & mask
                self.key[order[j]] |= cython.cast(cython.int, value << three)
        elif code == OP_KEEP:
            for j in range(low, high):
                self.registers[three * BLOCK + order[j]] = word[j] >> one & mask
        elif code == OP_FIT:
            for j in range(low, high):
                i = self.order[j]
                if not room(self.cursor[i], self.ends[i], one):
                    self.refuse(first, i)
        elif code == OP_STEP:
            for j in range(low, high):
                self.cursor[self.order[j]] += one
        else:
            for j in range(low, high):
                self.move(row, data, first, self.order[j])

    def load(self, data, low, high, place, size, little):
        """Load a word of each frame ``order[low:high]``."""
        j: cython.Py_ssize_t
        i: cython.Py_ssize_t
        order = self.order
        word = self.word
        cursor = self.cursor
        ends = self.ends
        if size == 4 and not little:
            for j in range(low, high):
                i = order[j]
                word[j] = be32(data, cursor[i] + place, ends[i])
        else:
            for j in range(low, high):
                i = order[j]
                word[j] = word_at(data, cursor[i] + place, ends[i], size, little)

    def number_of(self, row, value):
        """The number of a name; a value that has none gets the next number of its list."""
        list: cython.Py_ssize_t = 2 * self.program.ops[row + 5]
        at: cython.Py_ssize_t = self.program.lists[list] + value
        found: cython.int = self.program.maps[at]
        if found < 0:
            found = self.program.lists[list + 1]
            self.program.lists[list + 1] = found + 1
            self.program.maps[at] = found
        return found

    def move(self, row, data, first, i):
        """An operation that a frame takes by itself."""
        code: cython.longlong = self.program.ops[row]
        size: cython.longlong = self.program.ops[row + 1]
        source: cython.longlong = self.program.ops[row + 2]
        three: cython.longlong = self.program.ops[row + 3]
        column: cython.longlong = self.program.ops[row + 4]
        condition: cython.longlong = self.program.ops[row + 5]
        at: cython.Py_ssize_t = self.cursor[i]
        if code == OP_REST:
            self.blob(first, i, column, self.ends[i] - at, 1)
        elif code == OP_KEY_SIZE:
            if at < self.ends[i]:
                self.key[i] |= 1 << three
        elif code == OP_FLAW:
            if self.program.maps[three + self.key[i]]:
                self.outcome[first + i] = 1
        elif code == OP_VARINT:
            self.varint(data, first, i, source, three)
        elif code == OP_ITEMS:
            self.blob(first, i, column, self.registers[source * BLOCK + i] * size, size)
        elif code == OP_BLOB:
            if condition >= 0 and not (
                self.registers[(condition & 0xFF) * BLOCK + i] & condition >> 8
            ):
                return
            if size < 0:
                size = self.registers[source * BLOCK + i]
            self.blob(first, i, column, size, 1)
            if three and not is_text(data, at, self.cursor[i]):
                self.outcome[first + i] = 1
        elif at != self.ends[i]:  # OP_END
            self.outcome[first + i] = 1

    def blob(self, first, i, column, size, unit):
        """Take `size` bytes for a blob, and step over them; a column of -1 is not asked for."""
        slot: cython.Py_ssize_t
        if size >= MAX_BLOB or not room(self.cursor[i], self.ends[i], size):
            self.refuse(first, i)
            return
        if column >= 0:
            slot = self.slots[column] + first + i
            self.blob_starts[slot] = self.cursor[i]
            self.blob_sizes[slot] = cython.cast(cython.int, size // unit + 1)
        self.cursor[i] += size

    def refuse(self, first, i):
        """Leave the rest of a frame alone."""
        self.outcome[first + i] = 1
        self.cursor[i] = self.ends[i]

    def varint(self, data, first, i, most, register):
        """Read a number in base 128, least significant group first."""
        value: cython.longlong = 0
        shift: cython.int = 0
        byte: cython.uint = 0x80
        at: cython.Py_ssize_t = self.cursor[i]
        while byte >= 0x80:
            if at >= self.ends[i] or at - self.cursor[i] >= most:
                self.registers[register * BLOCK + i] = 0
                self.refuse(first, i)
                return
            byte = u8(data, at, self.ends[i])
            if shift < 35:
                value |= cython.cast(cython.longlong, byte & 0x7F) << shift
            elif byte & 0x7F:
                value = _TOO_LONG
            shift += 7
            at += 1
        self.registers[register * BLOCK + i] = value
        self.cursor[i] = at

    def measure_blob(self, slot: cython.Py_ssize_t) -> int:
        """Bytes, or items, of a blob column in all."""
        total: cython.longlong = 0
        index: cython.Py_ssize_t
        with cython.nogil:
            for index in range(self.count):
                if self.blob_sizes[slot + index] > 0 and not self.outcome[index]:
                    total += self.blob_sizes[slot + index] - 1
        return total

    def take_blob(
        self,
        slot: cython.Py_ssize_t,
        unit: cython.int,
        is_hex: cython.bint,
        data: cython.const[cython.uchar][::1],
        offsets: cython.int[::1],
        out: cython.uchar[::1],
        valid: cython.uchar[::1],
    ) -> int:
        """Copy a blob column, in hex if asked; give how many rows have one.

        Args:
            slot: where it starts.
            unit: bytes of an item; 1 for a blob.
            is_hex: write two digits for each byte.
            data: where the frames are.
            offsets: gets where each row's bytes, or items, start and end.
            out: gets the bytes.
            valid: gets a bit for each row that has a value.
        """
        used: cython.Py_ssize_t = 0
        items: cython.int = 0
        size: cython.Py_ssize_t
        there: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        if self.count == 0:
            return 0
        start = cython.address(data[0]) if cython.compiled else data
        to = cython.address(out[0]) if cython.compiled else out
        with cython.nogil:
            for index in range(self.count):
                offsets[index] = items if unit > 1 else cython.cast(cython.int, used)
                if self.blob_sizes[slot + index] > 0 and not self.outcome[index]:
                    valid[index >> 3] |= 1 << (index & 7)
                    there += 1
                    items += self.blob_sizes[slot + index] - 1
                    at = self.blob_starts[slot + index]
                    size = unit * (self.blob_sizes[slot + index] - 1)
                    if is_hex:
                        put_hex(to, used, start, at, at + size)
                        used += 2 * size
                    else:
                        copy_bytes(to, used, start, at, at + size, at + size)
                        used += size
            offsets[self.count] = items if unit > 1 else cython.cast(cython.int, used)
        return there


def to_micros(nanos: cython.const[cython.longlong][::1], out: cython.longlong[::1]) -> None:
    """Nanoseconds to microseconds, rounded down, also before 1970."""
    index: cython.Py_ssize_t
    ns: cython.longlong
    for index in range(len(nanos)):
        ns = nanos[index]
        out[index] = ns // 1000 if ns >= 0 else -((999 - ns) // 1000)


def word_at(data, at, end, size, little):
    """The word at a place; 0 where the frame is too short for it."""
    if size == 4:
        return le32(data, at, end) if little else be32(data, at, end)
    if size == 1:
        return u8(data, at, end)
    if size == 2:
        return le16(data, at, end) if little else be16(data, at, end)
    return le64(data, at, end) if little else be64(data, at, end)


def is_text(data, pos, end):
    """Whether ``data[pos:end]`` is UTF-8."""
    return is_ascii(data, pos, end) or is_utf8(data, pos, end)


def put_hex(out, at, data, pos, end):
    """Write ``data[pos:end]`` in hex to ``out[at:]``; the caller has made sure of the room."""
    byte: cython.uint
    digit: cython.uint
    while pos < end:
        byte = u8(data, pos, end)
        digit = byte >> 4
        out[at] = digit + (48 if digit < 10 else 87)
        digit = byte & 15
        out[at + 1] = digit + (48 if digit < 10 else 87)
        at += 2
        pos += 1
