"""Rows of the object path in the units of the kernel's columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from wireloom.columnar.batches import FIELD_BITS
from wireloom.columnar.wide import Choice, wide_cells
from wireloom.kernel.rows.fieldrows import V_DATE
from wireloom.rows import FrameRows
from wireloom.tables import DECIMAL_SCALE

__all__ = ["DAY_0", "kernel_values", "wide_rows"]

DAY_0: Final = 719163
"""`date.toordinal()` of 1970-01-01."""

_IN_EVERY_ROW: Final = ("position", "name", "type", "size")


def kernel_values(row: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """The values of a row in columns that may be null: the column's bit, the value in its unit."""
    found: list[tuple[int, Any]] = []
    for name, bit in FIELD_BITS.items():
        value = row[name]
        if name in _IN_EVERY_ROW or value is None or value is False:
            continue
        if isinstance(value, Decimal):
            value = _units(value)
        elif isinstance(value, float):
            value = struct.unpack("<Q", struct.pack("<d", value))[0]
        elif isinstance(value, str):
            value = value.encode()
        elif bit == V_DATE:
            value = value.toordinal() - DAY_0
        found.append((bit, value))
    return found


def _units(value: Decimal) -> int:
    """A decimal in units of the column's last place; a context would round at 28 digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # finite
    units: int = int("".join(map(str, digits))) * 10 ** (DECIMAL_SCALE + exponent)
    return -units if sign else units


def wide_rows(
    found: FrameRows, choice: Choice
) -> Iterator[tuple[Mapping[str, Any], list[Any], int]]:
    """Each message of a frame, with the cells of its own fields."""
    own: list[list[Mapping[str, Any]]] = [[] for _ in found.messages]
    for row, owner in zip(found.fields, found.owners, strict=True):
        if owner is not None:
            own[owner].append(row)
    for message, fields in zip(found.messages, own, strict=True):
        cells, misfits = wide_cells(fields, choice)
        yield message, cells, misfits
