"""Exact arithmetic and text tests on values from the wire: decimals, UTF-8, dates.

Whole numbers only. A real is taken apart into its mantissa and exponent, so that the nearest
decimal is found without any rounding on the way, the same on every machine and interpreted.
"""

from __future__ import annotations

from wireloom.columnar.kernel import shim as cython
from wireloom.columnar.kernel.primitives import u8

__all__ = ["Wide", "days_of", "is_utf8"]

_LOW32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_ALL64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_TOP_BIT = cython.declare(cython.ulonglong, 0x8000000000000000)
_FRACTION = cython.declare(cython.ulonglong, 0x000FFFFFFFFFFFFF)
_HIDDEN = cython.declare(cython.ulonglong, 0x0010000000000000)


@cython.final
@cython.cclass
class Wide:
    """One unsigned 128-bit number, as two halves."""

    def __init__(self) -> None:
        self.high = 0
        self.low = 0
        self.has_overflowed = False

    def product(self, a, b):
        """Become ``a * b``."""
        a0: cython.ulonglong = a & _LOW32
        a1: cython.ulonglong = a >> 32
        b0: cython.ulonglong = b & _LOW32
        b1: cython.ulonglong = b >> 32
        middle: cython.ulonglong = a1 * b0 + (a0 * b0 >> 32)
        other: cython.ulonglong = a0 * b1 + (middle & _LOW32)
        self.low = a * b & _ALL64
        self.high = a1 * b1 + (middle >> 32) + (other >> 32)

    def times(self, factor):
        """Multiply by `factor`; notes an overflow."""
        high: cython.ulonglong = self.high
        low: cython.ulonglong = self.low
        carry: cython.ulonglong
        self.product(high, factor)
        if self.high:
            self.has_overflowed = True
        carry = self.low
        self.product(low, factor)
        self.high = self.high + carry & _ALL64
        if self.high < carry:
            self.has_overflowed = True

    def shift_left(self, count):
        """Multiply by two to the `count`; notes an overflow."""
        while count > 0 and not self.has_overflowed:
            if self.high & _TOP_BIT:
                self.has_overflowed = True
            self.high = (self.high << 1 | self.low >> 63) & _ALL64
            self.low = self.low << 1 & _ALL64
            count -= 1

    def shift_right_nearest(self, count):
        """Divide by two to the `count`, to the nearest whole number, ties to even."""
        half: cython.bint = False
        rest: cython.bint = False
        if count > 128:
            self.high = self.low = 0
            return
        if count > 64:
            rest = self.low != 0
            self.low = self.high
            self.high = 0
            count -= 64
        elif count == 64:
            half = (self.low & _TOP_BIT) != 0
            rest = (self.low & ~_TOP_BIT & _ALL64) != 0
            self.low = self.high
            self.high = 0
            count = 0
        if count == 64:
            half = (self.low & _TOP_BIT) != 0
            rest = rest or (self.low & ~_TOP_BIT & _ALL64) != 0
            self.low = 0
        elif count > 0:
            one: cython.ulonglong = 1
            half = (self.low >> (count - 1) & 1) != 0
            rest = rest or (self.low & ((one << (count - 1)) - 1)) != 0
            self.low = (self.low >> count | self.high << (64 - count)) & _ALL64
            self.high = self.high >> count
        if half and (rest or self.low & 1):
            self.low = self.low + 1 & _ALL64
            if self.low == 0:
                self.high += 1

    def units(self, bits, factor, shift):
        """Become the nearest whole number to ``|real| * factor * 2**shift``.

        `bits` are those of a finite IEEE double. An overflow is noted.
        """
        exponent: cython.int = bits >> 52 & 0x7FF
        mantissa: cython.ulonglong = bits & _FRACTION
        self.has_overflowed = False
        if exponent:
            mantissa = mantissa | _HIDDEN
        else:
            exponent = 1
        self.product(mantissa, factor)
        exponent = exponent - 1075 + shift
        if exponent > 0:
            self.shift_left(exponent)
        elif exponent < 0:
            self.shift_right_nearest(-exponent)


def is_utf8(data, pos, end):
    """Whether ``data[pos:end]`` is valid UTF-8 (no surrogates, no overlong forms)."""
    lead: cython.uint
    second: cython.uint
    least: cython.uint
    most: cython.uint
    more: cython.int
    while pos < end:
        lead = u8(data, pos, end)
        pos += 1
        if lead < 0x80:
            continue
        least = 0x80
        most = 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                least = 0xA0
            elif lead == 0xED:
                most = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                least = 0x90
            elif lead == 0xF4:
                most = 0x8F
        else:
            return False
        if end - pos < more:
            return False
        second = u8(data, pos, end)
        if second < least or second > most:
            return False
        pos += 1
        more -= 1
        while more > 0:
            second = u8(data, pos, end)
            if second < 0x80 or second > 0xBF:
                return False
            pos += 1
            more -= 1
    return True


def days_of(year, month, day):
    """Days from 1970-01-01 to a date of the Gregorian calendar; -1000000 if there is no such.

    The year starts in March here, which puts the leap day last.
    """
    length: cython.int = 31
    shifted: cython.int
    era_day: cython.int
    if month == 2:
        length = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        length = 30
    if month < 1 or month > 12 or day < 1 or day > length:
        return -1000000
    if month <= 2:
        year -= 1
    shifted = (month + 9) % 12
    era_day = 365 * year + year // 4 - year // 100 + year // 400
    return era_day + (153 * shifted + 2) // 5 + day - 1 - 719468
