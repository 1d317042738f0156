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
    repeated_message,
)
from wireloom.kernel.shim import later
from wireloom.kernel.walk.decimals import is_utf8
from wireloom.kernel.walk.fastfields import known_fields
from wireloom.kernel.walk.fields import begin_field, end_field
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
from wireloom.kernel.walk.walk import BAD, GOOD, NEED_NAMES

__all__: list[str] = []

field_payload = later("walk.messages", "field_payload")

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


def tibrv_message(walk, rows, headers, data, pos, end, nesting):
    """Append the rows of the message at the start of ``data[pos:end]``.

    `walk.message_end` is then where it ends. `nesting` is how many messages it lies in.
    """
    index: cython.int = 0
    left: cython.longlong = walk.max_fields
    base: cython.Py_ssize_t = walk.level
    deepest: cython.Py_ssize_t = base
    body: cython.Py_ssize_t = pos + TIBRV_HEADER
    start: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong = be32(data, pos, end)
    elements: cython.longlong
    state: cython.int
    if end - pos < TIBRV_HEADER or be32(data, pos + 4, end) != TIBRV_MAGIC:
        return BAD
    if size < TIBRV_HEADER or size > end - pos or size > walk.max_frame:
        return BAD
    end = pos + size
    pos = body
    state = walk.open(TIBRV, 0, size)
    if state == GOOD:
        state = repeated_message(walk, rows, walk.tibrv_layouts, data, pos, end, left)
    if state != NO_LAYOUT:
        return state
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
        pos = known_fields(walk, rows, headers, data, pos, end, index, left)
        index += cython.cast(cython.int, walk.fields_read)
        left -= walk.fields_read
        if pos == end:
            continue
        if left <= 0:
            return BAD
        left -= 1
        start = pos
        state = tibrv_field(walk, rows, headers, data, pos, end, index)
        if state != GOOD:
            return state
        pos = walk.field_end
        index += 1
        if walk.code == _RV_MESSAGE:
            state = walk.descend(data, start, end, index - 1, 0)
            pos = walk.data_at + TIBRV_HEADER
            end = walk.data_end
            index = 0
        elif walk.code == _RV_MESSAGES:
            elements = count_messages(data, walk.data_at, walk.data_end)
            if elements < 0 or elements > left:
                return BAD
            left -= elements
            state = walk.descend(data, start, end, index - 1, walk.data_end)
            # At the start of the first element, or at the end of none.
            pos = walk.data_at + 4
            end = pos
            index = 0
        elif walk.code == _RV_OPAQUE and walk.is_nested:
            at = start + 1 + walk.name_size
            state = field_payload(walk, rows, data, end, nesting, index - 1, data, start + 1, at)
        if state != GOOD:
            return state
        deepest = max(deepest, walk.level)
    if deepest == base:
        keep_layout(walk, walk.tibrv_layouts, rows, headers, data, body, end, index)
    return walk.close(end, index, cython.cast(cython.int, deepest - base))


def tibrv_field(walk, rows, headers, data, pos, end, index):
    """Read the field at `pos`, at position `index` of its message, and append its row."""
    type_at: cython.Py_ssize_t = pos + 1 + u8(data, pos, end)
    code: cython.uint = u8(data, type_at, end)
    size: cython.longlong
    fid: cython.int
    type: cython.int
    state: cython.int
    if end - type_at < 2 or code > _RV_MESSAGES or not _RV_KNOWN >> code & 1:
        return BAD
    walk.code = code
    if not tibrv_data(walk, data, type_at, end, code):
        return BAD
    size = walk.data_end - walk.data_at
    type = walk.types[_TIBRV_TYPES + code]
    if walk.next_header:
        walk.header = walk.next_header
        walk.name_size = headers.name_sizes[walk.header]
        fid = headers.fid[walk.header]
        state = begin_field(walk, rows, headers.name[walk.header], index, type, size)
    else:
        walk.header = tibrv_header(walk, headers, walk.header, data, pos, type_at, end)
        if walk.header == FULL:
            return walk.refuse(NEED_NAMES)
        walk.name_size = headers.one_size
        fid = headers.one_fid
        state = begin_field(walk, rows, headers.one_name, index, type, size)
    if state != GOOD or not walk.is_read:
        return state
    if fid >= 0:
        rows.put_fid(fid)
    if code == _RV_SUBJECT:
        if not put_subject(rows, data, walk.data_at, walk.data_end):
            return BAD
    elif code == _RV_DATETIME and size == 8:
        rows.put_ts(
            cython.cast(cython.longlong, be32(data, walk.data_at, walk.data_end)) * 1000000000
            + cython.cast(cython.longlong, be32(data, walk.data_at + 4, walk.data_end)) * 1000
        )
    elif code != _RV_MESSAGE and code != _RV_MESSAGES:
        put_scalar(rows, data, walk.data_at, walk.data_end, end, tibrv_kind(code), -1)
    return end_field(walk, rows, data)


def tibrv_data(walk, data, type_at, end, code):
    """Find the data of the field whose type is at `type_at`; false if it is not what it says."""
    at: cython.Py_ssize_t = type_at + 2
    size: cython.longlong = u8(data, type_at + 1, end)
    if code == _RV_MESSAGE:
        if size != 0x7A or end - at < 4:
            return False
        size = be32(data, at, end)
        if size < TIBRV_HEADER:
            return False
    elif size == 0x7A and not _RV_LITERAL >> code & 1:
        if end - at < 4:
            return False
        size = cython.cast(cython.longlong, be32(data, at, end)) - 4
        at += 4
    elif size == 0x79 and not _RV_LITERAL >> code & 1:
        if end - at < 2:
            return False
        size = cython.cast(cython.longlong, be16(data, at, end)) - 2
        at += 2
    if not room(at, end, size):
        return False
    walk.data_at = at
    walk.data_end = walk.field_end = at + size
    if code == _RV_SUBJECT:
        return is_subject(data, at, at + size)
    if code == _RV_STRINGS:
        return (
            size >= 4
            and count_zeros(data, at + 4, at + size) == be32(data, at, at + size)
            and (size == 4 or u8(data, at + size - 1, at + size) == 0)
        )
    return code != _RV_XML


def tibrv_header(walk, headers, before, data, pos, type_at, end):
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
    found = headers.find(cython.cast(cython.int, before), data, pos, stop, end)
    if found > 0 and plan != PLAN_NONE:
        headers.set_plan(
            found, plan, cython.cast(cython.int, size), walk.types[_TIBRV_TYPES + code]
        )
    return found


def next_element(walk):
    """Continue with the next message of the array at the current level."""
    level: cython.Py_ssize_t = walk.level - 1
    walk.level_top = walk.level_base
    walk.path_size = walk.array_sizes[level]
    walk.suffix(True, walk.elements[level])
    walk.elements[level] += 1
    return walk.settle()
