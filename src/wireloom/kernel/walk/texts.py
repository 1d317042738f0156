"""Text from the wire: the time or date that it states.

Times are read here in every spelling of `wireloom.formats._tib.texts`, dates only in the spelling
that writers use; the others are left to that module, whose answers are cached (`Dates`).
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import low_bytes, u8
from wireloom.kernel.walk.decimals import _NO_DAY, days_of
from wireloom.kernel.walk.names import FULL, Names

__all__ = ["DATE_ASKED", "DATE_NONE", "DATE_NULL", "Dates", "time_of"]

TIME_NULL = cython.declare(cython.longlong, -1)
"""The null time."""
TIME_NONE = cython.declare(cython.longlong, -2)
"""No time at all."""
TIME_BEYOND = cython.declare(cython.longlong, -3)
"""A time that no day has: 24:00 and later, or a leap second."""

DATE_NULL = cython.declare(cython.int, -1000001)
"""The null date."""
DATE_NONE = cython.declare(cython.int, -1000002)
"""No date at all."""
DATE_ASKED = cython.declare(cython.int, -1000003)
"""Not known yet: the object path must say."""
DATE_FULL = cython.declare(cython.int, -1000004)
"""Not known yet, and there is no room to remember the question."""

_PLAIN_TIME = cython.declare(cython.ulonglong, 0x30303A30303A3030)
"""``00:00:00``, with the first character in the lowest byte."""
_ZERO_SECONDS = cython.declare(cython.ulonglong, 0x30303A0000000000)
_NINE = cython.declare(cython.ulonglong, 0x0606000606000606)
"""Added to a byte, carries a value above 9 into its upper half."""
_NOT_DIGITS = cython.declare(cython.ulonglong, 0xF0F0FFF0F0FFF0F0)

_MOST_DATES = cython.declare(cython.int, 2047)
_LONGEST_DATE = cython.declare(cython.int, 64)


def digits(data, pos, stop, end):
    """The decimal number in ``data[pos:stop]``, all digits; -1 if it is none."""
    value: cython.int = 0
    digit: cython.uint
    while pos < stop:
        digit = u8(data, pos, end)
        if digit < 48 or digit > 57:
            return -1
        value = 10 * value + cython.cast(cython.int, digit) - 48
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


def is_blank_at(data, pos, end):
    """Whether a byte is one of those that may stand around a time."""
    byte: cython.uint = u8(data, pos, end)
    return byte == 32 or byte == 9 or byte == 13 or byte == 10


def skip_spaces(data, pos, end):
    """The first position that holds no space."""
    while pos < end and u8(data, pos, end) == 32:
        pos += 1
    return pos


def time_of(data, pos, end):
    """The time that a text states, in nanoseconds of the day, or one of the ``TIME_`` codes."""
    found: cython.longlong
    if end - pos == 8 or end - pos == 5:
        found = plain_time(low_bytes(data, pos, 8, end), end - pos == 8)
        if found >= 0:
            return found
    return any_time(data, pos, end)


def plain_time(text, has_seconds):
    """The time of ``HH:MM:SS`` or ``HH:MM``, given as a word; -1 for any other text."""
    value: cython.ulonglong
    if not has_seconds:
        text = text | _ZERO_SECONDS
    # What remains of a digit is its value; colons become zero.
    text = text ^ _PLAIN_TIME
    if (text | text + _NINE) & _NOT_DIGITS:
        return -1
    # Both digits of each pair in one byte: 10 times the first, plus the second.
    value = text * 10 + (text >> 8)
    if (value & 0xFF) > 23 or (value >> 24 & 0xFF) > 59 or (value >> 48 & 0xFF) > 59:
        return -1
    value = ((value & 0xFF) * 60 + (value >> 24 & 0xFF)) * 60 + (value >> 48 & 0xFF)
    return 1000000000 * cython.cast(cython.longlong, value)


def any_time(data, pos, end):
    """See `time_of`; in every spelling."""
    hour: cython.int
    minute: cython.int
    second: cython.int = 0
    colon: cython.Py_ssize_t
    nanos: cython.longlong = 0
    count: cython.int = 0
    while pos < end and is_blank_at(data, pos, end):
        pos += 1
    while end > pos and is_blank_at(data, end - 1, end):
        end -= 1
    if end - pos > 32:
        return TIME_NONE
    colon = pos + 1 if u8(data, pos + 1, end) == 58 else pos + 2
    if end - pos < 4 or u8(data, colon, end) != 58:
        return null_time(data, pos, end)
    hour = digits(data, pos, colon, end)
    minute = digits(data, colon + 1, colon + 3, end)
    if hour < 0 or minute < 0:
        return null_time(data, pos, end)
    pos = colon + 3
    if pos < end:
        second = digits(data, pos + 1, pos + 3, end)
        if u8(data, pos, end) != 58 or second < 0:
            return TIME_NONE
        pos += 3
    if pos < end:
        count = cython.cast(cython.int, end - pos - 1)
        nanos = digits(data, pos + 1, end, end) if 1 <= count <= 9 else -1
        if nanos < 0 or (u8(data, pos, end) != 46 and u8(data, pos, end) != 58):
            return TIME_NONE
        while count < 9:
            nanos *= 10
            count += 1
    if hour > 24 or minute > 59 or second > 60:
        return TIME_NONE
    if hour > 23 or second > 59:
        return TIME_BEYOND
    return nanos + 1000000000 * cython.cast(cython.longlong, (hour * 60 + minute) * 60 + second)


def null_time(data, pos, end):
    """`TIME_NULL` for a text of blanks, up to two colons and perhaps a point; else `TIME_NONE`."""
    colons: cython.int = 0
    pos = skip_spaces(data, pos, end)
    while colons < 2 and u8(data, pos, end) == 58:
        pos = skip_spaces(data, pos + 1, end)
        colons += 1
    if u8(data, pos, end) == 46:
        pos = skip_spaces(data, pos + 1, end)
    return TIME_NULL if pos == end else TIME_NONE


@cython.final
@cython.cclass
class Dates:
    """The dates that texts state, in days since 1970; remembers what the object path said."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, which bounds the memory."""
        self.names = Names(4096, 2048 * _LONGEST_DATE)
        self.days = memoryview(bytearray(4 * (_MOST_DATES + 1))).cast("i")
        self.known = 0
        self.size = 0
        self.head = 0
        self.tail = 0
        self.last = 0

    def of(self, data, pos, end):
        """The days of a text, or one of the ``DATE_`` codes."""
        head: cython.ulonglong
        tail: cython.ulonglong
        days: cython.int
        found: cython.int
        if end - pos == 11:
            # Most messages have the date of the one before.
            head = low_bytes(data, pos, 8, end)
            tail = low_bytes(data, pos + 3, 8, end)
            if self.size == 11 and head == self.head and tail == self.tail:
                return self.last
            days = plain_date(data, pos, end)
            if days != _NO_DAY:
                self.size = 11
                self.head = head
                self.tail = tail
                self.last = days
                return days
        if end - pos > _LONGEST_DATE:
            return DATE_FULL
        found = self.names.intern(data, pos, end)
        if found == FULL:
            return DATE_FULL
        return self.days[found] if found < self.known else DATE_ASKED

    def asked(self) -> list[bytes]:
        """The texts whose dates are not known yet."""
        return self.names.texts(self.known)

    def answer(self, days: int) -> None:
        """What the first of them states."""
        self.days[self.known] = days
        self.known += 1

    def is_full(self) -> bool:
        """Whether `clear` is due."""
        return self.names.count > _MOST_DATES // 2


def plain_date(data, pos, end):
    """The days of ``DD MMM YYYY``; -1000000 for any other text."""
    day: cython.int
    month: cython.int
    year: cython.int
    if u8(data, pos + 2, end) != 32 or u8(data, pos + 6, end) != 32:
        return _NO_DAY
    day = digits(data, pos, pos + 2, end)
    month = month_of(data, pos + 3, end)
    year = digits(data, pos + 7, pos + 11, end)
    return days_of(year, month, day) if year >= 1000 else _NO_DAY
