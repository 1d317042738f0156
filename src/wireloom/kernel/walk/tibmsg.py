"""TibMsg → rows: the columnar twin of `wireloom.formats.tibmsg.walk`."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be32, room, u8
from wireloom.kernel.rows.layoutrows import (
    NO_LAYOUT,
    keep_layout,
    repeated_message,
)
from wireloom.kernel.shim import later
from wireloom.kernel.walk.fastfields import known_fields
from wireloom.kernel.walk.fields import begin_field, end_field
from wireloom.kernel.walk.headercache import (
    PLAN_DECIMAL,
    PLAN_HINTED,
    PLAN_INT,
    PLAN_NONE,
    PLAN_REAL,
    PLAN_STRING,
    PLAN_UINT,
)
from wireloom.kernel.walk.names import FULL
from wireloom.kernel.walk.scalars import (
    KIND_INT,
    KIND_OPAQUE,
    KIND_REAL,
    KIND_STRING,
    KIND_UINT,
    is_int_size,
    put_date_text,
    put_scalar,
    put_time_text,
    signed_of,
    unsigned_of,
)
from wireloom.kernel.walk.walk import (
    BAD,
    GOOD,
    NEED_NAMES,
)

__all__: list[str] = []

field_payload = later("walk.messages", "field_payload")

TIBMSG_HEADER = cython.declare(cython.int, 9)
TIBMSG_MAGIC = cython.declare(cython.uint, 0xCE13AA1F)
TIBMSG = cython.declare(cython.int, 1)
"""The number of TibMsg among the message formats."""
_SCALARS = cython.declare(cython.int, 0b10011111100)
"""Bits 2 to 7 and 10: the types that a hint may have."""

_NO_HINT = cython.declare(cython.int, -2)
_MESSAGE = cython.declare(cython.uint, 1)
_ARRAY = cython.declare(cython.uint, 8)
_PARTIAL = cython.declare(cython.uint, 9)


def tibmsg_message(walk, rows, headers, data, pos, end, nesting):
    """Append the rows of the message at the start of ``data[pos:end]``.

    `walk.message_end` is then where it ends. `nesting` is how many messages it lies in.
    """
    index: cython.int = 0
    left: cython.Py_ssize_t = walk.max_fields
    base: cython.Py_ssize_t = walk.level
    deepest: cython.Py_ssize_t = base
    body: cython.Py_ssize_t = pos + TIBMSG_HEADER
    start: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    state: cython.int
    if end - pos < TIBMSG_HEADER or be32(data, pos, end) != TIBMSG_MAGIC:
        return BAD
    size = be32(data, pos + 5, end)
    pos = body
    if not room(pos, end, size) or size + TIBMSG_HEADER > walk.max_frame:
        return BAD
    end = pos + size
    state = walk.open(TIBMSG, -1, size)
    if state == GOOD:
        state = repeated_message(walk, rows, walk.tibmsg_layouts, data, pos, end, left)
    if state != NO_LAYOUT:
        return state
    while True:
        if pos == end:
            if walk.level == base:
                break
            walk.leave()
            end = walk.ends[walk.level]
            index = walk.indexes[walk.level] + 1
            continue
        pos = known_fields(walk, rows, headers, data, pos, end, index, left)
        index += cython.cast(cython.int, walk.fields_read)
        left -= walk.fields_read
        if pos == end:
            continue
        if left == 0:
            return BAD
        left -= 1
        start = pos
        state = tibmsg_field(walk, rows, headers, data, pos, end, index)
        if state != GOOD:
            return state
        pos = walk.field_end
        if walk.code == _MESSAGE:
            state = walk.descend(data, start, end, index, 0)
            if state != GOOD:
                return state
            deepest = max(deepest, walk.level)
            pos = walk.data_at
            end = walk.data_end
            index = 0
            continue
        if walk.code == KIND_OPAQUE and walk.is_nested:
            at = start + 1 + walk.name_size
            state = field_payload(walk, rows, data, end, nesting, index, data, start + 1, at)
            if state != GOOD:
                return state
        index += 1
    if deepest == base:
        keep_layout(walk, walk.tibmsg_layouts, rows, headers, data, body, end, index)
    return walk.close(end, index, cython.cast(cython.int, deepest - base))


def tibmsg_field(walk, rows, headers, data, pos, end, index):
    """Read the field at `pos`, at position `index` of its message, and append its row."""
    key_at: cython.Py_ssize_t = pos + 1 + u8(data, pos, end)
    key: cython.uint = u8(data, key_at, end)
    code: cython.uint = key & 15
    size: cython.Py_ssize_t
    hint: cython.longlong = -1
    state: cython.int
    if end - key_at < 2 or code < 1 or code > 10:
        return BAD
    if key & 0x80:
        walk.data_at = key_at + 5
        if walk.data_at > end:
            return BAD
        size = be32(data, key_at + 1, end)
    else:
        walk.data_at = key_at + 2
        size = u8(data, key_at + 1, end)
    if size > end - walk.data_at:
        return BAD
    walk.code = code
    walk.data_end = walk.field_end = walk.data_at + size
    if walk.next_header:
        walk.header = walk.next_header
        walk.name_size = headers.name_sizes[walk.header]
        state = begin_field(walk, rows, headers.name[walk.header], index, walk.types[code], size)
    else:
        walk.header = tibmsg_header(walk, headers, walk.header, data, pos, key_at, end)
        if walk.header == FULL:
            return walk.refuse(NEED_NAMES)
        walk.name_size = headers.one_size
        state = begin_field(walk, rows, headers.one_name, index, walk.types[code], size)
    if state != GOOD:
        return state
    if code != _MESSAGE and (key & 0x40 or code == _ARRAY or code == _PARTIAL):
        hint = tibmsg_hint(walk, rows, data, walk.data_end, end, code)
        if hint == _NO_HINT:
            return BAD
    if walk.is_read:
        state = tibmsg_value(walk, rows, data, walk.data_at, walk.data_end, end, code, hint)
        if state == GOOD:
            state = end_field(walk, rows, data)
    return state


def tibmsg_header(walk, headers, before, data, pos, key_at, end):
    """The number of the header of the field at `pos`, with a plan for the fast path."""
    key: cython.uint = u8(data, key_at, end)
    code: cython.uint = key & 15
    size: cython.uint = u8(data, key_at + 1, end)
    plan: cython.int = PLAN_NONE
    stop: cython.Py_ssize_t = key_at + 1
    found: cython.int
    if key & 0x80:
        plan = PLAN_NONE
    elif code == KIND_STRING:
        plan = PLAN_HINTED if key & 0x40 else PLAN_STRING
        size = 0
    elif code == KIND_REAL:
        stop += 1
        if size == 8:
            plan = PLAN_DECIMAL if key & 0x40 else PLAN_REAL
    elif code == KIND_INT or code == KIND_UINT:
        stop += 1
        if not key & 0x40 and is_int_size(size):
            plan = PLAN_INT if code == KIND_INT else PLAN_UINT
    found = headers.find(cython.cast(cython.int, before), data, pos, stop, end)
    if found > 0 and plan != PLAN_NONE:
        headers.set_plan(found, plan, cython.cast(cython.int, size), walk.types[code])
    return found


def tibmsg_hint(walk, rows, data, pos, end, code):
    """Read the hint at `pos`, behind the data of a field; `walk.field_end` is then where it ends.

    Returns its number, or -1 if it means nothing, or `_NO_HINT` if it cannot be read.
    """
    at: cython.Py_ssize_t = pos + 2
    size: cython.longlong = u8(data, pos + 1, end)
    key: cython.uint = u8(data, pos, end)
    if at > end or not _SCALARS >> (key & 15) & 1:
        return _NO_HINT
    if key & 0x80:
        at = pos + 5
        if at > end:
            return _NO_HINT
        size = be32(data, pos + 1, end)
    walk.field_end = at
    if code == _ARRAY:
        # The elements' type is part of the type's name, their size takes the hint's place.
        if walk.is_read:
            rows.put_type(walk.types[16 + (key & 15)])
            rows.put_hint(size)
    elif code == _PARTIAL:
        if walk.is_read:
            rows.put_partial(size)
    else:
        if size > end - at:
            return _NO_HINT
        walk.field_end = at + size
        if walk.is_read:
            return put_hint_number(rows, data, at, at + size, key & 15)
    return -1


def put_hint_number(rows, data, pos, end, kind):
    """Put the number of a hint; return it, or -1 if it means nothing."""
    hint: cython.longlong
    size: cython.Py_ssize_t = end - pos
    if kind == KIND_UINT and size == 1:
        hint = u8(data, pos, end)
    elif not is_int_size(size):
        return -1
    elif kind == KIND_INT:
        hint = signed_of(data, pos, end)
    elif kind == KIND_UINT and (size < 8 or u8(data, pos, end) < 128):
        hint = cython.cast(cython.longlong, unsigned_of(data, pos, end))
    else:
        return -1  # not a number, or one that no column can hold
    rows.put_hint(hint)
    return hint if 0 <= hint <= 261 else -1


def tibmsg_value(walk, rows, data, pos, stop, end, code, hint):
    """Put the value of a field."""
    text_end: cython.Py_ssize_t
    if code == KIND_STRING:
        text_end = rows.put_string(data, pos, stop, end)
        if hint == 256 or hint == 258:
            return put_date_text(walk, rows, data, pos, text_end)
        if 256 < hint < 261:
            put_time_text(rows, data, pos, text_end)
    elif code == _PARTIAL:
        rows.put_text(data, pos, stop)
    elif code == _ARRAY:
        rows.put_binary(data, pos, stop)
    elif code != _MESSAGE:
        put_scalar(rows, data, pos, stop, end, code, hint)
    return GOOD
