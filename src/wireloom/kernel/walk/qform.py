"""QForm → rows: the columnar twin of `wireloom.formats.qform.walk`.

The dictionary is a set of arrays by field id (`Walk.set_dictionary`).
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, room, u8
from wireloom.kernel.shim import later
from wireloom.kernel.walk.fields import begin_field, end_field
from wireloom.kernel.walk.names import FULL
from wireloom.kernel.walk.scalars import (
    KIND_BOOLEAN,
    KIND_INT,
    KIND_OPAQUE,
    KIND_REAL,
    KIND_STRING,
    KIND_UINT,
    put_date_text,
    put_scalar,
    put_time_text,
)
from wireloom.kernel.walk.walk import BAD, GOOD, NEED_NAMES

__all__: list[str] = []

field_payload = later("walk.messages", "field_payload")

QFORM_HEADER = cython.declare(cython.int, 8)
QFORM_MAGIC = cython.declare(cython.uint, 0x11111112)
QFORM = cython.declare(cython.int, 0)
"""The number of QForm among the message formats."""
_QFORM_TYPES = cython.declare(cython.int, 96)
"""Where its types start in `Walk.types`."""

# How a field is encoded in a message; 0 is an id that is not in the dictionary.
FID_FIXED = cython.declare(cython.uint, 1)
FID_PARTIAL = cython.declare(cython.uint, 2)
FID_SHORT = cython.declare(cython.uint, 3)
FID_LONG = cython.declare(cython.uint, 4)
FID_FORM = cython.declare(cython.uint, 5)

_TSS_STRING = cython.declare(cython.uint, 2)
_TSS_OPAQUE = cython.declare(cython.uint, 11)
_TSS_GROCERY = cython.declare(cython.uint, 15)
_TSS_SDATE = cython.declare(cython.uint, 16)
_TSS_STIME = cython.declare(cython.uint, 17)
_TSS_INTS = cython.declare(cython.uint, 0x040202)
_TSS_UINTS = cython.declare(cython.uint, 0x380080)
_TSS_REALS = cython.declare(cython.uint, 0x004540)


def qform_kind(code):
    """The kind of scalar that the data of a type is."""
    if code == _TSS_STRING or code == _TSS_SDATE or code == _TSS_STIME:
        return KIND_STRING
    if _TSS_INTS >> code & 1:
        return KIND_INT
    if _TSS_UINTS >> code & 1:
        return KIND_UINT
    if _TSS_REALS >> code & 1:
        return KIND_REAL
    return KIND_BOOLEAN if code == 3 else KIND_OPAQUE


def qform_name(walk, fid):
    """The number of a field's name; `FULL` when it cannot be kept."""
    name: cython.int = walk.fid_names[fid] - 1
    start: cython.Py_ssize_t
    if name >= 0:
        return name
    start = walk.fid_ends[fid - 1] if fid else 0
    if cython.compiled:
        name = walk.names.intern(cython.address(walk.fid_text[0]), start, walk.fid_ends[fid])
    else:
        name = walk.names.intern(walk.fid_text, start, walk.fid_ends[fid])
    if name >= 0:
        walk.fid_names[fid] = name + 1
    return name


def qform_payload(walk, rows, data, end, nesting, index, fid):
    """See `field_payload`; the field's name is in the dictionary, not in the message."""
    name_at: cython.Py_ssize_t = walk.fid_ends[fid - 1] if fid else 0
    names = cython.address(walk.fid_text[0]) if cython.compiled else walk.fid_text
    return field_payload(walk, rows, data, end, nesting, index, names, name_at, walk.fid_ends[fid])


def qform_message(walk, rows, data, pos, end, nesting):
    """Append the rows of the message at the start of ``data[pos:end]``.

    `walk.message_end` is then where it ends. `nesting` is how many messages it lies in.
    """
    index: cython.int = 0
    name: cython.int
    data_at: cython.Py_ssize_t
    data_end: cython.Py_ssize_t
    text_end: cython.Py_ssize_t
    size: cython.longlong
    fid: cython.uint
    kind: cython.uint
    code: cython.uint
    offset: cython.int
    state: cython.int
    if end - pos < QFORM_HEADER or be32(data, pos, end) != QFORM_MAGIC:
        return BAD
    size = be32(data, pos + 4, end)
    pos += QFORM_HEADER
    if not room(pos, end, size) or size + QFORM_HEADER > walk.max_frame:
        return BAD
    if not walk.has_dictionary:
        return BAD
    end = pos + size
    state = walk.open(QFORM, -1, size)
    if state != GOOD:
        return state
    while pos < end:
        if index >= walk.max_fields or end - pos < 2:
            return BAD
        fid = be16(data, pos, end) & 0x3FFF
        kind = walk.fid_kinds[fid]
        if kind == 0 and fid == 0 and end - pos == 2:
            break
        if kind == 0 or kind == FID_FORM:
            return BAD
        code = walk.fid_types[fid]
        offset = -1
        if kind == FID_FIXED:
            data_at = pos + 2
            size = walk.fid_sizes[fid]
        elif kind == FID_PARTIAL:
            data_at = pos + 6
            if data_at > end:
                return BAD
            offset = be16(data, pos + 2, end)
            size = be16(data, pos + 4, end)
        elif kind == FID_SHORT:
            data_at = pos + 4
            if data_at > end:
                return BAD
            size = be16(data, pos + 2, end)
        else:
            data_at = pos + 6
            if data_at > end:
                return BAD
            size = be32(data, pos + 2, end)
        if not room(data_at, end, size + (size & 1)):
            return BAD
        data_end = data_at + size
        pos = data_end + (size & 1)
        name = qform_name(walk, fid)
        if name == FULL:
            return walk.refuse(NEED_NAMES)
        walk.data_at = data_at
        walk.data_end = data_end
        walk.field_end = pos
        state = begin_field(walk, rows, name, index, walk.types[_QFORM_TYPES + code], size)
        if state != GOOD:
            return state
        if walk.is_read:
            rows.put_fid(fid)
            if offset >= 0:
                rows.put_partial(offset)
                if code == _TSS_STRING:
                    rows.put_text(data, data_at, data_end)
                else:
                    rows.put_binary(data, data_at, data_end)
            elif code == _TSS_GROCERY:
                if size == 9 or size == 5:
                    rows.put_hint(u8(data, data_end - 1, end))
                    put_scalar(
                        rows,
                        data,
                        data_at,
                        data_end - 1,
                        end,
                        KIND_REAL,
                        cython.cast(cython.int, u8(data, data_end - 1, end)),
                    )
                else:
                    rows.put_binary(data, data_at, data_end)
            else:
                text_end = put_scalar(rows, data, data_at, data_end, end, qform_kind(code), -1)
                if code == _TSS_SDATE:
                    if put_date_text(walk, rows, data, data_at, text_end) == BAD:
                        return BAD
                elif code == _TSS_STIME:
                    put_time_text(rows, data, data_at, text_end)
            state = end_field(walk, rows, data)
            if state != GOOD:
                return state
        if code == _TSS_OPAQUE and offset < 0 and walk.is_nested:
            state = qform_payload(walk, rows, data, end, nesting, index, fid)
            if state != GOOD:
                return state
        index += 1
    return walk.close(end, index, 0)
