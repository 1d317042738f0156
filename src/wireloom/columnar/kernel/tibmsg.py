"""TibMsg → rows: the columnar twin of `wireloom.formats.tibmsg.walk`.

It accepts exactly what that walker accepts and gives the same values; the two are fuzzed against
each other. Why a message is refused is not said here: the driver asks the object path, which gives
the same reason as everywhere else.
"""

from __future__ import annotations

from wireloom.columnar.kernel import shim as cython
from wireloom.columnar.kernel.fieldrows import MAX_DEPTH, FieldRows, as_signed, single_bits
from wireloom.columnar.kernel.names import FULL
from wireloom.columnar.kernel.primitives import be16, be32, be64, find_zero, room, u8

__all__ = ["BAD", "GOOD", "NO_ROOM", "tibmsg_rows"]

GOOD = cython.declare(cython.int, 0)
BAD = cython.declare(cython.int, 1)
NO_ROOM = cython.declare(cython.int, 2)

TIBMSG_HEADER = cython.declare(cython.int, 9)
TIBMSG_MAGIC = cython.declare(cython.uint, 0xCE13AA1F)
_SCALARS = cython.declare(cython.int, 0b10011111100)
"""Bits 2 to 7 and 10: the types that a hint may have."""


def tibmsg_rows(
    table: FieldRows,
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    max_fields: cython.Py_ssize_t,
    max_depth: cython.int,
    outcome: cython.uchar[::1],
) -> int:
    """Append the rows of the messages ``first`` to ``last - 1``; give the first one not done.

    `outcome` gets `GOOD` or `BAD` for each. It ends early when a message has no room left.
    """
    index: cython.Py_ssize_t = first
    state: cython.int = GOOD
    pos: cython.Py_ssize_t
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while index < last:
            pos = offsets[index]
            table.mark()
            state = tibmsg_message(
                table, start, pos, pos + lengths[index], index, max_fields, max_depth
            )
            if state != GOOD:
                table.back()
            if state == NO_ROOM:
                break
            outcome[index] = state
            index += 1
    return index


def tibmsg_message(rows, data, pos, end, frame, max_fields, max_depth):
    """Append the rows of the message in ``data[pos:end]``."""
    depth: cython.int = 0
    index: cython.int = 0
    left: cython.Py_ssize_t = max_fields
    start: cython.Py_ssize_t
    key_at: cython.Py_ssize_t
    data_at: cython.Py_ssize_t
    data_end: cython.Py_ssize_t
    name_end: cython.Py_ssize_t
    key: cython.uint
    code: cython.uint
    name: cython.int
    path: cython.int
    hint_key: cython.uint
    hint_size: cython.Py_ssize_t
    hint_at: cython.Py_ssize_t
    has_hint: cython.bint
    has_number: cython.bint
    hint: cython.longlong
    row: cython.Py_ssize_t
    if end - pos < TIBMSG_HEADER or be32(data, pos, end) != TIBMSG_MAGIC:
        return BAD
    if be32(data, pos + 5, end) != end - pos - TIBMSG_HEADER:
        return BAD
    pos += TIBMSG_HEADER
    rows.path_used = 0
    path = rows.paths.intern(data, pos, pos)
    if path == FULL:
        return NO_ROOM
    while True:
        if pos == end:
            if depth == 0:
                return GOOD
            depth -= 1
            end = rows.ends[depth]
            index = rows.indexes[depth] + 1
            path = rows.path_at[depth]
            continue
        if left == 0:
            return BAD
        left -= 1
        start = pos
        key_at = start + 1 + u8(data, start, end)
        if key_at + 2 > end:
            return BAD
        key = u8(data, key_at, end)
        code = key & 15
        if code < 1 or code > 10:
            return BAD
        if key & 0x80:
            data_at = key_at + 5
            if data_at > end:
                return BAD
            data_end = data_at + be32(data, key_at + 1, end)
        else:
            data_at = key_at + 2
            data_end = data_at + u8(data, key_at + 1, end)
        if data_end > end:
            return BAD
        has_hint = code != 1 and (key & 0x40 or code == 8 or code == 9)
        pos = data_end
        hint_key = 0
        hint_size = 0
        hint = -1
        has_number = False
        if has_hint:
            hint_at = data_end + 2
            if hint_at > end:
                return BAD
            hint_key = u8(data, data_end, end)
            if not _SCALARS >> (hint_key & 15) & 1:
                return BAD
            hint_size = u8(data, data_end + 1, end)
            if hint_key & 0x80:
                hint_at = data_end + 5
                if hint_at > end:
                    return BAD
                hint_size = be32(data, data_end + 1, end)
            pos = hint_at
            if code != 8 and code != 9:
                if not room(hint_at, end, hint_size):
                    return BAD
                pos = hint_at + hint_size
                if is_int_size(hint_size):
                    if hint_key & 15 == 6 and (hint_size < 8 or u8(data, hint_at, end) < 128):
                        hint = cython.cast(cython.longlong, unsigned_of(data, hint_at, pos))
                        has_number = True
                    elif hint_key & 15 == 5:
                        hint = signed_of(data, hint_at, pos)
                        has_number = True
        # An address of four bytes becomes up to fifteen characters.
        if not rows.has_room(data_end - data_at + 16):
            return NO_ROOM
        row = rows.count
        rows.field_at = start
        rows.frame[row] = cython.cast(cython.int, frame)
        rows.path[row] = path
        rows.position[row] = index
        rows.type[row] = code
        rows.size[row] = cython.cast(cython.int, data_end - data_at)
        if key_at > start + 1:
            name_end = key_at - 1 if u8(data, key_at - 1, end) == 0 else key_at
            name = rows.names.intern(data, start + 1, name_end)
            if name == FULL:
                return NO_ROOM
            rows.name[row] = name
            rows.name_valid[row >> 3] |= 1 << (row & 7)
        if has_number:
            rows.hint[row] = hint
            rows.hint_valid[row >> 3] |= 1 << (row & 7)
        if code == 9:
            rows.partial[row] = cython.cast(cython.int, hint_size)
            rows.partial_valid[row >> 3] |= 1 << (row & 7)
            rows.put_text(data, data_at, data_end)
        elif code == 8:
            # The element's type is part of the type's name, its size takes the hint's place.
            rows.type[row] = 16 + (hint_key & 15)
            rows.hint[row] = hint_size
            rows.hint_valid[row >> 3] |= 1 << (row & 7)
            rows.put_binary(data, data_at, data_end)
        elif code != 1:
            scalar_value(rows, data, data_at, data_end, code, hint if has_number else -1)
        if code != 1:
            rows.next_row()
            index += 1
            continue
        rows.next_row()
        if depth >= max_depth or depth >= MAX_DEPTH:
            return BAD
        rows.ends[depth] = end
        rows.indexes[depth] = index
        rows.path_at[depth] = path
        depth += 1
        end = data_end
        pos = data_at
        index = 0


