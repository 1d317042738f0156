"""The key columns that every table starts with, and how columns get their memory.

Memory comes from the driver's allocator and is not cleared: whatever is handed out has been written
row by row. A column whose rows are nearly always alike is written only from the first row that
differs; if no row does, the driver uses shared zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wireloom.kernel import shim as cython

__all__ = ["KeyRows", "pack_bits"]

# Columns that are wanted.
K_OFFSET = cython.declare(cython.int, 1)
K_LENGTH = cython.declare(cython.int, 2)
K_TS_NS = cython.declare(cython.int, 4)
K_TS = cython.declare(cython.int, 8)
K_PATH = cython.declare(cython.int, 16)
K_STREAM = cython.declare(cython.int, 32)

_SIZES = {"B": 1, "b": 1, "i": 4, "q": 8, "Q": 8}

_T7 = cython.declare(cython.ulonglong, 0x00AA00AA00AA00AA)
_T14 = cython.declare(cython.ulonglong, 0x0000CCCC0000CCCC)
_T28 = cython.declare(cython.ulonglong, 0x00000000F0F0F0F0)


def new_column(
    buffers: dict[str, Any], allocate: Callable[[int], Any], name: str, code: str, rows: int
) -> memoryview:
    """A column of so many rows; `buffers` gets its memory. Without rows, a stand-in of two."""
    if rows <= 0:
        buffers.pop(name, None)
        return memoryview(bytearray(16)).cast(code)
    buffers[name] = allocate(_SIZES[code] * rows)
    return memoryview(buffers[name]).cast("B").cast(code)


@cython.final
@cython.cclass
class KeyRows:
    """Key columns of one table's batch."""

    def __init__(self, want: int) -> None:
        self.want = want
        self.buffers: dict[str, Any] = {}

    def reset(self, rows: int, allocate: Callable[[int], Any]) -> None:
        """New columns, for so many rows."""
        self.path_filled = self.stream_filled = 0
        want = self.want
        make, found = new_column, self.buffers
        self.offset = make(found, allocate, "frame_offset", "q", rows if want & K_OFFSET else 0)
        self.length = make(found, allocate, "frame_length", "i", rows if want & K_LENGTH else 0)
        self.ts_ns = make(found, allocate, "ts_ns", "q", rows if want & K_TS_NS else 0)
        self.ts = make(found, allocate, "ts", "q", rows if want & K_TS else 0)
        self.path = make(found, allocate, "path", "i", rows if want & K_PATH else 0)
        self.stream = make(found, allocate, "stream", "i", rows if want & K_STREAM else 0)

    def set_path(self, row, path):
        """Set the path of a row, which is not that of the frame's own message."""
        at: cython.Py_ssize_t = self.path_filled
        if self.want & K_PATH:
            while at < row:
                self.path[at] = 0
                at += 1
            self.path[row] = path
            self.path_filled = row + 1

    def fill(self, first, last, offset, length, ts_ns, stream):
        """Set the keys of the rows from `first` up to `last`, all of one frame."""
        row: cython.Py_ssize_t
        # Rounded down, also before 1970.
        ts: cython.longlong = ts_ns // 1000 if ts_ns >= 0 else -((999 - ts_ns) // 1000)
        if self.want & K_OFFSET:
            for row in range(first, last):
                self.offset[row] = offset
        if self.want & K_LENGTH:
            for row in range(first, last):
                self.length[row] = length
        if self.want & K_TS_NS:
            for row in range(first, last):
                self.ts_ns[row] = ts_ns
        if self.want & K_TS:
            for row in range(first, last):
                self.ts[row] = ts
        if stream and self.want & K_STREAM:
            for row in range(self.stream_filled, first):
                self.stream[row] = 0
            for row in range(first, last):
                self.stream[row] = stream
            self.stream_filled = last

    def back(self, count):
        """Forget the rows from `count` on."""
        if self.path_filled > count:
            self.path_filled = count

    def end(self, count):
        """Complete the columns that were started."""
        row: cython.Py_ssize_t
        if self.path_filled:
            for row in range(self.path_filled, count):
                self.path[row] = 0
            self.path_filled = count
        if self.stream_filled:
            for row in range(self.stream_filled, count):
                self.stream[row] = 0
            self.stream_filled = count


def pack_bits(
    masks: cython.const[cython.uchar][::1], count: cython.Py_ssize_t, out: cython.uchar[::1]
) -> None:
    """Turn one byte of eight flags per row into eight bitmaps, one after the other in `out`.

    Each bitmap has an eighth of `out`.
    """
    stride: cython.Py_ssize_t = out.shape[0] >> 3
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    x: cython.ulonglong
    with cython.nogil:
        for at in range(count >> 3):
            if cython.compiled:
                x = wireloom_load64(cython.address(masks[8 * at]), 0)
            else:
                x = int.from_bytes(masks[8 * at : 8 * at + 8], "little")
            x = turned(x)
            for i in range(8):
                out[i * stride + at] = x >> (8 * i) & 0xFF
        at = count >> 3
        if count & 7:
            x = 0
            for i in range(count & 7):
                x |= cython.cast(cython.ulonglong, masks[8 * at + i]) << (8 * i)
            x = turned(x)
            for i in range(8):
                out[i * stride + at] = x >> (8 * i) & 0xFF


def turned(x):
    """An eight by eight bit matrix, transposed."""
    t: cython.ulonglong = (x ^ x >> 7) & _T7
    x = x ^ t ^ t << 7
    t = (x ^ x >> 14) & _T14
    x = x ^ t ^ t << 14
    t = (x ^ x >> 28) & _T28
    return x ^ t ^ t << 28
