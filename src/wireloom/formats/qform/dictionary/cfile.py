"""The cfile language (`tss_fields.cf`, `tss_records.cf`): text → `Dictionary`.

The grammar is in SPEC §2. This is the clean reading of it; the quirks of the reference
implementation are in `wireloom.formats.qform.dictionary.reference.cfile`.

Faults of a file come in two kinds. A text that breaks the grammar, repeats a statement or includes
a missing file is an *error*: it ends the parse, and the entries before it stay. Anything that
concerns one item only is a *problem*: the item is repaired or left out, the parse goes on, and
`Dictionary.problems` lists it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.model import (
    Dialect,
    Dictionary,
    DictionaryBuilder,
    Entry,
    Member,
    TssType,
    check_dialect,
    complete_entry,
)
from wireloom.formats.qform.dictionary.reference.cfile import scan_cfile as scan_reference
from wireloom.formats.qform.dictionary.source import (
    Find,
    IncludeBudget,
    Source,
    find_in,
    to_source,
)

__all__ = [
    "KEYWORDS",
    "PARTIAL_TYPES",
    "TYPE_NAMES",
    "included_names",
    "parse_cfile",
    "scan_cfile",
]

KEYWORDS: Final = frozenset(
    {
        "true",
        "false",
        "fields",
        "field_class_name",
        "class_id",
        "cfile_includes",
        "data_size",
        "data_type",
        "is_fixed",
        "is_partial",
        "is_primitive",
    }
)

TYPE_NAMES: Final[Mapping[str, TssType]] = {
    **{tss_type.name.lower(): tss_type for tss_type in TssType if tss_type},
    **{str(tss_type.value): tss_type for tss_type in TssType if tss_type},
    "real": TssType.DOUBLE,
}
"""What `DATA_TYPE` takes: a number, or a name, here in lower case."""

_NUMBERS: Final = frozenset({"class_id", "data_size"})
_FLAGS: Final = frozenset({"is_fixed", "is_primitive", "is_partial"})

_NamedMember = tuple[str, str, int]
"""A form's member before its class is looked up: its name, the class's name, the line."""

PARTIAL_TYPES: Final = frozenset({TssType.STRING, TssType.OPAQUE})
"""Types for which `IS_PARTIAL` counts."""

# Possessive throughout, so that no input makes the reader backtrack. A number ends where it cannot
# be a name any more.
_WHITE: Final = r"[ \t\n\r\f\v]"
_SKIP: Final = rf"(?:{_WHITE}++|\#[^\n]*+)*+"
_WORDS: Final = r'[0-9]++(?![A-Za-z_])|[^ \t\n\r\f\v{};"\#][^ \t\n\r\f\v{};"]*+'
_QUOTES: Final = r'"([^"\n]*+)"'

# White space and comments, then one of: a brace or semicolon; a quoted text; a word; or nothing,
# which is the end of the text or a quote that never closes. Which group matched is the kind.
_TOKEN: Final = re.compile(rf"{_SKIP}(?:({{)|(}})|(;)|{_QUOTES}|({_WORDS})|())")
_OPEN, _CLOSE, _SEMICOLON, _QUOTED, _WORD, _END = range(1, 7)

# An item of nothing but ``word word;``, as nearly all are, its id apart if that is the first; and
# one such statement.
_STATEMENT: Final = re.compile(rf"{_SKIP}({_WORDS}){_WHITE}++({_WORDS}){_WHITE}*+;")
_PLAIN_ITEM: Final = re.compile(
    rf"{_SKIP}(?:{_QUOTES}|({_WORDS})){_SKIP}{{"
    rf"(?:{_SKIP}(?i:class_id){_WHITE}++([0-9]{{1,9}}+){_WHITE}*+;)?+"
    rf"((?:{_SKIP}(?:{_WORDS}){_WHITE}++(?:{_WORDS}){_WHITE}*+;)*+){_SKIP}}}"
)

_SHOWN: Final = {_OPEN: "'{'", _CLOSE: "'}'", _SEMICOLON: "';'"}
_BOOLEANS: Final = {"true": True, "false": False}
_MAX_DIGITS: Final = 9
"""More than any id or size has, and never slow to convert."""
_MAX_KNOWN: Final = 4096
"""Bodies of items that are remembered with their meaning."""
_SHOWN_LEN: Final = 60
"""Characters of a name in a message: a name of a megabyte is not worth repeating."""


def parse_cfile(
    text: str | bytes,
    *,
    file: str = "<text>",
    files: Mapping[str, str | bytes] | None = None,
    base: Dictionary | None = None,
    dialect: Dialect = "clean",
) -> Dictionary:
    """The dictionary a cfile text defines.

    Args:
        text: the text itself; bytes may be UTF-8 or Latin-1.
        file: its name in error messages.
        files: what the text may include, by name.
        base: entries defined before, such as the fields that a `tss_records.cf` refers to.
        dialect: how to read it.

    Raises:
        SourceError: the text cannot be read; `scan_cfile` gives what came before the error.
        OptionError: there is no such dialect.
    """
    find = find_in(files or {})
    dictionary = scan_cfile(to_source(text, file), find=find, base=base, dialect=dialect)
    if dictionary.error is not None:
        raise dictionary.error
    return dictionary


def scan_cfile(
    source: Source,
    *,
    find: Find | None = None,
    base: Dictionary | None = None,
    dialect: Dialect = "clean",
) -> Dictionary:
    """What can be read of a cfile; an error becomes one of the problems and is not raised.

    Raises:
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    find = find or find_in({})
    if dialect == "reference":
        return scan_reference(source, find, base)
    builder = DictionaryBuilder(base)
    try:
        _Reader(source, builder, find, IncludeBudget(source)).read_file()
    except SourceError as error:
        builder.fail(error)
    return builder.build()


