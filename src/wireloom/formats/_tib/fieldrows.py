"""One field's value → the value columns of the table `fields`."""

from __future__ import annotations

from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any, Final

from wireloom.arrow.types import DECIMAL_SCALE
from wireloom.columns import Row
from wireloom.formats._tib.decimals import Scaled
from wireloom.formats._tib.scalars import is_utf8, text_bytes
from wireloom.formats._tib.values import Date, Time

__all__ = ["binary_row", "bytes_text_row", "decimal_row", "fits", "text_row", "value_row"]

_LIMIT: Final = Decimal(10) ** (38 - DECIMAL_SCALE)


def value_row(wire: Any, value: Any, scaled: Scaled | None) -> Row:
    """The value columns, from the wire value, its meaning, and its decimal if it has one."""
    if isinstance(wire, bytes):
        return {"value_binary": wire}
    if isinstance(wire, IPv4Address):
        return {"value_text": str(wire)}
    if isinstance(wire, float):
        if scaled is not None and scaled == Scaled(0, 0):
            return {"is_blank": True}
        return {"value_real": wire} | ({} if scaled is None else decimal_row(scaled.value))
    if isinstance(wire, int):
        return {"value_int": int(wire)} if fits(wire) else decimal_row(Decimal(wire))
    row = text_row(wire)
    if isinstance(value, Date | Time) and value.is_null:
        return row | {"is_blank": True}
    if isinstance(value, Date):
        return row | {"value_date": value.to_date()}
    if isinstance(value, Time) and value.hour < 24 and value.second < 60:
        return row | {"value_time": value.day_ns}
    return row


def fits(value: int) -> bool:
    """Whether a column of signed 64-bit numbers can hold it."""
    return -(1 << 63) <= value < 1 << 63


def decimal_row(value: Any) -> Row:
    """A decimal, if the column can hold it exactly."""
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value) >= _LIMIT:
        return {}
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    return {"value_decimal": value} if exponent >= -DECIMAL_SCALE else {}


def text_row(text: str) -> Row:
    """Text; bytes if it is not UTF-8."""
    return {"value_text": str(text)} if is_utf8(text) else {"value_binary": text_bytes(text)}


def binary_row(data: bytes) -> Row:
    """Bytes as they are."""
    return {"value_binary": data}


def bytes_text_row(data: bytes) -> Row:
    """Bytes as text; unchanged if they are not UTF-8."""
    try:
        return {"value_text": data.decode()}
    except UnicodeDecodeError:
        return binary_row(data)