def signed_of(data, pos, end):
    """The big-endian two's complement number in ``data[pos:end]``, of 1, 2, 4 or 8 bytes."""
    size: cython.Py_ssize_t = end - pos
    value: cython.longlong
    if size == 4:
        value = be32(data, pos, end)
        return value - (value >> 31 << 32)
    if size == 1:
        value = u8(data, pos, end)
        return value - (value >> 7 << 8)
    if size == 2:
        value = be16(data, pos, end)
        return value - (value >> 15 << 16)
    return as_signed(be64(data, pos, end))


def unsigned_of(data, pos, end):
    """The big-endian number that fills ``data[pos:end]``, of 1, 2, 4 or 8 bytes."""
    size: cython.Py_ssize_t = end - pos
    if size == 4:
        return be32(data, pos, end)
    if size == 1:
        return u8(data, pos, end)
    return be16(data, pos, end) if size == 2 else be64(data, pos, end)


def is_int_size(size):
    """Whether numbers have that many bytes."""
    return size == 1 or size == 2 or size == 4 or size == 8


def scalar_value(rows, data, pos, end, kind, hint):
    """Set the value columns of the current row for scalar data; `hint` is -1 if there is none."""
    size: cython.Py_ssize_t = end - pos
    stop: cython.Py_ssize_t
    if kind == 2:
        stop = find_zero(data, pos, end)
        rows.put_text(data, pos, stop)
        if hint == 256 or hint == 258:
            rows.put_date_text(data, pos, stop)
        elif hint == 257 or hint == 259 or hint == 260:
            rows.put_time_text(data, pos, stop)
    elif kind == 7 and size == 8:
        rows.put_real(be64(data, pos, end), hint, False)
    elif kind == 7 and size == 4:
        rows.put_real(single_bits(be32(data, pos, end)), hint, True)
    elif kind == 5 and is_int_size(size):
        rows.put_int(signed_of(data, pos, end))
    elif kind == 6 and is_int_size(size):
        rows.put_uint(unsigned_of(data, pos, end))
    elif kind == 4 and is_int_size(size):
        rows.put_int(unsigned_of(data, pos, end) != 0)
    elif kind == 10 and size == 4:
        rows.put_address(data, pos, end)
    elif kind == 10 and size == 2:
        rows.put_int(be16(data, pos, end))
    else:
        rows.put_binary(data, pos, end)
