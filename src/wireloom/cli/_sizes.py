"""Numbers as people write them: sizes such as ``10MB`` and ``2GiB``, counts, and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

__all__ = ["Size", "count", "parse_size", "show_size", "show_time"]

_SIZE = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = ("B", "kB", "MB", "GB", "TB")


def parse_size(text: str) -> int:
    """Bytes: a number, with a unit of 1000 (``k``, ``MB``) or of 1024 (``Ki``, ``MiB``).

    >>> parse_size("10MB"), parse_size("2GiB"), parse_size("1.5k"), parse_size("7")
    (10000000, 2147483648, 1500, 7)

    Raises:
        ValueError: it is not such a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{text!r} is not a size, such as 500kB, 10MB or 2GiB")
    number, unit, binary, _ = found.groups()
    factor = (1024 if binary else 1000) ** _POWERS[unit.lower()]
    # Whole numbers stay exact however large they are.
    return int(number) * factor if "." not in number else int(float(number) * factor)


def show_size(size: float) -> str:
    """A size for people, in units of 1000.

    >>> show_size(999), show_size(1500), show_size(12_300_000)
    ('999 B', '1.5 kB', '12.3 MB')
    """
    unit = 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size:.0f} B"


if TYPE_CHECKING:
    _ParamType = click.ParamType[int]
else:
    _ParamType = click.ParamType  # generic since click 8.4 only


class Size(_ParamType):
    """A size of at least one byte."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        try:
            size = parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < 1:
            self.fail("a size is at least one byte", param, ctx)
        return size


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 message, 2 messages."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show_time(ns: int) -> str:
    """A time in ISO 8601, exactly.

    >>> show_time(1_700_000_000_000_000_001)
    '2023-11-14T22:13:20.000000001Z'
    """
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
