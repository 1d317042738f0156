"""Declarations → numbers: what the kernel's scanner must know of each format, as flat tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wireloom.columnar.kernel import contents, framerules
from wireloom.errors import DecodeError
from wireloom.formats.blaze.frames import FORMS
from wireloom.formats.blaze.packets import VERSION
from wireloom.formats.nrep.packets import FIRST_EXTENSION
from wireloom.formats.nrep.rules import _EXTENTS
from wireloom.formats.qform.walk import FID_MASK, MAX_SHORT
from wireloom.formats.tibrv.content import CHECKS, check_plausible
from wireloom.formats.tibrv.types import ARRAY_CODES, LITERAL_SIZED, FieldType

__all__ = ["header_rules"]

Tables = tuple[int, memoryview, int]
"""The format's number, its table, and one more number."""


def _numbers(count: int) -> memoryview:
    return memoryview(bytearray(8 * count)).cast("q")


def _blaze(rules: Any) -> Tables:
    """Header length and place of PKTLEN for each HDRLEN and PKTTYP; the version."""
    keys = framerules.BLAZE_KEYS
    table = _numbers(2 * keys + 4)
    for key, form in FORMS.items():
        table[2 * key] = form.header_len
        table[2 * key + 1] = form.pktlen_at
        table[2 * keys + (key >> 8)] = 1
    return framerules.FORMAT_BLAZE, table, VERSION


def _nrep(rules: Any) -> Tables:
    """How long the content of each type is, by its own fields; the longest frame."""
    row = framerules.NREP_ROW
    table = _numbers(row * 256)
    for code, extent in _EXTENTS.items():
        place = 0
        if extent.times:
            place = extent.number.start << 4 | (extent.number.stop - extent.number.start)
        values = (1, extent.fixed, extent.times, place, extent.mask, extent.flags, extent.extra)
        for i, value in enumerate(values):
            table[row * code + i] = value
    if rules.extensions:
        for code in range(FIRST_EXTENSION, 256):
            table[row * code] = 2
    return framerules.FORMAT_NREP, table, rules.max_frame


def _tibmsg(rules: Any) -> Tables:
    return framerules.FORMAT_TIBMSG, _numbers(1), 0


_RV_CONTENTS: Mapping[int, int] = {
    FieldType.SUBJECT: contents.RV_SUBJECT,
    FieldType.XML: contents.RV_XML,
    FieldType.ARRAY_STR: contents.RV_STRINGS,
    FieldType.ARRAY_MSG: contents.RV_MESSAGES,
}
assert _RV_CONTENTS.keys() == CHECKS.keys()


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


def _tibrv(rules: Any) -> Tables:
    """How each type's size is written and what its data looks like; which readings are tried."""
    table = _numbers(256)
    for code in FieldType:
        value = contents.RV_LITERAL if code in LITERAL_SIZED else contents.RV_ANY
        if code == FieldType.MESSAGE:
            value = contents.RV_OWN
        value |= _RV_CONTENTS.get(code, 0) << contents.RV_CONTENT_SHIFT
        if code == FieldType.STRING:
            value |= 1 << contents.RV_STRING_SHIFT
        elif code in ARRAY_CODES:
            value |= ARRAY_CODES[code][1] << contents.RV_ELEMENT_SHIFT
        else:
            value |= _plausible_sizes(code) << contents.RV_SIZES_SHIFT
        table[code] = value
    readings = sum(1 << document for document in rules._readings)
    return framerules.FORMAT_TIBRV, table, readings


def _qform(rules: Any) -> Tables:
    """How each fid's data is written, and its size."""
    table = _numbers(FID_MASK + 1)
    for fid, entry in rules.entries.items():
        if entry.tss_type is None:
            kind = contents.QF_FORM
        elif entry.is_partial:
            kind = contents.QF_PARTIAL
        elif entry.is_fixed:
            kind = contents.QF_FIXED
        else:
            kind = contents.QF_SHORT if entry.size <= MAX_SHORT else contents.QF_LONG
        table[fid] = entry.size << contents.QF_SIZE_SHIFT | kind
    return framerules.FORMAT_QFORM, table, 0


_TABLES: Mapping[str, Callable[[Any], Tables]] = {
    "blaze": _blaze,
    "nrep": _nrep,
    "tibmsg": _tibmsg,
    "tibrv": _tibrv,
    "qform": _qform,
}


def header_rules(kernel: Any, format: str, rules: Any, max_frame: int) -> Any:
    """The kernel's rules for a format, from those of the object path."""
    number, table, option = _TABLES[format](rules)
    return kernel.HeaderRules(number, table, option, max_frame, rules.has_magic)
