"""The cfile language in the reference dialect: one state per file, moved on by each token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.model import (
    MAX_NAME_LEN,
    Dictionary,
    Entry,
    Member,
    Problem,
    TssType,
    complete_entry,
)
from wireloom.formats.qform.dictionary.reference.scanner import END, Scanner, to_int
from wireloom.formats.qform.dictionary.source import Find, IncludeBudget, Source, decode_text

__all__ = ["scan_cfile"]

_KEYWORD: Final = re.compile(
    rb"true|false|fields|field_class_name|class_id|cfile_includes"
    rb"|data_size|data_type|is_fixed|is_partial|is_primitive",
    re.IGNORECASE,
)
_NUMBERS: Final = frozenset({"class_id", "data_size", "data_type"})
_FLAGS: Final = frozenset({"is_fixed", "is_partial", "is_primitive"})
_TYPE_NAMES: Final = {
    **{tss_type.name.lower(): tss_type.value for tss_type in TssType if tss_type},
    "real": TssType.DOUBLE.value,
}
_PARTIAL_TYPES: Final = frozenset({2, 3})
"""STRING, and BOOLEAN for OPAQUE: the reference compares with the numbers of another list."""

_NONE, _ITEM = "", "item"
"""No item begun; inside an item, between statements. The other states are keywords."""


@dataclass(slots=True)
class _State:
    """The state of a file: the current statement, and what its item has said so far."""

    statement: str = _NONE
    is_listing: bool = False
    name: bytes = b""
    line: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    members: list[tuple[bytes, bytes]] = field(default_factory=list)

    def clear(self) -> None:
        self.statement, self.name = _NONE, b""
        self.numbers, self.flags, self.members = {}, {}, []


def scan_cfile(source: Source, find: Find, base: Dictionary | None) -> Dictionary:
    """What the reference reads; an error is one of the problems."""
    run = _Run(find, source, base or Dictionary())
    run.read(source, _State())
    return Dictionary(tuple(run.entries), tuple(run.problems))


class _Run:
    def __init__(self, find: Find, main: Source, base: Dictionary) -> None:
        self.entries = list(base.entries)
        self.problems = list(base.problems)
        self._index: dict[str, int] = {}
        for position, entry in enumerate(self.entries):
            self._index.setdefault(entry.name, position)
        self._find = find
        self._budget = IncludeBudget(main)

    def read(self, source: Source, state: _State) -> None:
        """Read one file to its end or to its first error."""
        scanner = Scanner(source.data)
        for kind, token in _tokens(scanner):
            try:
                self._step(source, scanner, state, kind, token)
            except SourceError as error:
                problem = Problem(error.reason, source.name, scanner.line, is_error=True)
                self.problems.append(problem)
                return

    def _step(
        self, source: Source, scanner: Scanner, state: _State, kind: str, token: bytes
    ) -> None:
        if kind == ";":
            if state.statement not in (_NONE, "fields", "field_class_name"):
                state.statement = _ITEM
        elif kind == "}":
            self._close(source, state)
        elif kind == "cfile_includes":
            state.is_listing = True
        elif kind in _NUMBERS or kind in _FLAGS:
            state.statement = kind
        elif kind == "fields":
            _require(state.statement == _ITEM, token)
            state.statement = kind
        elif kind == "field_class_name":
            _require(state.statement == "fields", token)
            state.statement = kind
        elif kind == "number":
            _require(state.statement in _NUMBERS, token)
            _set_number(state, to_int(token))
        elif kind in ("true", "false"):
            _require(state.statement in _FLAGS and state.statement not in state.flags, token)
            state.flags[state.statement] = kind == "true"
        elif kind == "name":
            self._name(scanner, state, token)
        else:
            _require(kind == "{", token)

    def _name(self, scanner: Scanner, state: _State, token: bytes) -> None:
        if state.is_listing:
            included = self._budget.open(decode_text(token), self._find)
            inner = _State(state.statement)
            with self._budget.inside(included):
                self.read(included, inner)
            if inner.statement == _ITEM:
                state.members.extend(inner.members)
        elif state.statement == "field_class_name":
            # Only the last class name of a member counts.
            state.members[-1:] = [(name, token) for name, _ in state.members[-1:]]
        elif state.statement == "fields":
            state.members.append((token, b""))
        elif state.statement == "data_type":
            _set_number(state, _type_number(token))
        else:
            _require(not state.name, token)
            state.statement, state.name, state.line = _ITEM, token, scanner.line

    def _close(self, source: Source, state: _State) -> None:
        if state.statement == "field_class_name":
            state.statement = "fields"
        elif state.statement == "fields":
            state.statement = _ITEM
        elif state.is_listing:
            state.is_listing = False
        elif state.statement != _NONE:
            self._define(source, state)
            state.clear()

    def _define(self, source: Source, state: _State) -> None:
        number = state.numbers.get("data_type", 0)
        known = TssType(number) if 0 < number <= max(TssType) else TssType.NODATA
        is_form = bool(state.members)
        entry, odd = complete_entry(
            Entry(
                state.numbers.get("class_id", 0),
                decode_text(state.name),
                None if is_form else known,
                state.numbers.get("data_size", 0),
                state.flags.get("is_fixed", True),
                state.flags.get("is_primitive", True),
                not is_form and state.flags.get("is_partial", False) and number in _PARTIAL_TYPES,
                self._members(state),
            )
        )
        for reason in odd:
            self.problems.append(Problem(f"{entry.name}: {reason}", source.name, state.line))
        if len(state.name) <= MAX_NAME_LEN:
            self._add(entry)

    def _members(self, state: _State) -> tuple[Member, ...]:
        found = []
        for name, class_name in state.members:
            position = self._index.get(decode_text(class_name))
            if position is not None:
                found.append(Member(decode_text(name), self.entries[position].fid))
        return tuple(found)

    def _add(self, entry: Entry) -> None:
        position = self._index.setdefault(entry.name, len(self.entries))
        if position < len(self.entries):
            before = self.entries[position]
            if (before.fid, before.md_type, before.size) == (entry.fid, entry.md_type, entry.size):
                self.entries[position] = replace(
                    before,
                    is_fixed=before.is_fixed or entry.is_fixed,
                    is_primitive=before.is_primitive or entry.is_primitive,
                    members=entry.members or before.members,
                )
                return
        self.entries.append(entry)


def _require(is_right: bool, token: bytes) -> None:
    if not is_right:
        raise SourceError(f"unexpected {decode_text(token[:40])!r}")


def _set_number(state: _State, value: int) -> None:
    # A statement that said 0 may be repeated: 0 is also how the reference spells "not yet".
    if state.numbers.get(state.statement):
        raise SourceError(f"{state.statement.upper()} is repeated")
    state.numbers[state.statement] = value


def _type_number(token: bytes) -> int:
    if token[:1].isdigit():
        return to_int(token)
    return _TYPE_NAMES.get(decode_text(token).lower(), 0)


def _tokens(scanner: Scanner) -> Iterator[tuple[str, bytes]]:
    while True:
        byte = scanner.significant(ord("#"))
        if byte == END:
            return
        if byte in b"{};":
            yield chr(byte), scanner.take(1)
        elif byte == ord('"'):
            text = scanner.quoted()
            yield ("error", b'"') if text is None else ("name", text)
        elif byte in b"0123456789":
            text, is_number = scanner.number()
            yield "number" if is_number else "name", text
        elif keyword := _KEYWORD.match(scanner.data, scanner.position):
            yield keyword[0].decode("ascii").lower(), scanner.take(len(keyword[0]))
        elif chr(byte).isascii() and chr(byte).isalpha():
            yield "name", scanner.word()
        else:
            yield "error", scanner.take(1)
