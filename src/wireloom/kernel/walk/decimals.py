"""Exact arithmetic on values from the wire: 128-bit products, decimals of reals, dates, UTF-8.

A real with a hint stands for the multiple of a unit that is nearest to its exact binary value (the
rules are those of `wireloom.formats._tib.decimals`). Where doubles cannot decide that for certain,
it is computed in integers, with the same result on every machine and when interpreted.
"""

from __future__ import annotations

import struct

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import u8
from wireloom.kernel.walk.names import high_product

__all__ = ["Wide", "days_of", "is_utf8"]

_LOW32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_ALL64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_TOP_BIT = cython.declare(cython.ulonglong, 0x8000000000000000)
_FRACTION = cython.declare(cython.ulonglong, 0x000FFFFFFFFFFFFF)
_HIDDEN = cython.declare(cython.ulonglong, 0x0010000000000000)
_SURE = cython.declare(cython.double, 2251799813685248.0)
"""2**51: a product of doubles below this is off by 1/8 at most."""

_NO_DAY = cython.declare(cython.int, -1000000)

HINT_BLANK = cython.declare(cython.int, 127)
MOST_PLACES = cython.declare(cython.int, 15)


def as_double(bits):
    """The double with these bits."""
    value: cython.double = 0.0
    if cython.compiled:
        memcpy(cython.address(value), cython.address(bits), 8)
        return value
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def as_bits(value):
    """The bits of a double."""
    bits: cython.ulonglong = 0
    if cython.compiled:
        memcpy(cython.address(bits), cython.address(value), 8)
        return bits
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def to_single(value):
    """The double nearest to `value` that is a single; `value` is in their range."""
    if cython.compiled:
        return cython.cast(cython.double, cython.cast(cython.float, value))
    return struct.unpack("<f", struct.pack("<f", value))[0]


def whole(value):
    """The integer nearest to a small double that is not negative; ties go up."""
    if cython.compiled:
        return cython.cast(cython.ulonglong, cython.cast(cython.longlong, value + 0.5))
    return int(value + 0.5)


def as_signed(value):
    """An unsigned 64-bit number as two's complement."""
    if cython.compiled:
        return cython.cast(cython.longlong, value)
    return value - (value >> 63 << 64)


def single_bits(bits):
    """The bits, as a double, of the single with these bits."""
    sign: cython.ulonglong = bits >> 31
    exponent: cython.ulonglong = bits >> 23 & 0xFF
    fraction: cython.ulonglong = bits & 0x7FFFFF
    if exponent == 0xFF:
        exponent = 0x7FF
        if fraction:
            # A signalling NaN becomes a quiet one, as in every conversion of a single.
            fraction |= 0x400000
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


