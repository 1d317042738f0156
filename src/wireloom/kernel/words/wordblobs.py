"""Byte strings that the word kernel found → one buffer with offsets, in hex where asked."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes, u8

__all__ = ["measure_blobs", "take_blobs", "times_at", "to_micros"]


def measure_blobs(
    sizes: cython.const[cython.int][::1], outcome: cython.const[cython.uchar][::1]
) -> int:
    """Total bytes, or items, of a column, without those of refused frames.

    Args:
        sizes: one more than the bytes, or items, of each row; 0 for none.
        outcome: 1 for each frame that is refused.
    """
    total: cython.longlong = 0
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(len(sizes)):
            if sizes[index] > 0 and not outcome[index]:
                total += sizes[index] - 1
    return total


def take_blobs(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.int][::1],
    outcome: cython.const[cython.uchar][::1],
    unit: cython.int,
    is_hex: cython.bint,
    offsets: cython.int[::1],
    out: cython.uchar[::1],
    valid: cython.uchar[::1],
) -> int:
    """Copy a column, in hex if asked; return how many rows have a value.

    Args:
        data: where the frames are.
        starts: where each row's bytes start in `data`.
        sizes: one more than the bytes, or items, of each row; 0 for none.
        outcome: 1 for each frame that is refused.
        unit: bytes of an item; 1 for a column without items.
        is_hex: write two digits for each byte.
        offsets: gets where each row's bytes, or items, start, and where the last ones end.
        out: gets the bytes.
        valid: gets a bit for each row that has a value.
    """
    used: cython.Py_ssize_t = 0
    items: cython.int = 0
    size: cython.Py_ssize_t
    there: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(sizes)
    start = cython.address(data[0]) if cython.compiled else data
    to = cython.address(out[0]) if cython.compiled else out
    with cython.nogil:
        for index in range(count):
            offsets[index] = items if unit > 1 else cython.cast(cython.int, used)
            if sizes[index] > 0 and not outcome[index]:
                valid[index >> 3] |= 1 << (index & 7)
                there += 1
                items += sizes[index] - 1
                at = starts[index]
                size = unit * (sizes[index] - 1)
                if is_hex:
                    put_hex(to, used, start, at, at + size)
                    used += 2 * size
                else:
                    copy_bytes(to, used, start, at, at + size, at + size)
                    used += size
        offsets[count] = items if unit > 1 else cython.cast(cython.int, used)
    return there


def to_micros(nanos: cython.const[cython.longlong][::1], out: cython.longlong[::1]) -> None:
    """Nanoseconds to microseconds, rounded down, also before 1970."""
    index: cython.Py_ssize_t
    ns: cython.longlong
    for index in range(len(nanos)):
        ns = nanos[index]
        out[index] = ns // 1000 if ns >= 0 else -((999 - ns) // 1000)


def times_at(
    marks: cython.const[cython.longlong][::1],
    times: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    base: cython.longlong,
    out: cython.longlong[::1],
) -> int:
    """The time at each offset: that of the last mark at or before it. Returns the last mark used.

    Args:
        marks: stream offsets, ascending.
        times: the time from each mark on.
        offsets: ascending, counted from `base`; none is before the first mark.
        base: stream offset that `offsets` count from.
        out: gets a time for each offset.
    """
    mark: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = len(marks) - 1
    index: cython.Py_ssize_t
    if last < 0 or len(times) <= last or len(out) < len(offsets):
        return -1
    with cython.nogil:
        for index in range(len(offsets)):
            while mark < last and marks[mark + 1] <= base + offsets[index]:
                mark += 1
            out[index] = times[mark]
    return mark


def put_hex(out, at, data, pos, end):
    """Write ``data[pos:end]`` in hex to ``out[at:]``; the caller has made sure of the room."""
    byte: cython.uint
    digit: cython.uint
    while pos < end:
        byte = u8(data, pos, end)
        digit = byte >> 4
        out[at] = digit + (48 if digit < 10 else 87)
        digit = byte & 15
        out[at + 1] = digit + (48 if digit < 10 else 87)
        at += 2
        pos += 1
