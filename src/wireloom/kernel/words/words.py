"""Packets → columns: one table-driven kernel for every format that is declared in words.

`wireloom.columnar.program` derives the operations from a format's declarations: for each form of a
packet a list of rows of numbers. Frames are taken in blocks; those of one form are worked on
together, one operation after the other, so that dispatch costs nothing per frame and a column that
is not asked for is not touched.

Row i is frame i, even if the frame is refused (`outcome`): the driver asks the object path about
those, and drops their rows. A row without a value has zero. Which rows have a value follows from
their form, and for a blob from its size.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import (
    be16,
    be32,
    be64,
    is_ascii,
    le16,
    le32,
    le64,
    room,
    u8,
)
from wireloom.kernel.walk.decimals import is_utf8
from wireloom.kernel.words.wordops import (
    OP_BLOB,
    OP_CONST,
    OP_CONTENT,
    OP_END,
    OP_FILL,
    OP_FIT,
    OP_FLAW,
    OP_INT32,
    OP_INT64,
    OP_ITEMS,
    OP_KEEP,
    OP_KEY,
    OP_KEY_SIZE,
    OP_LEAST,
    OP_LOAD,
    OP_NAME,
    OP_REST,
    OP_ROW,
    OP_STEP,
    OP_VARINT,
    REGISTERS,
    WordProgram,
)

__all__ = ["WordRows"]

BLOCK = cython.declare(cython.int, 4096)
"""Frames worked on together: their headers and what is kept of them stay in the cache."""
MAX_BLOB = cython.declare(cython.longlong, 0x10000000)
"""Longer byte strings are left to the object path."""
_NO_FORM = cython.declare(cython.int, 255)
_TOO_LONG = cython.declare(cython.longlong, 0x4000000000000000)


@cython.final
@cython.cclass
class WordRows:
    """The columns of a batch while they are filled.

    The frames of a block are ordered by form: frame ``row[j]`` of the batch is read from
    ``cursor[j]`` on and ends at ``ends[j]``.
    """

    def __init__(self, program: WordProgram, capacity: int) -> None:
        self.program = program
        self.capacity = capacity
        self.form = memoryview(bytearray(capacity))
        self.counts = memoryview(bytearray(4 * 256)).cast("i")
        self.places = memoryview(bytearray(4 * 257)).cast("i")
        self.row = memoryview(bytearray(4 * BLOCK)).cast("i")
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
        count: cython.Py_ssize_t = len(offsets)
        self.count = count
        for index in range(256):
            self.counts[index] = 0
        if count == 0:
            return
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            self.sort_out(start, offsets, lengths)

    def sort_out(self, data, offsets, lengths):
        """See `classify`."""
        index: cython.Py_ssize_t
        form: cython.int
        word: cython.ulonglong
        stride: cython.Py_ssize_t = self.stride
        place: cython.longlong = self.program.selector[0]
        size: cython.longlong = self.program.selector[1]
        little: cython.bint = self.program.selector[2] != 0
        low: cython.longlong = self.program.selector[3]
        mask: cython.ulonglong = self.program.selector[4]
        bitmaps = self.bitmaps
        forms = self.form
        known = self.program.forms
        counts = self.counts
        for index in range(len(bitmaps)):
            bitmaps[index] = 0
        for index in range(self.count):
            word = word_at(
                data, offsets[index] + place, offsets[index] + lengths[index], size, little
            )
            form = known[word >> low & mask]
            forms[index] = form
            counts[form] += 1
            if form != _NO_FORM:
                bitmaps[form * stride + (index >> 3)] |= 1 << (index & 7)

    def merge_bits(self, forms: cython.const[cython.uchar][::1], out: cython.uchar[::1]) -> None:
        """Set the bit of every frame that has one of these forms."""
        form: cython.Py_ssize_t
        index: cython.Py_ssize_t
        bitmaps = self.bitmaps
        with cython.nogil:
            for form in range(self.program.form_count):
                if forms[form] and self.counts[form]:
                    for index in range((self.count + 7) >> 3):
                        out[index] |= bitmaps[form * self.stride + index]

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
            ints32: columns of 32 bits, and numbers of names, one after the other.
            ints64: columns of 64 bits.
            blob_starts: where a blob starts in `data`.
            blob_sizes: one more than its bytes, or items; 0 for none.
            outcome: gets 1 for each frame that is refused.
        """
        first: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        form: cython.int
        op: cython.Py_ssize_t
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
                        op = self.program.firsts[form]
                        while op < self.program.firsts[form + 1]:
                            self.work(op, start, self.places[form], self.places[form + 1], offsets)
                            op += OP_ROW
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
        j: cython.Py_ssize_t
        places = self.places
        forms = self.form
        rows = self.row
        cursor = self.cursor
        ends = self.ends
        key = self.key
        for form in range(257):
            places[form] = 0
        for index in range(first, last):
            places[forms[index]] += 1
        for form in range(257):
            sum += places[form]
            places[form] = sum - places[form]
        for index in range(first, last):
            form = forms[index]
            if form == _NO_FORM:
                self.outcome[index] = 1
            j = places[form]
            places[form] += 1
            rows[j] = cython.cast(cython.int, index)
            cursor[j] = offsets[index]
            ends[j] = offsets[index] + lengths[index]
            key[j] = 0
        # Each index is now the start of the next form: shift them back.
        form = 256
        while form > 0:
            places[form] = places[form - 1]
            form -= 1
        places[0] = 0

    def work(self, op, data, low, high, offsets):
        """One operation on the frames of one form, from `low` up to `high`."""
        code: cython.longlong = self.program.ops[op]
        one: cython.longlong = self.program.ops[op + 1]
        mask: cython.ulonglong = self.program.ops[op + 2]
        three: cython.longlong = self.program.ops[op + 3]
        least: cython.ulonglong = three
        column: cython.longlong = self.program.ops[op + 4]
        slot: cython.Py_ssize_t = 0
        value: cython.ulonglong
        j: cython.Py_ssize_t
        # Local names, so that the compiler need not assume that a store changes the pointers.
        row = self.row
        word = self.word
        outcome = self.outcome
        ints32 = self.ints32
        ints64 = self.ints64
        if OP_INT32 <= code <= OP_FILL:
            slot = self.slots[column]
        if code == OP_LOAD:
            self.load(data, low, high, one, mask, three != 0)
        elif code == OP_INT64:
            for j in range(low, high):
                value = word[j] >> one & mask
                ints64[slot + row[j]] = value
                if value < least:
                    outcome[row[j]] = 1
        elif code == OP_INT32:
            for j in range(low, high):
                value = word[j] >> one & mask
                ints32[slot + row[j]] = cython.cast(cython.int, value)
                if value < least:
                    outcome[row[j]] = 1
        elif code == OP_NAME:
            for j in range(low, high):
                value = word[j] >> one & mask
                if value < least:
                    outcome[row[j]] = 1
                else:
                    ints32[slot + row[j]] = self.number_of(op, value)
        elif code == OP_FILL:
            for j in range(low, high):
                ints32[slot + row[j]] = cython.cast(cython.int, three)
        elif code == OP_LEAST:
            for j in range(low, high):
                if (word[j] >> one & mask) < least:
                    outcome[row[j]] = 1
        elif code == OP_CONST:
            for j in range(low, high):
                if (word[j] >> one & mask) != least:
                    outcome[row[j]] = 1
        elif code == OP_CONTENT:
            for j in range(low, high):
                value = word[j] >> one & mask
                value += offsets[row[j]] if three < 0 else self.cursor[j] + three
                if value != cython.cast(cython.ulonglong, self.ends[j]):
                    outcome[row[j]] = 1
        elif code == OP_KEEP:
            for j in range(low, high):
                self.registers[three * BLOCK + j] = word[j] >> one & mask
        elif code == OP_KEY:
            for j in range(low, high):
                self.key[j] |= cython.cast(cython.int, (word[j] >> one & mask) << three)
        elif code == OP_KEY_SIZE:
            for j in range(low, high):
                self.key[j] |= (1 if self.cursor[j] < self.ends[j] else 0) << three
        elif code == OP_FLAW:
            for j in range(low, high):
                if self.program.maps[three + self.key[j]]:
                    outcome[row[j]] = 1
        elif code == OP_FIT:
            for j in range(low, high):
                if not room(self.cursor[j], self.ends[j], one):
                    self.refuse(j)
        elif code == OP_STEP:
            for j in range(low, high):
                self.cursor[j] += one
        elif code == OP_END:
            for j in range(low, high):
                if self.cursor[j] != self.ends[j]:
                    outcome[row[j]] = 1
        else:
            for j in range(low, high):
                self.move(op, data, j)

    def load(self, data, low, high, place, size, little):
        """Load a word of each frame from `low` up to `high`."""
        j: cython.Py_ssize_t
        word = self.word
        cursor = self.cursor
        ends = self.ends
        if size == 4 and not little:
            for j in range(low, high):
                word[j] = be32(data, cursor[j] + place, ends[j])
        else:
            for j in range(low, high):
                word[j] = word_at(data, cursor[j] + place, ends[j], size, little)

    def number_of(self, op, value):
        """The number of a name; a value that has none gets the next number of its list."""
        list: cython.Py_ssize_t = 2 * self.program.ops[op + 5]
        at: cython.Py_ssize_t = self.program.lists[list] + value
        found: cython.int = self.program.maps[at]
        if found < 0:
            found = self.program.lists[list + 1]
            self.program.lists[list + 1] = found + 1
            self.program.maps[at] = found
        return found

    def move(self, op, data, j):
        """An operation that skips something whose length depends on the frame."""
        code: cython.longlong = self.program.ops[op]
        size: cython.longlong = self.program.ops[op + 1]
        source: cython.longlong = self.program.ops[op + 2]
        three: cython.longlong = self.program.ops[op + 3]
        column: cython.longlong = self.program.ops[op + 4]
        condition: cython.longlong = self.program.ops[op + 5]
        at: cython.Py_ssize_t = self.cursor[j]
        if code == OP_REST:
            self.blob(j, column, self.ends[j] - at, 1)
        elif code == OP_VARINT:
            self.varint(data, j, source, three)
        elif code == OP_ITEMS:
            self.blob(j, column, self.registers[source * BLOCK + j] * size, size)
        elif code == OP_BLOB:
            if condition >= 0 and not (
                self.registers[(condition & 0xFF) * BLOCK + j] & condition >> 8
            ):
                return
            if size < 0:
                size = self.registers[source * BLOCK + j]
            self.blob(j, column, size, 1)
            if three and not is_text(data, at, self.cursor[j]):
                self.outcome[self.row[j]] = 1

    def blob(self, j, column, size, unit):
        """Take `size` bytes for a blob and skip them; a column of -1 is not wanted."""
        slot: cython.Py_ssize_t
        if size >= MAX_BLOB or not room(self.cursor[j], self.ends[j], size):
            self.refuse(j)
            return
        if column >= 0:
            slot = self.slots[column] + self.row[j]
            self.blob_starts[slot] = self.cursor[j]
            self.blob_sizes[slot] = cython.cast(
                cython.int, (size // unit if unit > 1 else size) + 1
            )
        self.cursor[j] += size

    def refuse(self, j):
        """Skip the rest of a frame."""
        self.outcome[self.row[j]] = 1
        self.cursor[j] = self.ends[j]

    def varint(self, data, j, most, register):
        """Read a number in base 128, least significant group first."""
        value: cython.longlong = 0
        shift: cython.int = 0
        byte: cython.uint = 0x80
        at: cython.Py_ssize_t = self.cursor[j]
        while byte >= 0x80:
            if at >= self.ends[j] or at - self.cursor[j] >= most:
                self.registers[register * BLOCK + j] = 0
                self.refuse(j)
                return
            byte = u8(data, at, self.ends[j])
            if shift < 35:
                value |= cython.cast(cython.longlong, byte & 0x7F) << shift
            elif byte & 0x7F:
                value = _TOO_LONG
            shift += 7
            at += 1
        self.registers[register * BLOCK + j] = value
        self.cursor[j] = at


def word_at(data, at, end, size, little):
    """The word at an offset; 0 if the frame is too short for it."""
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
