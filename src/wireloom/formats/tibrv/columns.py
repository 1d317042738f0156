"""TibrvMsg in columns: how each type is written, for the kernel's scanner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wireloom.columns import Columns, numbers
from wireloom.errors import DecodeError
from wireloom.formats.tibrv.content import CHECKS, check_plausible
from wireloom.formats.tibrv.types import ARRAY_CODES, LITERAL_SIZED, FieldType
from wireloom.kernel.frames import framecheck, framerules
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

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """How each type's size is written and what its data looks like; the readings to try."""
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


COLUMNS = TibrvColumns()
