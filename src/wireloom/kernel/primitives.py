"""The only code of the kernel that touches input bytes.

Each function takes the end of the *message* it reads in and returns 0 if that end comes first; the
caller checks with `room` before it relies on a value. So no read leaves its message, whatever the
lengths inside it say.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython

__all__ = [
    "be16",
    "be32",
    "be64",
    "bytes_at",
    "copy_bytes",
    "copy_short",
    "count_zeros",
    "find_byte",
    "find_zero",
    "is_alike",
    "is_ascii",
    "le16",
    "le32",
    "le64",
    "low_bytes",
    "new_bytes",
    "new_bytes_at",
    "put_be32",
    "put_low",
    "room",
    "sum_words",
    "u8",
]

_TOP_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)
_ONES = cython.declare(cython.ulonglong, 0x0101010101010101)


def bytes_at(data):
    """Where the bytes of an object are; it must be kept as long as they are read."""
    return data


def new_bytes(size):
    """Bytes that nobody else has seen yet, to be filled through `new_bytes_at`."""
    if cython.compiled:
        return wireloom_new_bytes(size)
    return bytearray(size)


def new_bytes_at(data):
    """Where `new_bytes` are to be filled."""
    if cython.compiled:
        return wireloom_bytes_at(data)
    return data


def put_be32(out, at, end, word):
    """Write four bytes, big-endian, where there is room for them."""
    if end - at < 4:
        return
    if cython.compiled:
        wireloom_store32(cython.address(out[at]), word)
    else:
        out[at : at + 4] = word.to_bytes(4, "big")


def put_low(out, at, end, value, size):
    """Write the first `size` bytes of a little-endian number, where there is room for them."""
    if end - at < size:
        return
    while size > 0:
        out[at] = value & 0xFF
        value >>= 8
        at += 1
        size -= 1


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
    if end - pos < 4:
        return 0
    if cython.compiled:
        return wireloom_load32(cython.address(data[pos]), 1)
    return int.from_bytes(data[pos : pos + 4], "big")


def be64(data, pos, end):
    """Eight bytes, big-endian."""
    if end - pos < 8:
        return 0
    if cython.compiled:
        return wireloom_load64(cython.address(data[pos]), 1)
    return int.from_bytes(data[pos : pos + 8], "big")


def le16(data, pos, end):
    """Two bytes, little-endian."""
    if end - pos < 2:
        return 0
    return data[pos] | data[pos + 1] << 8


def le32(data, pos, end):
    """Four bytes, little-endian."""
    if end - pos < 4:
        return 0
    if cython.compiled:
        return wireloom_load32(cython.address(data[pos]), 0)
    return int.from_bytes(data[pos : pos + 4], "little")


def le64(data, pos, end):
    """Eight bytes, little-endian."""
    if end - pos < 8:
        return 0
    if cython.compiled:
        return wireloom_load64(cython.address(data[pos]), 0)
    return int.from_bytes(data[pos : pos + 8], "little")


def low_bytes(data, pos, size, end):
    """The first `size` bytes, at most eight, as a little-endian number."""
    one: cython.ulonglong = 1
    value: cython.ulonglong = 0
    if end - pos >= 8:
        value = le64(data, pos, end)
        return value if size >= 8 else value & ((one << (8 * size)) - 1)
    if size > end - pos:
        size = end - pos
    while size > 0:
        size -= 1
        value = value << 8 | data[pos + size]
    return value


def copy_bytes(out, at, data, pos, stop, end):
    """Copy ``data[pos:stop]`` to ``out[at:]``, where the caller has made sure of the room."""
    if stop > end or pos >= stop:
        return
    if cython.compiled:
        memcpy(cython.address(out[at]), cython.address(data[pos]), stop - pos)
    else:
        out[at : at + stop - pos] = data[pos:stop]


def copy_short(out, at, data, pos, stop, end):
    """Copy plain text ``data[pos:stop]``, word by word; return whether it was plain.

    Plain is ASCII without NUL. `out` has eight bytes more room than the text needs, which may be
    written to.
    """
    word: cython.ulonglong
    one: cython.ulonglong = 1
    rest: cython.ulonglong
    left: cython.Py_ssize_t
    if stop > end:
        return False
    while pos < stop:
        left = stop - pos
        if end - pos >= 8:
            word = le64(data, pos, end)
        else:
            word = low_bytes(data, pos, left, end)
        if left < 8:
            # Bytes after the text are masked to ones, which are plain.
            rest = ~((one << (8 * left)) - 1)
            word = word & ~rest | rest & _ONES
        if (word | word - _ONES) & _TOP_BITS:
            return False
        if cython.compiled:
            wireloom_store64(cython.address(out[at]), word)
        else:
            out[at : at + 8] = word.to_bytes(8, "little")
        at += 8
        pos += 8
    return True


def is_alike(data, pos, stop, end, words, masks):
    """Whether all bytes of ``data[pos:stop]`` that the masks select equal those of the words.

    There are as many words and masks as the bytes need. A word that they do not fill is that of the
    last eight of them, or of all if there are fewer.
    """
    other: cython.ulonglong = 0
    count: cython.Py_ssize_t = (stop - pos) >> 3
    i: cython.Py_ssize_t
    if stop > end:
        return False
    if stop - pos & 7:
        if count:
            other = (le64(data, stop - 8, stop) ^ words[count]) & masks[count]
        else:
            other = (low_bytes(data, pos, stop - pos, end) ^ words[0]) & masks[0]
    # No branches in the loop, so that compilers take several words at a time.
    for i in range(count):
        if cython.compiled:
            other |= (wireloom_load64(cython.address(data[pos + 8 * i]), 0) ^ words[i]) & masks[i]
        else:
            other |= (le64(data, pos + 8 * i, end) ^ words[i]) & masks[i]
    return other == 0


def find_byte(data, pos, end, byte):
    """The first `byte` in ``data[pos:end]``; `end` if there is none."""
    # Where it is frequent, a call would take longer than looking.
    if pos < end and data[pos] != byte:
        pos += 1
        if cython.compiled:
            return wireloom_find(data, pos, end, byte)
        while pos < end and data[pos] != byte:
            pos += 1
    return pos


def find_zero(data, pos, end):
    """The first zero byte in ``data[pos:end]``; `end` if there is none."""
    word: cython.ulonglong
    while end - pos >= 8:
        word = le64(data, pos, end)
        # Zero if and only if no byte is zero.
        if (word - _ONES) & ~word & _TOP_BITS:
            break
        pos += 8
    while pos < end and data[pos] != 0:
        pos += 1
    return pos


def count_zeros(data, pos, end):
    """How many bytes of ``data[pos:end]`` are zero."""
    found: cython.Py_ssize_t = 0
    while pos < end:
        found += data[pos] == 0
        pos += 1
    return found


def sum_words(data, pos, end):
    """The sum of the 32-bit words, little-endian, that ``data[pos:end]`` begins with."""
    count: cython.Py_ssize_t = (end - pos) >> 2
    i: cython.Py_ssize_t
    sum: cython.ulonglong = 0
    # No branches in the loop, so that compilers take several words at a time.
    for i in range(count):
        if cython.compiled:
            sum += wireloom_load32(cython.address(data[pos + 4 * i]), 0)
        else:
            sum += le32(data, pos + 4 * i, end)
    return sum


def is_ascii(data, pos, end):
    """Whether no byte of ``data[pos:end]`` has its top bit set."""
    seen: cython.ulonglong = 0
    while end - pos >= 8:
        seen |= le64(data, pos, end)
        pos += 8
    seen |= seen >> 32
    seen |= seen >> 16
    seen |= seen >> 8
    while pos < end:
        seen |= data[pos]
        pos += 1
    return not seen & 0x80
