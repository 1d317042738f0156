"""Typed values that plain wire data stands for: date, time, enum, blank.

A null date or time is a value of its own (the wire has a spelling for it), and so is a blank
decimal. Neither is None or zero.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final, Literal

from wireloom.errors import EncodeError

__all__ = [
    "BLANK",
    "Blank",
    "Date",
    "EnumNumber",
    "EnumText",
    "Resolution",
    "Time",
]

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


class Blank(Enum):
    """The type of `BLANK`."""

    BLANK = "blank"

    def __repr__(self) -> str:
        return "BLANK"


BLANK: Final[Literal[Blank.BLANK]] = Blank.BLANK
"""A decimal field that has no value (real hint 127). Not zero, and not a missing field."""


class EnumNumber(int):
    """The number of an enumerated value; its text is in an enum table, not in the message."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"EnumNumber({int(self)})"


class EnumText(str):
    """The display text of an enumerated value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"EnumText({str(self)!r})"


class Resolution(IntEnum):
    """The smallest unit that a time states."""

    SECOND = 0
    MILLISECOND = 1
    MICROSECOND = 2
    NANOSECOND = 3
    MINUTE = 4


_NULL = 8
"""Added to the resolution's code when the time is null."""

_UNITS = (1, 10**3, 10**6, 10**9, 1)
"""Fraction units in a second, by resolution."""


@dataclass(frozen=True, slots=True)
class Date:
    """A calendar date, or the null date if all three are zero."""

    year: int = 0
    month: int = 0
    day: int = 0

    def __post_init__(self) -> None:
        if self.year or self.month or self.day:
            try:
                dt.date(self.year, self.month, self.day)
            except (ValueError, TypeError, OverflowError) as error:
                raise EncodeError(f"no such date: {self.year}-{self.month}-{self.day}") from error

    @classmethod
    def of(cls, date: dt.date | None) -> Date:
        """The same date; None gives the null date."""
        return cls() if date is None else cls(date.year, date.month, date.day)

    @property
    def is_null(self) -> bool:
        """Whether the wire says "no date"."""
        return not self.day

    def to_date(self) -> dt.date | None:
        """As the standard library's date; None for the null date."""
        return None if self.is_null else dt.date(self.year, self.month, self.day)

    @property
    def text(self) -> str:
        """As it is written: ``18 OCT 2011``; eleven blanks for the null date."""
        if self.is_null:
            return " " * 11
        return f"{self.day:02d} {MONTHS[self.month - 1]} {self.year:04d}"

    def to_dict(self) -> dict[str, Any]:
        """The typed view in JSON, as in the vectors' ``md``."""
        return {
            "type": "date",
            "year": self.year,
            "mon": self.month,
            "day": self.day,
            "text": self.text,
        }

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day with its resolution, or a null time."""

    hour: int = 0
    """0 to 24; 24 is the end of the day."""
    minute: int = 0
    second: int = 0
    """0 to 60; 60 is a leap second."""
    fraction: int = 0
    """In units of `resolution`: 999 with milliseconds is .999."""
    resolution: Resolution = Resolution.SECOND
    is_null: bool = False

    def __post_init__(self) -> None:
        try:
            fits = (
                0 <= self.hour <= 24
                and 0 <= self.minute <= 59
                and 0 <= self.second <= 60
                and 0 <= self.fraction < _UNITS[self.resolution]
            )
        except (TypeError, IndexError):
            fits = False
        empty = not (self.hour or self.minute or self.second or self.fraction)
        if (
            not fits
            or (self.is_null and not empty)
            or (self.second and self.resolution == Resolution.MINUTE)
        ):
            raise EncodeError(
                f"no such time: {self.hour}:{self.minute}:{self.second} fraction {self.fraction}"
                f" resolution {self.resolution!r}{' null' if self.is_null else ''}"
            )

    @classmethod
    def of(cls, time: dt.time | None) -> Time:
        """The same time, as coarse as it can be without loss; None gives a null time."""
        if time is None:
            return cls(is_null=True)
        micros = time.microsecond
        if not micros:
            return cls(time.hour, time.minute, time.second)
        if micros % 1000:
            return cls(time.hour, time.minute, time.second, micros, Resolution.MICROSECOND)
        return cls(time.hour, time.minute, time.second, micros // 1000, Resolution.MILLISECOND)

    @property
    def code(self) -> int:
        """Resolution code, plus 8 for a null time."""
        return self.resolution + _NULL if self.is_null else int(self.resolution)

    @property
    def fraction_ns(self) -> int:
        """The fraction of the second in nanoseconds."""
        return self.fraction * (10**9 // _UNITS[self.resolution])

    @property
    def day_ns(self) -> int:
        """Nanoseconds since midnight."""
        seconds = (self.hour * 60 + self.minute) * 60 + self.second
        return seconds * 10**9 + self.fraction_ns

    def to_time(self) -> dt.time | None:
        """As the standard library's time, cut to microseconds; None if that has no such time."""
        if self.is_null or self.hour > 23 or self.second > 59:
            return None
        return dt.time(self.hour, self.minute, self.second, self.fraction_ns // 1000)

    @property
    def text(self) -> str:
        """As it is written: ``19:33``, ``01:02:03``, ``01:02:03.999``; blank digits for null."""
        if self.is_null:
            return "  :  " if self.resolution == Resolution.MINUTE else "  :  :  "
        if self.resolution == Resolution.MINUTE:
            return f"{self.hour:02d}:{self.minute:02d}"
        text = f"{self.hour:02d}:{self.minute:02d}:{self.second:02d}"
        digits = 3 * self.resolution
        return f"{text}.{self.fraction:0{digits}d}" if digits else text

    def to_dict(self) -> dict[str, Any]:
        """The typed view in JSON, as in the vectors' ``md``."""
        return {
            "type": "time",
            "hour": self.hour,
            "min": self.minute,
            "sec": self.second,
            "res": self.code,
            "frac": self.fraction,
            "text": self.text,
        }

    def __str__(self) -> str:
        return self.text
