"""The cells of wide rows → the buffers of Arrow columns.

A column's cells are the words from `at` on, one or two per row; see `WideRows`.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes

__all__ = ["pack_flags", "pack_words", "wide_ends", "wide_narrow", "wide_text"]


def pack_flags(
    flags: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """A bitmap of the flags from `at` on: ones where a flag is 1."""
    row: cython.Py_ssize_t
    byte: cython.uint
    i: cython.Py_ssize_t
    with cython.nogil:
        for row in range((count + 7) >> 3):
            byte = 0
            for i in range(8):
                if 8 * row + i < count and flags[at + 8 * row + i] == 1:
                    byte |= 1 << i
            out[row] = byte


def pack_words(
    words: cython.const[cython.ulonglong][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """A bitmap of the cells from `at` on: ones where a cell is not zero."""
    row: cython.Py_ssize_t
    byte: cython.uint
    i: cython.Py_ssize_t
    with cython.nogil:
        for row in range((count + 7) >> 3):
            byte = 0
            for i in range(8):
                if 8 * row + i < count and words[at + 8 * row + i] != 0:
                    byte |= 1 << i
            out[row] = byte


def wide_narrow(
    words: cython.const[cython.ulonglong][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.int[::1],
) -> None:
    """Cells that hold small signed numbers, in 32 bits each."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(count):
            if cython.compiled:
                out[row] = cython.cast(cython.int, words[at + row])
            else:
                out[row] = words[at + row] - (words[at + row] >> 63 << 64)


def wide_ends(
    words: cython.const[cython.ulonglong][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.int[::1],
) -> int:
    """Where the texts of cells will end when joined; returns the last end."""
    row: cython.Py_ssize_t
    total: cython.ulonglong = 0
    with cython.nogil:
        out[0] = 0
        for row in range(count):
            total += words[at + 2 * row + 1]
            out[row + 1] = cython.cast(cython.int, total)
    return total


def wide_text(
    words: cython.const[cython.ulonglong][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    text: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> None:
    """Copy the texts of cells, one after the other."""
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    size: cython.Py_ssize_t
    used: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(count):
            start = words[at + 2 * row]
            size = words[at + 2 * row + 1]
            if size > 0:
                if cython.compiled:
                    copy_bytes(
                        cython.address(out[0]),
                        used,
                        cython.address(text[0]),
                        start,
                        start + size,
                        start + size,
                    )
                else:
                    copy_bytes(out, used, text, start, start + size, start + size)
                used += size
