"""What the kernel must know of the message formats, as flat arrays: types and dictionaries."""

from __future__ import annotations

import array
from functools import cache, lru_cache
from typing import Final

import pyarrow as pa

from wireloom.columnar.arrays import strings
from wireloom.formats.qform.dictionary import MAX_FID, Dictionary, Entry, Kind, TssType
from wireloom.formats.qform.walk import MAX_SHORT
from wireloom.formats.tibmsg import FieldType as TibMsgType
from wireloom.formats.tibrv import FieldType as TibrvType
from wireloom.kernel.walk.qform import FID_FIXED, FID_FORM, FID_LONG, FID_PARTIAL, FID_SHORT
from wireloom.rows import field_types

__all__ = ["DIALECTS", "dialect_names", "field_map", "field_names", "qform_map"]

DIALECTS: Final = ("standard", "document")
"""What the dialect column may have; a position here is its number in the kernel."""

_ARRAYS, _TIBRV, _QFORM = 16, 32, 96
"""Where types start in the kernel's map: TibMsg arrays by element, TibrvMsg's, QForm's."""


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
    """Number of the types of formats with a walker in the type column's dictionary."""
    return _field_map(field_types())


@cache
def _field_map(types: tuple[str, ...]) -> bytes:
    number = {name: index for index, name in enumerate(types)}
    found = bytearray(256)
    for code in TibMsgType:
        if code.name != "ARRAY":
            found[code] = number[code.name.lower()]
        if f"array_{code.name.lower()}" in number:
            found[_ARRAYS + code] = number[f"array_{code.name.lower()}"]
    for kind in TibrvType:
        found[_TIBRV + kind] = number[kind.name.lower()]
    for tss in TssType:
        found[_QFORM + tss] = number[tss.name.lower()]
    return bytes(found)


@lru_cache(maxsize=16)  # every worker and every range of a file asks for it
def qform_map(dictionary: Dictionary) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Kind, type and size of every field id, where its name ends, and all names in one text."""
    kinds, types = bytearray(MAX_FID + 1), bytearray(MAX_FID + 1)
    sizes, ends = array.array("i", bytes(4 * (MAX_FID + 1))), array.array("i")
    text = bytearray()
    for fid, entry in sorted(dictionary.by_fid.items()):
        ends.extend([len(text)] * (fid - len(ends)))
        kinds[fid], types[fid], sizes[fid] = _kind(entry), entry.tss_type or 0, entry.size
        text += entry.name.encode("utf-8", "surrogateescape")
        ends.append(len(text))
    ends.extend([len(text)] * (MAX_FID + 1 - len(ends)))
    return bytes(kinds), bytes(types), sizes.tobytes(), ends.tobytes(), bytes(text)


def _kind(entry: Entry) -> int:
    found = {Kind.FORM: FID_FORM, Kind.PARTIAL: FID_PARTIAL, Kind.FIXED: FID_FIXED}.get(entry.kind)
    if found is None:
        found = FID_SHORT if entry.size <= MAX_SHORT else FID_LONG
    kind: int = found
    return kind
