"""The bytes of one scalar → the value columns of a row (`wireloom.formats._tib.scalars`)."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, be64, u8
from wireloom.kernel.rows.fieldrows import V_BLANK, V_DATE, V_TIME
from wireloom.kernel.walk.decimals import as_signed, single_bits
from wireloom.kernel.walk.texts import (
    DATE_ASKED,
    DATE_FULL,
    DATE_NULL,
    TIME_NULL,
    time_of,
)
from wireloom.kernel.walk.walk import BAD, GOOD

__all__: list[str] = []

# Kinds, with the numbers of the object path's `Kind`.
KIND_STRING = cython.declare(cython.uint, 2)
KIND_OPAQUE = cython.declare(cython.uint, 3)
KIND_BOOLEAN = cython.declare(cython.uint, 4)
KIND_INT = cython.declare(cython.uint, 5)
KIND_UINT = cython.declare(cython.uint, 6)
KIND_REAL = cython.declare(cython.uint, 7)
KIND_IPDATA = cython.declare(cython.uint, 10)


def is_int_size(size):
    """Whether numbers have that many bytes."""
    return size == 1 or size == 2 or size == 4 or size == 8


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


def put_scalar(rows, data, pos, stop, end, kind, hint):
    """Set the value of the current row; return the end of its text if it is one.

    `hint` is the number of a real's hint, -1 if it has none with a meaning.
    """
    size: cython.Py_ssize_t = stop - pos
    if kind == KIND_REAL and size == 8:
        rows.put_real(be64(data, pos, stop), hint, False)
    elif kind == KIND_STRING:
        return rows.put_string(data, pos, stop, end)
    elif kind == KIND_INT and is_int_size(size):
        rows.put_int(signed_of(data, pos, stop))
    elif kind == KIND_UINT and is_int_size(size):
        rows.put_uint(unsigned_of(data, pos, stop))
    elif kind == KIND_REAL and size == 4:
        rows.put_real(single_bits(be32(data, pos, stop)), hint, True)
    elif kind == KIND_BOOLEAN and is_int_size(size):
        rows.put_int(unsigned_of(data, pos, stop) != 0)
    elif kind == KIND_IPDATA and size == 4:
        rows.put_address(data, pos, stop)
    elif kind == KIND_IPDATA and size == 2:
        rows.put_int(be16(data, pos, stop))
    else:
        rows.put_binary(data, pos, stop)
    return stop


def put_date_text(walk, rows, data, pos, stop):
    """Set the date that the text ``data[pos:stop]`` states, if it does."""
    days: cython.int
    if not rows.want & (V_DATE | V_BLANK):
        return GOOD
    days = walk.dates.of(data, pos, stop)
    if days > DATE_NULL:
        rows.put_date(days)
    elif days == DATE_NULL:
        rows.mask |= V_BLANK
    elif days == DATE_ASKED:
        walk.is_asking = True
    elif days == DATE_FULL:
        return BAD
    return GOOD


def put_time_text(rows, data, pos, stop):
    """Set the time that the text ``data[pos:stop]`` states, if it does."""
    nanos: cython.longlong
    if rows.want & (V_TIME | V_BLANK):
        nanos = time_of(data, pos, stop)
        if nanos >= 0:
            rows.put_time(nanos)
        elif nanos == TIME_NULL:
            rows.mask |= V_BLANK
