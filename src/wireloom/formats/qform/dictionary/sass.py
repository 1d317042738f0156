"""RDM → SASS: a `Dictionary` for QForm messages made from an `RdmDictionary`. SPEC §7."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Final

from wireloom.formats.qform.dictionary.model import (
    MAX_FID,
    Dictionary,
    DictionaryBuilder,
    Entry,
    MdType,
    TssType,
)
from wireloom.formats.qform.dictionary.rdm_model import RdmDictionary, RdmEntry

__all__ = ["CONTROL_FID", "SYSTEM_FIELDS", "to_sass"]

SYSTEM_FIELDS: Final = (
    Entry(4001, "MSG_TYPE", TssType.SHORT_INT, 2),
    Entry(4002, "REC_TYPE", TssType.SHORT_INT, 2),
    Entry(4003, "SEQ_NO", TssType.SHORT_INT, 2),
    Entry(4005, "REC_STATUS", TssType.SHORT_INT, 2),
)
"""What every SASS message starts with. An RDM field of such a name is dropped."""

CONTROL_FID: Final = 4081
"""The id of the form CONTROL, kept free."""

_IDS: Final = MAX_FID + 1
_BASE: Final = 10_699
_PERMISSION_FID: Final = 1
_STEP: Final = 9_973
"""Spreads the second pass over the ids; odd, so that it reaches all of them."""


def to_sass(rdm: RdmDictionary, *, file: str = "RDMFieldDictionary") -> Dictionary:
    """The SASS fields of an RDM dictionary, the four system fields first.

    A field's id is 10699 + FID, or -FID when that is negative, modulo 16384. A field whose id is
    taken is placed after all others have theirs: it gets the first free id from FID × 9973 modulo
    16384 upwards, starting again at the bottom after 16383. So where it lands depends on its own
    FID and on its neighbours only, and not on how many fields there are.
    """
    builder = DictionaryBuilder()
    builder.problems.extend(rdm.problems)
    for system_field in SYSTEM_FIELDS:
        builder.add(system_field, file, 0)
    reserved = {entry.name for entry in SYSTEM_FIELDS}
    used = {0, CONTROL_FID, *(entry.fid for entry in SYSTEM_FIELDS)}
    waiting: list[RdmEntry] = []
    for field in rdm.entries:
        fid = (-field.fid if field.fid < 0 else _BASE + field.fid) % _IDS
        if field.name in reserved:
            continue
        if fid in used:
            waiting.append(field)
        elif (entry := _sass_entry(fid, field)) is not None:
            used.add(fid)
            builder.add(entry, file, 0)
    free = [fid for fid in range(_IDS) if fid not in used]
    for field in waiting:
        unplaced = _sass_entry(0, field)
        if unplaced is None:
            continue
        if not free:
            builder.note(f"{field.name}: all {_IDS} ids are taken; left out", file, 0)
            continue
        # The first free id from the start on; past the last one, the first of all.
        position = bisect_left(free, field.fid * _STEP % _IDS) % len(free)
        builder.add(replace(unplaced, fid=free.pop(position)), file, 0)
    return builder.build()


def _sass_entry(fid: int, field: RdmEntry) -> Entry | None:
    """The field with this id; None when SASS has nothing for it."""
    if field.fid == _PERMISSION_FID:
        return Entry(fid, "PROD_CATG", TssType.INTEGER, 4)
    tss_type, size = _type_and_size(field)
    return Entry(fid, field.name, tss_type, size) if size else None


def _type_and_size(field: RdmEntry) -> tuple[TssType, int]:
    match field.md_type:
        case MdType.STRING | MdType.OPAQUE:
            return TssType.STRING, field.size
        case MdType.TIME:
            return TssType.STIME, field.size
        case MdType.DATE:
            return TssType.SDATE, 12
        case MdType.ENUM:
            # Room for a NUL, and even.
            return TssType.STRING, (max(field.length, field.enum_length) + 2) // 2 * 2
        case MdType.INT | MdType.UINT:
            return TssType.INTEGER, field.size
        case MdType.DECIMAL if field.field_type == "INTEGER":
            return TssType.DOUBLE_INT, 8
        case MdType.DECIMAL:
            return TssType.GROCERY, 9
        case _:
            return TssType.NODATA, 0
