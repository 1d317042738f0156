"""The columns of a wide table while they are filled: one row per message, one column per field.

Every cell is one or two 64-bit words, whatever its type; `wireloom.columnar.wide` makes Arrow
columns from them. A field's value is taken from the row that `FieldRows` holds for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes
from wireloom.kernel.rows.fieldrows import (
    V_BIG,
    V_BINARY,
    V_BLANK,
    V_DATE,
    V_INT,
    V_REAL,
    V_TEXT,
    V_TIME,
    V_TS,
)
from wireloom.kernel.rows.keyrows import KeyRows, new_column
from wireloom.kernel.walk.decimals import Wide, as_double
from wireloom.kernel.walk.texts import (
    DATE_ASKED,
    DATE_FULL,
    DATE_NONE,
    DATE_NULL,
    TIME_NULL,
    Dates,
    time_of,
)

__all__ = ["WideRows"]

# What a column holds.
C_INT = cython.declare(cython.int, 0)
C_REAL = cython.declare(cython.int, 1)
C_DECIMAL = cython.declare(cython.int, 2)
C_TEXT = cython.declare(cython.int, 3)
C_BINARY = cython.declare(cython.int, 4)
C_DATE = cython.declare(cython.int, 5)
C_TIME = cython.declare(cython.int, 6)
C_TIMESTAMP = cython.declare(cython.int, 7)
C_BOOL = cython.declare(cython.int, 8)

# What became of a cell.
_NOTHING = cython.declare(cython.int, 0)
_VALUE = cython.declare(cython.int, 1)
_NO_VALUE = cython.declare(cython.int, 2)
_MISFIT = cython.declare(cython.int, 3)
_TEXT_ROOM = cython.declare(cython.int, 4)
_ASKED = cython.declare(cython.int, 5)
_TOO_MUCH = cython.declare(cython.int, 6)

_TWO_63 = cython.declare(cython.double, 9223372036854775808.0)
_EVERY_BIT = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class WideRows:
    """Rows of a wide table. Column `i` is for the field whose name has the number `i`."""

    def __init__(
        self,
        kinds: list[int],
        precisions: list[int],
        scales: list[int],
        key_want: int,
        rows: int,
        text: int,
        dates: Dates,
        allocate: Callable[[int], Any] = bytearray,
    ) -> None:
        """Columns of the given kinds; precision and scale matter for decimals only."""
        self.columns = len(kinds)
        self.keys = KeyRows(key_want)
        self.capacity = rows
        self.text_capacity = text
        self.dates = dates
        self.wide = Wide()
        self.allocate = allocate
        self.buffers: dict[str, Any] = {}
        ints = memoryview(bytearray(12 * max(1, len(kinds)))).cast("i")
        self.kinds, self.scales, self.bases = (
            ints[: len(kinds)],
            ints[len(kinds) : 2 * len(kinds)],
            ints[2 * len(kinds) :],
        )
        limits = memoryview(bytearray(16 * max(1, len(kinds)))).cast("Q")
        self.limits = limits
        words = 0
        for i, kind in enumerate(kinds):
            self.kinds[i] = kind
            self.scales[i] = scales[i]
            self.bases[i] = words
            words += 2 if kind in (C_DECIMAL, C_TEXT, C_BINARY) else 1
            limits[2 * i] = 10 ** precisions[i] & ((1 << 64) - 1)
            limits[2 * i + 1] = 10 ** precisions[i] >> 64
        self.row_words = words
        self.reset()

    def reset(self) -> None:
        """Start a new batch with new columns."""
        self.count = self.mark_count = 0
        self.text_used = self.mark_text = 0
        self._make(self.capacity, self.text_capacity)

    def let_go(self) -> None:
        """Leave the memory to the batch that was made from it; call `reset` before the next row."""
        self.count = 0
        self._make(0, 0)

    def _make(self, rows: int, text: int) -> None:
        make, found = new_column, self.buffers
        self.keys.reset(rows, self.allocate)
        self.misfits = make(found, self.allocate, "misfits", "i", rows)
        self.words = make(found, self.allocate, "words", "Q", max(1, self.row_words) * rows)
        self.flags = make(found, self.allocate, "flags", "B", max(1, self.columns) * rows)
        self.text = make(found, self.allocate, "text", "B", text)

    def grow_rows(self) -> None:
        """Make room for a frame with more messages than a batch has; the batch is empty."""
        self.capacity *= 2
        self.reset()

    def grow_text(self, size: int) -> None:
        """Make room for so many more bytes of text; the rows stay."""
        old = self.text
        self.text_capacity = max(2 * self.text_capacity, self.text_used + size)
        self.text = new_column(self.buffers, self.allocate, "text", "B", self.text_capacity)
        self.text[: self.text_used] = old[: self.text_used]

    def mark(self):
        """Remember the state before a frame."""
        self.mark_count = self.count
        self.mark_text = self.text_used

    def back(self):
        """Discard the rows added since `mark`."""
        self.count = self.mark_count
        self.text_used = self.mark_text
        self.keys.back(self.count)

    def open(self, path):
        """A row for a message that starts; -1 if there is no room."""
        row: cython.Py_ssize_t = self.count
        column: cython.Py_ssize_t
        if row >= self.capacity:
            return -1
        for column in range(self.columns):
            self.flags[column * self.capacity + row] = _NOTHING
        self.misfits[row] = 0
        if path:
            self.keys.set_path(row, path)
        self.count += 1
        return row

    def close(self, row):
        """Put zeros where the message had nothing."""
        column: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for column in range(self.columns):
            if self.flags[column * self.capacity + row] != _VALUE:
                self.flags[column * self.capacity + row] = _NOTHING
                at = self.place(row, column)
                self.words[at] = 0
                if self.is_double(column):
                    self.words[at + 1] = 0

    def is_double(self, column):
        """Whether the cells of a column have two words."""
        return C_DECIMAL <= self.kinds[column] <= C_BINARY

    def place(self, row, column):
        """Where the words of a cell are."""
        at: cython.Py_ssize_t = self.bases[column] * self.capacity
        return at + (2 * row if self.is_double(column) else row)

    def put(self, row, column, rows, data, pos):
        """Set the value of a field, unless it has one already: the first of a repeated name counts.

        `rows` holds the field's value, and `pos` is where its text starts, if it is a text. Returns
        what became of the cell; from `_TEXT_ROOM` on, the message must be read again.
        """
        flag: cython.Py_ssize_t = column * self.capacity + row
        result: cython.int
        at: cython.Py_ssize_t
        if self.flags[flag] != _NOTHING:
            return _NOTHING
        if rows.mask & V_BLANK:
            self.flags[flag] = _NO_VALUE
            return _NO_VALUE
        at = self.place(row, column)
        result = self.convert(at, self.kinds[column], column, rows, data, pos)
        if result == _MISFIT:
            self.misfits[row] += 1
            result = _NO_VALUE
        if result <= _NO_VALUE:
            self.flags[flag] = result
        return result

    def convert(self, at, kind, column, rows, data, pos):
        """Set the words of one cell."""
        mask: cython.int = rows.mask
        row: cython.Py_ssize_t = rows.count
        if kind == C_DECIMAL:
            return self.put_decimal(at, column, rows)
        if kind == C_REAL:
            if mask & V_REAL:
                self.words[at] = rows.real_bits
                return _VALUE
            if mask & V_INT:
                return self.put_double(at, rows.value_int[row])
            return self.put_unsigned(at, rows.real_bits) if mask & V_BIG else _MISFIT
        if kind == C_INT:
            if mask & V_INT:
                return self.put_word(at, rows.value_int[row])
            return self.put_whole(at, rows.real_bits) if mask & V_REAL else _MISFIT
        if kind == C_BOOL:
            if mask & V_INT and 0 <= rows.value_int[row] <= 1:
                return self.put_word(at, rows.value_int[row])
            return _MISFIT
        if kind == C_TEXT or kind == C_BINARY:
            return self.put_bytes(at, kind, rows)
        if kind == C_TIMESTAMP:
            return self.put_word(at, rows.value_ts[row] // 1000) if mask & V_TS else _MISFIT
        if kind == C_DATE:
            if mask & V_DATE:
                return self.put_word(at, rows.value_date[row])
            return self.put_date(at, data, pos, rows.text_stop) if rows.text_stop >= 0 else _MISFIT
        if mask & V_TIME:
            return self.put_word(at, rows.value_time[row])
        return self.put_time(at, data, pos, rows.text_stop) if rows.text_stop >= 0 else _MISFIT

    def put_word(self, at, value):
        """A signed number."""
        if cython.compiled:
            self.words[at] = value
        else:
            self.words[at] = value & _EVERY_BIT
        return _VALUE

    def put_double(self, at, value):
        """The double nearest to a signed number."""
        real: cython.double = cython.cast(cython.double, value)
        if cython.compiled:
            memcpy(cython.address(self.words[at]), cython.address(real), 8)
        else:
            self.words.cast("B").cast("d")[at] = value
        return _VALUE

    def put_unsigned(self, at, value):
        """The double nearest to an unsigned number."""
        real: cython.double = cython.cast(cython.double, value)
        if cython.compiled:
            memcpy(cython.address(self.words[at]), cython.address(real), 8)
        else:
            self.words.cast("B").cast("d")[at] = value
        return _VALUE

    def put_whole(self, at, bits):
        """The whole number that a real equals."""
        real: cython.double = as_double(bits)
        found: cython.longlong
        if not -_TWO_63 <= real < _TWO_63:
            return _MISFIT
        found = cython.cast(cython.longlong, real) if cython.compiled else int(real)
        return self.put_word(at, found) if found == real else _MISFIT

    def put_decimal(self, at, column, rows):
        """A decimal: from a real, by its hint or else its shortest text, or from an integer."""
        high: cython.ulonglong
        low: cython.ulonglong
        hint: cython.int = rows.real_hint
        is_negative: cython.bint = False
        if rows.mask & V_REAL:
            if (rows.real_bits >> 52 & 0x7FF) == 0x7FF:
                return _MISFIT
            if not (0 <= hint <= 8 or 16 <= hint <= 31):
                hint = 0
            if not self.wide.scaled(rows.real_bits, hint, rows.real_single):
                return _MISFIT
            is_negative = rows.real_bits >> 63 != 0
        elif rows.mask & (V_INT | V_BIG):
            self.wide.has_overflowed = False
            self.wide.places = 0
            self.wide.high = 0
            self.wide.low = rows.real_bits
            if rows.mask & V_INT:
                is_negative = rows.value_int[rows.count] < 0
                self.wide.low = magnitude_of(rows.value_int[rows.count])
        else:
            return _MISFIT
        if not self.wide.rescale(self.scales[column]):
            return _MISFIT
        high = self.wide.high
        low = self.wide.low
        if high > self.limits[2 * column + 1] or (
            high == self.limits[2 * column + 1] and low >= self.limits[2 * column]
        ):
            return _MISFIT
        if is_negative:
            low = (~low + 1) & _EVERY_BIT
            high = (~high + (1 if low == 0 else 0)) & _EVERY_BIT
        self.words[at] = low
        self.words[at + 1] = high
        return _VALUE

    def put_bytes(self, at, kind, rows):
        """The text or binary of the row that was just read, which is at the end of its column."""
        start: cython.Py_ssize_t = rows.text_start
        size: cython.Py_ssize_t = rows.text_used - start
        if not rows.mask & (V_TEXT if kind == C_TEXT else V_BINARY):
            return _MISFIT
        if kind == C_BINARY:
            start = rows.binary_start
            size = rows.binary_used - start
        if self.text_used + size > self.text_capacity:
            return _TEXT_ROOM
        self.words[at] = self.text_used
        self.words[at + 1] = size
        if size > 0:
            if cython.compiled:
                self.take(
                    cython.address(rows.text[0])
                    if kind == C_TEXT
                    else cython.address(rows.binary[0]),
                    start,
                    start + size,
                )
            else:
                self.take(rows.text if kind == C_TEXT else rows.binary, start, start + size)
        return _VALUE

    def take(self, source, start, stop):
        """Append bytes, for which there is room."""
        if cython.compiled:
            copy_bytes(cython.address(self.text[0]), self.text_used, source, start, stop, stop)
        else:
            copy_bytes(self.text, self.text_used, source, start, stop, stop)
        self.text_used += stop - start

    def put_date(self, at, data, pos, stop):
        """The date that a text states."""
        days: cython.int = self.dates.of(data, pos, stop)
        if days == DATE_NULL:
            return _NO_VALUE
        if days == DATE_NONE:
            return _MISFIT
        if days == DATE_ASKED:
            return _ASKED
        return _TOO_MUCH if days == DATE_FULL else self.put_word(at, days)

    def put_time(self, at, data, pos, stop):
        """The time that a text states."""
        nanos: cython.longlong = time_of(data, pos, stop)
        if nanos >= 0:
            return self.put_word(at, nanos)
        return _NO_VALUE if nanos == TIME_NULL else _MISFIT

    def add(self, path: int, misfits: int, cells: list[Any]) -> None:
        """A row from the object path: a number or bytes for each column, None for null.

        There is room for it, but perhaps not for its text.
        """
        row: cython.Py_ssize_t = self.open(path)
        column: cython.Py_ssize_t
        at: cython.Py_ssize_t
        self.misfits[row] = misfits
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            at = self.place(row, column)
            self.flags[column * self.capacity + row] = _VALUE
            if isinstance(cell, bytes):
                if self.text_used + len(cell) > self.text_capacity:
                    self.grow_text(len(cell))
                self.words[at] = self.text_used
                self.words[at + 1] = len(cell)
                for byte in cell:
                    self.text[self.text_used] = byte
                    self.text_used += 1
            else:
                self.words[at] = cell & ((1 << 64) - 1)
                if self.is_double(column):
                    self.words[at + 1] = cell >> 64 & ((1 << 64) - 1)
        self.close(row)

    def finish(self) -> None:
        """Complete the columns that were started."""
        self.keys.end(self.count)


def magnitude_of(value):
    """The absolute value of a signed number."""
    if cython.compiled:
        # Also right for the smallest number, which has no positive counterpart.
        return (
            -cython.cast(cython.ulonglong, value)
            if value < 0
            else cython.cast(cython.ulonglong, value)
        )
    return abs(value)