@cython.final
@cython.cclass
class Wide:
    """One unsigned 128-bit number, as two halves, and the decimal places it counts in."""

    def __init__(self) -> None:
        self.high = 0
        self.low = 0
        self.places = 0
        self.has_overflowed = False
        self.powers = memoryview(bytearray(8 * 20)).cast("Q")
        self.reals = memoryview(bytearray(8 * 20)).cast("d")
        for i in range(20):
            self.powers[i] = 10**i
            self.reals[i] = 10.0**i

    def product(self, a, b):
        """Become ``a * b``."""
        self.low = a * b & _ALL64
        self.high = high_product(a, b)

    def times(self, factor):
        """Multiply by `factor`; notes an overflow."""
        high: cython.ulonglong = self.high
        low: cython.ulonglong = self.low
        carry: cython.ulonglong
        if high == 0:
            self.product(low, factor)
            return
        self.product(high, factor)
        if self.high:
            self.has_overflowed = True
        carry = self.low
        self.product(low, factor)
        self.high = self.high + carry & _ALL64
        if self.high < carry:
            self.has_overflowed = True

    def over(self, divisor):
        """Divide by a number below 2**32; return whether the division was exact."""
        part: cython.ulonglong
        rest: cython.ulonglong
        high: cython.ulonglong = self.high // divisor
        rest = self.high % divisor
        part = rest << 32 | self.low >> 32
        self.high = high
        rest = part % divisor
        part = part // divisor
        rest = rest << 32 | self.low & _LOW32
        self.low = part << 32 | rest // divisor
        return rest % divisor == 0

    def shift_left(self, count):
        """Multiply by two to the `count`; notes an overflow."""
        if count >= 64:
            if self.high or (count >= 128 and self.low):
                self.has_overflowed = True
                return
            self.high = self.low
            self.low = 0
            count = count - 64 if count < 128 else 0
        if count > 0:
            if self.high >> (64 - count):
                self.has_overflowed = True
            self.high = (self.high << count | self.low >> (64 - count)) & _ALL64
            self.low = self.low << count & _ALL64

    def shift_right_nearest(self, count):
        """Divide by two to the `count`, to the nearest whole number, ties to even."""
        half: cython.bint = False
        rest: cython.bint = False
        one: cython.ulonglong = 1
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

    def scaled(self, bits, hint, is_single):
        """Become the units, of `places`, that a finite real with a decimal hint stands for.

        False if they are too many, or too small to count.
        """
        magnitude: cython.double = as_double(bits & ~_TOP_BIT & _ALL64)
        found: cython.ulonglong
        value: cython.double
        off: cython.double
        self.has_overflowed = False
        if hint == 0:
            return self.shortest(bits, magnitude, is_single)
        if hint >= 16:
            self.places = hint - 16
            value = magnitude * self.reals[hint - 16]
        else:
            self.places = hint
            value = magnitude * (1 << hint)
        if value < _SURE:
            found = whole(value)
            off = value - found
            if -0.25 < off < 0.25:
                self.high = 0
                self.low = found
                if hint < 16:
                    self.product(found, self.fives(hint))
                return True
        if hint >= 16:
            self.units(bits, self.powers[hint - 16], 0)
        else:
            self.units(bits, 1, hint)
            self.times(self.fives(hint))
        return not self.has_overflowed

    def fives(self, count):
        """Five to the `count`: the factor that gives a binary fraction so many decimal places."""
        return self.powers[count] >> count

    def shortest(self, bits, magnitude, is_single):
        """Become the decimal with the fewest places that reads back as the same real."""
        places: cython.int = 1
        found: cython.ulonglong
        value: cython.double
        off: cython.double
        self.places = 0
        if magnitude >= _SURE * 4:  # it has no fraction
            self.units(bits, 1, 0)
            return not self.has_overflowed
        self.high = 0
        if magnitude < _SURE:
            found = whole(magnitude)
            if found == magnitude:
                self.low = found
                return True
        while places <= MOST_PLACES:
            value = magnitude * self.reals[places]
            if value >= _SURE:
                break
            found = whole(value)
            off = value - found
            if is_single and not -0.49 < off < 0.49:
                # Two decimals may read back as the same single: the nearer one counts.
                self.units(bits, self.powers[places], 0)
                found = self.low
            value = found / self.reals[places]
            if (to_single(value) if is_single else value) == magnitude:
                self.low = found
                self.places = places
                return True
            places += 1
        places = 0 if magnitude >= _SURE else places
        while places <= MOST_PLACES:
            if self.reads_back(bits, places):
                self.places = places
                return True
            places += 1
        return False

    def reads_back(self, bits, places):
        """Become the units of `places` nearest to a double; return whether they read back as it.

        They do if they are at most half the distance to the next double away.
        """
        exponent: cython.int = bits >> 52 & 0x7FF
        mantissa: cython.ulonglong = bits & _FRACTION | _HIDDEN
        high: cython.ulonglong
        low: cython.ulonglong
        far: cython.ulonglong
        is_below: cython.bint
        self.units(bits, self.powers[places], 0)
        if self.has_overflowed or exponent == 0 or exponent >= 1075:
            return not self.has_overflowed and exponent >= 1075
        high = self.high
        low = self.low
        # Both sides times 2**(1075 - exponent): the decimal, and the double's mantissa.
        self.shift_left(1075 - exponent)
        if self.has_overflowed:
            return False
        far = high_product(mantissa, self.powers[places])
        mantissa = mantissa * self.powers[places] & _ALL64
        is_below = self.high < far or (self.high == far and self.low < mantissa)
        if is_below:
            far = far - self.high - (1 if mantissa < self.low else 0) & _ALL64
            mantissa = mantissa - self.low & _ALL64
        else:
            far = self.high - far - (1 if self.low < mantissa else 0) & _ALL64
            mantissa = self.low - mantissa & _ALL64
        self.high = high
        self.low = low
        if far or mantissa >> 62:
            return False
        mantissa = mantissa * 2
        if is_below and bits & _FRACTION == 0:
            mantissa = mantissa * 2  # below a power of two, doubles are twice as dense
        if mantissa == self.powers[places]:
            return bits & 1 == 0
        return mantissa < self.powers[places]

    def rescale(self, places):
        """Convert to units of other places; False if that would lose digits."""
        down: cython.int = self.places - places
        if down <= 0:
            while down < -19:
                self.times(self.powers[19])
                down += 19
            self.times(self.powers[-down])
        elif self.high == 0 and down <= 19:
            if self.low % self.powers[down]:
                return False
            self.low = self.low // self.powers[down]
        else:
            while down > 9:
                if not self.over(self.powers[9]):
                    return False
                down -= 9
            if not self.over(self.powers[down]):
                return False
        self.places = places
        return not self.has_overflowed


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
    """Days from 1970-01-01 to a date of the Gregorian calendar; -1000000 if there is no such date.

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
        return _NO_DAY
    if month <= 2:
        year -= 1
    shifted = (month + 9) % 12
    era_day = 365 * year + year // 4 - year // 100 + year // 400
    return era_day + (153 * shifted + 2) // 5 + day - 1 - 719468
