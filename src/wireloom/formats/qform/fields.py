"""One QForm field: what the wire says, and what it means (SPEC §2, §3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wireloom.errors import EncodeError
from wireloom.formats._tib.decimals import Scaled, scale
from wireloom.formats._tib.quick import quick
from wireloom.formats._tib.scalars import Kind, read
from wireloom.formats._tib.texts import parse_date, parse_time
from wireloom.formats.qform.codes import meaning
from wireloom.formats.qform.dictionary.model import MAX_FID, Entry, TssType
from wireloom.formats.qform.walk import FID_MASK, MAX_SHORT

__all__ = ["FIXED", "KINDS", "PRIMITIVE", "Field", "Value", "encode_field", "quick_field"]

Value = Any
"""A typed value: str, bytes, bool, int, float, Decimal, BLANK, Date or Time."""

FIXED = 0x8000
"""Flag of a fid: the size is the dictionary's. Readers ignore it."""
PRIMITIVE = 0x4000
"""Flag of a fid: it is a field, not a form. Readers ignore it."""

KINDS: Mapping[TssType, Kind] = {
    TssType.NODATA: Kind.OPAQUE,
    TssType.INTEGER: Kind.INT,
    TssType.STRING: Kind.STRING,
    TssType.BOOLEAN: Kind.BOOLEAN,
    TssType.DATE: Kind.OPAQUE,
    TssType.TIME: Kind.OPAQUE,
    TssType.PRICE: Kind.REAL,
    TssType.BYTE: Kind.UINT,
    TssType.FLOAT: Kind.REAL,
    TssType.SHORT_INT: Kind.INT,
    TssType.DOUBLE: Kind.REAL,
    TssType.OPAQUE: Kind.OPAQUE,
    TssType.NULL: Kind.OPAQUE,
    TssType.RESERVED: Kind.OPAQUE,
    TssType.DOUBLE_INT: Kind.REAL,
    TssType.GROCERY: Kind.REAL,
    TssType.SDATE: Kind.STRING,
    TssType.STIME: Kind.STRING,
    TssType.LONG: Kind.INT,
    TssType.U_SHORT: Kind.UINT,
    TssType.U_INT: Kind.UINT,
    TssType.U_LONG: Kind.UINT,
}
"""The kind of scalar of a type's data; for a GROCERY, of all bytes but the last, the hint."""

_GROCERY_SIZES = (5, 9)

# Plain names and a tuple: enum attributes and dict look-ups cost more than the reading itself.
_GROCERY, _SDATE = TssType.GROCERY, TssType.SDATE
_KIND_CODES = tuple(int(KINDS[kind]) for kind in TssType)
_IS_PLAIN = tuple(kind not in (_GROCERY, _SDATE, TssType.STIME) for kind in TssType)


