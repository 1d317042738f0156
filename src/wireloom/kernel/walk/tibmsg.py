"""TibMsg → rows: the columnar twin of `wireloom.formats.tibmsg.walk`."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be32, room, u8
from wireloom.kernel.rows.layoutrows import (
    NO_LAYOUT,
    keep_layout,
    repeated_cells,
    repeated_rows,
)
from wireloom.kernel.shim import later
from wireloom.kernel.walk.fastfields import quick_lane
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
    NEED_ROWS,
    NEED_TEXT,
)

__all__: list[str] = []

carried_rows = later("walk.messages", "carried_rows")
wide_state = later("walk.messages", "wide_state")

TIBMSG_HEADER = cython.declare(cython.int, 9)
TIBMSG_MAGIC = cython.declare(cython.uint, 0xCE13AA1F)
TIBMSG = cython.declare(cython.int, 1)
"""The number of TibMsg among the message formats."""
_SCALARS = cython.declare(cython.int, 0b10011111100)
"""Bits 2 to 7 and 10: the types that a hint may have."""

_MESSAGE = cython.declare(cython.uint, 1)
_ARRAY = cython.declare(cython.uint, 8)
_PARTIAL = cython.declare(cython.uint, 9)


def tibmsg_message(walk, rows, shapes, data, pos, end, carried):
    """Append the rows of the message at the start of ``data[pos:end]``.

    `walk.message_end` is then where it ends. `carried` is how many messages it lies in.
    """
    index: cython.int = 0
    before: cython.Py_ssize_t
    header: cython.Py_ssize_t = 0
    name: cython.int
    name_size: cython.Py_ssize_t
    left: cython.Py_ssize_t = walk.max_fields
    base: cython.Py_ssize_t = walk.level
    body: cython.Py_ssize_t
    has_layouts: cython.bint = walk.has_wide != rows.keeps and (walk.has_wide or rows.is_whole)
    deepest: cython.Py_ssize_t = base
    is_chosen: cython.bint = False
    is_read: cython.bint
    start: cython.Py_ssize_t
    key_at: cython.Py_ssize_t
    data_at: cython.Py_ssize_t
    data_end: cython.Py_ssize_t
    message_row: cython.Py_ssize_t
    wide_row: cython.Py_ssize_t
    size: cython.longlong
    key: cython.uint
    code: cython.uint
    hint_key: cython.uint
    hint_size: cython.longlong
    hint_at: cython.Py_ssize_t
    hint: cython.longlong
    path: cython.int
    path_size: cython.int
    state: cython.int
    if end - pos < TIBMSG_HEADER or be32(data, pos, end) != TIBMSG_MAGIC:
        return BAD
    size = be32(data, pos + 5, end)
    pos += TIBMSG_HEADER
    if not room(pos, end, size) or size + TIBMSG_HEADER > walk.max_frame:
        return BAD
    end = pos + size
    state = walk.open(TIBMSG, -1, size)
    if state != GOOD:
        return state
    message_row = walk.message_row
    wide_row = walk.wide_row
    body = pos
    if has_layouts and walk.has_wide:
        state = repeated_cells(walk, rows, walk.tibmsg_layouts, data, pos, end, left, wide_row)
        if state == GOOD:
            walk.message_end = end
            return walk.close(message_row, wide_row, cython.cast(cython.int, walk.lane_count), 0)
        if state != NO_LAYOUT:
            return state
    elif has_layouts:
        index = cython.cast(
            cython.int, repeated_rows(walk, rows, walk.tibmsg_layouts, data, pos, end, left)
        )
        if index > 0:
            walk.message_end = end
            return walk.close(message_row, wide_row, index, 0)
    while True:
        if pos == end:
            if walk.level == base:
                break
            walk.leave()
            end = walk.ends[walk.level]
            index = walk.indexes[walk.level] + 1
            continue
        pos = quick_lane(walk, rows, shapes, data, pos, end, header, index, left, base, wide_row)
        index += cython.cast(cython.int, walk.lane_count)
        left -= walk.lane_count
        if pos == end:
            header = walk.lane_header
            continue
        if left == 0:
            return BAD
        left -= 1
        start = pos
        key_at = start + 1 + u8(data, start, end)
        if end - key_at < 2:
            return BAD
        key = u8(data, key_at, end)
        code = key & 15
        if code < 1 or code > 10:
            return BAD
        if key & 0x80:
            data_at = key_at + 5
            if data_at > end:
                return BAD
            size = be32(data, key_at + 1, end)
        else:
            data_at = key_at + 2
            size = u8(data, key_at + 1, end)
        if size > end - data_at:
            return BAD
        data_end = data_at + size
        pos = data_end
        before = walk.lane_header
        header = walk.lane_next
        if header == 0:
            header = tibmsg_header(walk, shapes, before, data, start, key_at, end)
            if header == FULL:
                return walk.refuse(NEED_NAMES)
            name = shapes.one_name
        else:
            name = shapes.name[header]
        walk.level_names[walk.level_top] = name
        walk.level_top += 1
        if walk.has_wide:
            is_chosen = walk.level == base and 0 <= name < walk.wide.columns
        is_read = rows.keeps or is_chosen
        if is_read:
            if rows.count >= rows.capacity:
                return walk.refuse(NEED_ROWS)
            rows.begin(index, walk.types[code], cython.cast(cython.int, size), name)
            if walk.path:
                rows.keys.set_path(rows.count, walk.path)
        hint = -1
        if code != _MESSAGE and (key & 0x40 or code == _ARRAY or code == _PARTIAL):
            hint_at = data_end + 2
            if hint_at > end:
                return BAD
            hint_key = u8(data, data_end, end)
            hint_size = u8(data, data_end + 1, end)
            if not _SCALARS >> (hint_key & 15) & 1:
                return BAD
            if hint_key & 0x80:
                hint_at = data_end + 5
                if hint_at > end:
                    return BAD
                hint_size = be32(data, data_end + 1, end)
            pos = hint_at
            if code != _ARRAY and code != _PARTIAL:
                if hint_size > end - hint_at:
                    return BAD
                pos = hint_at + hint_size
                if is_read:
                    hint = tibmsg_hint(rows, data, hint_at, pos, hint_key & 15)
            elif is_read and code == _PARTIAL:
                rows.put_partial(hint_size)
            elif is_read:
                # The elements' type is part of the type's name, their size takes the hint's place.
                rows.put_type(walk.types[16 + (hint_key & 15)])
                rows.put_hint(hint_size)
        if is_read:
            state = tibmsg_value(walk, rows, data, data_at, data_end, end, code, hint)
            if is_chosen and state == GOOD:
                state = wide_state(walk, rows, wide_row, name, data, data_at)
            if state != GOOD:
                return state
            rows.end()
        if code == _MESSAGE:
            if walk.level - base >= walk.max_depth:
                return BAD
            path = walk.path
            path_size = walk.path_size
            name_size = shapes.name_sizes[header] if header else shapes.one_size
            state = walk.step(name, data, start + 1, start + 1 + name_size, index)
            if state == GOOD:
                state = walk.settle()
            if state != GOOD:
                return state
            if not walk.enter(end, index, 0, path, path_size):
                return BAD
            deepest = max(deepest, walk.level)
            end = data_end
            pos = data_at
            index = 0
            continue
        if code == KIND_OPAQUE and walk.is_nested and data_end - data_at >= 8:
            name_size = shapes.name_sizes[header] if header else shapes.one_size
            state = carried_rows(
                walk,
                rows,
                data,
                data_at,
                data_end,
                carried,
                name,
                data,
                start + 1,
                start + 1 + name_size,
                index,
            )
            if state != GOOD:
                return state
            if not rows.reserve(end - pos):
                walk.need_bytes = end - pos
                return walk.refuse(NEED_TEXT)
        index += 1
    walk.message_end = end
    if has_layouts and deepest == base:
        keep_layout(walk, walk.tibmsg_layouts, rows, shapes, data, body, end, index)
    return walk.close(message_row, wide_row, index, cython.cast(cython.int, deepest - base))


def tibmsg_header(walk, shapes, before, data, pos, key_at, end):
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
    found = shapes.find(cython.cast(cython.int, before), data, pos, stop, end)
    if found > 0 and plan != PLAN_NONE:
        shapes.set_plan(found, plan, cython.cast(cython.int, size), walk.types[code])
    return found


def tibmsg_hint(rows, data, pos, end, kind):
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
