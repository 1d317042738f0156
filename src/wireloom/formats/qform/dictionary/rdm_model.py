"""What an RDM dictionary is: the fields of `RDMFieldDictionary` and the tables of `enumtype.def`.

An RDM dictionary describes Marketfeed and RWF fields. QForm messages are not decoded with it, but
a `Dictionary` for them can be made from it: see `wireloom.formats.qform.dictionary.sass`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.model import MdType, Problem, first_error
from wireloom.formats.qform.dictionary.source import decode_text

__all__ = [
    "FIELD_TYPES",
    "RWF_BASES",
    "EnumTable",
    "EnumTables",
    "RdmDictionary",
    "RdmEntry",
    "typed_view",
]

FIELD_TYPES: Final = frozenset(
    {
        "INTEGER",
        "ALPHANUMERIC",
        "ENUMERATED",
        "TIME",
        "DATE",
        "PRICE",
        "BINARY",
        "TIME_SECONDS",
        "NONE",
    }
)
"""The Marketfeed types of a field."""

RWF_BASES: Final[Mapping[str, str]] = {
    "INT32": "INT",
    "INT64": "INT",
    "UINT32": "UINT",
    "UINT64": "UINT",
    "REAL32": "REAL",
    "REAL64": "REAL",
    **{
        name: name
        for name in (
            "RMTES_STRING",
            "ASCII_STRING",
            "ENUM",
            "TIME",
            "DATE",
            "BUFFER",
            "ARRAY",
            "SERIES",
            "ELEMENT_LIST",
            "VECTOR",
            "MAP",
            "FIELD_LIST",
            "NONE",
        )
    },
}
"""The RWF types of a field → the same type without its width."""

_BY_FIELD_TYPE: Final[Mapping[str, tuple[MdType, int]]] = {
    "TIME": (MdType.TIME, 6),
    "DATE": (MdType.DATE, 12),
    "ENUMERATED": (MdType.ENUM, 2),
    "TIME_SECONDS": (MdType.TIME, 10),
    "PRICE": (MdType.DECIMAL, 9),
}

_BY_RWF_BASE: Final[Mapping[str, tuple[MdType, int | None]]] = {
    "REAL": (MdType.DECIMAL, 9),
    "INT": (MdType.INT, 8),
    "UINT": (MdType.UINT, 8),
    "TIME": (MdType.TIME, 6),
    "DATE": (MdType.DATE, 12),
    "RMTES_STRING": (MdType.STRING, None),
    "ASCII_STRING": (MdType.STRING, None),
    "SERIES": (MdType.MESSAGE, None),
    "ELEMENT_LIST": (MdType.MESSAGE, None),
    "VECTOR": (MdType.MESSAGE, None),
    "MAP": (MdType.MESSAGE, None),
    "FIELD_LIST": (MdType.MESSAGE, None),
}
"""None stands for the length of the field."""


def typed_view(field_type: str, length: int, rwf_type: str, rwf_length: int) -> tuple[MdType, int]:
    """What a field's value is, and how many bytes or characters it takes (SPEC §3)."""
    length = length or rwf_length
    base = RWF_BASES.get(rwf_type, rwf_type)
    if field_type == "ALPHANUMERIC":
        return MdType.STRING, length
    if field_type in _BY_FIELD_TYPE:
        return _BY_FIELD_TYPE[field_type]
    if field_type == "INTEGER":
        if base == "REAL" or length > 15:
            return MdType.DECIMAL, 9
        size = 2 if length <= 5 else 4 if length <= 10 else 8
        return MdType.UINT if base == "UINT" else MdType.INT, size
    md_type, known_size = _BY_RWF_BASE.get(base, (MdType.OPAQUE, None))
    return md_type, length if known_size is None else known_size


