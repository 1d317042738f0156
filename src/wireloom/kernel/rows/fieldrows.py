"""The columns of the `fields` table while they are filled: one row per field, null unless set.

Rows are added for whole messages: `mark` before one, `back` when it turns out not to fit or not to
be readable. What is set in a row is noted in `mask`; at the end the masks become the bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import copy_bytes, copy_short, find_zero, is_ascii, u8
from wireloom.kernel.rows.keyrows import KeyRows, new_column
from wireloom.kernel.walk.decimals import HINT_BLANK, Wide, is_utf8

__all__ = ["FieldRows"]

# What a row has: bits of its mask, and of `want` and `dense`.
V_NAME = cython.declare(cython.int, 1)
V_INT = cython.declare(cython.int, 2)
V_REAL = cython.declare(cython.int, 4)
V_DECIMAL = cython.declare(cython.int, 8)
V_TEXT = cython.declare(cython.int, 16)
V_HINT = cython.declare(cython.int, 32)
V_DATE = cython.declare(cython.int, 64)
V_TIME = cython.declare(cython.int, 128)
V_BINARY = cython.declare(cython.int, 256)
V_BLANK = cython.declare(cython.int, 512)
V_TS = cython.declare(cython.int, 1024)
V_FID = cython.declare(cython.int, 2048)
V_PARTIAL = cython.declare(cython.int, 4096)
V_BIG = cython.declare(cython.int, 8192)
"""An integer over 63 bits; a bit of the mask only."""
# Columns without nulls: bits of `want` only.
V_POSITION = cython.declare(cython.int, 65536)
V_TYPE = cython.declare(cython.int, 131072)
V_SIZE = cython.declare(cython.int, 262144)

_DECIMAL_HIGH = cython.declare(cython.ulonglong, 0x4B3B4CA85A86C47A)
"""Upper half of 10**38: a decimal128 holds less."""
_DECIMAL_LOW = cython.declare(cython.ulonglong, 0x098A224000000000)
_SIGN_BIT = cython.declare(cython.ulonglong, 0x8000000000000000)
_UNSIGNED = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_COLUMN_SCALE = cython.declare(cython.int, 15)


@cython.final
@cython.cclass
class FieldRows:
    """Rows of the `fields` table; or, with `keeps` false, one row that is reused."""

    def __init__(
        self,
        want: int,
        dense: int,
        key_want: int,
        rows: int,
        text: int,
        allocate: Callable[[int], Any] = bytearray,
        keeps: bool = True,
    ) -> None:
        """Room for `rows` rows and `text` bytes of text, and as many of binary.

        Args:
            want: the columns to build, as bits.
            dense: those that most rows have. The others are filled once a row has a value.
            key_want: the key columns to build.
            rows: how many rows.
            text: how many bytes.
            allocate: gives memory, not cleared.
            keeps: whether rows are kept.
        """
        self.want = want
        self.dense = dense & want
        self.seen = dense
        self.decimal_low = self.decimal_high = 0
        self.keys = KeyRows(key_want)
        self.capacity = rows
        self.text_capacity = text
        self.binary_capacity = text
        self.allocate = allocate
        self.keeps = keeps
        self.wide = Wide()
        self.buffers: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Start a new batch with new columns."""
        self.count = self.text_used = self.binary_used = 0
        # What most rows of the last batch had, most rows of the next will have.
        self.dense &= self.seen | ~(V_DECIMAL | V_HINT)
        self.dense |= self.seen & self.want & (V_DECIMAL | V_HINT)
        most: cython.int = V_INT | V_REAL | V_DECIMAL | V_HINT
        every: cython.int = V_POSITION | V_TYPE | V_SIZE | V_NAME | V_TEXT
        hinted: cython.int = V_DECIMAL | V_HINT
        self.is_full = self.dense & most == most and self.want & every == every
        every |= V_INT | V_REAL
        self.is_whole = self.keeps and self.want & every == every
        self.is_whole &= self.dense & hinted == hinted or self.dense & hinted == 0
        self.text_start = self.binary_start = 0
        self.text_stop = -1
        self.seen = self.mask = 0
        self.date_filled = self.time_filled = self.ts_filled = self.binary_filled = 0
        self.fid_filled = self.partial_filled = self.decimal_filled = self.hint_filled = 0
        self.real_bits = 0
        self.real_hint = -1
        self.real_single = False
        self.mark()
        self._make(self.capacity, self.text_capacity, self.binary_capacity)
        self.text_ends[0] = 0
        self.binary_ends[0] = 0

    def let_go(self) -> None:
        """Leave the memory to the batch that was made from it; call `reset` before the next row."""
        self.count = 0
        self._make(0, 0, 0)

    def _make(self, rows: int, text: int, binary: int) -> None:
        self.keys.reset(rows if self.keeps else 0, self.allocate)
        self.low = self._column("low", "B", rows, 1)
        self.high = self._column("high", "B", rows, 1)
        self.name = self._column("name", "i", rows, self.want & V_NAME)
        self.position = self._column("position", "i", rows, self.want & V_POSITION)
        self.type = self._column("type", "b", rows, self.want & V_TYPE)
        self.size = self._column("size", "i", rows, self.want & V_SIZE)
        self.value_int = self._column("value_int", "q", rows, self.want & V_INT)
        self.value_real = self._column("value_real", "Q", rows, self.want & V_REAL)
        self.value_decimal = self._column("value_decimal", "Q", 2 * rows, self.want & V_DECIMAL)
        self.hint = self._column("hint", "q", rows, self.want & V_HINT)
        self.value_date = self._column("value_date", "i", rows, self.want & V_DATE)
        self.value_time = self._column("value_time", "q", rows, self.want & V_TIME)
        self.value_ts = self._column("value_ts_ns", "q", rows, self.want & V_TS)
        self.fid = self._column("fid", "i", rows, self.want & V_FID)
        self.partial = self._column("partial_offset", "q", rows, self.want & V_PARTIAL)
        self.text_ends = self._column("text_ends", "i", rows + 1, self.want & V_TEXT)
        self.text = self._column("text", "B", text, self.want & V_TEXT)
        self.binary_ends = self._column("binary_ends", "i", rows + 1, self.want & V_BINARY)
        self.binary = self._column("binary", "B", binary, self.want & V_BINARY)

    def _column(self, name: str, code: str, rows: int, is_wanted: int) -> memoryview:
        return new_column(self.buffers, self.allocate, name, code, rows if is_wanted else 0)

    def grow_rows(self) -> None:
        """Make room for a message with more fields than a batch has; the batch is empty."""
        self.capacity *= 2
        self.reset()

    def grow_text(self, size: int) -> None:
        """Make room for so many more bytes of text and of binary; the rows stay."""
        if self.want & V_TEXT:
            old = self.text
            self.text_capacity = max(2 * self.text_capacity, self.text_used + size)
            self.text = self._column("text", "B", self.text_capacity, 1)
            self.text[: self.text_used] = old[: self.text_used]
        if self.want & V_BINARY:
            old = self.binary
            self.binary_capacity = max(2 * self.binary_capacity, self.binary_used + size)
            self.binary = self._column("binary", "B", self.binary_capacity, 1)
            self.binary[: self.binary_used] = old[: self.binary_used]

    def mark(self):
        """Remember the state before a message."""
        self.mark_count = self.count
        self.mark_text = self.text_used
        self.mark_binary = self.binary_used

    def back(self):
        """Discard the rows added since `mark`."""
        count: cython.Py_ssize_t = self.mark_count
        self.count = count
        self.text_used = self.mark_text
        self.binary_used = self.mark_binary
        self.date_filled = min(self.date_filled, count)
        self.time_filled = min(self.time_filled, count)
        self.ts_filled = min(self.ts_filled, count)
        self.fid_filled = min(self.fid_filled, count)
        self.partial_filled = min(self.partial_filled, count)
        self.decimal_filled = min(self.decimal_filled, count)
        self.hint_filled = min(self.hint_filled, count)
        self.binary_filled = min(self.binary_filled, count)
        self.keys.back(count)

    def reserve(self, size):
        """Whether there is room for all text and binary of a message of so many bytes.

        An address of four bytes, seven with its field, becomes up to fifteen characters.
        """
        if self.want & V_TEXT and self.text_used + 3 * size + 64 > self.text_capacity:
            return False
        return not self.want & V_BINARY or self.binary_used + size <= self.binary_capacity

    def begin(self, position, code, size, name):
        """Start a row, for which there is room; its name is -1 if it has none."""
        row: cython.Py_ssize_t = self.count
        self.mask = 0
        self.text_start = self.text_used
        self.binary_start = self.binary_used
        self.text_stop = -1
        if self.want & V_POSITION:
            self.position[row] = position
        if self.want & V_TYPE:
            self.type[row] = code
        if self.want & V_SIZE:
            self.size[row] = size
        if name >= 0:
            self.mask = V_NAME
        if self.want & V_NAME:
            self.name[row] = name if name >= 0 else 0
        if self.dense & V_INT:
            self.value_int[row] = 0
        if self.dense & V_REAL:
            self.value_real[row] = 0
        if self.dense & V_DECIMAL:
            self.value_decimal[2 * row] = 0
            self.value_decimal[2 * row + 1] = 0
        if self.dense & V_HINT:
            self.hint[row] = 0

    def end(self):
        """Finish the row."""
        row: cython.Py_ssize_t = self.count
        mask: cython.int = self.mask & self.want
        if not self.keeps:
            self.text_used = 0
            self.binary_used = 0
            return
        self.seen |= mask
        self.low[row] = mask & 0xFF
        self.high[row] = mask >> 8
        row += 1
        self.count = row
        if self.want & V_TEXT:
            self.text_ends[row] = cython.cast(cython.int, self.text_used)

    def put_full_values(self, row, number, bits, low, high, hint):
        """See `put_values`; for rows in which `is_full`."""
        self.value_int[row] = number
        self.value_real[row] = bits
        self.value_decimal[2 * row] = low
        self.value_decimal[2 * row + 1] = high
        self.hint[row] = hint

    def put_values(self, row, mask, number, bits, low, high, hint):
        """Write all columns that most rows have at once; zeros where there is no value.

        A decimal is in `decimal_low` and `decimal_high` too.
        """
        if self.is_full:
            self.put_full_values(row, number, bits, low, high, hint)
            return
        if self.want & V_INT:
            self.value_int[row] = number
        if self.want & V_REAL:
            self.value_real[row] = bits
        self.count = row
        if self.dense & V_DECIMAL:
            self.value_decimal[2 * row] = low
            self.value_decimal[2 * row + 1] = high
        elif mask & self.want & V_DECIMAL:
            self.put_decimal()
        if self.dense & V_HINT:
            self.hint[row] = hint
        elif mask & V_HINT:
            self.put_hint(hint)

    def put_facts(self, row, position, code, size, name, mask):
        """Write what every row has at once; text and binary are there already."""
        mask &= self.want
        self.seen |= mask
        self.low[row] = mask & 0xFF
        self.high[row] = mask >> 8
        if self.is_full:
            self.position[row] = position
            self.type[row] = code
            self.size[row] = size
            self.name[row] = name if name >= 0 else 0
            self.text_ends[row + 1] = cython.cast(cython.int, self.text_used)
            return
        if self.want & V_POSITION:
            self.position[row] = position
        if self.want & V_TYPE:
            self.type[row] = code
        if self.want & V_SIZE:
            self.size[row] = size
        if self.want & V_NAME:
            self.name[row] = name if name >= 0 else 0
        if self.want & V_TEXT:
            self.text_ends[row + 1] = cython.cast(cython.int, self.text_used)

    def put_type(self, code):
        """Change the type that the row was started with."""
        if self.want & V_TYPE:
            self.type[self.count] = code

    def put_int(self, value):
        """A signed number."""
        self.mask |= V_INT
        if self.want & V_INT:
            self.value_int[self.count] = value

    def put_uint(self, value):
        """An unsigned number; one that does not fit a signed one becomes a decimal."""
        if value >> 63 == 0:
            self.put_int(cython.cast(cython.longlong, value))
            return
        self.wide.places = 0
        self.wide.has_overflowed = False
        self.wide.high = 0
        self.wide.low = value
        self.real_bits = value
        self.mask |= V_BIG
        if self.want & V_DECIMAL and self.settle(False):
            self.put_decimal()

    def settle(self, is_negative):
        """Turn the number in `wide` into `decimal_low` and `decimal_high`; False if too large."""
        high: cython.ulonglong
        low: cython.ulonglong
        if not self.wide.rescale(_COLUMN_SCALE):
            return False
        high = self.wide.high
        low = self.wide.low
        if high > _DECIMAL_HIGH or (high == _DECIMAL_HIGH and low >= _DECIMAL_LOW):
            return False
        if is_negative:
            low = (~low + 1) & _UNSIGNED
            high = (~high + (1 if low == 0 else 0)) & _UNSIGNED
        self.decimal_low = low
        self.decimal_high = high
        return True

    def decimal(self, bits, hint, is_single):
        """The decimal that a real with a decimal hint stands for; False if it has none."""
        return (
            (bits >> 52 & 0x7FF) != 0x7FF
            and self.wide.scaled(bits, hint, is_single)
            and self.settle(bits & _SIGN_BIT != 0)
        )

    def put_decimal(self):
        """The decimal that `settle` made."""
        at: cython.Py_ssize_t = self.decimal_filled
        if not self.dense & V_DECIMAL:
            while at < self.count:
                self.value_decimal[2 * at] = 0
                self.value_decimal[2 * at + 1] = 0
                at += 1
            self.decimal_filled = self.count + 1
        self.value_decimal[2 * self.count] = self.decimal_low
        self.value_decimal[2 * self.count + 1] = self.decimal_high
        self.mask |= V_DECIMAL

    def put_real(self, bits, hint, is_single):
        """A real by its bits as a double; a decimal hint (-1: none) gives it a decimal too."""
        self.real_bits = bits
        self.real_hint = hint
        self.real_single = is_single
        if hint == HINT_BLANK:
            self.mask |= V_BLANK
            return
        self.mask |= V_REAL
        if self.want & V_REAL:
            self.value_real[self.count] = bits
        if (
            (16 <= hint <= 31 or 0 <= hint <= 8)
            and self.want & V_DECIMAL
            and self.decimal(bits, hint, is_single)
        ):
            self.put_decimal()

    def put_hint(self, value):
        """The hint's number."""
        at: cython.Py_ssize_t = self.hint_filled
        self.mask |= V_HINT
        if self.want & V_HINT:
            if not self.dense & V_HINT:
                while at < self.count:
                    self.hint[at] = 0
                    at += 1
                self.hint_filled = self.count + 1
            self.hint[self.count] = value

    def put_date(self, days):
        """A date, in days since 1970."""
        at: cython.Py_ssize_t = self.date_filled
        self.mask |= V_DATE
        if self.want & V_DATE:
            while at < self.count:
                self.value_date[at] = 0
                at += 1
            self.value_date[self.count] = days
            self.date_filled = self.count + 1

    def put_time(self, nanos):
        """A time, in nanoseconds of the day."""
        at: cython.Py_ssize_t = self.time_filled
        self.mask |= V_TIME
        if self.want & V_TIME:
            while at < self.count:
                self.value_time[at] = 0
                at += 1
            self.value_time[self.count] = nanos
            self.time_filled = self.count + 1

    def put_ts(self, nanos):
        """A date-time, in nanoseconds since 1970."""
        at: cython.Py_ssize_t = self.ts_filled
        self.mask |= V_TS
        if self.want & V_TS:
            while at < self.count:
                self.value_ts[at] = 0
                at += 1
            self.value_ts[self.count] = nanos
            self.ts_filled = self.count + 1

    def put_fid(self, fid):
        """The field's id."""
        at: cython.Py_ssize_t = self.fid_filled
        self.mask |= V_FID
        if self.want & V_FID:
            while at < self.count:
                self.fid[at] = 0
                at += 1
            self.fid[self.count] = fid
            self.fid_filled = self.count + 1

    def put_partial(self, offset):
        """Where a partial value belongs."""
        at: cython.Py_ssize_t = self.partial_filled
        self.mask |= V_PARTIAL
        if self.want & V_PARTIAL:
            while at < self.count:
                self.partial[at] = 0
                at += 1
            self.partial[self.count] = offset
            self.partial_filled = self.count + 1

    def put_string(self, data, pos, stop, end):
        """A string with its NUL, in a message that ends at `end`; returns the end of its text."""
        size: cython.Py_ssize_t = stop - pos
        if not self.want & (V_TEXT | V_BINARY):
            self.text_stop = find_zero(data, pos, stop)
            return self.text_stop
        # As writers encode it: plain text, and one NUL as the last byte.
        if self.want & V_TEXT and 0 < size <= 64 and u8(data, stop - 1, end) == 0:
            if cython.compiled:
                is_plain = copy_short(
                    cython.address(self.text[0]), self.text_used, data, pos, stop - 1, end
                )
            else:
                is_plain = copy_short(self.text, self.text_used, data, pos, stop - 1, end)
            if is_plain:
                self.text_used += size - 1
                self.mask |= V_TEXT
                self.text_stop = stop - 1
                return stop - 1
        stop = find_zero(data, pos, stop)
        self.put_text(data, pos, stop)
        self.text_stop = stop
        return stop

    def put_text(self, data, pos, end):
        """Text; bytes that are not UTF-8 go to the binary column."""
        if not is_ascii(data, pos, end) and not is_utf8(data, pos, end):
            self.put_binary(data, pos, end)
            return
        self.mask |= V_TEXT
        if self.want & V_TEXT:
            if cython.compiled:
                copy_bytes(cython.address(self.text[0]), self.text_used, data, pos, end, end)
            else:
                copy_bytes(self.text, self.text_used, data, pos, end, end)
            self.text_used += end - pos

    def put_binary(self, data, pos, end):
        """Bytes as they are."""
        at: cython.Py_ssize_t = self.binary_filled
        self.mask |= V_BINARY
        if self.want & V_BINARY:
            while at < self.count:
                at += 1
                self.binary_ends[at] = cython.cast(cython.int, self.binary_used)
            if cython.compiled:
                copy_bytes(cython.address(self.binary[0]), self.binary_used, data, pos, end, end)
            else:
                copy_bytes(self.binary, self.binary_used, data, pos, end, end)
            self.binary_used += end - pos
            self.binary_filled = self.count + 1
            self.binary_ends[self.count + 1] = cython.cast(cython.int, self.binary_used)

    def put_address(self, data, pos, end):
        """Four bytes as a dotted quad."""
        byte: cython.uint
        i: cython.int
        self.mask |= V_TEXT
        if not self.want & V_TEXT:
            return
        for i in range(4):
            byte = u8(data, pos + i, end)
            if i:
                self.text[self.text_used] = 46
                self.text_used += 1
            if byte >= 100:
                self.text[self.text_used] = 48 + byte // 100
                self.text_used += 1
            if byte >= 10:
                self.text[self.text_used] = 48 + byte // 10 % 10
                self.text_used += 1
            self.text[self.text_used] = 48 + byte % 10
            self.text_used += 1

    def add(
        self,
        position: int,
        code: int,
        size: int,
        name: int,
        path: int,
        values: list[tuple[int, Any]],
    ) -> None:
        """A row from the object path: the values of columns by their bits, in the columns' units.

        There is room for it. Text and binary come as bytes.
        """
        self.begin(position, code, size, name)
        if path:
            self.keys.set_path(self.count, path)
        for column, value in values:
            if column == V_INT:
                self.put_int(value)
            elif column == V_REAL:
                self.put_real(value, -1, False)
            elif column == V_DECIMAL:
                self.decimal_low = value & ((1 << 64) - 1)
                self.decimal_high = value >> 64 & ((1 << 64) - 1)
                if self.want & V_DECIMAL:
                    self.put_decimal()
            elif column == V_HINT:
                self.put_hint(value)
            elif column == V_DATE:
                self.put_date(value)
            elif column == V_TIME:
                self.put_time(value)
            elif column == V_TS:
                self.put_ts(value)
            elif column == V_FID:
                self.put_fid(value)
            elif column == V_PARTIAL:
                self.put_partial(value)
            elif column == V_BLANK:
                self.mask |= V_BLANK
            else:
                self._add_bytes(column == V_TEXT, value)
        self.end()

    def has_room(self, size: int) -> bool:
        """Whether there is room for the text and binary of a row with so many bytes of either."""
        return self.reserve(size)

    def _add_bytes(self, is_text: bool, value: bytes) -> None:
        view: cython.const[cython.uchar][::1] = value if value else b"\0"
        if cython.compiled:
            if is_text:
                self.put_text(cython.address(view[0]), 0, len(value))
            else:
                self.put_binary(cython.address(view[0]), 0, len(value))
        elif is_text:
            self.put_text(view, 0, len(value))
        else:
            self.put_binary(view, 0, len(value))

    def finish(self) -> None:
        """Complete the columns that were started, which are those in `seen`."""
        count: cython.Py_ssize_t = self.count
        at: cython.Py_ssize_t
        self.keys.end(count)
        for at in range(self.date_filled, count if self.seen & V_DATE else 0):
            self.value_date[at] = 0
        for at in range(self.time_filled, count if self.seen & V_TIME else 0):
            self.value_time[at] = 0
        for at in range(self.ts_filled, count if self.seen & V_TS else 0):
            self.value_ts[at] = 0
        for at in range(self.fid_filled, count if self.seen & V_FID else 0):
            self.fid[at] = 0
        for at in range(self.partial_filled, count if self.seen & V_PARTIAL else 0):
            self.partial[at] = 0
        for at in range(self.binary_filled, count if self.seen & V_BINARY else 0):
            self.binary_ends[at + 1] = cython.cast(cython.int, self.binary_used)
        if not self.dense & V_DECIMAL:
            for at in range(self.decimal_filled, count if self.seen & V_DECIMAL else 0):
                self.value_decimal[2 * at] = 0
                self.value_decimal[2 * at + 1] = 0
        if not self.dense & V_HINT:
            for at in range(self.hint_filled, count if self.seen & V_HINT else 0):
                self.hint[at] = 0