def included_names(source: Source) -> Iterator[str]:
    """Every name in an include list, whether the text is otherwise right or not."""
    if b"cfile_includes" not in source.data.lower():
        return
    is_listing = False
    for found in _TOKEN.finditer(source.text):
        kind, token = found.lastindex, found[found.lastindex or _END]
        if kind == _WORD and token.lower() == "cfile_includes":
            is_listing = True
        elif kind == _CLOSE:
            is_listing = False
        elif is_listing and kind in (_WORD, _QUOTED):
            yield token


@dataclass(slots=True)
class _Item:
    """What an item says, before it is checked."""

    name: str
    line: int
    numbers: dict[str, int] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    type_name: str | None = None
    members: list[_NamedMember] | None = None

    @property
    def shown(self) -> str:
        return self.name[:_SHOWN_LEN]


@dataclass(slots=True)
class _Plain:
    """What is common to items that differ only in their names and ids."""

    is_right: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    type_name: str | None = None
    kind: tuple[TssType, int, bool, bool, bool] | None = None
    """Of their entries: type, size and flags; None where there is something odd to tell."""


class _Reader:
    """Reads one file, and the files it includes, into a builder."""

    def __init__(
        self,
        source: Source,
        builder: DictionaryBuilder,
        find: Find,
        budget: IncludeBudget,
    ) -> None:
        self._file = source.name
        self._text = source.text
        self._builder = builder
        self._find = find
        self._budget = budget
        self._known: dict[str, _Plain] = {}
        self._line_ends: list[int] | None = None
        self._position = 0
        self._start = 0
        self._kind = _END
        self._token = ""

    def read_file(self) -> None:
        """Read ``item*``, the whole maybe wrapped in one pair of braces."""
        wrapped_at = 0
        is_first = True
        while True:
            while self._read_plain_item():
                is_first = False
            if self._next() == _END:
                break
            if self._kind == _OPEN and is_first:
                wrapped_at = self._line()
            elif self._kind == _CLOSE and wrapped_at:
                wrapped_at = 0
                if self._next() != _END:
                    raise self._error("text after the closing brace of the file")
                break
            elif self._kind != _SEMICOLON:
                self._read_item()
            is_first = False
        self._expect_no_quote()
        if wrapped_at:
            raise self._error(f"the brace opened in line {wrapped_at} is not closed")

    def _read_item(self) -> None:
        """Read ``name { stmt* }`` or ``CFILE_INCLUDES { ( file-name ; )* }``."""
        if self._kind == _WORD and self._token.lower() == "cfile_includes":
            self._read_includes()
            return
        item = _Item(self._name("an item's name"), self._line())
        self._expect(_OPEN)
        seen: set[str] = set()
        while not self._at_close():
            keyword = self._token.lower() if self._kind == _WORD else ""
            if keyword in seen:
                raise self._error(f"{item.shown}: {keyword.upper()} is repeated")
            seen.add(keyword)
            if keyword == "fields":
                item.members = self._read_members()
                continue
            if keyword in _NUMBERS:
                self._next()
                item.numbers[keyword] = self._number()
            elif keyword in _FLAGS:
                self._next()
                item.flags[keyword] = self._boolean()
            elif keyword == "data_type":
                self._next()
                item.type_name = self._type_name()
            else:
                raise self._error(f"{item.shown}: {self._shown()} is no statement")
            self._end_statement()
        self._define(item)

    def _read_plain_item(self) -> bool:
        """Read an item of the usual form at once, several times faster than token by token.

        Whatever is not of that form, or not right, is left where it is: `_read_item` reads it, or
        says what is wrong with it.
        """
        found = _PLAIN_ITEM.match(self._text, self._position)
        if found is None:
            return False
        quoted, word, digits, body = found.groups()
        if word is not None and (_is_number(word) or word.lower() in KEYWORDS):
            return False
        # All but the ids is the same for thousands of items.
        plain = self._known.get(body)
        if plain is None:
            plain = _plain(body)
            if len(self._known) < _MAX_KNOWN:
                self._known[body] = plain
        fid = plain.numbers.get("class_id")
        if not plain.is_right or (digits is not None and fid is not None):
            return False
        name = word if quoted is None else quoted
        if digits is not None:
            fid = int(digits)
        kind = plain.kind
        if kind is None or fid is None or not self._builder.take(Entry(fid, name, *kind)):
            self._start = found.start(1 if word is None else 2)
            numbers = plain.numbers if fid is None else {**plain.numbers, "class_id": fid}
            self._define(_Item(name, self._line(), numbers, plain.flags, plain.type_name))
        self._position = found.end()
        return True

    def _define(self, item: _Item) -> None:
        fid = item.numbers.get("class_id")
        if fid is None:
            self._note(item, "no CLASS_ID; left out")
            return
        tss_type = self._type(item) if item.members is None else None
        is_partial = item.flags.get("is_partial", False)
        if is_partial and tss_type not in PARTIAL_TYPES:
            self._note(item, "IS_PARTIAL counts only for STRING and OPAQUE")
            is_partial = False
        entry, odd = complete_entry(
            Entry(
                fid,
                item.name,
                tss_type,
                item.numbers.get("data_size", 0),
                item.flags.get("is_fixed", True),
                item.flags.get("is_primitive", True),
                is_partial,
                self._members(item),
            )
        )
        for reason in odd:
            self._note(item, reason)
        self._builder.add(entry, self._file, item.line)

    def _type(self, item: _Item) -> TssType:
        """The type; an unknown one becomes OPAQUE, so that the field can be skipped."""
        name = item.type_name
        if name is None:
            self._note(item, "no DATA_TYPE; taken as OPAQUE")
            return TssType.OPAQUE
        known = _type_of(name)
        if known is None:
            self._note(item, f"no such DATA_TYPE, {name[:_SHOWN_LEN]!r}; taken as OPAQUE")
            return TssType.OPAQUE
        return known

    def _members(self, item: _Item) -> tuple[Member, ...]:
        found = []
        for name, class_name, line in item.members or ():
            entry = self._builder.find(class_name)
            if entry is not None:
                found.append(Member(name, entry.fid))
                continue
            shown, shown_class = name[:_SHOWN_LEN], class_name[:_SHOWN_LEN]
            reason = f"{item.shown}: member {shown} left out, its class {shown_class} is unknown"
            self._builder.note(reason, self._file, line)
        return tuple(found)

    def _note(self, item: _Item, reason: str) -> None:
        self._builder.note(f"{item.shown}: {reason}", self._file, item.line)

    def _read_members(self) -> list[_NamedMember]:
        """Read ``FIELDS { ( field-name { FIELD_CLASS_NAME name ; } )* }``."""
        members = []
        self._expect(_OPEN)
        while not self._at_close():
            line, member = self._line(), self._name("a member's name")
            self._expect(_OPEN)
            self._next()
            if self._kind != _WORD or self._token.lower() != "field_class_name":
                raise self._error(f"FIELD_CLASS_NAME expected, not {self._shown()}")
            self._next()
            members.append((member, self._name("a class name"), line))
            self._end_statement()
            self._expect(_CLOSE)
        return members

    def _read_includes(self) -> None:
        self._expect(_OPEN)
        while not self._at_close():
            name = self._name("a file name")
            self._include(name)
            self._end_statement()

    def _include(self, name: str) -> None:
        try:
            source = self._budget.open(name, self._find)
        except SourceError as error:
            # Say where the include is, and not only which file is missing.
            raise self._error(error.reason) from error
        with self._budget.inside(source):
            _Reader(source, self._builder, self._find, self._budget).read_file()

    # --- tokens ---

    def _next(self) -> int:
        found = _TOKEN.match(self._text, self._position)
        assert found is not None  # its last alternative is empty
        self._kind = kind = found.lastindex or _END
        self._token = found[kind]
        self._start, self._position = found.span(kind)[0], found.end()
        return kind

    def _at_close(self) -> bool:
        """Advance to the next token but semicolons; returns whether it is the closing brace."""
        while self._next() == _SEMICOLON:
            pass
        if self._kind == _END:
            raise self._error(f"'}}' expected, not {self._shown()}")
        return self._kind == _CLOSE

    def _expect(self, kind: int) -> None:
        if self._next() != kind:
            raise self._error(f"{_SHOWN[kind]} expected, not {self._shown()}")

    def _end_statement(self) -> None:
        """A semicolon, which is optional before a closing brace."""
        position = self._position
        kind = self._next()
        if kind == _CLOSE:
            self._position = position
        elif kind != _SEMICOLON:
            raise self._error(f"';' expected, not {self._shown()}")

    def _name(self, what: str) -> str:
        token = self._token
        if self._kind == _QUOTED:
            return token
        if self._kind == _WORD and not _is_number(token) and token.lower() not in KEYWORDS:
            return token
        raise self._error(f"{what} expected, not {self._shown()}")

    def _number(self) -> int:
        token = self._token
        if self._kind != _WORD or not _is_number(token):
            raise self._error(f"a number expected, not {self._shown()}")
        if len(token) > _MAX_DIGITS:
            raise self._error(f"the number {token[:20]} is too large")
        return int(token)

    def _boolean(self) -> bool:
        word = self._token.lower() if self._kind == _WORD else ""
        if word not in _BOOLEANS:
            raise self._error(f"true or false expected, not {self._shown()}")
        return _BOOLEANS[word]

    def _type_name(self) -> str:
        if self._kind == _WORD and _is_number(self._token):
            return self._token
        return self._name("a type")

    def _shown(self) -> str:
        if self._kind == _END:
            self._expect_no_quote()
            return "the end of the file"
        return repr(self._token[:_SHOWN_LEN])

    def _expect_no_quote(self) -> None:
        if self._kind == _END and self._position < len(self._text):
            raise self._error("the quote is not closed on this line")

    def _line(self) -> int:
        if self._line_ends is None:
            self._line_ends = [found.start() for found in re.finditer("\n", self._text)]
        return bisect_right(self._line_ends, self._start - 1) + 1

    def _error(self, reason: str) -> SourceError:
        return SourceError(reason, file=self._file, line=self._line())


