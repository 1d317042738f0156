"""RDM → SASS: a `Dictionary` for QForm messages made from an `RdmDictionary`. SPEC §7."""

from __future__ import annotations

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
_NEVER_GIVEN: Final = MAX_FID
"""The second pass of the reference stops one short of the last id."""


def to_sass(rdm: RdmDictionary, *, file: str = "RDMFieldDictionary") -> Dictionary:
    """The SASS fields of an RDM dictionary, the four system fields first.

    A field's id is 10699 + FID, or -FID when that is negative, modulo 16384. A field whose id is
    taken is placed after all others have theirs, on one of the ids that are then free: a hash of
    its FID says where to start, and the next free one is taken. This is the rule of the reference,
    so a dictionary made by either has the same ids.
    """
    builder = DictionaryBuilder()
    builder.problems.extend(rdm.problems)
    for system_field in SYSTEM_FIELDS:
        builder.add(system_field, file, 0)
    reserved = {entry.name for entry in SYSTEM_FIELDS}
    used = {0, CONTROL_FID, *(entry.fid for entry in SYSTEM_FIELDS)}
    waiting: list[RdmEntry] = []
    kinds: dict[tuple[object, ...], tuple[TssType, int]] = {}
    for field in rdm.entries:
        fid = (-field.fid if field.fid < 0 else _BASE + field.fid) % _IDS
        if field.name in reserved:
            continue
        if fid in used:
            waiting.append(field)
        elif (kind := _kind(field, kinds)) is not None:
            used.add(fid)
            builder.add(Entry(fid, *kind), file, 0)
    free = _FreeIds([fid for fid in range(_IDS) if fid not in used and fid != _NEVER_GIVEN])
    for field in waiting:
        kind = _kind(field, kinds)
        if kind is None:
            continue
        given = free.take(_mix(field.fid))
        if given is None:
            builder.note(f"{field.name}: all {_IDS} ids are taken; left out", file, 0)
            continue
        builder.add(Entry(given, *kind), file, 0)
    return builder.build()


class _FreeIds:
    """The ids that the first pass left, as a ring from which they are taken one by one.

    A taken id points to where the next free one may be, so that many fields that start at the same
    place do not each walk past all those before them.
    """

    def __init__(self, ids: list[int]) -> None:
        self._ids = ids
        self._next = list(range(len(ids)))
        self._left = len(ids)

    def take(self, start: int) -> int | None:
        """The first free id from `start`, modulo their number; None if all are taken."""
        if not self._left:
            return None
        self._left -= 1
        at = start % len(self._ids)
        while (following := self._next[at]) != at:
            self._next[at] = self._next[following]
            at = following
        self._next[at] = (at + 1) % len(self._ids)
        return self._ids[at]


def _mix(fid: int) -> int:
    """A 32-bit hash that spreads similar FIDs, as the reference computes it. SPEC §7."""
    mask = 0xFFFF_FFFF
    mixed = fid & mask
    mixed = (mixed - (mixed << 6)) & mask
    mixed ^= mixed >> 17
    mixed = (mixed - (mixed << 9)) & mask
    mixed = (mixed ^ (mixed << 4)) & mask
    mixed = (mixed - (mixed << 3)) & mask
    mixed = (mixed ^ (mixed << 10)) & mask
    return mixed ^ (mixed >> 15)


def _kind(
    field: RdmEntry, kinds: dict[tuple[object, ...], tuple[TssType, int]]
) -> tuple[str, TssType, int] | None:
    """Name, type and size of a field; None when SASS has nothing for it.

    `kinds` remembers what is the same for thousands of fields.
    """
    if field.fid == _PERMISSION_FID:
        return "PROD_CATG", TssType.INTEGER, 4
    key = (field.md_type, field.size, field.length, field.enum_length, field.field_type)
    known = kinds.get(key)
    if known is None:
        known = kinds[key] = _type_and_size(field)
    tss_type, size = known
    return (field.name, tss_type, size) if size else None


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
