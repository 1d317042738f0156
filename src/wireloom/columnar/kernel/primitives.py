"""The only code of the kernel that touches input bytes.

Each function takes the end of the *message* it reads in and gives 0 when that end comes first; the
caller checks with `room` before it relies on a value. So no read leaves its message, whatever the
lengths inside it say.
"""

from __future__ import annotations

from wireloom.columnar.kernel import shim as cython

__all__ = [
    "be16",
    "be32",
    "be64",
    "copy_bytes",
    "find_zero",
    "is_ascii",
    "le16",
    "le32",
    "le64",
    "room",
    "u8",
]


def room(pos, end, size):
    """Whether `size` bytes fit between `pos` and `end`; `size` may be any 64-bit number."""
    return 0 <= size <= end - pos


def u8(data, pos, end):
    """One byte."""
    return data[pos] if pos < end else 0


def be16(data, pos, end):
    """Two bytes, big-endian."""
    if end - pos < 2:
        return 0
    return data[pos] << 8 | data[pos + 1]


def be32(data, pos, end):
    """Four bytes, big-endian."""
    value: cython.uint = 0
    if end - pos < 4:
        return 0
    value = data[pos]
    value = value << 8 | data[pos + 1]
    value = value << 8 | data[pos + 2]
    return value << 8 | data[pos + 3]


def be64(data, pos, end):
    """Eight bytes, big-endian."""
    high: cython.ulonglong = be32(data, pos, end)
    low: cython.ulonglong = be32(data, pos + 4, end)
    return high << 32 | low


def le16(data, pos, end):
    """Two bytes, little-endian."""
    if end - pos < 2:
        return 0
    return data[pos] | data[pos + 1] << 8


def le32(data, pos, end):
    """Four bytes, little-endian."""
    value: cython.uint = 0
    if end - pos < 4:
        return 0
    value = data[pos + 3]
    value = value << 8 | data[pos + 2]
    value = value << 8 | data[pos + 1]
    return value << 8 | data[pos]


def le64(data, pos, end):
    """Eight bytes, little-endian."""
    low: cython.ulonglong = le32(data, pos, end)
    high: cython.ulonglong = le32(data, pos + 4, end)
    return high << 32 | low


def copy_bytes(out, at, data, pos, stop, end):
    """Copy ``data[pos:stop]`` to ``out[at:]``, where the caller has made sure of the room."""
    if stop > end or pos >= stop:
        return
    if cython.compiled:
        memcpy(cython.address(out[at]), cython.address(data[pos]), stop - pos)
    else:
        out[at : at + stop - pos] = data[pos:stop]


def find_zero(data, pos, end):
    """The first zero byte in ``data[pos:end]``; `end` if there is none."""
    while pos < end and data[pos] != 0:
        pos += 1
    return pos


def is_ascii(data, pos, end):
    """Whether no byte of ``data[pos:end]`` has its top bit set."""
    seen: cython.ulonglong = 0
    while end - pos >= 8:
        seen |= be64(data, pos, end)
        pos += 8
    seen |= seen >> 32
    seen |= seen >> 16
    seen |= seen >> 8
    while pos < end:
        seen |= data[pos]
        pos += 1
    return not seen & 0x80