@dataclass(frozen=True, slots=True)
class RdmEntry:
    """One field of an `RDMFieldDictionary`."""

    fid: int
    """Negative ids are the user's own fields."""
    name: str
    """The acronym."""
    dde: str
    """The DDE acronym: the display name."""
    ripples_to: str | None
    """The field that gets this one's old value when a new one arrives."""
    field_type: str
    """One of `FIELD_TYPES`, or what the file says instead."""
    length: int
    enum_length: int
    """Characters of an enum's display text: the table's width where there is a table."""
    rwf_type: str
    """One of `RWF_BASES`, or what the file says instead."""
    rwf_length: int
    md_type: MdType
    size: int
    """Bytes or characters of the value; see `typed_view`."""

    @property
    def rwf_base(self) -> str:
        """The RWF type without its width: INT for INT64."""
        return RWF_BASES.get(self.rwf_type, self.rwf_type)


@dataclass(frozen=True, slots=True)
class EnumTable:
    """The display texts of one or more enumerated fields."""

    acronyms: tuple[tuple[str, int], ...]
    """Name and id of each field that uses the table."""
    rows: tuple[tuple[int, bytes], ...]
    """Value and display text, as in the file; those of `hexed` are bytes."""
    hexed: frozenset[int] = field(default=frozenset(), compare=False)
    """Values whose display text is given as hexadecimal bytes, of an unspecified character set."""
    displays: Mapping[int, bytes] = field(init=False, compare=False, repr=False)
    """Value → display text; the first one when a value is repeated."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "displays", dict(self.rows[::-1]))

    @property
    def width(self) -> int:
        """Bytes of the longest display text."""
        return max((len(display) for _, display in self.rows), default=0)

    def display(self, value: int) -> str | None:
        """The text for a value, or None when the table has none."""
        raw = self.displays.get(value)
        return None if raw is None else self.shown(value, raw)

    def shown(self, value: int, raw: bytes) -> str:
        """The display of a value as text: ``0xde2020`` for bytes that are not UTF-8."""
        if value in self.hexed:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return f"0x{self.displays[value].hex()}"
        return decode_text(raw)


@dataclass(frozen=True, slots=True)
class EnumTables:
    """What an `enumtype.def` holds."""

    tables: tuple[EnumTable, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """The ``!tag`` lines: file name, version, date."""
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    by_fid: Mapping[int, EnumTable] = field(init=False, compare=False, repr=False)
    """RDM field id → its table; the first one when a field is named twice."""

    def __post_init__(self) -> None:
        pairs = {fid: table for table in self.tables[::-1] for _, fid in table.acronyms}
        object.__setattr__(self, "by_fid", pairs)

    @property
    def error(self) -> SourceError | None:
        """The first problem that is an error, as an exception; None if everything could be read."""
        return first_error(self.problems)


@dataclass(frozen=True, slots=True, repr=False)
class RdmDictionary:
    """What an `RDMFieldDictionary` holds, with the enum tables that belong to it.

    Where several fields share an id or a name, `by_fid` and `by_name` hold the first.
    """

    entries: tuple[RdmEntry, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """The ``!tag`` lines: file name, version, date."""
    enums: EnumTables = field(default_factory=EnumTables)
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    """What was odd or wrong in the field dictionary, then in the enum tables."""
    by_fid: Mapping[int, RdmEntry] = field(init=False, compare=False)
    by_name: Mapping[str, RdmEntry] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        backwards = self.entries[::-1]
        object.__setattr__(self, "by_fid", {entry.fid: entry for entry in backwards})
        object.__setattr__(self, "by_name", {entry.name: entry for entry in backwards})

    @property
    def error(self) -> SourceError | None:
        """The first problem that is an error, as an exception; None if everything could be read."""
        return first_error(self.problems)

    def display(self, fid: int, value: int) -> str | None:
        """The display text of an enumerated field's value, or None."""
        table = self.enums.by_fid.get(fid)
        return None if table is None else table.display(value)

    def with_enums(self, enums: EnumTables) -> RdmDictionary:
        """The same fields with these tables, and with the enum lengths that the tables have."""
        widths = {fid: width for fid, table in enums.by_fid.items() if (width := table.width) > 0}
        entries = tuple(
            replace(entry, enum_length=widths[entry.fid])
            if entry.md_type is MdType.ENUM and entry.fid in widths
            else entry
            for entry in self.entries
        )
        return RdmDictionary(entries, self.tags, enums, (*self.problems, *enums.problems))

    def __iter__(self) -> Iterator[RdmEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<RdmDictionary: {len(self.entries)} fields, {len(self.enums.tables)} enums>"