@dataclass(frozen=True, slots=True)
class Field:
    """One field, as on the wire, with its dictionary entry. `value` is the typed view of it."""

    entry: Entry
    """What the dictionary says about it. A message carries only the entries of its own fields."""
    data: bytes
    """The data bytes, without lengths and padding."""
    partial_offset: int | None = None
    """Where a partial's data goes; None for other fields."""
    wire_fid: int = -1
    """The id with its flag bits, as on the wire; -1: the bits that a writer sets."""
    pad: int = 0
    """The byte after data of odd size. Written as 0, ignored and kept by readers."""

    def __post_init__(self) -> None:
        if self.wire_fid == -1:
            object.__setattr__(self, "wire_fid", canonical_fid(self.entry))

    @classmethod
    def of(
        cls,
        entry: Entry,
        value: Value,
        *,
        offset: int | None = None,
        hint: int | None = None,
        lenient: bool = False,
    ) -> Field:
        """A field for a Python value, converted to the type and size of its dictionary entry.

        Args:
            entry: what the dictionary says.
            value: see `Value`; also `datetime.date` and `time`, and numbers and texts that can be
                converted. Bytes are the data itself.
            offset: where a partial's data goes; 0 if not given.
            hint: of a GROCERY, instead of the value's own; the value is then a real.
            lenient: cut what does not fit, as the reference does, instead of raising.

        Raises:
            EncodeError: the value cannot be converted, or does not fit.
        """
        # The writing half is imported when used: it needs this class.
        from wireloom.formats.qform.build import make

        return make(entry, value, offset, hint, lenient)

    @property
    def fid(self) -> int:
        """The id, without flag bits."""
        return self.entry.fid

    @property
    def name(self) -> str:
        """The name in the dictionary."""
        return self.entry.name

    @property
    def type(self) -> TssType:
        """The type in the dictionary.

        Raises:
            EncodeError: the entry is a form, which no field can be.
        """
        kind = self.entry.tss_type
        if kind is None:
            raise EncodeError(f"{self.entry.name} is a form, not a field")
        return kind

    @property
    def size(self) -> int:
        """Bytes of data on the wire."""
        return len(self.data)

    @property
    def wire_len(self) -> int:
        """Bytes of the whole field: fid, lengths, data, padding."""
        size = len(self.data)
        return prefix_len(self.entry) + size + (size & 1)

    @property
    def is_variable(self) -> bool:
        """Whether a length precedes the data."""
        return not (self.entry.is_fixed or self.entry.is_partial)

    @property
    def hint(self) -> int | None:
        """The hint of a GROCERY; None for other types, and for sizes that have no room for it."""
        return self.data[-1] if self._is_decimal else None

    @property
    def _is_decimal(self) -> bool:
        entry = self.entry
        return (
            entry.tss_type is TssType.GROCERY
            and not entry.is_partial
            and len(self.data) in _GROCERY_SIZES
        )

    @property
    def wire_value(self) -> str | bytes | bool | int | float:
        """The value by its type alone: the real of a GROCERY, the text of a date or a time.

        Data of a size that the type does not allow is its own value, and so is a patch (a partial):
        it may hold a part of anything, and a NUL does not end it.
        """
        kind, data = self.type, self.data
        if self.entry.is_partial:
            return data
        if kind is _GROCERY:
            value = read(Kind.REAL, data[:-1]) if self._is_decimal else data
        else:
            value = read(_KIND_CODES[kind], data)
        assert isinstance(value, (str, bytes, int, float))  # no kind here gives an address
        return value

    @property
    def scaled(self) -> Scaled | None:
        """A decimal as (significand, unit); None if it is not a GROCERY with a decimal hint."""
        if not self._is_decimal:
            return None
        data = self.data
        real = read(Kind.REAL, data[:-1])
        assert isinstance(real, float)
        return scale(real, data[-1], single=len(data) == 5)

    @property
    def value(self) -> Value:
        """The typed value. Text that does not parse as the date or time it should be stays text."""
        return self.typed()

    def typed(self, today: dt.date | None = None) -> Value:
        """The typed value; `today` gives the year to the two date spellings that have none."""
        entry = self.entry
        kind = entry.tss_type
        if kind is not None and _IS_PLAIN[kind] and not entry.is_partial:
            return read(_KIND_CODES[kind], self.data)
        value = self.wire_value
        if entry.is_partial:
            return value
        if kind is _GROCERY:
            scaled = self.scaled
            return value if scaled is None else scaled.value
        assert isinstance(value, str)  # what is left are texts: a date or a time
        found = parse_date(value, today) if kind is _SDATE else parse_time(value)
        return value if found is None else found

    @property
    def is_unparsed(self) -> bool:
        """Whether the dictionary promises a date or time and the text is neither."""
        dated = self.entry.tss_type in (TssType.SDATE, TssType.STIME)
        return dated and not self.entry.is_partial and isinstance(self.value, str)

    @property
    def meaning(self) -> str:
        """What a code stands for: the name of a `MsgType` or `RecStatus`; else empty."""
        return meaning(self.name, self.wire_value)

    def why_not_canonical(self) -> str | None:
        """How it differs from what a writer would emit; None if it does not."""
        entry, data = self.entry, self.data
        if self.wire_fid != canonical_fid(entry):
            return f"fid flags {self.wire_fid >> 14:#x} that writers set otherwise"
        if self.pad:
            return f"a pad byte of {self.pad:#04x}"
        if self.is_variable and len(data) > entry.size:
            return f"{len(data)} bytes where the dictionary has {entry.size} at most"
        if entry.is_partial:
            return None
        kind = KINDS[self.type]
        if kind is Kind.BOOLEAN and data.lstrip(b"\0") not in (b"", b"\1"):
            return "a boolean that is not 0 or 1"
        if kind is Kind.STRING:
            end = data.find(0)
            if end >= 0 and (self.is_variable or any(data[end:])):
                return "bytes after the end of the text"
        return None


def canonical_fid(entry: Entry) -> int:
    """The id with the flag bits that a writer sets."""
    if entry.is_fixed or entry.is_partial:
        return entry.fid | FIXED | PRIMITIVE
    return entry.fid | PRIMITIVE if entry.is_primitive else entry.fid


def prefix_len(entry: Entry) -> int:
    """Bytes before the data: fid, and what the field's kind puts after it."""
    if entry.is_partial:
        return 6
    if entry.is_fixed:
        return 2
    return 4 if entry.size <= MAX_SHORT else 6


quick_field = quick(Field)


def encode_field(field: Field) -> bytes:
    """The bytes of a field.

    Raises:
        EncodeError: its parts contradict each other.
    """
    reason = _misfit(field)
    if reason is not None:
        raise EncodeError(reason)
    entry, data = field.entry, field.data
    size = len(data)
    parts = [field.wire_fid.to_bytes(2, "big")]
    if entry.is_partial:
        parts.append(((field.partial_offset or 0) << 16 | size).to_bytes(4, "big"))
    elif not entry.is_fixed:
        parts.append(size.to_bytes(2 if entry.size <= MAX_SHORT else 4, "big"))
    parts.append(data)
    if size & 1:
        parts.append(field.pad.to_bytes(1, "big"))
    return b"".join(parts)


def _misfit(field: Field) -> str | None:
    """Why the parts of a field contradict each other; None if they do not."""
    entry, size, offset = field.entry, len(field.data), field.partial_offset
    if entry.tss_type is None:
        return f"{entry.name} is a form, not a field"
    if not 0 <= entry.fid <= MAX_FID:
        return f"fid {entry.fid} does not fit in 14 bits"
    if not 0 <= field.wire_fid <= 0xFFFF or field.wire_fid & FID_MASK != entry.fid:
        return f"wire fid {field.wire_fid:#x} is not fid {entry.fid} with flags"
    if not 0 <= field.pad <= (0xFF if size & 1 else 0):
        return f"pad {field.pad} after {size} bytes"
    if entry.is_partial:
        if offset is None or not 0 <= offset <= 0xFFFF:
            return f"partial offset {offset} does not fit in 2 unsigned bytes"
    elif offset is not None:
        return f"{entry.name} is no partial, and has no offset"
    if entry.is_fixed and not entry.is_partial:
        return None if size == entry.size else f"{size} bytes of data, not {entry.size}"
    wide = not entry.is_partial and entry.size > MAX_SHORT
    if size > (0xFFFF_FFFF if wide else 0xFFFF):
        return f"{size} bytes of data do not fit the length field"
    return None
