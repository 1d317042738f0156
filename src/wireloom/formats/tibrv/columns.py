"""TibrvMsg in columns: how each type is encoded, for the kernel; the rows of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wireloom.columns import Columns, Row, numbers
from wireloom.errors import DecodeError
from wireloom.formats._tib.fieldrows import value_row
from wireloom.formats.tibrv.content import CHECKS, check_plausible
from wireloom.formats.tibrv.types import ARRAY_CODES, LITERAL_SIZED, FieldType
from wireloom.kernel.frames import framecheck, framerules
from wireloom.kernel.walk.tibrv import _TIBRV_TYPES, TIBRV
from wireloom.messages import Message
from wireloom.wire import Limits

__all__ = ["COLUMNS", "TibrvColumns"]

_CONTENTS: Mapping[int, int] = {
    FieldType.SUBJECT: framecheck.RV_SUBJECT,
    FieldType.XML: framecheck.RV_XML,
    FieldType.ARRAY_STR: framecheck.RV_STRINGS,
    FieldType.ARRAY_MSG: framecheck.RV_MESSAGES,
}
assert _CONTENTS.keys() == CHECKS.keys()


def _plausible_sizes(code: FieldType) -> int:
    """A bit for each size that the document's dialect allows; 0: any."""
    found = 0
    for size in range(17):
        try:
            check_plausible(code, bytes(size), 0, size)
        except DecodeError:
            continue
        found |= 1 << size
    return 0 if found == (1 << 17) - 1 else found


class TibrvColumns(Columns):
    """How TibrvMsg becomes columns."""

    least_frame = 4
    walker = TIBRV
    has_hints = False

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """How each type's size is encoded and what its data looks like; the dialects to try."""
        table = numbers(256)
        for code in FieldType:
            value = framecheck.RV_LITERAL if code in LITERAL_SIZED else framecheck.RV_ANY
            if code == FieldType.MESSAGE:
                value = framecheck.RV_OWN
            value |= _CONTENTS.get(code, 0) << framecheck.RV_CONTENT_SHIFT
            if code == FieldType.STRING:
                value |= 1 << framecheck.RV_STRING_SHIFT
            elif code in ARRAY_CODES:
                value |= ARRAY_CODES[code][1] << framecheck.RV_ELEMENT_SHIFT
            else:
                value |= _plausible_sizes(code) << framecheck.RV_SIZES_SHIFT
            table[code] = value
        readings = sum(1 << document for document in framer._rules._readings)
        made = (framerules.FORMAT_TIBRV, table, readings)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, True))

    def is_walked(self, options: Mapping[str, Any]) -> bool:
        """Not in the document's dialect, which only the object path tries."""
        return options.get("dialect") != "document"

    def type_slots(self) -> Mapping[int, str]:
        """The types."""
        return {_TIBRV_TYPES + code: code.name.lower() for code in FieldType}

    def dialect_of(self, message: Message) -> str | None:
        """How its one-byte sizes were read."""
        return getattr(message, "dialect", None)

    def field_row(self, item: Any) -> Row:
        """The value, and the number in its name."""
        row: Row = {"fid": item.fid}
        if item.type in (FieldType.MESSAGE, FieldType.ARRAY_MSG, FieldType.XML):
            return row
        if item.type.name.startswith("ARRAY"):
            return row | {"value_binary": item.data}
        parts = item.time_parts
        if parts is not None:
            return row | {"value_ts_ns": parts[0] * 10**9 + parts[1] * 1000}
        return row | value_row(item.value, item.value, None)

    def nested(self, item: Any) -> list[tuple[str, Sequence[Any]]] | None:
        """The fields of a message, or of each of an array of messages."""
        if item.type == FieldType.ARRAY_MSG:
            return [(f"messages[{i}]", each.fields) for i, each in enumerate(item.messages)]
        return [("", item.fields)] if item.type == FieldType.MESSAGE else None

    def payload_of(self, item: Any) -> bytes:
        """The bytes of an opaque."""
        return item.data if item.type == FieldType.OPAQUE else b""

    def unpacker(self, item: Any) -> Callable[[int], str] | None:
        """What unpacks an xml."""
        unpack: Callable[[int], str] = item.document
        return unpack if item.type == FieldType.XML else None


COLUMNS = TibrvColumns()
