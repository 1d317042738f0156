"""QForm in columns: how each field's data is encoded, for the kernel; the rows of its fields."""

from __future__ import annotations

import array
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from wireloom.columns import Columns, Row, numbers
from wireloom.formats._tib.fieldrows import binary_row, bytes_text_row, value_row
from wireloom.formats.qform.dictionary import MAX_FID, Dictionary, Entry, Kind, TssType
from wireloom.formats.qform.options import DEFAULT, resolve
from wireloom.formats.qform.walk import FID_MASK, MAX_SHORT
from wireloom.kernel.frames import framecheck, framerules
from wireloom.kernel.walk.qform import (
    _QFORM_TYPES,
    FID_FIXED,
    FID_FORM,
    FID_LONG,
    FID_PARTIAL,
    FID_SHORT,
    QFORM,
)
from wireloom.wire import Limits

__all__ = ["COLUMNS", "QformColumns"]

_WIDE_TYPES: Final = {
    "boolean": "bool",
    "date": "date",
    "decimal": "decimal",
    "int": "i64",
    "partial": "text",
    "real": "f64",
    "string": "text",
    "time": "time",
    "uint": "i64",
}
"""Column types by what a dictionary says about a field."""


class QformColumns(Columns):
    """How QForm becomes columns."""

    least_frame = 4
    walker = QFORM
    knows_fields = True

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """How each fid's data is encoded, and its size."""
        table = numbers(FID_MASK + 1)
        for fid, entry in framer._rules.entries.items():
            if entry.tss_type is None:
                kind = framecheck.QF_FORM
            elif entry.is_partial:
                kind = framecheck.QF_PARTIAL
            elif entry.is_fixed:
                kind = framecheck.QF_FIXED
            else:
                kind = framecheck.QF_SHORT if entry.size <= MAX_SHORT else framecheck.QF_LONG
            table[fid] = entry.size << framecheck.QF_SIZE_SHIFT | kind
        made = (framerules.FORMAT_QFORM, table, 0)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, True))

    def prepare(self, walk: Any, options: Mapping[str, Any]) -> None:
        """Give the walker the dictionary."""
        dictionary = resolve(options.get("dictionary", DEFAULT))
        if dictionary:
            walk.set_dictionary(*_field_map(dictionary))

    def type_slots(self) -> Mapping[int, str]:
        """The dictionary's types."""
        return {_QFORM_TYPES + tss: tss.name.lower() for tss in TssType}

    def wide_types(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What the dictionary says about every field."""
        dictionary = resolve(options.get("dictionary", DEFAULT)) or ()
        return {entry.name: _WIDE_TYPES.get(entry.md_type, "binary") for entry in dictionary}

    def field_row(self, item: Any) -> Row:
        """The value, hint, field id, or offset of a partial."""
        row: Row = {"fid": item.fid, "partial_offset": item.partial_offset, "hint": item.hint}
        if item.partial_offset is None:
            return row | value_row(item.wire_value, item.value, item.scaled)
        is_text = item.type is TssType.STRING
        return row | (bytes_text_row(item.data) if is_text else binary_row(item.data))

    def payload_of(self, item: Any) -> bytes:
        """The bytes of an opaque."""
        is_opaque = item.entry.tss_type is TssType.OPAQUE and not item.entry.is_partial
        return item.data if is_opaque else b""


@lru_cache(maxsize=16)  # every worker and every range of a file asks for it
def _field_map(dictionary: Dictionary) -> tuple[bytes, bytes, bytes, bytes, bytes]:
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


COLUMNS = QformColumns()