def _plain(body: str) -> _Plain:
    """What a text of nothing but ``word word;`` says."""
    plain = _Plain()
    statements = _STATEMENT.findall(body)
    for mixed_case, value in statements:
        keyword, small = mixed_case.lower(), value.lower()
        if keyword in _NUMBERS and _is_number(value) and len(value) <= _MAX_DIGITS:
            plain.numbers[keyword] = int(value)
        elif keyword in _FLAGS and small in _BOOLEANS:
            plain.flags[keyword] = _BOOLEANS[small]
        elif keyword == "data_type" and small not in KEYWORDS:
            plain.type_name = value
        else:
            return plain
    said = len(plain.numbers) + len(plain.flags) + (plain.type_name is not None)
    plain.is_right = len(statements) == said  # or else one of them is repeated
    tss_type = None if plain.type_name is None else _type_of(plain.type_name)
    is_partial = plain.flags.get("is_partial", False)
    if tss_type is not None and (not is_partial or tss_type in PARTIAL_TYPES):
        size = plain.numbers.get("data_size", 0)
        is_fixed, is_primitive = (
            plain.flags.get(flag, True) for flag in ("is_fixed", "is_primitive")
        )
        entry, odd = complete_entry(
            Entry(0, "", tss_type, size, is_fixed, is_primitive, is_partial)
        )
        if not odd:
            plain.kind = (tss_type, entry.size, entry.is_fixed, entry.is_primitive, is_partial)
    return plain


def _type_of(name: str) -> TssType | None:
    # Numbers too are looked up as text: one of a million digits is not worth converting.
    return TYPE_NAMES.get(name.lower().lstrip("0"))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
