"""The rows of nclass bodies while they are filled: one row per field or element.

Every value of a row is written, so that memory need not be cleared. Rows are added for whole
bodies: `mark` before one, `back` when it turns out not to fit or not to be readable. Texts that
look like messages of other formats are noted as well, with their positions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes, is_ascii
from wireloom.kernel.walk.decimals import is_utf8
from wireloom.kernel.walk.messages import recognised

__all__ = ["BodyRows", "mask_bits", "take32", "take64"]

# What a row has: bits of its mask.
HAS_NAME = cython.declare(cython.int, 1)
HAS_INT = cython.declare(cython.int, 2)
HAS_REAL = cython.declare(cython.int, 4)
HAS_BIG = cython.declare(cython.int, 8)
"""An integer over 63 bits, whose bits are in `value_int`."""
HAS_TEXT = cython.declare(cython.int, 16)
HAS_BINARY = cython.declare(cython.int, 32)

_MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_MIX_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_NO_PATH = cython.declare(cython.int, -2)
_LEAST_MESSAGE = cython.declare(cython.int, 8)
"""Bytes of the shortest message."""


@cython.final
@cython.cclass
class BodyRows:
    """Columns of a batch, and the paths that its rows refer to."""

    def __init__(
        self, rows: int, text: int, allocate: Callable[[int], Any] = bytearray, paths: int = 4096
    ) -> None:
        """Room for so many rows, bytes of text and of binary, and paths (a power of two).

        `allocate` gives memory, which need not be cleared.
        """
        self.capacity = rows
        self.text_capacity = text
        self.allocate = allocate
        self.key = secrets.randbits(64)
        self.buffers: dict[str, Any] = {}
        self.forget_paths(paths)
        self.reset()

    def reset(self) -> None:
        """Start a new batch with new columns; paths keep their numbers."""
        rows = self.capacity
        self.count = self.text_used = self.binary_used = 0
        self.seen = self.note_count = 0
        self.mark()
        self.frame = self._column("frame", "i", rows)
        self.path = self._column("path", "i", rows)
        self.position = self._column("position", "i", rows)
        self.name = self._column("name", "i", rows)
        self.type = self._column("type", "b", rows)
        self.size = self._column("size", "i", rows)
        self.mask = self._column("mask", "B", rows)
        self.value_int = self._column("value_int", "q", rows)
        self.value_real = self._column("value_real", "Q", rows)
        self.text_ends = self._column("text_ends", "i", rows + 1)
        self.text = self._column("text", "B", self.text_capacity)
        self.binary_ends = self._column("binary_ends", "i", rows + 1)
        self.binary = self._column("binary", "B", self.text_capacity)
        self.text_ends[0] = 0
        self.binary_ends[0] = 0
        self.note_frame = self._column("note_frame", "i", rows)
        self.note_path = self._column("note_path", "i", rows)
        self.note_name = self._column("note_name", "i", rows)
        self.note_at = self._column("note_at", "q", rows)
        self.note_size = self._column("note_size", "i", rows)

    def _column(self, name: str, code: str, rows: int) -> memoryview:
        size = {"B": 1, "b": 1, "i": 4, "q": 8, "Q": 8}[code]
        self.buffers[name] = self.allocate(size * max(rows, 1))
        return memoryview(self.buffers[name]).cast("B").cast(code)

    def grow(self) -> None:
        """Make room for a body that did not fit an empty batch."""
        self.capacity *= 2
        self.text_capacity *= 2
        self.forget_paths(2 * len(self.path_slots))
        self.reset()

    def mark(self):
        """Remember the state before a body."""
        self.mark_count = self.count
        self.mark_text = self.text_used
        self.mark_binary = self.binary_used
        self.mark_notes = self.note_count

    def back(self):
        """Discard the rows added since `mark`."""
        self.count = self.mark_count
        self.text_used = self.mark_text
        self.binary_used = self.mark_binary
        self.note_count = self.mark_notes

    # --- payloads

    def note(self, frame, path, name, data, pos, end):
        """Note the text ``data[pos:end]`` if it may be a message; False when there is no room.

        It lies in the object `path`, under a name, which is -1 for the whole body.
        """
        row: cython.Py_ssize_t = self.note_count
        if end - pos < _LEAST_MESSAGE or recognised(data, pos, end) < 0:
            return True
        if row >= self.capacity:
            return False
        self.note_frame[row] = frame
        self.note_path[row] = path
        self.note_name[row] = name
        self.note_at[row] = pos
        self.note_size[row] = cython.cast(cython.int, end - pos)
        self.note_count = row + 1
        return True

    def drop_note(self, frame: cython.int) -> None:
        """Forget the last note, if it is of that frame."""
        if self.note_count and self.note_frame[self.note_count - 1] == frame:
            self.note_count -= 1

    # --- paths

    def forget_paths(self, slots: int) -> None:
        """Start with no paths but that of the body itself, 0."""
        self.path_count = 1
        self.path_slots = memoryview(bytearray(4 * slots)).cast("i")
        self.path_parents = memoryview(bytearray(4 * slots)).cast("i")
        self.path_steps = memoryview(bytearray(4 * slots)).cast("i")
        self.path_steps[0] = -1

    def step(self, parent, step):
        """The number of the path that extends another by a step; `_NO_PATH` when there is no room.

        A step is twice a name's number, or twice an element's and one more.
        """
        mask: cython.Py_ssize_t = len(self.path_slots) - 1
        at: cython.Py_ssize_t = mixed(self.key, parent, step) & mask
        found: cython.int = self.path_slots[at]
        while found:
            if self.path_parents[found] == parent and self.path_steps[found] == step:
                return found
            at = (at + 1) & mask
            found = self.path_slots[at]
        found = self.path_count
        if 2 * (found + 1) > mask:
            return _NO_PATH
        self.path_count += 1
        self.path_slots[at] = found
        self.path_parents[found] = parent
        self.path_steps[found] = step
        return found

    # --- rows

    def has_room(self, size):
        """Whether one more row with `size` bytes of text or binary fits."""
        return (
            self.count < self.capacity
            and self.text_used + size <= self.text_capacity
            and self.binary_used + size <= self.text_capacity
        )

    def begin(self, frame, path, position, name, type, size):
        """Start a row, for which there is room; its name is -1 if it has none."""
        row: cython.Py_ssize_t = self.count
        self.frame[row] = frame
        self.path[row] = path
        self.position[row] = position
        self.name[row] = name if name >= 0 else 0
        self.type[row] = type
        self.size[row] = size
        self.mask[row] = HAS_NAME if name >= 0 else 0
        self.value_int[row] = 0
        self.value_real[row] = 0

    def end(self):
        """Finish the row."""
        self.seen |= self.mask[self.count]
        self.count += 1
        self.text_ends[self.count] = cython.cast(cython.int, self.text_used)
        self.binary_ends[self.count] = cython.cast(cython.int, self.binary_used)

    def put_int(self, value):
        """A signed number."""
        self.value_int[self.count] = value
        self.mask[self.count] |= HAS_INT

    def put_big(self, value):
        """An unsigned number over 63 bits."""
        if cython.compiled:
            self.value_int[self.count] = cython.cast(cython.longlong, value)
        else:
            self.value_int[self.count] = value - (1 << 64)
        self.mask[self.count] |= HAS_BIG

    def put_real(self, bits):
        """A real, by its bits as a double."""
        self.value_real[self.count] = bits
        self.mask[self.count] |= HAS_REAL

    def put_text(self, data, pos, end):
        """Text; bytes that are not UTF-8 go to the binary column."""
        if not is_ascii(data, pos, end) and not is_utf8(data, pos, end):
            if cython.compiled:
                copy_bytes(cython.address(self.binary[0]), self.binary_used, data, pos, end, end)
            else:
                copy_bytes(self.binary, self.binary_used, data, pos, end, end)
            self.binary_used += end - pos
            self.mask[self.count] |= HAS_BINARY
            return
        if cython.compiled:
            copy_bytes(cython.address(self.text[0]), self.text_used, data, pos, end, end)
        else:
            copy_bytes(self.text, self.text_used, data, pos, end, end)
        self.text_used += end - pos
        self.mask[self.count] |= HAS_TEXT


def mixed(key, high, low):
    """A digest of two numbers, unpredictable without the key."""
    value: cython.ulonglong = high
    value = (value << 32 ^ cython.cast(cython.ulonglong, low) ^ key) & _MIX_MASK
    value = value * _MIX & _MIX_MASK
    value = (value ^ value >> 32) * _MIX & _MIX_MASK
    return value >> 32


def mask_bits(
    masks: cython.const[cython.uchar][::1], bits: cython.uint, out: cython.uchar[::1]
) -> int:
    """Set a bit for each row whose mask has one of these bits; return how many there are."""
    index: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(len(masks)):
            if masks[index] & bits:
                out[index >> 3] |= 1 << (index & 7)
                found += 1
    return found


def take32(
    places: cython.const[cython.int][::1],
    values: cython.const[cython.int][::1],
    out: cython.int[::1],
) -> None:
    """The value at each index."""
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(len(places)):
            out[index] = values[places[index]]


def take64(
    places: cython.const[cython.int][::1],
    values: cython.const[cython.longlong][::1],
    add: cython.longlong,
    out: cython.longlong[::1],
) -> None:
    """The value at each index, plus a constant."""
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(len(places)):
            out[index] = values[places[index]] + add
