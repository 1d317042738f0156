"""TibMsg in columns: the kernel's scanner and walker, the rows of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wireloom.columns import Columns, Row, numbers
from wireloom.formats._tib.fieldrows import bytes_text_row, fits, value_row
from wireloom.formats.tibmsg.types import FieldType
from wireloom.kernel.frames import framerules
from wireloom.kernel.walk.tibmsg import TIBMSG
from wireloom.wire import Limits

__all__ = ["COLUMNS", "TibMsgColumns"]

_ARRAYS: Final = 16
"""Where the kernel's numbers of array types start, by element."""
_NO_ELEMENTS: Final = (FieldType.MESSAGE, FieldType.ARRAY, FieldType.PARTIAL)


class TibMsgColumns(Columns):
    """How TibMsg becomes columns."""

    least_frame = 4
    walker = TIBMSG

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """The kernel needs nothing from the options."""
        made = (framerules.FORMAT_TIBMSG, numbers(1), 0)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, True))

    def type_slots(self) -> Mapping[int, str]:
        """The types, and arrays of them by their elements."""
        types = {int(code): code.name.lower() for code in FieldType if code != FieldType.ARRAY}
        arrays = {
            _ARRAYS + code: f"array_{code.name.lower()}"
            for code in FieldType
            if code not in _NO_ELEMENTS
        }
        return types | arrays

    def field_row(self, item: Any) -> Row:
        """The value, hint or offset of a partial."""
        if item.type == FieldType.MESSAGE:
            return {}
        if item.type == FieldType.ARRAY:
            return {
                "type": f"array_{item.element_type.name.lower()}",
                "hint": item.element_size,
                "value_binary": item.data,
            }
        if item.type == FieldType.PARTIAL:
            return {"partial_offset": item.partial_offset} | bytes_text_row(item.data)
        hint = item.hint_number
        row: Row = {"hint": hint} if hint is not None and fits(hint) else {}
        return row | value_row(item.wire_value, item.value, item.scaled)

    def nested(self, item: Any) -> list[tuple[str, Sequence[Any]]] | None:
        """The fields of a message."""
        return [("", item.fields)] if item.type == FieldType.MESSAGE else None

    def payload_of(self, item: Any) -> bytes:
        """The bytes of an opaque."""
        return item.data if item.type == FieldType.OPAQUE else b""


COLUMNS = TibMsgColumns()
