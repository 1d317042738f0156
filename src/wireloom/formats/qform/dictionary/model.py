"""What a field dictionary is: types, entries, and the dictionary itself.

A QForm message carries only ids and bytes; the dictionary says which field an id is, and its type
and size (SPEC §1). Everything here is immutable and pickles, so a dictionary loaded once can be
sent to workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from itertools import repeat
from typing import Final, Literal, Protocol, TypeVar

from wireloom.errors import OptionError, SourceError
from wireloom.spelling import missing

__all__ = [
    "DEFAULT_SIZES",
    "DIALECTS",
    "MAX_FID",
    "MAX_NAME_LEN",
    "MAX_SIZE",
    "MD_TYPES",
    "Dialect",
    "Dictionary",
    "DictionaryBuilder",
    "Entry",
    "Kind",
    "MdType",
    "Member",
    "Problem",
    "Table",
    "TssType",
    "check_dialect",
    "complete_entry",
    "made_of_columns",
]

_T = TypeVar("_T")

_MANY: Final = 4096
"""Messages after which all entries are made: from then on a plain mapping is the quicker one."""

Dialect = Literal["clean", "reference"]
"""``clean`` reads the language as it is meant; ``reference`` repeats the reference's quirks."""

DIALECTS: Final[tuple[Dialect, ...]] = ("clean", "reference")

MAX_FID: Final = 16_383
"""The largest id a message can carry: the wire has 14 bits for it."""
MAX_NAME_LEN: Final = 254
"""Characters of a name: with its NUL it must fit the one-byte name size of a TibMsg."""
MAX_SIZE: Final = 1_048_575
"""Bytes of a field: 20 bits, which is also what the reference can index."""


class TssType(IntEnum):
    """The type of a SASS field, as `DATA_TYPE` numbers it."""

    NODATA = 0
    """Never in a message; the reference dialect gives it to an item with no usable type."""
    INTEGER = 1
    STRING = 2
    BOOLEAN = 3
    DATE = 4
    TIME = 5
    PRICE = 6
    BYTE = 7
    FLOAT = 8
    SHORT_INT = 9
    DOUBLE = 10
    OPAQUE = 11
    NULL = 12
    RESERVED = 13
    DOUBLE_INT = 14
    GROCERY = 15
    SDATE = 16
    STIME = 17
    LONG = 18
    U_SHORT = 19
    U_INT = 20
    U_LONG = 21


class MdType(StrEnum):
    """What a field's value is, whatever the wire type: the name shown to users."""

    BOOLEAN = "boolean"
    DATE = "date"
    DECIMAL = "decimal"
    ENUM = "enum"
    INT = "int"
    MESSAGE = "message"
    NODATA = "nodata"
    OPAQUE = "opaque"
    PARTIAL = "partial"
    REAL = "real"
    STRING = "string"
    TIME = "time"
    UINT = "uint"


class Kind(StrEnum):
    """How a field is encoded in a message: which lengths precede its data."""

    FIXED = "fixed"
    """`Entry.size` bytes, no length."""
    PARTIAL = "partial"
    """u16 offset, u16 length, data."""
    VARIABLE = "variable"
    """u16 length, or u32 when `Entry.size` is over 65535, then data."""
    FORM = "form"
    """A record class: a list of fields, not a field of its own."""


MD_TYPES: Final[Mapping[TssType, MdType]] = {
    TssType.NODATA: MdType.NODATA,
    TssType.INTEGER: MdType.INT,
    TssType.STRING: MdType.STRING,
    TssType.BOOLEAN: MdType.BOOLEAN,
    TssType.DATE: MdType.OPAQUE,
    TssType.TIME: MdType.OPAQUE,
    TssType.PRICE: MdType.REAL,
    TssType.BYTE: MdType.UINT,
    TssType.FLOAT: MdType.REAL,
    TssType.SHORT_INT: MdType.INT,
    TssType.DOUBLE: MdType.REAL,
    TssType.OPAQUE: MdType.OPAQUE,
    TssType.NULL: MdType.OPAQUE,
    TssType.RESERVED: MdType.OPAQUE,
    TssType.DOUBLE_INT: MdType.REAL,
    TssType.GROCERY: MdType.DECIMAL,
    TssType.SDATE: MdType.DATE,
    TssType.STIME: MdType.TIME,
    TssType.LONG: MdType.INT,
    TssType.U_SHORT: MdType.UINT,
    TssType.U_INT: MdType.UINT,
    TssType.U_LONG: MdType.UINT,
}
"""Wire type → what the value is."""

