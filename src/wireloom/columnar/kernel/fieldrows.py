"""The columns of the `fields` table while they are filled: one row a field, null unless set.

All buffers start as zeros, so that a null costs nothing. Rows are added for whole messages: `mark`
before one, `back` when it turns out not to fit or not to be readable.
"""

from __future__ import annotations

from math import ldexp

from wireloom.columnar.kernel import shim as cython
from wireloom.columnar.kernel.exact import _FRACTION, Wide, days_of, is_utf8
from wireloom.columnar.kernel.names import Names
from wireloom.columnar.kernel.primitives import copy_bytes, is_ascii, u8

__all__ = ["FieldRows"]

# Columns that can be left out; bits of `want`.
WANT_INT = cython.declare(cython.int, 1)
WANT_REAL = cython.declare(cython.int, 2)
WANT_DECIMAL = cython.declare(cython.int, 4)
WANT_TEXT = cython.declare(cython.int, 8)
WANT_BINARY = cython.declare(cython.int, 16)
WANT_DATE = cython.declare(cython.int, 32)
WANT_TIME = cython.declare(cython.int, 64)

MAX_DEPTH = cython.declare(cython.int, 200)
"""As the object path's: nesting that no limit can raise."""

_SCALE = cython.declare(cython.int, 15)
_INFINITE = cython.declare(cython.ulonglong, 0x7FF)
_ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_DECIMAL_HIGH = cython.declare(cython.ulonglong, 0x4B3B4CA85A86C47A)
"""Upper half of 10**38: a decimal128 holds less."""
_DECIMAL_LOW = cython.declare(cython.ulonglong, 0x098A224000000000)
_LARGEST_SHORT = cython.declare(cython.ulonglong, 1000000000000000)
"""Decimals of up to 15 digits tell all doubles apart that they are nearest to."""


def _column(code: str, rows: int) -> memoryview:
    size = {"B": 1, "i": 4, "q": 8, "Q": 8}[code]
    return memoryview(bytearray(size * max(rows, 1))).cast(code)


