"""What the walkers of the three message formats share: tables to fill, limits, levels and paths.

A walker accepts exactly what its format's object walker accepts and gives the same values; the two
are fuzzed against each other. The walkers do not say why a message is refused: the driver asks the
object path, which gives the same reason as everywhere else, or accepts the message after all. So
`BAD` also covers everything that is too rare to be worth code here.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes, u8
from wireloom.kernel.rows.fieldrows import FieldRows
from wireloom.kernel.rows.messagerows import MessageRows
from wireloom.kernel.rows.widerows import WideRows
from wireloom.kernel.walk.headercache import HeaderCache
from wireloom.kernel.walk.layouts import Layouts
from wireloom.kernel.walk.names import FULL, Names, longer
from wireloom.kernel.walk.texts import Dates

__all__ = [
    "ASKED",
    "BAD",
    "GOOD",
    "NEED_MESSAGES",
    "NEED_NAMES",
    "NEED_PATHS",
    "NEED_ROWS",
    "NEED_TEXT",
    "NEED_WIDE",
    "NEED_WIDE_TEXT",
    "NO_ROOM",
    "Walk",
]

# What became of a message.
GOOD = cython.declare(cython.int, 0)
BAD = cython.declare(cython.int, 1)
NO_ROOM = cython.declare(cython.int, 2)
"""`Walk.need` says of what."""
ASKED = cython.declare(cython.int, 3)
"""A text may be a date, and the object path must say so first; see `Dates`."""

NEED_ROWS = cython.declare(cython.int, 1)
NEED_TEXT = cython.declare(cython.int, 2)
NEED_NAMES = cython.declare(cython.int, 3)
NEED_PATHS = cython.declare(cython.int, 4)
NEED_MESSAGES = cython.declare(cython.int, 5)
NEED_WIDE = cython.declare(cython.int, 6)
NEED_WIDE_TEXT = cython.declare(cython.int, 7)

MAX_DEPTH = cython.declare(cython.int, 64)
"""The same as in the object path: the nesting that no option can exceed."""
MOST_NAMES = cython.declare(cython.Py_ssize_t, 131072)
"""Fields on all enclosing levels whose names are remembered."""
MOST_LEVELS = cython.declare(cython.int, 4096)
MOST_NESTED = cython.declare(cython.int, 16)
MOST_NESTED_BYTES = cython.declare(cython.longlong, 67108864)
"""As in `wireloom.nesting`: levels of messages in payloads, and bytes of those payloads."""
_MOST_COMPARED = cython.declare(cython.Py_ssize_t, 1048576)
"""Names compared for the paths of one frame before the object path is quicker."""
LAYOUTS = cython.declare(cython.int, 256)
LAYOUT_WORDS = cython.declare(cython.int, 128)
LAYOUT_FIELDS = cython.declare(cython.int, 64)
"""How many layouts of a format are remembered, and how large their messages can be."""
_LONGEST_PATH = cython.declare(cython.Py_ssize_t, 1000)

_NO_MAP = bytes(256)


@cython.final
@cython.cclass
class Walk:
    """The state of a decoder: where rows go, what is allowed, and where in a frame it is."""

    def __init__(
        self,
        rows: FieldRows,
        messages: MessageRows,
        wide: WideRows,
        dates: Dates,
        types: bytes,
        *,
        has_messages: bool = True,
        has_wide: bool = False,
        is_nested: bool = True,
        max_frame: int = 1 << 24,
        max_fields: int = 65536,
        max_depth: int = 32,
    ) -> None:
        """Rows go to `rows`, `messages` and `wide`; the last two may be switched off.

        Args:
            rows: the fields' rows.
            messages: the messages' rows.
            wide: the wide rows.
            dates: the texts that are dates.
            types: number of each type in the type column's dictionary; TibMsg's from 0, TibrvMsg's
                from 32, QForm's from 96 on.
            has_messages: whether messages get rows.
            has_wide: whether wide rows are made.
            is_nested: whether to look for messages in payloads.
            max_frame: bytes of a message.
            max_fields: fields of a message.
            max_depth: nesting of messages.
        """
        self.rows = rows
        self.messages = messages
        self.wide = wide
        self.dates = dates
        self.has_messages = has_messages
        self.has_wide = has_wide
        self.is_nested = is_nested
        self.max_frame = max_frame
        self.max_fields = max_fields
        self.max_depth = min(max_depth, MAX_DEPTH)
        self.types = memoryview(bytearray(types))
        self.fid_kinds = memoryview(_NO_MAP)
        self.fid_types = memoryview(_NO_MAP)
        self.fid_sizes = memoryview(bytearray(4)).cast("i")
        self.fid_ends = memoryview(bytearray(8)).cast("i")
        self.fid_text = memoryview(_NO_MAP)
        self.has_dictionary = False
        self.forget_names([])
        self.ends = memoryview(bytearray(8 * MOST_LEVELS)).cast("q")
        self.arrays = memoryview(bytearray(8 * MOST_LEVELS)).cast("q")
        self.indexes = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.path_of = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.path_sizes = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.array_sizes = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.elements = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.bases = memoryview(bytearray(4 * MOST_LEVELS)).cast("i")
        self.level_names = memoryview(bytearray(4 * MOST_NAMES)).cast("i")
        self.path_text = memoryview(bytearray(4096))
        self.need = 0
        self.stream = 0
        self.start()

    def grow_names(self) -> None:
        """Double the room for names and headers."""
        self.names.grow()
        self.tibmsg_headers.grow()
        self.tibrv_headers.grow()

    def set_dictionary(self, kinds: bytes, types: bytes, sizes: bytes, ends: bytes, text: bytes):
        """The fields of a QForm dictionary, by id: kind, type, size, and where their names end.

        It is set before the first message.
        """
        self.fid_kinds = memoryview(kinds)
        self.fid_types = memoryview(types)
        self.fid_sizes = memoryview(bytearray(sizes)).cast("i")
        self.fid_ends = memoryview(bytearray(ends)).cast("i")
        self.fid_text = memoryview(text + b"\0")
        self.has_dictionary = True
        self.fid_names = longer(b"", "i", len(kinds), 0)

    def forget_names(self, first: list[bytes]) -> None:
        """Start with a new table of names; the given ones get the first numbers."""
        self.names = Names()
        for name in first:
            self.names.add(name)
        self.paths = Names()
        self.paths.add(b"")
        self.tibmsg_headers = HeaderCache(self.names, False)
        self.tibrv_headers = HeaderCache(self.names, True)
        self.tibmsg_layouts = Layouts(LAYOUTS, LAYOUT_WORDS, LAYOUT_FIELDS)
        self.tibrv_layouts = Layouts(LAYOUTS, LAYOUT_WORDS, LAYOUT_FIELDS)
        self.fid_names = longer(b"", "i", len(self.fid_kinds), 0)
        self.base_path = self.base_size = 0

    def set_base(self, path: bytes) -> None:
        """Set where in a frame the next messages are; empty when they are the frames themselves."""
        self.base_path = self.paths.add(path)
        self.base_size = len(path)
        at: cython.Py_ssize_t
        for at in range(len(path)):
            self.path_text[at] = path[at]

    def start(self):
        """Get ready for a frame."""
        self.path = self.base_path
        self.path_size = self.base_size
        self.level = 0
        self.level_base = 0
        self.level_top = 0
        self.compared = 0
        self.nested_bytes = 0
        self.is_asking = False
        # Of the message that is read: its level, its rows, and where it ends.
        self.message_level = 0
        self.message_row = 0
        self.wide_row = 0
        self.message_end = 0
        # What `known_fields` has read: the header of the last field, that of the next one if it was
        # recognised, else 0, and how many fields.
        self.header = 0
        self.next_header = 0
        self.fields_read = 0
        # Of the field that a walker has read: its type, name, data and end, and where it goes.
        self.code = 0
        self.name = self.name_size = 0
        self.data_at = self.data_end = self.field_end = 0
        self.is_read = self.is_chosen = False

    def mark(self):
        """Remember the state before a frame."""
        self.start()
        self.rows.mark()
        self.messages.mark()
        self.wide.mark()

    def back(self):
        """Discard the rows added since `mark`."""
        self.rows.back()
        self.messages.back()
        self.wide.back()

    def begin_slow(self) -> None:
        """Get ready for the rows of a frame that the object path has read."""
        self.mark()

    def end_slow(self, offset: int, length: int, ts_ns: int) -> None:
        """Give those rows the key of their frame."""
        self.commit(offset, length, ts_ns)

    def commit(self, offset, length, ts_ns):
        """Give all rows since `mark` the key of their frame."""
        if self.rows.keeps:
            self.rows.keys.fill(
                self.rows.mark_count, self.rows.count, offset, length, ts_ns, self.stream
            )
        if self.has_messages:
            self.messages.keys.fill(
                self.messages.mark_count, self.messages.count, offset, length, ts_ns, self.stream
            )
        if self.has_wide:
            self.wide.keys.fill(
                self.wide.mark_count, self.wide.count, offset, length, ts_ns, self.stream
            )

    def refuse(self, need):
        """There is no room; note for what."""
        self.need = need
        return NO_ROOM

    def open(self, format, dialect, size):
        """Start a message of so many bytes."""
        self.message_level = self.level
        self.header = 0
        # A field has at least three bytes (in QForm two, plus data), and its name is kept.
        if self.level_top + min(size // 2, self.max_fields) >= MOST_NAMES:
            return BAD
        if not self.rows.reserve(size):
            self.need_bytes = size
            return self.refuse(NEED_TEXT)
        if self.has_messages:
            self.message_row = self.messages.open(format, dialect, self.path)
            if self.message_row < 0:
                return self.refuse(NEED_MESSAGES)
        if self.has_wide:
            self.wide_row = self.wide.open(self.path)
            if self.wide_row < 0:
                return self.refuse(NEED_WIDE)
        return GOOD

    def close(self, end, fields, depth):
        """End a message of so many fields and levels, at `end`."""
        self.message_end = end
        if self.has_messages:
            self.messages.close(self.message_row, fields, depth)
        if self.has_wide:
            self.wide.close(self.wide_row)
        return GOOD

    def descend(self, data, pos, end, index, array):
        """Go into the message that is the field at `pos`, in a message that ends at `end`.

        Or into an array of messages: `array` is then where that ends, else 0.
        """
        path: cython.int = self.path
        path_size: cython.int = self.path_size
        state: cython.int
        if self.level - self.message_level >= self.max_depth:
            return BAD
        state = self.step(self.name, data, pos + 1, pos + 1 + self.name_size, index)
        if state == GOOD and array == 0:
            state = self.settle()
        if state == GOOD and not self.enter(end, index, array, path, path_size):
            state = BAD
        return state

    def enter(self, end, index, array, path, path_size):
        """Go a level down, from the field `index` of a message that ends at `end`.

        `path` is that of the message left, and `array` where a message array ends, 0 for a message.
        """
        level: cython.Py_ssize_t = self.level
        if level >= MOST_LEVELS - 1:
            return False
        self.ends[level] = end
        self.arrays[level] = array
        self.elements[level] = 0
        self.indexes[level] = index
        self.path_of[level] = path
        self.path_sizes[level] = path_size
        self.array_sizes[level] = self.path_size
        self.bases[level] = self.level_base
        self.level_base = self.level_top
        self.level = level + 1
        return True

    def leave(self):
        """Go a level up again; the walker takes `ends` and `indexes` from there."""
        level: cython.Py_ssize_t = self.level - 1
        self.level = level
        self.level_top = self.level_base
        self.level_base = self.bases[level]
        self.path = self.path_of[level]
        self.path_size = self.path_sizes[level]

    def step(self, name, data, pos, stop, index):
        """Extend the path by the field's name, or by its position where the name is ambiguous.

        It is for the last field noted, whose name is ``data[pos:stop]``. The rules are those of
        `wireloom.formats._tib.payloads`. `BAD` where they would take too long.
        """
        at: cython.Py_ssize_t
        size: cython.Py_ssize_t = self.path_size
        is_named: cython.bint = stop > pos and name >= 0
        if is_named:
            if stop - pos > 6 and u8(data, pos, stop) == 102 and u8(data, pos + 6, stop) == 91:
                return BAD  # it may look like the position of another field: fields[3]
            self.compared += self.level_top - self.level_base
            if self.compared > _MOST_COMPARED:
                return BAD
            for at in range(self.level_base, self.level_top - 1):
                if self.level_names[at] == name:
                    is_named = False
                    break
        if size:
            self.path_text[size] = 46
            size += 1
        if is_named:
            if cython.compiled:
                copy_bytes(cython.address(self.path_text[0]), size, data, pos, stop, stop)
            else:
                copy_bytes(self.path_text, size, data, pos, stop, stop)
            size += stop - pos
        else:
            for at in range(7):
                self.path_text[size + at] = _FIELDS >> (8 * at) & 0xFF
            size = self.put_number(size + 7, index)
        self.limit_path(size)
        return GOOD

    def suffix(self, is_element, number):
        """Extend the path by the number of a message in its array, or in its payload."""
        at: cython.Py_ssize_t
        size: cython.Py_ssize_t = self.path_size
        if is_element:
            self.path_text[size] = 46
            for at in range(8):
                self.path_text[size + 1 + at] = _MESSAGES >> (8 * at) & 0xFF
            size += 9
        self.path_text[size] = 91
        self.limit_path(self.put_number(size + 1, number))

    def limit_path(self, size):
        """Take the path as it is, or end it with an ellipsis if it gets too long."""
        at: cython.Py_ssize_t = self.path_size
        if size <= _LONGEST_PATH:
            self.path_size = cython.cast(cython.int, size)
        elif (
            at < 3
            or self.path_text[at - 3] != 0xE2
            or self.path_text[at - 2] != 0x80
            or self.path_text[at - 1] != 0xA6
        ):
            self.path_text[at] = 0xE2
            self.path_text[at + 1] = 0x80
            self.path_text[at + 2] = 0xA6
            self.path_size += 3

    def settle(self):
        """Give the path its number."""
        found: cython.int
        if cython.compiled:
            found = self.paths.intern(cython.address(self.path_text[0]), 0, self.path_size)
        else:
            found = self.paths.intern(self.path_text, 0, self.path_size)
        if found == FULL:
            return self.refuse(NEED_PATHS)
        self.path = found
        return GOOD

    def put_number(self, at, number):
        """Write a number and a closing bracket into the path; return where they end."""
        size: cython.Py_ssize_t = 1
        rest: cython.Py_ssize_t = number
        while rest >= 10:
            rest = rest // 10
            size += 1
        self.path_text[at + size] = 93
        rest = size
        while rest > 0:
            rest -= 1
            self.path_text[at + rest] = 48 + number % 10
            number = number // 10
        return at + size + 1


_FIELDS = cython.declare(cython.ulonglong, 0x5B73646C656966)
"""``fields[``, with the first letter in the lowest byte."""
_MESSAGES = cython.declare(cython.ulonglong, 0x736567617373656D)
"""``messages``, the same way."""
