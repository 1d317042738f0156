"""The dictionaries of the type and dialect columns, and the kernel's numbers in them."""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

from wireloom.arrow.arrays import strings
from wireloom.formats import get
from wireloom.rows import field_types, walked_formats

__all__ = ["DIALECTS", "dialect_names", "field_map", "field_names"]

DIALECTS: Final = ("standard", "document")
"""Values of the dialect column; a position here is the number in the kernel."""


def field_names() -> pa.Array:
    """The dictionary of the type column."""
    return _field_names(field_types())


@cache
def _field_names(types: tuple[str, ...]) -> pa.Array:
    return strings(types)


@cache
def dialect_names() -> pa.Array:
    """The dictionary of the dialect column."""
    return strings(DIALECTS)


def field_map() -> bytes:
    """Where the types of formats with a walker are in the type column's dictionary."""
    return _field_map(field_types())


@cache
def _field_map(types: tuple[str, ...]) -> bytes:
    number = {name: index for index, name in enumerate(types)}
    found = bytearray(256)
    for format in walked_formats():
        for slot, name in get(format).columns().type_slots().items():
            found[slot] = number[name]
    return bytes(found)
