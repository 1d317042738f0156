"""Field headers that repeat: messages of one kind have the same fields in the same order.

The header of a field in TibMsg and TibrvMsg is its name size, name and type, and for numbers the
size, in a row. Each new header gets a number and a record of what it means. A record also says
which header followed it last time, which nearly always follows again: two comparisons of words
recognise it, and nothing in it has to be parsed.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, le64, low_bytes, u8
from wireloom.kernel.walk.names import FULL, Names, longer

__all__: list[str] = []

# The words of a record.
H_MASK = cython.declare(cython.int, 0)
"""Which bytes of the first word, and of the last, belong to the header."""
H_HEAD = cython.declare(cython.int, 1)
"""The first word."""
H_TAIL = cython.declare(cython.int, 2)
"""The last word; the first again if there is no other."""
H_MIDDLE = cython.declare(cython.int, 3)
"""The one between them, for headers of more than 16 bytes."""
H_FACTS = cython.declare(cython.int, 4)
"""What is read at once, one byte each: a plan (below), bytes of a number, the type's number,
whether it has a name, bytes of the header, and how many bytes must be available to compare the
header and to read a number. 0 in a record that is not filled."""
H_NEXT = cython.declare(cython.int, 5)
"""The header that followed this one last time; 0 if there was none."""
H_WORDS = cython.declare(cython.int, 8)
"""One cache line of the processor; two words are spare."""

# The position of each of them in `H_FACTS`.
F_SIZE = cython.declare(cython.int, 8)
F_TYPE = cython.declare(cython.int, 16)
F_NAMED = cython.declare(cython.int, 24)
F_HEADER = cython.declare(cython.int, 32)
F_NEED = cython.declare(cython.int, 40)

# Plans: what the fast path does with a field.
PLAN_NONE = cython.declare(cython.int, 0)
PLAN_INT = cython.declare(cython.int, 1)
PLAN_UINT = cython.declare(cython.int, 2)
PLAN_REAL = cython.declare(cython.int, 3)
PLAN_DECIMAL = cython.declare(cython.int, 4)
"""A real with a hint of one byte."""
PLAN_STRING = cython.declare(cython.int, 5)
PLAN_HINTED = cython.declare(cython.int, 6)
"""A string with a hint of two bytes."""

_RECENT = cython.declare(cython.int, 1024)
_SPREAD_HEADER = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_HEADER_WORD = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LONGEST_HEADER = cython.declare(cython.Py_ssize_t, 24)


@cython.final
@cython.cclass
class HeaderCache:
    """Headers of one format. Number 0 is none: what comes before the first field of a message.

    No bytes match it: a masked word of which nothing is compared is never 1.
    """

    def __init__(self, names: Names, has_fids: bool) -> None:
        self.names = names
        self.has_fids = has_fids
        self.headers = Names(256, 4096)
        self.records = memoryview(bytearray(8)).cast("Q")
        self.name = self.fid = self.name_sizes = memoryview(bytearray(4)).cast("i")
        self.widen(0)
        # Headers by their first and last bytes, where the last one has the same as another.
        self.recent = memoryview(bytearray(4 * _RECENT)).cast("i")
        # The header seen last.
        self.one_name = self.one_fid = 0
        self.one_size = 0

    def widen(self, count: int) -> None:
        """Allocate room for all headers that the table can number."""
        slots = len(self.headers.slots) + 1
        self.records = longer(self.records, "Q", H_WORDS * slots, H_WORDS * count)
        self.name = longer(self.name, "i", slots, count)
        self.fid = longer(self.fid, "i", slots, count)
        self.name_sizes = longer(self.name_sizes, "i", slots, count)
        self.records[H_HEAD] = 1

    def grow(self) -> None:
        """Double the room of headers."""
        count = self.headers.count + 1
        self.headers.grow()
        self.widen(count)

    def find(self, before, data, pos, stop, end):
        """The number of the header ``data[pos:stop]``, which came after header `before`.

        0 when it is too long to be kept, and `FULL` when there is no room. What it means is in
        `one_name`, `one_fid` and `one_size` (of the name).
        """
        found: cython.int
        size: cython.Py_ssize_t = stop - pos
        at: cython.Py_ssize_t
        one: cython.ulonglong = 1
        mask: cython.ulonglong = 0
        known: cython.int = self.headers.count
        if size > _LONGEST_HEADER:
            return 0 if self.parse(data, pos, stop, end) else FULL
        found = self.headers.intern(data, pos, stop)
        if found == FULL:
            return FULL
        found += 1
        if found <= known and self.records[H_WORDS * found + H_FACTS]:
            self.one_name = self.name[found]
            self.one_fid = self.fid[found]
            self.one_size = self.name_sizes[found]
        else:
            if not self.parse(data, pos, stop, end):
                return FULL
            self.name[found] = self.one_name
            self.fid[found] = self.one_fid
            self.name_sizes[found] = self.one_size
            at = H_WORDS * cython.cast(cython.Py_ssize_t, found)
            mask = ~mask if size >= 8 else (one << (8 * size)) - 1
            self.records[at + H_MASK] = mask if cython.compiled else mask & 0xFFFFFFFFFFFFFFFF
            self.records[at + H_HEAD] = low_bytes(data, pos, size, stop)
            self.records[at + H_TAIL] = low_bytes(data, max(pos, stop - 8), size, stop)
            self.records[at + H_MIDDLE] = low_bytes(data, pos + 8, 8, stop) if size > 16 else 0
            self.records[at + H_NEXT] = 0
            self.set_facts(found, cython.cast(cython.int, size), PLAN_NONE, 0, 0, 0)
        self.records[H_WORDS * cython.cast(cython.Py_ssize_t, before) + H_NEXT] = found
        self.recent[self.place_of(data, pos, end)] = found
        return found

    def place_of(self, data, pos, end):
        """The place in `recent` of the header at `pos`."""
        size: cython.Py_ssize_t = 2 + u8(data, pos, end)
        key: cython.ulonglong = low_bytes(data, pos, size, end)
        if size > 8:
            key ^= low_bytes(data, pos + size - 8, 8, end) * 31 & _HEADER_WORD
        return cython.cast(cython.Py_ssize_t, (key * _SPREAD_HEADER & _HEADER_WORD) >> 54)

    def next_of(self, before, data, pos, end):
        """The number of the header at `pos`, which came after header `before`; 0 if unknown."""
        found: cython.int = self.recent[self.place_of(data, pos, end)]
        record: cython.Py_ssize_t = H_WORDS * cython.cast(cython.Py_ssize_t, found)
        if not self.is_at(record, self.records[record + H_FACTS], data, pos, end):
            return 0
        self.records[H_WORDS * before + H_NEXT] = found
        return found

    def is_at(self, record, facts, data, pos, end):
        """Whether the header of a record is at `pos`, with as many bytes as it needs."""
        size: cython.Py_ssize_t = facts >> F_HEADER & 0xFF
        if end - pos < cython.cast(cython.Py_ssize_t, facts >> F_NEED):
            return False
        if (le64(data, pos, end) & self.records[record + H_MASK]) != self.records[record + H_HEAD]:
            return False
        return size <= 8 or (
            le64(data, pos + size - 8, end) == self.records[record + H_TAIL]
            and (size <= 16 or le64(data, pos + 8, end) == self.records[record + H_MIDDLE])
        )

    def set_plan(self, number, plan, size, type):
        """How the fast path reads a field with that header; `size` is that of its data."""
        at: cython.Py_ssize_t = H_WORDS * cython.cast(cython.Py_ssize_t, number)
        header: cython.int = cython.cast(cython.int, self.records[at + H_FACTS] >> F_HEADER & 0xFF)
        more: cython.int = 0
        if plan == PLAN_DECIMAL:
            more = 3
        elif plan >= PLAN_STRING:
            more = 1
        self.set_facts(number, header, plan, size, type, more)

    def set_facts(self, number, header, plan, size, type, more):
        """The facts of a header of so many bytes; `more` bytes must follow its data."""
        at: cython.Py_ssize_t = H_WORDS * cython.cast(cython.Py_ssize_t, number)
        facts: cython.ulonglong = max(8, header + size + more)
        facts = facts << 8 | header
        facts = facts << 8 | (self.name[number] >= 0)
        facts = facts << 8 | type
        facts = facts << 8 | size
        self.records[at + H_FACTS] = facts << 8 | plan

    def parse(self, data, pos, stop, end):
        """What a header means; False when there is no room for the name."""
        at: cython.Py_ssize_t = pos + 1 + u8(data, pos, end)
        self.one_name = -1
        self.one_fid = -1
        self.one_size = 0
        if at > pos + 1:
            if self.has_fids and at - pos > 3 and u8(data, at - 3, end) == 0:
                self.one_fid = be16(data, at - 2, end)
                at -= 3
            elif u8(data, at - 1, end) == 0:
                at -= 1
            self.one_size = cython.cast(cython.int, at - pos - 1)
            self.one_name = self.names.intern(data, pos + 1, at)
        return self.one_name != FULL
