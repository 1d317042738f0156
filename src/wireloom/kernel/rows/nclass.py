"""nclass bodies → rows: the columnar twin of `wireloom.formats.blaze.body`.

The classes are in tables that `wireloom.columnar.bodies` makes from a model. A body that no writer
would send, because its fields or elements do not ascend, is left to the object path, and so is the
reason why a body cannot be read.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, le16, le32, le64, u8
from wireloom.kernel.rows.bodyrows import BodyRows
from wireloom.kernel.rows.subscriptions import Subscriptions
from wireloom.kernel.walk.decimals import as_signed, single_bits

__all__ = ["Bodies"]

# What becomes of a frame's body.
BODY_NONE = cython.declare(cython.int, 0)
"""It has none, or nothing is known about its class."""
BODY_GOOD = cython.declare(cython.int, 1)
BODY_BAD = cython.declare(cython.int, 2)
"""The object path must be asked."""
BODY_CLASS = cython.declare(cython.int, 3)
"""Its class or encoding is not in the model."""
BODY_SKIP = cython.declare(cython.int, 4)
"""The frame is to be skipped."""
_BODY_FULL = cython.declare(cython.int, 5)

# Roles of packets, with positions in their headers: one row of the table per HDRLEN and PKTTYP.
ROLE_ROW = cython.declare(cython.int, 8)
ROLE_CLASS = cython.declare(cython.int, 1)
"""The header has the class, in the word at (2); the body starts at (1)."""
ROLE_EVENT = cython.declare(cython.int, 2)
"""The subscription at (2) has it, if the event type, in the word at (3), is one of a mask (4)."""
ROLE_REQUEST = cython.declare(cython.int, 3)
"""A request (2) for a class, in the word at (3)."""
ROLE_RESPONSE = cython.declare(cython.int, 4)
"""The answer to a request (2), with a subscription at (3)."""

# A slot of a class.
SLOT_ROW = cython.declare(cython.int, 8)
SLOT_KIND = cython.declare(cython.int, 0)
SLOT_COUNT = cython.declare(cython.int, 1)
"""Elements of an array, most bytes of a text."""
SLOT_ARRAY = cython.declare(cython.int, 2)
SLOT_CLASS = cython.declare(cython.int, 3)
"""Of an object: its class. Of an enum: where its members are."""
SLOT_NAME = cython.declare(cython.int, 4)
SLOT_TYPE = cython.declare(cython.int, 5)
SLOT_ARRAY_TYPE = cython.declare(cython.int, 6)
SLOT_MEMBERS = cython.declare(cython.int, 7)
"""Of an enum: how many members it has."""

NC_BOOL = cython.declare(cython.int, 1)
NC_I16 = cython.declare(cython.int, 2)
NC_U16 = cython.declare(cython.int, 3)
NC_I32 = cython.declare(cython.int, 4)
NC_U32 = cython.declare(cython.int, 5)
NC_I64 = cython.declare(cython.int, 6)
NC_U64 = cython.declare(cython.int, 7)
NC_F32 = cython.declare(cython.int, 8)
NC_F64 = cython.declare(cython.int, 9)
NC_CHAR = cython.declare(cython.int, 10)
NC_BYTE = cython.declare(cython.int, 11)
NC_ENUM = cython.declare(cython.int, 12)
NC_TEXT = cython.declare(cython.int, 13)
NC_OBJECT = cython.declare(cython.int, 14)

MOST_BODY_LEVELS = cython.declare(cython.int, 256)
"""Objects and arrays around a field; classes nest at most 64 deep."""


@cython.final
@cython.cclass
class Bodies:
    """The bodies of packets, read with a model."""

    def __init__(
        self,
        roles: memoryview,
        classes: memoryview,
        starts: memoryview,
        slots: memoryview,
        members: memoryview,
        member_ends: memoryview,
        member_text: memoryview,
        encodings: int,
        first_index: int,
        max_fields: int,
        max_depth: int,
        asks: bool,
    ) -> None:
        """A model.

        Args:
            roles: what each kind of packet contains, and where.
            classes: pairs of class id and class, by id.
            starts: where the slots of each class start, and where the last one's end.
            slots: rows of numbers, see above.
            members: numbers of all enums, each enum's in order.
            member_ends: where each one's name ends in `member_text`.
            member_text: their names.
            encodings: a bit for each ENCTYP that means something.
            first_index: INDEX of a class's first field.
            max_fields: most fields and elements of a body.
            max_depth: most objects in objects.
            asks: leave every body to the object path.
        """
        self.roles = roles
        self.classes = classes
        self.starts = starts
        self.slots = slots
        self.members = members
        self.member_ends = member_ends
        self.member_text = member_text
        self.encodings = encodings
        self.first_index = first_index
        self.max_fields = max_fields
        self.max_depth = max_depth
        self.asks = asks
        self.ends = memoryview(bytearray(8 * MOST_BODY_LEVELS)).cast("q")
        self.owners = memoryview(bytearray(4 * MOST_BODY_LEVELS)).cast("i")
        self.paths = memoryview(bytearray(4 * MOST_BODY_LEVELS)).cast("i")
        self.lasts = memoryview(bytearray(4 * MOST_BODY_LEVELS)).cast("i")

    def run(
        self,
        rows: BodyRows,
        words: cython.const[cython.longlong][::1],
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.longlong][::1],
        lengths: cython.const[cython.int][::1],
        first: cython.Py_ssize_t,
        outcome: cython.uchar[::1],
    ) -> int:
        """Append the rows of the bodies from frame `first` on; return the frame where it ended.

        It ends early at a body that it cannot read, as `outcome` says, or when there is no room for
        a body's rows. `words` are what `find` has found.
        """
        index: cython.Py_ssize_t = first
        count: cython.Py_ssize_t = len(offsets)
        state: cython.int
        if index >= count:
            return index
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            while index < count:
                if outcome[index] != BODY_SKIP:
                    state = self.frame(
                        rows,
                        words[index],
                        start,
                        offsets[index],
                        offsets[index] + lengths[index],
                        cython.cast(cython.int, index),
                    )
                    if state == _BODY_FULL:
                        break
                    outcome[index] = state
                    if state in (BODY_BAD, BODY_CLASS):
                        break
                index += 1
        return index

    def find(
        self,
        subscriptions: Subscriptions,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.longlong][::1],
        lengths: cython.const[cython.int][::1],
        first: cython.Py_ssize_t,
        outcome: cython.const[cython.uchar][::1],
        out: cython.longlong[::1],
    ) -> int:
        """Only find the class of each body from frame `first` on; return the frame where it ended.

        It ends early when there is no room for one more subscription. `out` gets the word with
        class and encoding, 0 for frames without a body or with one of unknown class.
        """
        index: cython.Py_ssize_t = first
        count: cython.Py_ssize_t = len(offsets)
        if index >= count:
            return index
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            while index < count:
                out[index] = 0
                if outcome[index] != BODY_SKIP:
                    out[index] = self.class_in(
                        subscriptions, start, offsets[index], offsets[index] + lengths[index]
                    )
                    if out[index] < 0:
                        break
                index += 1
        return index

    def lessons(
        self,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.longlong][::1],
        lengths: cython.const[cython.int][::1],
        out: cython.longlong[::1],
    ) -> int:
        """Find the frames about subscriptions; return how many there are.

        `out` gets four numbers for each: its index, `ROLE_REQUEST` or `ROLE_RESPONSE`, the request,
        and the word with class and encoding, or the subscription.
        """
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(offsets)
        found: cython.Py_ssize_t = 0
        role: cython.Py_ssize_t
        pos: cython.Py_ssize_t
        end: cython.Py_ssize_t
        if count == 0:
            return 0
        start = cython.address(data[0]) if cython.compiled else data
        with cython.nogil:
            for index in range(count):
                pos = offsets[index]
                end = pos + lengths[index]
                role = ROLE_ROW * (be16(start, pos, end) & 0x3FF)
                if self.roles[role] in (ROLE_REQUEST, ROLE_RESPONSE):
                    out[found] = index
                    out[found + 1] = self.roles[role]
                    out[found + 2] = be32(start, pos + self.roles[role + 2], end)
                    out[found + 3] = be32(start, pos + self.roles[role + 3], end)
                    found += 4
        return found // 4

    def frame(self, rows, clsenc, data, pos, end, frame):
        """One frame: append the rows of its body, of a class and encoding, if it has one."""
        role: cython.Py_ssize_t = ROLE_ROW * (be16(data, pos, end) & 0x3FF)
        found: cython.int
        if self.roles[role] not in (ROLE_CLASS, ROLE_EVENT):
            return BODY_NONE
        pos += self.roles[role + 1]
        rows.mark()
        if clsenc == 0:
            found = BODY_NONE
        else:
            found = self.find_class(clsenc & 0xFFFFF)
            if found < 0 or not self.encodings >> (clsenc >> 28) & 1:
                found = BODY_CLASS
            elif self.asks:
                found = BODY_BAD
            else:
                found = self.body(rows, data, pos, end, found, frame)
        if found != BODY_GOOD:
            rows.back()
            if found != _BODY_FULL and not rows.note(frame, 0, -1, data, pos, end):
                return _BODY_FULL
        return found

    def class_in(self, subscriptions, data, pos, end):
        """The word with class and encoding of a frame's body; 0 if there is none, -1: no room.

        What the frame says about subscriptions is remembered.
        """
        role: cython.Py_ssize_t = ROLE_ROW * (be16(data, pos, end) & 0x3FF)
        kind: cython.longlong = self.roles[role]
        two: cython.Py_ssize_t = pos + self.roles[role + 2]
        three: cython.Py_ssize_t = pos + self.roles[role + 3]
        if kind == ROLE_CLASS:
            return be32(data, two, end)
        if kind == ROLE_EVENT:
            if not self.roles[role + 4] >> (be32(data, three, end) >> 28) & 1:
                return 0
            return subscriptions.find(be32(data, two, end))
        if kind != 0:
            if subscriptions.is_full():
                return -1
            if kind == ROLE_REQUEST:
                subscriptions.request(be32(data, two, end), be32(data, three, end))
            else:
                subscriptions.answer(be32(data, two, end), be32(data, three, end))
        return 0

    def find_class(self, number):
        """The class with an id; -1 if there is none."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(self.classes) // 2
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self.classes[2 * middle] < number:
                low = middle + 1
            else:
                high = middle
        if 2 * low < len(self.classes) and self.classes[2 * low] == number:
            return self.classes[2 * low + 1]
        return -1

    def body(self, rows, data, pos, end, owner, frame):
        """Append the rows of the object of a class that fills ``data[pos:end]``."""
        level: cython.int = 0
        objects: cython.int = 1
        left: cython.Py_ssize_t = self.max_fields
        slot: cython.Py_ssize_t
        index: cython.int
        name: cython.int
        path: cython.int = 0
        last: cython.int = -1
        stop: cython.Py_ssize_t
        size: cython.longlong
        kind: cython.longlong
        if end - pos < 4 or le32(data, pos, end) != end - pos - 4 or self.max_depth < 1:
            return BODY_BAD
        pos += 4
        # An object's owner is its class, an array's is its slot: -1 minus the slot's number.
        while True:
            if pos == end:
                if level == 0:
                    return BODY_GOOD
                if owner >= 0:
                    objects -= 1
                level -= 1
                end = self.ends[level]
                owner = self.owners[level]
                path = self.paths[level]
                last = self.lasts[level]
                continue
            if end - pos < 2 or left == 0:
                return BODY_BAD
            left -= 1
            index = le16(data, pos, end)
            pos += 2
            if owner >= 0:
                slot = self.starts[owner] + index - self.first_index
                if index < self.first_index or slot >= self.starts[owner + 1]:
                    return BODY_BAD
                slot = SLOT_ROW * slot
                name = cython.cast(cython.int, self.slots[slot + SLOT_NAME])
            else:
                slot = SLOT_ROW * (-1 - owner)
                if index >= self.slots[slot + SLOT_COUNT]:
                    return BODY_BAD
                name = -1
            if index <= last:
                return BODY_BAD
            last = index
            kind = self.slots[slot + SLOT_KIND]
            if kind < NC_TEXT and (owner < 0 or not self.slots[slot + SLOT_ARRAY]):
                size = self.scalar(rows, data, pos, end, slot, frame, path, index, name)
                if size <= 0:
                    return BODY_BAD if size == 0 else _BODY_FULL
                pos += size
                continue
            if end - pos < 4:
                return BODY_BAD
            size = le32(data, pos, end)
            pos += 4
            if size > end - pos:
                return BODY_BAD
            stop = pos + size
            if kind == NC_TEXT:
                if size > self.slots[slot + SLOT_COUNT]:
                    return BODY_BAD
                if not rows.has_room(size):
                    return _BODY_FULL
                rows.begin(
                    frame,
                    path,
                    index,
                    name,
                    cython.cast(cython.int, self.slots[slot + SLOT_TYPE]),
                    cython.cast(cython.int, size),
                )
                if not rows.note(frame, path, name, data, pos, stop):
                    return _BODY_FULL
                rows.put_text(data, pos, stop)
                rows.end()
                pos = stop
                continue
            # An object or an array: a row of its own, and a level down.
            if not rows.has_room(0) or level >= MOST_BODY_LEVELS:
                return _BODY_FULL if level < MOST_BODY_LEVELS else BODY_BAD
            self.ends[level] = end
            self.owners[level] = owner
            self.paths[level] = path
            self.lasts[level] = last
            level += 1
            end = stop
            last = -1
            if owner >= 0 and self.slots[slot + SLOT_ARRAY]:
                rows.begin(
                    frame,
                    path,
                    index,
                    name,
                    cython.cast(cython.int, self.slots[slot + SLOT_ARRAY_TYPE]),
                    cython.cast(cython.int, size),
                )
                owner = cython.cast(cython.int, -1 - slot // SLOT_ROW)
                path = rows.step(path, 2 * name)
            else:
                rows.begin(
                    frame,
                    path,
                    index,
                    name,
                    cython.cast(cython.int, self.slots[slot + SLOT_TYPE]),
                    cython.cast(cython.int, size),
                )
                objects += 1
                if objects > self.max_depth:
                    return BODY_BAD
                path = rows.step(path, 2 * name if owner >= 0 else 2 * index + 1)
                owner = cython.cast(cython.int, self.slots[slot + SLOT_CLASS])
            rows.end()
            if path < 0:
                return _BODY_FULL

    def scalar(self, rows, data, pos, end, slot, frame, path, index, name):
        """Append the row of a number or character; return its bytes, 0 if invalid, -1: no room."""
        kind: cython.longlong = self.slots[slot + SLOT_KIND]
        size: cython.int = 1
        value: cython.ulonglong
        if kind in (NC_I16, NC_U16):
            size = 2
        elif kind in (NC_I64, NC_U64, NC_F64):
            size = 8
        elif kind != NC_BOOL and kind != NC_CHAR and kind != NC_BYTE:
            size = 4
        if end - pos < size:
            return 0
        if not rows.has_room(64):
            return -1
        rows.begin(
            frame, path, index, name, cython.cast(cython.int, self.slots[slot + SLOT_TYPE]), size
        )
        if size == 1:
            value = u8(data, pos, end)
            if kind == NC_BOOL and value > 1:
                return 0
            if kind == NC_CHAR:
                rows.put_text(data, pos, pos + 1 if value else pos)
            else:
                rows.put_int(value)
        elif size == 2:
            value = le16(data, pos, end)
            if kind == NC_I16:
                rows.put_int(cython.cast(cython.longlong, value) - (value >> 15 << 16))
            else:
                rows.put_int(value)
        elif size == 4:
            value = le32(data, pos, end)
            if kind == NC_F32:
                rows.put_real(single_bits(cython.cast(cython.uint, value)))
            elif kind == NC_U32:
                rows.put_int(value)
            else:
                rows.put_int(cython.cast(cython.longlong, value) - (value >> 31 << 32))
                if kind == NC_ENUM and not self.put_member(rows, slot):
                    return -1
        else:
            value = le64(data, pos, end)
            if kind == NC_F64:
                rows.put_real(value)
            elif kind == NC_I64 or not value >> 63:
                rows.put_int(as_signed(value))
            else:
                rows.put_big(value)
        rows.end()
        return size

    def put_member(self, rows, slot):
        """The name of an enum's number, where it has one; False when there is no room for it."""
        number: cython.longlong = rows.value_int[rows.count]
        first: cython.Py_ssize_t = self.slots[slot + SLOT_CLASS]
        low: cython.Py_ssize_t = first
        high: cython.Py_ssize_t = first + self.slots[slot + SLOT_MEMBERS]
        last: cython.Py_ssize_t = high
        start: cython.Py_ssize_t
        while low < high:
            first = (low + high) // 2
            if self.members[first] < number:
                low = first + 1
            else:
                high = first
        if low == last or self.members[low] != number:
            return True
        start = self.member_ends[low - 1] if low else 0
        if not rows.has_room(self.member_ends[low] - start):
            return False
        if cython.compiled:
            rows.put_text(cython.address(self.member_text[0]), start, self.member_ends[low])
        else:
            rows.put_text(self.member_text, start, self.member_ends[low])
        return True
