"""Date and time texts ↔ typed values.

Reading accepts a fixed set of spellings; a text that is none of them, or that names a day that does
not exist, stays text. Nothing here looks at a clock or a time zone: the two spellings without a
year are read only if the caller gives today's date.
"""

from __future__ import annotations

import datetime as dt
import re

from wireloom.formats._tib.values import MONTHS, Date, Resolution, Time

__all__ = ["MAX_TEXT", "parse_date", "parse_time"]

MAX_TEXT = 32
"""Characters of the longest text that is tried, without trailing blanks: reading stays cheap."""

_MONTH = {name: number for number, name in enumerate(MONTHS, 1)}

_M = "(?P<mon>[A-Z]{3})"
_MM = "(?P<mm>[ 0-9][0-9])"
_D = "(?P<day>[0-9])"
_DD = "(?P<day>[ 0-9][0-9])"
_D_DD = "(?P<day>[ 0-9]?[0-9])"
_YY = "(?P<yy>[0-9]{2})"
_YYYY = "(?P<yyyy>[0-9]{4})"
_Y = "(?:(?P<yyyy>[0-9]{4})|(?P<yy>[0-9]{2}))"
_SEP = "(?P<sep>[ -])"

# One line per spelling, as SPEC.md lists them. Order does not matter: no text fits two of them.
_DATES = tuple(
    re.compile(spelling, re.ASCII)
    for spelling in (
        f"{_DD}{_M}{_Y}",  # 02APR13, 18APR2014
        f"{_DD}{_SEP}{_M}(?P=sep){_Y}",  # 13 JUL 12, 31-AUG-2014
        f"{_D}{_SEP}{_M}(?P=sep){_YY}",  # 3 JUN 21
        f"{_M}{_SEP}{_DD}(?P=sep){_Y}",  # JUL 13 12, JUL 08 2013
        f"{_M}{_SEP}{_D}(?P=sep){_YY}",  # JUN 3 21
        f"{_M} {_D_DD}, {_YYYY}",  # JUL 1, 2013
        f"{_MM}/{_DD}/{_Y}",  # 01/31/95, 01/31/1995
        f"{_MM}-{_DD}-{_YYYY}",  # 01-31-1995
        f"{_YYYY}(?P<sep>[-/]){_MM}(?P=sep){_DD}",  # 2014-09-04
        "(?P<yyyy>[0-9]{4})(?P<mm>[0-9]{2})(?P<day>[0-9]{2})",  # 20140904
        f"{_DD} {_MM} {_YYYY}",  # 21 08 2014
        f"{_M} ?{_YY}",  # FEB14, MAY 15: the first of the month
        f"{_M} {_YYYY}",  # JAN 2000
        f"{_YYYY}{_SEP}{_M}(?P=sep){_D_DD}",  # 2013 JUL 2
        f"[A-Z]{{3}} {_M} {_DD}",  # MON JUN 08: no year
        f"{_MM}[/-]{_DD} [0-9]{{2}}:[0-9]{{2}}",  # 06/01 05:36: no year
        "(?P<excel>[0-9]{5})",
    )
)

_NULL_DATE = re.compile(
    " *(?:[/-] *){0,2}"  # nothing, or blanks around the separators
    "|0{8}|00(?P<a>[/-])00(?P=a)(?:00|0000)|0000(?P<b>[/-])00(?P=b)00",
    re.ASCII,
)

# Excel counts days from 1900 and believes that 1900 was a leap year; from 1970 on this is exact.
_EXCEL_1970 = 25569
_DAY_1970 = dt.date(1970, 1, 1).toordinal()


def parse_date(text: str, today: dt.date | None = None) -> Date | None:
    """The date that a text states; None if it states none.

    Blank text and all zeros are the null date.

    Args:
        text: the field's text, to the first NUL.
        today: gives the year to the spellings ``Mon Jun 08`` and ``06/01 05:36``; without it they
            are not read.
    """
    text = text.rstrip(" \t\r\n")
    if len(text) > MAX_TEXT:
        return None
    # A leading blank may replace a digit (" 8 JUL 2013") or be padding: try the text as is first.
    for candidate in (text, text.lstrip(" ")):
        if _NULL_DATE.fullmatch(candidate):
            return Date()
        upper = candidate.upper()
        for spelling in _DATES:
            found = spelling.fullmatch(upper)
            if found:
                return _date(found.groupdict(), today)
    return None


def _date(parts: dict[str, str | None], today: dt.date | None) -> Date | None:
    excel = parts.get("excel")
    if excel is not None:
        days = int(excel) - _EXCEL_1970
        return Date.of(dt.date.fromordinal(_DAY_1970 + days)) if days >= 0 else None
    month = _MONTH.get(parts.get("mon") or "") or int(parts.get("mm") or 0)
    day = int(parts.get("day") or 1)
    year = _year(parts, month, day, today)
    try:
        return Date.of(dt.date(year, month, day)) if year >= 1000 else None
    except ValueError:
        return None


def _year(parts: dict[str, str | None], month: int, day: int, today: dt.date | None) -> int:
    long, short = parts.get("yyyy"), parts.get("yy")
    if long is not None:
        return int(long)
    if short is not None:
        return int(short) + (2000 if short < "70" else 1900)
    if today is None:
        return 0
    # The last day of a year is often read after midnight.
    return today.year - ((month, day) == (12, 31) and (today.month, today.day) == (1, 1))


_TIME = re.compile(
    "([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.:]([0-9]{1,9}))?)?", re.ASCII
)  # 19:33, 01:02:03, 01:02:03.999
_NULL_TIME = re.compile(r" *((?:: *){0,2})(?:\. *)?", re.ASCII)


def parse_time(text: str) -> Time | None:
    """The time that a text states; None if it states none.

    Blanks with or without colons are a null time. One to three digits of a fraction are
    milliseconds, four to six microseconds, seven to nine nanoseconds.
    """
    text = text.strip(" \t\r\n")
    if len(text) > MAX_TEXT:
        return None
    null = _NULL_TIME.fullmatch(text)
    if null:
        minutes = null[1].count(":") == 1
        return Time(resolution=Resolution.MINUTE if minutes else Resolution.SECOND, is_null=True)
    found = _TIME.fullmatch(text)
    if not found:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 24 or minute > 59 or second > 60:
        return None
    if found[3] is None:
        return Time(hour, minute, resolution=Resolution.MINUTE)
    if found[4] is None:
        return Time(hour, minute, second)
    thirds = -(-len(found[4]) // 3)
    fraction = int(found[4].ljust(3 * thirds, "0"))
    return Time(hour, minute, second, fraction, Resolution(thirds))