def _bits(rows: int) -> memoryview:
    return memoryview(bytearray(rows // 8 + 8))


@cython.final
@cython.cclass
class FieldRows:
    """Rows of the `fields` table."""

    def __init__(self, rows: int, text: int, want: int = 127) -> None:
        self.capacity = rows
        self.text_capacity = text
        self.want = want
        self.wide = Wide()
        powers = [10**i for i in range(20)]
        self.powers = _column("Q", 20)
        for i, power in enumerate(powers):
            self.powers[i] = power
        self.names = Names()
        self.paths = Names()
        self.ends = _column("q", 256)
        self.indexes = _column("i", 256)
        self.path_at = _column("i", 256)
        self.path_text = _column("B", 65536)
        self.path_used = 0
        self.reset()

    def reset(self) -> None:
        """Start a new batch. Names keep their numbers; the columns are new buffers."""
        rows = self.capacity
        self.count = self.text_used = self.binary_used = self.slow_count = 0
        self.frame = _column("i", rows)
        self.path = _column("i", rows)
        self.position = _column("i", rows)
        self.name = _column("i", rows)
        self.name_valid = _bits(rows)
        self.fid = _column("i", rows)
        self.fid_valid = _bits(rows)
        self.type = _column("i", rows)
        self.size = _column("i", rows)
        self.value_int = _column("q", rows)
        self.int_valid = _bits(rows)
        self.value_real = _column("Q", rows)
        self.real_valid = _bits(rows)
        self.value_decimal = _column("Q", 2 * rows)
        self.decimal_valid = _bits(rows)
        self.value_date = _column("i", rows)
        self.date_valid = _bits(rows)
        self.value_time = _column("q", rows)
        self.time_valid = _bits(rows)
        self.value_ts = _column("q", rows)
        self.ts_valid = _bits(rows)
        self.is_blank = _bits(rows)
        self.hint = _column("q", rows)
        self.hint_valid = _bits(rows)
        self.partial = _column("i", rows)
        self.partial_valid = _bits(rows)
        self.text_ends = _column("i", rows + 1)
        self.text_valid = _bits(rows)
        self.text = _column("B", self.text_capacity)
        self.binary_ends = _column("i", rows + 1)
        self.binary_valid = _bits(rows)
        self.binary = _column("B", self.text_capacity)
        self.slow_row = _column("i", rows)
        self.slow_at = _column("q", rows)

    def grow(self) -> None:
        """Make room for one message that did not fit an empty batch."""
        self.capacity *= 2
        self.text_capacity *= 2
        self.names.grow()
        self.paths.grow()
        self.reset()

    def mark(self):
        """Remember the state before a message."""
        self.mark_count = self.count
        self.mark_text = self.text_used
        self.mark_binary = self.binary_used
        self.mark_slow = self.slow_count

    def back(self):
        """Take the rows since `mark` back."""
        row: cython.Py_ssize_t = self.mark_count
        while row <= self.count and row < self.capacity:
            self.name_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.fid_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.int_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.real_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.decimal_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.date_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.time_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.ts_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.is_blank[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.hint_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.partial_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.text_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.binary_valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            row += 1
        self.count = self.mark_count
        self.text_used = self.mark_text
        self.binary_used = self.mark_binary
        self.slow_count = self.mark_slow

    def has_room(self, size):
        """Whether one more row with `size` bytes of text or binary fits."""
        return (
            self.count < self.capacity
            and self.text_used + size <= self.text_capacity
            and self.binary_used + size <= self.text_capacity
        )

    def put_int(self, value):
        """A signed number."""
        if self.want & WANT_INT:
            self.value_int[self.count] = value
            self.int_valid[self.count >> 3] |= 1 << (self.count & 7)

    def put_uint(self, value):
        """An unsigned number; what does not fit a signed one becomes a decimal."""
        if value >> 63 == 0:
            self.put_int(cython.cast(cython.longlong, value))
        elif self.want & WANT_DECIMAL:
            self.wide.product(value, self.powers[_SCALE])
            self.put_wide(False)

    def put_wide(self, is_negative):
        """The decimal that `wide` holds, in units of the column; nothing if it has overflowed."""
        high: cython.ulonglong = self.wide.high
        low: cython.ulonglong = self.wide.low
        if self.wide.has_overflowed or high > _DECIMAL_HIGH:
            return
        if high == _DECIMAL_HIGH and low >= _DECIMAL_LOW:
            return
        if is_negative:
            low = (~low + 1) & _ALL_ONES
            high = (~high + (1 if low == 0 else 0)) & _ALL_ONES
        self.value_decimal[2 * self.count] = low
        self.value_decimal[2 * self.count + 1] = high
        self.decimal_valid[self.count >> 3] |= 1 << (self.count & 7)

    def put_real(self, bits, hint, is_single):
        """A real by its bits as a double; with `hint` >= 0 also the decimal it stands for."""
        factor: cython.ulonglong
        places: cython.int
        is_negative: cython.bint = (bits >> 63) != 0
        is_finite: cython.bint = (bits >> 52 & 0x7FF) != _INFINITE
        if self.want & WANT_REAL:
            self.value_real[self.count] = bits
            self.real_valid[self.count >> 3] |= 1 << (self.count & 7)
        if hint == 127:
            self.is_blank[self.count >> 3] |= 1 << (self.count & 7)
        elif self.want & WANT_DECIMAL and is_finite and hint >= 0:
            if 1 <= hint <= 8:
                self.wide.units(bits, 1, hint)
                factor = self.powers[_SCALE] >> hint  # exact: 10**15 has 15 twos
                self.wide.times(factor)
                self.put_wide(is_negative)
            elif 16 <= hint <= 31:
                places = hint - 16
                self.wide.units(bits, self.powers[places], 0)
                self.wide.times(self.powers[_SCALE - places])
                self.put_wide(is_negative)
            elif hint == 0:
                if is_single:
                    self.slow()
                else:
                    self.put_shortest(bits, is_negative)

    def put_shortest(self, bits, is_negative):
        """The decimal with the fewest places that reads back as the same double."""
        places: cython.int = 0
        magnitude: cython.double
        units: cython.double
        power: cython.double
        self.wide.units(bits, 1, 0)
        if self.wide.has_overflowed:
            return
        magnitude = double_of(bits & ~(cython.cast(cython.ulonglong, 1) << 63))
        while places <= _SCALE:
            self.wide.units(bits, self.powers[places], 0)
            if (
                self.wide.has_overflowed
                or self.wide.high
                or (places and self.wide.low >= _LARGEST_SHORT)
            ):
                break
            units = cython.cast(cython.double, self.wide.low)
            power = cython.cast(cython.double, self.powers[places])
            if units / power == magnitude:
                self.wide.times(self.powers[_SCALE - places])
                self.put_wide(is_negative)
                return
            places += 1
        self.slow()

    def slow(self):
        """Leave the rest of this row's value to the object path, which the driver asks."""
        self.slow_row[self.slow_count] = cython.cast(cython.int, self.count)
        self.slow_at[self.slow_count] = self.field_at
        self.slow_count += 1

    def put_text(self, data, pos, end):
        """Text; bytes that are not UTF-8 go to the binary column."""
        if not is_ascii(data, pos, end) and not is_utf8(data, pos, end):
            self.put_binary(data, pos, end)
        elif self.want & WANT_TEXT:
            if cython.compiled:
                copy_bytes(cython.address(self.text[0]), self.text_used, data, pos, end, end)
            else:
                copy_bytes(self.text, self.text_used, data, pos, end, end)
            self.text_used += end - pos
            self.text_valid[self.count >> 3] |= 1 << (self.count & 7)

    def put_binary(self, data, pos, end):
        """Bytes as they are."""
        if self.want & WANT_BINARY:
            if cython.compiled:
                copy_bytes(cython.address(self.binary[0]), self.binary_used, data, pos, end, end)
            else:
                copy_bytes(self.binary, self.binary_used, data, pos, end, end)
            self.binary_used += end - pos
            self.binary_valid[self.count >> 3] |= 1 << (self.count & 7)

    def put_address(self, data, pos, end):
        """Four bytes as a dotted quad."""
        byte: cython.uint
        i: cython.int
        if not self.want & WANT_TEXT:
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
        self.text_valid[self.count >> 3] |= 1 << (self.count & 7)

    def put_date_text(self, data, pos, end):
        """The date of ``DD MMM YYYY``; other spellings are left to the object path."""
        day: cython.int
        month: cython.int
        year: cython.int
        days: cython.int
        if not self.want & WANT_DATE:
            return
        if end - pos == 11 and u8(data, pos + 2, end) == 32 and u8(data, pos + 6, end) == 32:
            day = number(data, pos, pos + 2, end)
            month = month_of(data, pos + 3, end)
            year = number(data, pos + 7, pos + 11, end)
            if day > 0 and month > 0 and year >= 1000:
                days = days_of(year, month, day)
                if days > -1000000:
                    self.value_date[self.count] = days
                    self.date_valid[self.count >> 3] |= 1 << (self.count & 7)
                    return
        self.slow()

    def put_time_text(self, data, pos, end):
        """The time of ``HH:MM`` or ``HH:MM:SS``; others are left to the object path."""
        size: cython.Py_ssize_t = end - pos
        hour: cython.longlong
        minute: cython.longlong
        second: cython.longlong = 0
        if not self.want & WANT_TIME:
            return
        if (size == 5 or size == 8) and u8(data, pos + 2, end) == 58:
            hour = number(data, pos, pos + 2, end)
            minute = number(data, pos + 3, pos + 5, end)
            if size == 8:
                second = number(data, pos + 6, pos + 8, end) if u8(data, pos + 5, end) == 58 else -1
            if 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59:
                self.value_time[self.count] = ((hour * 60 + minute) * 60 + second) * 1000000000
                self.time_valid[self.count >> 3] |= 1 << (self.count & 7)
                return
        self.slow()

    def next_row(self):
        """Finish the row."""
        self.count += 1
        self.text_ends[self.count] = cython.cast(cython.int, self.text_used)
        self.binary_ends[self.count] = cython.cast(cython.int, self.binary_used)


def double_of(bits):
    """The double with these bits, which are those of a finite number that is not negative."""
    fraction: cython.ulonglong = bits & _FRACTION
    exponent: cython.int = bits >> 52 & 0x7FF
    if exponent:
        return ldexp(fraction | cython.cast(cython.ulonglong, 1) << 52, exponent - 1075)
    return ldexp(fraction, -1074)


def single_bits(bits):
    """The bits, as a double, of the single with these bits."""
    sign: cython.ulonglong = bits >> 31
    exponent: cython.ulonglong = bits >> 23 & 0xFF
    fraction: cython.ulonglong = bits & 0x7FFFFF
    if exponent == 0xFF:
        exponent = 0x7FF
    elif exponent:
        exponent += 896
    elif fraction:
        # A subnormal single is a normal double.
        exponent = 897
        while not fraction & 0x800000:
            fraction <<= 1
            exponent -= 1
        fraction &= 0x7FFFFF
    return sign << 63 | exponent << 52 | fraction << 29


def as_signed(value):
    """An unsigned 64-bit number as two's complement."""
    if cython.compiled:
        return cython.cast(cython.longlong, value)
    return value - (value >> 63 << 64)


def number(data, pos, stop, end):
    """The decimal number in ``data[pos:stop]``, all digits; -1 if it is none."""
    value: cython.int = 0
    digit: cython.uint
    while pos < stop:
        digit = u8(data, pos, end)
        if digit < 48 or digit > 57:
            return -1
        value = 10 * value + digit - 48
        pos += 1
    return value


def month_of(data, pos, end):
    """1 to 12 for the three letters of an English month, in any case; 0 for anything else."""
    name: cython.uint = u8(data, pos, end) << 16 | u8(data, pos + 1, end) << 8
    name = (name | u8(data, pos + 2, end)) & 0xDFDFDF
    if name == 0x4A414E:
        return 1
    if name == 0x464542:
        return 2
    if name == 0x4D4152:
        return 3
    if name == 0x415052:
        return 4
    if name == 0x4D4159:
        return 5
    if name == 0x4A554E:
        return 6
    if name == 0x4A554C:
        return 7
    if name == 0x415547:
        return 8
    if name == 0x534550:
        return 9
    if name == 0x4F4354:
        return 10
    if name == 0x4E4F56:
        return 11
    return 12 if name == 0x444543 else 0
