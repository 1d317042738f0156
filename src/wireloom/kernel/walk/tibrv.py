"""TibrvMsg → rows: the columnar twin of `wireloom.formats.tibrv.walk`, for the standard dialect.

The document's dialect, and fields with packed xml, are left to the object path.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, copy_bytes, count_zeros, room, u8
from wireloom.kernel.rows.fieldrows import V_TEXT
from wireloom.kernel.rows.layoutrows import (
    NO_LAYOUT,
    keep_layout,
    repeated_cells,
    repeated_rows,
)
from wireloom.kernel.shim import later
from wireloom.kernel.walk.decimals import is_utf8
from wireloom.kernel.walk.fastfields import quick_lane
from wireloom.kernel.walk.headercache import (
    PLAN_INT,
    PLAN_NONE,
    PLAN_REAL,
    PLAN_STRING,
    PLAN_UINT,
)
from wireloom.kernel.walk.names import FULL
from wireloom.kernel.walk.scalars import (
    KIND_BOOLEAN,
    KIND_INT,
    KIND_IPDATA,
    KIND_OPAQUE,
    KIND_REAL,
    KIND_STRING,
    KIND_UINT,
    is_int_size,
    put_scalar,
)
from wireloom.kernel.walk.walk import BAD, GOOD, NEED_NAMES, NEED_ROWS, NEED_TEXT

__all__: list[str] = []

carried_rows = later("walk.messages", "carried_rows")
wide_state = later("walk.messages", "wide_state")

TIBRV_HEADER = cython.declare(cython.int, 8)
TIBRV_MAGIC = cython.declare(cython.uint, 0x9955EEAA)
TIBRV = cython.declare(cython.int, 2)
"""The number of TibrvMsg among the message formats."""
_TIBRV_TYPES = cython.declare(cython.int, 32)
"""Where its types start in `Walk.types`."""

_RV_MESSAGE = cython.declare(cython.uint, 1)
_RV_SUBJECT = cython.declare(cython.uint, 2)
_RV_DATETIME = cython.declare(cython.uint, 3)
_RV_OPAQUE = cython.declare(cython.uint, 7)
_RV_STRING = cython.declare(cython.uint, 8)
_RV_IPDATA = cython.declare(cython.uint, 10)
_RV_REAL = cython.declare(cython.uint, 13)
_RV_XML = cython.declare(cython.uint, 47)
_RV_STRINGS = cython.declare(cython.uint, 48)
_RV_MESSAGES = cython.declare(cython.uint, 49)
_RV_KNOWN = cython.declare(cython.ulonglong, 0x3B3FD00003F8E)
"""One bit for every type that exists."""
_RV_LITERAL = cython.declare(cython.ulonglong, 0x3E08)
"""Types 3 and 9 to 13: their size is always one byte."""


def tibrv_kind(code):
    """The kind of scalar that a type holds; the others are bytes."""
    if code == _RV_STRING:
        return KIND_STRING
    if code == _RV_REAL:
        return KIND_REAL
    if code == 11:
        return KIND_INT
    if code == 12:
        return KIND_UINT
    if code == 9:
        return KIND_BOOLEAN
    return KIND_IPDATA if code == _RV_IPDATA else KIND_OPAQUE


def is_subject(data, pos, end):
    """Whether segments fill ``data[pos:end]`` exactly."""
    left: cython.uint = u8(data, pos, end)
    size: cython.Py_ssize_t
    if pos >= end:
        return False
    pos += 1
    while left > 0:
        size = u8(data, pos, end)
        if size < 2 or size > end - pos or u8(data, pos + size - 1, end):
            return False
        pos += size
        left -= 1
    return pos == end


def put_subject(rows, data, pos, end):
    """The segments of a subject joined with dots; False if they are not UTF-8."""
    at: cython.Py_ssize_t = pos + 1
    size: cython.Py_ssize_t
    while at < end:
        size = u8(data, at, end)
        if not is_utf8(data, at + 1, at + size - 1):
            return False
        at += size
    rows.mask |= V_TEXT
    at = pos + 1
    while rows.want & V_TEXT and at < end:
        if at > pos + 1:
            rows.text[rows.text_used] = 46
            rows.text_used += 1
        size = u8(data, at, end)
        if cython.compiled:
            copy_bytes(
                cython.address(rows.text[0]), rows.text_used, data, at + 1, at + size - 1, end
            )
        else:
            copy_bytes(rows.text, rows.text_used, data, at + 1, at + size - 1, end)
        rows.text_used += size - 2
        at += size
    return True


def count_messages(data, pos, end):
    """How many messages fill a message array exactly; -1 if they do not."""
    count: cython.longlong = be32(data, pos, end)
    left: cython.longlong = count
    size: cython.longlong
    if end - pos < 4:
        return -1
    pos += 4
    while left > 0:
        size = be32(data, pos, end)
        if (
            end - pos < TIBRV_HEADER
            or size < TIBRV_HEADER
            or size > end - pos
            or be32(data, pos + 4, end) != TIBRV_MAGIC
        ):
            return -1
        pos += size
        left -= 1
    return count if pos == end else -1


def tibrv_message(walk, rows, shapes, data, pos, end, carried):
    """Append the rows of the message at the start of ``data[pos:end]``.

    `walk.message_end` is then where it ends. `carried` is how many messages it lies in.
    """
    index: cython.int = 0
    before: cython.Py_ssize_t
    header: cython.Py_ssize_t = 0
    name: cython.int
    fid: cython.int
    name_size: cython.Py_ssize_t
    left: cython.longlong = walk.max_fields
    base: cython.Py_ssize_t = walk.level
    body: cython.Py_ssize_t
    has_layouts: cython.bint = walk.has_wide != rows.keeps and (walk.has_wide or rows.is_whole)
    deepest: cython.Py_ssize_t = base
    is_chosen: cython.bint = False
    start: cython.Py_ssize_t
    type_at: cython.Py_ssize_t
    data_at: cython.Py_ssize_t
    data_end: cython.Py_ssize_t
    message_row: cython.Py_ssize_t
    wide_row: cython.Py_ssize_t
    size: cython.longlong
    elements: cython.longlong
    code: cython.uint
    path: cython.int
    path_size: cython.int
    state: cython.int
    size = be32(data, pos, end)
    if end - pos < TIBRV_HEADER or be32(data, pos + 4, end) != TIBRV_MAGIC:
        return BAD
    if size < TIBRV_HEADER or size > end - pos or size > walk.max_frame:
        return BAD
    end = pos + size
    pos += TIBRV_HEADER
    state = walk.open(TIBRV, 0, size)
    if state != GOOD:
        return state
    message_row = walk.message_row
    wide_row = walk.wide_row
    body = pos
    if has_layouts and walk.has_wide:
        state = repeated_cells(walk, rows, walk.tibrv_layouts, data, pos, end, left, wide_row)
        if state == GOOD:
            walk.message_end = end
            return walk.close(message_row, wide_row, cython.cast(cython.int, walk.lane_count), 0)
        if state != NO_LAYOUT:
            return state
    elif has_layouts:
        index = cython.cast(
            cython.int, repeated_rows(walk, rows, walk.tibrv_layouts, data, pos, end, left)
        )
        if index > 0:
            walk.message_end = end
            return walk.close(message_row, wide_row, index, 0)
    while True:
        if pos == end:
            if walk.level == base:
                break
            if pos < walk.arrays[walk.level - 1]:
                # The next message of an array; it is already known that they fit.
                state = next_element(walk)
                if state != GOOD:
                    return state
                end = pos + be32(data, pos, walk.arrays[walk.level - 1])
                pos += TIBRV_HEADER
                index = 0
                continue
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
        if left <= 0:
            return BAD
        left -= 1
        start = pos
        type_at = start + 1 + u8(data, start, end)
        if end - type_at < 2:
            return BAD
        code = u8(data, type_at, end)
        size = u8(data, type_at + 1, end)
        data_at = type_at + 2
        if code > _RV_MESSAGES or not _RV_KNOWN >> code & 1:
            return BAD
        if code == _RV_MESSAGE:
            if size != 0x7A or end - data_at < 4:
                return BAD
            size = be32(data, data_at, end)
            if size < TIBRV_HEADER:
                return BAD
        elif size == 0x7A and not _RV_LITERAL >> code & 1:
            if end - data_at < 4:
                return BAD
            size = cython.cast(cython.longlong, be32(data, data_at, end)) - 4
            data_at += 4
        elif size == 0x79 and not _RV_LITERAL >> code & 1:
            if end - data_at < 2:
                return BAD
            size = cython.cast(cython.longlong, be16(data, data_at, end)) - 2
            data_at += 2
        if not room(data_at, end, size):
            return BAD
        data_end = data_at + size
        pos = data_end
        if code == _RV_XML or (code == _RV_SUBJECT and not is_subject(data, data_at, data_end)):
            return BAD
        if code == _RV_STRINGS and (
            size < 4
            or count_zeros(data, data_at + 4, data_end) != be32(data, data_at, data_end)
            or (size > 4 and u8(data, data_end - 1, data_end))
        ):
            return BAD
        before = walk.lane_header
        header = walk.lane_next
        if header == 0:
            header = tibrv_header(walk, shapes, before, data, start, type_at, end)
            if header == FULL:
                return walk.refuse(NEED_NAMES)
            name = shapes.one_name
            fid = shapes.one_fid
        else:
            name = shapes.name[header]
            fid = shapes.fid[header]
        walk.level_names[walk.level_top] = name
        walk.level_top += 1
        if walk.has_wide:
            is_chosen = walk.level == base and 0 <= name < walk.wide.columns
        if rows.keeps or is_chosen:
            if rows.count >= rows.capacity:
                return walk.refuse(NEED_ROWS)
            rows.begin(
                index,
                walk.types[_TIBRV_TYPES + code],
                cython.cast(cython.int, data_end - data_at),
                name,
            )
            if walk.path:
                rows.keys.set_path(rows.count, walk.path)
            if fid >= 0:
                rows.put_fid(fid)
            if code == _RV_SUBJECT:
                if not put_subject(rows, data, data_at, data_end):
                    return BAD
            elif code == _RV_DATETIME and size == 8:
                rows.put_ts(
                    cython.cast(cython.longlong, be32(data, data_at, data_end)) * 1000000000
                    + cython.cast(cython.longlong, be32(data, data_at + 4, data_end)) * 1000
                )
            elif code != _RV_MESSAGE and code != _RV_MESSAGES:
                put_scalar(rows, data, data_at, data_end, end, tibrv_kind(code), -1)
            if is_chosen:
                state = wide_state(walk, rows, wide_row, name, data, data_at)
                if state != GOOD:
                    return state
            rows.end()
        if code == _RV_MESSAGE or code == _RV_MESSAGES:
            if walk.level - base >= walk.max_depth:
                return BAD
            path = walk.path
            path_size = walk.path_size
            name_size = shapes.name_sizes[header] if header else shapes.one_size
            state = walk.step(name, data, start + 1, start + 1 + name_size, index)
            if state == GOOD and code == _RV_MESSAGE:
                state = walk.settle()
            if state != GOOD:
                return state
            if code == _RV_MESSAGE:
                if not walk.enter(end, index, 0, path, path_size):
                    return BAD
                pos = data_at + TIBRV_HEADER
                end = data_end
            else:
                elements = count_messages(data, data_at, data_end)
                if elements < 0 or elements > left:
                    return BAD
                left -= elements
                if not walk.enter(end, index, data_end, path, path_size):
                    return BAD
                # At the start of the first element, or at the end of none.
                pos = data_at + 4
                end = pos
            deepest = max(deepest, walk.level)
            index = 0
            continue
        if code == _RV_OPAQUE and walk.is_nested and size >= 8:
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
        keep_layout(walk, walk.tibrv_layouts, rows, shapes, data, body, end, index)
    return walk.close(message_row, wide_row, index, cython.cast(cython.int, deepest - base))


def tibrv_header(walk, shapes, before, data, pos, type_at, end):
    """The number of the header of the field at `pos`, with a plan for the fast path."""
    code: cython.uint = u8(data, type_at, end)
    size: cython.uint = u8(data, type_at + 1, end)
    plan: cython.int = PLAN_NONE
    stop: cython.Py_ssize_t = type_at + 1
    found: cython.int
    if code == _RV_STRING:
        plan = PLAN_STRING
        size = 0
    elif code == _RV_REAL or code == 11 or code == 12:
        stop += 1
        if code == _RV_REAL:
            plan = PLAN_REAL if size == 8 else PLAN_NONE
        elif is_int_size(size):
            plan = PLAN_INT if code == 11 else PLAN_UINT
    found = shapes.find(cython.cast(cython.int, before), data, pos, stop, end)
    if found > 0 and plan != PLAN_NONE:
        shapes.set_plan(found, plan, cython.cast(cython.int, size), walk.types[_TIBRV_TYPES + code])
    return found


def next_element(walk):
    """Continue with the next message of the array at the current level."""
    level: cython.Py_ssize_t = walk.level - 1
    walk.level_top = walk.level_base
    walk.path_size = walk.array_sizes[level]
    walk.suffix(True, walk.elements[level])
    walk.elements[level] += 1
    return walk.settle()
