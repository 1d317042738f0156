"""A real with a hint ↔ an exact decimal.

The wire holds a binary real and, in the hint, how many decimal places or which binary fraction it
stands for. The decimal is the multiple of that unit *nearest to the exact binary value*, computed
in integers, ties to even: 0.29 with two places is 0.29, never the 0.28 that multiplying and
truncating in doubles gives.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any, NamedTuple

from wireloom.errors import EncodeError
from wireloom.formats._tib.values import BLANK, Blank

__all__ = [
    "HINT_BLANK",
    "HINT_INTEGER",
    "HINT_NONE",
    "MAX_PLACES",
    "Scaled",
    "is_decimal_hint",
    "real_and_hint",
    "scale",
]

HINT_NONE = 0
HINT_INTEGER = 16
"""16 + n is n decimal places; 1 to 8 are the fractions 1/2 to 1/256."""
HINT_BLANK = 127
MAX_PLACES = 15
"""Hints 17 to 31 state 1 to 15 decimal places; 32 and up leave a plain real."""

_DEC_BLANK, _DEC_INTEGER, _DEC_PLACES = 0, 1, -10
_DEC_INF, _DEC_MINUS_INF, _DEC_NAN = -1, -2, -3

_SPECIAL: dict[int, tuple[str, Decimal | Blank]] = {
    _DEC_BLANK: ("", BLANK),
    _DEC_INF: ("Inf", Decimal("Infinity")),
    _DEC_MINUS_INF: ("-Inf", Decimal("-Infinity")),
    _DEC_NAN: ("NaN", Decimal("NaN")),
}

_F32 = struct.Struct(">f")


class Scaled(NamedTuple):
    """A decimal as the pair it is made of: a whole number of units, and the unit."""

    ival: int
    """The significand; 0 for blank, infinite and not-a-number."""
    dec: int
    """1 + n: units of 1/2^n (1: whole numbers). -10 - p: units of 1/10^p.

    0 is blank, -1 infinity, -2 minus infinity, -3 not a number.
    """

    @property
    def value(self) -> Decimal | Blank:
        """The decimal, with as many places as the unit needs: 1/8 has three."""
        ival, dec = self
        if dec > 0:
            places = dec - 1
            return Decimal(f"{ival * 5**places}E-{places}")
        if dec <= _DEC_PLACES:
            return Decimal(f"{ival}E{dec - _DEC_PLACES}")
        return _SPECIAL[dec][1]

    @property
    def text(self) -> str:
        """The decimal in plain digits; empty for blank, ``Inf``, ``-Inf``, ``NaN``."""
        special = _SPECIAL.get(self.dec)
        return format(self.value, "f") if special is None else special[0]

    def to_dict(self) -> dict[str, Any]:
        """The typed view in JSON, as in the vectors' ``md``."""
        return {"type": "decimal", "ival": self.ival, "dec": self.dec, "text": self.text}


def is_decimal_hint(hint: int) -> bool:
    """Whether a real with this hint is a decimal (or blank) and not a plain real."""
    return 0 <= hint <= 8 or 16 <= hint <= 31 or hint == HINT_BLANK


def scale(value: float, hint: int, *, single: bool = False) -> Scaled | None:
    """The decimal that a real with this hint stands for; None for a plain real.

    Args:
        value: the real as read.
        hint: the hint number.
        single: whether it had four bytes. This matters for hint 0, which stands for the shortest
            text that reads back as the same real.
    """
    if not is_decimal_hint(hint):
        return None
    if hint == HINT_BLANK:
        return Scaled(0, _DEC_BLANK)
    if not math.isfinite(value):
        if math.isnan(value):
            return Scaled(0, _DEC_NAN)
        return Scaled(0, _DEC_INF if value > 0 else _DEC_MINUS_INF)
    above, below = value.as_integer_ratio()
    if 1 <= hint <= 8:
        return Scaled(_nearest(above << hint, below), _DEC_INTEGER + hint)
    if hint == HINT_NONE:
        return Scaled(above, _DEC_INTEGER) if below == 1 else _shortest(value, single)
    places = hint - HINT_INTEGER
    if not places:
        return Scaled(_nearest(above, below), _DEC_INTEGER)
    return Scaled(_nearest(above * 10**places, below), _DEC_PLACES - places)


def _nearest(above: int, below: int) -> int:
    """``above / below`` to the nearest whole number, ties to even."""
    whole, rest = divmod(above, below)
    return whole + (2 * rest > below or (2 * rest == below and whole & 1))


def _shortest(value: float, single: bool) -> Scaled:
    """The decimal of the shortest text that reads back as the same real, which has a fraction."""
    text = repr(value)
    if single:
        packed = _F32.pack(value)
        # Nine significant digits distinguish all singles; subnormal ones have as few as one.
        texts = (f"{value:.{digits}g}" for digits in range(1, 10))
        text = next(short for short in texts if _F32.pack(float(short)) == packed)
    digits_of = Decimal(text).as_tuple()
    assert isinstance(digits_of.exponent, int)  # finite
    ival = int("".join(map(str, digits_of.digits)))
    return Scaled(-ival if digits_of.sign else ival, _DEC_PLACES + digits_of.exponent)


def real_and_hint(value: Decimal | Blank) -> tuple[float, int]:
    """The double and the hint for a decimal; reading them gives an equal decimal.

    Raises:
        EncodeError: it has more than 15 places, or more digits than a double keeps.
    """
    if isinstance(value, Blank):
        return 0.0, HINT_BLANK
    if not value.is_finite():
        # One bit pattern for all kinds of not-a-number, as a signalling one cannot become a float.
        return (math.nan if value.is_nan() else float(value)), HINT_NONE
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    places = max(0, -exponent)
    if places > MAX_PLACES:
        raise EncodeError(f"{value} has more than {MAX_PLACES} decimal places")
    hint = HINT_INTEGER + places if places else HINT_NONE
    real = float(value)  # infinite if it is too large
    back = scale(real, hint)
    if back is None or back.value != value:
        raise EncodeError(f"{value} has more digits than a real keeps")
    return real, hint