DEFAULT_SIZES: Final[Mapping[TssType, int]] = {
    TssType.INTEGER: 4,
    TssType.BOOLEAN: 1,
    TssType.PRICE: 8,
    TssType.BYTE: 1,
    TssType.FLOAT: 4,
    TssType.SHORT_INT: 2,
    TssType.DOUBLE: 8,
    TssType.DOUBLE_INT: 8,
    TssType.GROCERY: 9,
    TssType.SDATE: 12,
    TssType.STIME: 6,
    TssType.LONG: 8,
    TssType.U_SHORT: 2,
    TssType.U_INT: 4,
    TssType.U_LONG: 8,
}
"""Bytes of a field whose `DATA_SIZE` is absent or 0; a type not listed here has no default."""

_LEGAL_SIZES: Final[Mapping[MdType, tuple[int, ...]]] = {
    MdType.INT: (1, 2, 4, 8),
    MdType.UINT: (1, 2, 4, 8),
    MdType.REAL: (4, 8),
    MdType.DECIMAL: (5, 9),
}

_FLAGS_COUNT: Final = frozenset({MdType.STRING, MdType.OPAQUE, MdType.MESSAGE})
"""Only these can be variable or not primitive; elsewhere the flags are noise."""


@dataclass(frozen=True, slots=True)
class Member:
    """One field of a form: its name there, and the id of its class."""

    name: str
    fid: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One field, or one form (record class) when `tss_type` is None."""

    fid: int
    """`CLASS_ID`: what a message carries. Ids over `MAX_FID` never occur in one."""
    name: str
    tss_type: TssType | None
    size: int
    """Bytes on the wire; for a variable field the most there can be; 0 for a form."""
    is_fixed: bool = True
    is_primitive: bool = True
    is_partial: bool = False
    members: tuple[Member, ...] = ()
    """A form's fields, in order."""

    @property
    def is_form(self) -> bool:
        """Whether this is a record class and not a field."""
        return self.tss_type is None

    @property
    def form_fids(self) -> tuple[int, ...]:
        """The ids of a form's fields, in order."""
        return tuple(member.fid for member in self.members)

    @property
    def kind(self) -> Kind:
        """How the field is encoded in a message."""
        if self.tss_type is None:
            return Kind.FORM
        if self.is_partial:
            return Kind.PARTIAL
        return Kind.FIXED if self.is_fixed else Kind.VARIABLE

    @property
    def md_type(self) -> MdType:
        """What the value is."""
        if self.tss_type is None:
            return MdType.MESSAGE
        return MdType.PARTIAL if self.is_partial else MD_TYPES[self.tss_type]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a dictionary text: what, and where."""

    reason: str
    file: str
    line: int
    """1 for the first line; 0 if it concerns no line."""
    is_error: bool = False
    """True: the text cannot be read any further. False: it was read, but something in it is odd."""

    def to_error(self) -> SourceError:
        """The exception that says the same."""
        return SourceError(self.reason, file=self.file, line=self.line)

    def __str__(self) -> str:
        return str(self.to_error())


class Table(Protocol):
    """Entries that are made when they are asked for."""

    @property
    def fids(self) -> Sequence[int]:
        """The ids, in the order of the entries."""

    def entries(self) -> tuple[Entry, ...]:
        """All entries; the same ones each time."""

    def problems(self) -> tuple[Problem, ...]:
        """What was odd or wrong in the texts."""

    def by_fid(self) -> Mapping[int, Entry]:
        """The first entry of each id."""

    def by_name(self) -> Mapping[str, Entry]:
        """The first entry of each name."""


class Dictionary:
    """Fields and forms, found by id or by name.

    Iterating gives the entries in the order of their definition. Where several entries share an
    id or a name, `by_fid` and `by_name` hold the **first** one: a file read later cannot change
    how messages are decoded. The others stay in `entries`, so a second name for an id can still
    be looked up by that name, and each such case is one of the `problems`.

    Two dictionaries are equal when their entries are; their problems do not matter.
    """

    __slots__ = ("_asked", "_by_fid", "_by_name", "_entries", "_hash", "_problems", "_table")

    def __init__(self, entries: tuple[Entry, ...] = (), problems: tuple[Problem, ...] = ()) -> None:
        self._table: Table | None = None
        self._entries: tuple[Entry, ...] | None = entries
        self._problems: tuple[Problem, ...] | None = problems
        self._by_fid: Mapping[int, Entry] | None = None
        self._by_name: Mapping[str, Entry] | None = None
        self._hash: int | None = None
        self._asked = 0

    @classmethod
    def lazy(cls, table: Table) -> Dictionary:
        """A dictionary of which only what is used is made."""
        made = cls()
        made._table = table
        made._entries = made._problems = None
        return made

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All fields and forms, in the order of their definition."""
        found = self._entries
        if found is None:
            assert self._table is not None
            found = self._entries = self._table.entries()
        return found

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was odd or wrong in the texts, in the order it was met."""
        found = self._problems
        if found is None:
            assert self._table is not None
            found = self._problems = self._table.problems()
        return found

    @property
    def by_fid(self) -> Mapping[int, Entry]:
        """The first entry of each id."""
        found = self._by_fid
        if self._table is not None and self._asked < _MANY:
            self._asked += 1
            if found is None:
                found = self._by_fid = self._table.by_fid()
            elif self._asked == _MANY:
                found = None
        if found is None:
            # Backwards, so that the first definition is the one that stays.
            found = self._by_fid = {entry.fid: entry for entry in reversed(self.entries)}
        return found

    @property
    def by_name(self) -> Mapping[str, Entry]:
        """The first entry of each name."""
        found = self._by_name
        if found is None:
            if self._table is not None:
                found = self._table.by_name()
            else:
                found = {entry.name: entry for entry in reversed(self.entries)}
            self._by_name = found
        return found

    def get(self, fid: int) -> Entry | None:
        """The entry with that id, or None."""
        return self.by_fid.get(fid)

    @property
    def forms(self) -> tuple[Entry, ...]:
        """The record classes, in order."""
        return tuple(entry for entry in self.entries if entry.tss_type is None)

    @property
    def error(self) -> SourceError | None:
        """The first problem that is an error, as an exception; None if everything could be read."""
        return first_error(self.problems)

    def merge(self, other: Dictionary) -> Dictionary:
        """These entries, then those of `other` that are not here yet; the first one wins."""
        builder = DictionaryBuilder(self)
        for entry in other.entries:
            builder.add(entry, "<merged>", 0)
        merged = builder.build()
        return Dictionary(merged.entries, (*merged.problems, *other.problems))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dictionary):
            return NotImplemented
        return self is other or self.entries == other.entries

    def __hash__(self) -> int:
        # The ids alone tell dictionaries apart, and are there before the entries.
        if self._hash is None:
            table = self._table
            fids = [entry.fid for entry in self.entries] if table is None else table.fids
            self._hash = hash(tuple(fids))
        return self._hash

    def __reduce__(self) -> tuple[type[Dictionary], tuple[object, ...]]:
        return Dictionary, (self.entries, self.problems)

    def __contains__(self, fid: object) -> bool:
        return fid in self.by_fid

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries) if self._table is None else len(self._table.fids)

    def __repr__(self) -> str:
        # A real dictionary has 16,000 entries, too many for a traceback.
        forms = len(self.forms)
        return f"<Dictionary: {len(self.entries) - forms} fields, {forms} forms>"


class DictionaryBuilder:
    """Collects entries and problems while a text is read."""

    __slots__ = ("_entries", "_named", "_owners", "_several", "problems")

    def __init__(self, base: Dictionary | None = None) -> None:
        self._entries: list[Entry] = []
        self._owners: dict[int, Entry] = {}
        self._named: dict[str, Entry] = {}
        self._several: dict[str, dict[int, Entry]] = {}  # of names with more than one id
        self.problems: list[Problem] = []
        if base is not None:
            for entry in base.entries:
                self._keep(entry)
            self.problems.extend(base.problems)

    def find(self, name: str) -> Entry | None:
        """The first entry of that name, or None."""
        return self._named.get(name)

    def note(self, reason: str, file: str, line: int) -> None:
        """Record something odd."""
        self.problems.append(Problem(reason, file, line))

    def fail(self, error: SourceError) -> None:
        """Record why the text could not be read to its end."""
        self.problems.append(Problem(error.reason, error.file, error.line, is_error=True))

    def take(self, entry: Entry) -> bool:
        """Take an entry in if there is nothing to say about it; whether that was so."""
        fid, name = entry.fid, entry.name
        if (
            name in self._named
            or fid in self._owners
            or not 0 < len(name) <= MAX_NAME_LEN
            or not 0 <= fid <= MAX_FID
            or entry.size > MAX_SIZE
        ):
            return False
        self._entries.append(entry)
        self._owners[fid] = self._named[name] = entry
        return True

    def add(self, entry: Entry, file: str, line: int) -> None:
        """Take an entry in, unless it cannot be used; an exact repetition is no news."""
        if self.take(entry):
            return
        fid, name = entry.fid, entry.name
        if not 0 < len(name) <= MAX_NAME_LEN:
            what = f"longer than {MAX_NAME_LEN} characters" if name else "empty"
            self.note(f"the name of fid {fid} is {what}; left out", file, line)
            return
        if entry.size > MAX_SIZE:
            self.note(f"{name}: size {entry.size} is over {MAX_SIZE}; left out", file, line)
            return
        first = self._named.get(name)
        if first is not None:
            before = first if first.fid == fid else self._several.get(name, {}).get(fid)
            if before is not None:
                if before != entry:
                    text = f"{name} (fid {fid}) is defined twice, differently; the first is used"
                    self.note(text, file, line)
                return
            self.note(f"{name} has fid {fid} and also {first.fid}, which is used", file, line)
        owner = self._owners.get(fid)
        if owner is not None:
            self.note(f"fid {fid} is {name} and also {owner.name}, which is used", file, line)
        elif not 0 <= fid <= MAX_FID:
            self.note(f"{name}: fid {fid} can never be met in a message", file, line)
        self._keep(entry)

    def build(self) -> Dictionary:
        """What was collected so far."""
        return Dictionary(tuple(self._entries), tuple(self.problems))

    def _keep(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._owners.setdefault(entry.fid, entry)
        if self._named.setdefault(entry.name, entry) is not entry:
            self._several.setdefault(entry.name, {}).setdefault(entry.fid, entry)


def complete_entry(entry: Entry) -> tuple[Entry, list[str]]:
    """The entry with its default size and without flags that do not count, and its oddities."""
    md_type = entry.md_type
    size, is_fixed, is_primitive = entry.size, entry.is_fixed, entry.is_primitive
    odd: list[str] = []
    if not (is_fixed and is_primitive) and md_type not in _FLAGS_COUNT:
        ignored = "IS_PRIMITIVE" if is_fixed else "IS_FIXED"
        odd.append(f"{ignored} false does not count for a {md_type} field")
        is_fixed = is_primitive = True
    if entry.tss_type is not None:
        size = size or DEFAULT_SIZES.get(entry.tss_type, 0)
        legal = _LEGAL_SIZES.get(md_type)
        if legal is not None and size not in legal:
            odd.append(f"{entry.tss_type.name} of {size} bytes has no value")
        elif not size and is_fixed and not entry.is_partial:
            odd.append("no DATA_SIZE, so the field holds nothing")
    if (size, is_fixed, is_primitive) == (entry.size, entry.is_fixed, entry.is_primitive):
        return entry, odd
    completed = Entry(
        entry.fid,
        entry.name,
        entry.tss_type,
        size,
        is_fixed,
        is_primitive,
        entry.is_partial,
        entry.members,
    )
    return completed, odd


def made_of_columns(
    cls: type[_T], count: int, columns: Iterable[Iterable[object]]
) -> tuple[_T, ...]:
    """Objects of a frozen dataclass with slots; in a third of the time that one by one takes."""
    made = tuple(map(object.__new__, repeat(cls, count)))
    for attribute, values in zip(fields(cls), columns, strict=True):  # type: ignore[arg-type]
        # The slot itself: nobody has seen these objects yet.
        deque(map(vars(cls)[attribute.name].__set__, made, values), maxlen=0)
    return made


def first_error(problems: tuple[Problem, ...]) -> SourceError | None:
    """The first of `problems` that is an error, as an exception."""
    return next((problem.to_error() for problem in problems if problem.is_error), None)


def check_dialect(dialect: str) -> None:
    """Refuse an unknown dialect.

    Raises:
        OptionError: `dialect` is not one of `DIALECTS`.
    """
    if dialect not in DIALECTS:
        raise OptionError(missing("dialect", dialect, tuple(DIALECTS)))
