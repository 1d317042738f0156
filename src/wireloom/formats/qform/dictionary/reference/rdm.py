"""`RDMFieldDictionary` in the reference dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.model import MAX_NAME_LEN, Problem
from wireloom.formats.qform.dictionary.rdm_model import (
    FIELD_TYPES,
    RWF_BASES,
    RdmDictionary,
    RdmEntry,
    typed_view,
)
from wireloom.formats.qform.dictionary.reference.scanner import END, Scanner, to_int
from wireloom.formats.qform.dictionary.source import Source, decode_text

__all__ = ["scan_rdm"]

# Longer names first: a keyword is recognised by its first letters.
_KEYWORD: Final = re.compile(
    "|".join(sorted(FIELD_TYPES | set(RWF_BASES), key=len, reverse=True)).encode(), re.IGNORECASE
)

_MAX_LENGTH: Final = 255
"""The reference keeps lengths in a byte; longer ones are capped, after the size is computed."""

_NAME, _DDE, _FID, _RIPPLES, _TYPE, _LENGTH, _RWF_TYPE, _RWF_LENGTH = range(1, 9)


@dataclass(slots=True)
class _Row:
    """The line being read."""

    line: int
    name: bytes = b""
    dde: bytes = b""
    fid: int = 0
    ripples_to: bytes = b""
    field_type: str = "NONE"
    length: int = 0
    enum_length: int = 0
    rwf_type: str = "NONE"
    rwf_length: int = 0

    def set_name(self, column: int, token: bytes) -> None:
        if column == _NAME:
            self.name = token
        elif column == _DDE:
            self.dde = token
        elif column == _RIPPLES:
            self.ripples_to = token
        else:
            raise SourceError(f"unexpected {decode_text(token[:40])!r} in column {column}")

    def set_number(self, column: int, token: bytes, is_inside: bool) -> None:
        if column == _FID:
            self.fid = to_int(token)
        elif column == _LENGTH and is_inside:
            self.enum_length = to_int(token)
        elif column == _LENGTH:
            self.length = to_int(token)
        elif column == _RWF_LENGTH:
            self.rwf_length = to_int(token)
        else:
            self.set_name(column, token)

    def set_keyword(self, column: int, token: bytes) -> None:
        word = token.decode("ascii").upper()
        if column == _TYPE:
            self.field_type = word if word in FIELD_TYPES else "NONE"
        elif column == _RWF_TYPE:
            self.rwf_type = word if word in RWF_BASES else "NONE"
        else:
            self.set_name(column, token)

    def entry(self) -> RdmEntry:
        md_type, size = typed_view(self.field_type, self.length, self.rwf_type, self.rwf_length)
        return RdmEntry(
            self.fid,
            decode_text(self.name),
            decode_text(self.dde),
            decode_text(self.ripples_to) if self.ripples_to != b"NULL" else None,
            self.field_type,
            min(self.length, _MAX_LENGTH),
            self.enum_length,
            self.rwf_type,
            min(self.rwf_length, _MAX_LENGTH),
            md_type,
            size,
        )


def scan_rdm(source: Source) -> RdmDictionary:
    """What the reference reads; at an error it keeps the lines before it and stops."""
    run = _Run(source.data)
    problems: tuple[Problem, ...] = ()
    try:
        run.read()
    except SourceError as error:
        problems = (Problem(error.reason, source.name, run.line, is_error=True),)
    return RdmDictionary(tuple(run.entries), problems=problems)


class _Run:
    def __init__(self, data: bytes) -> None:
        self._scanner = Scanner(data)
        self._depth = 0
        self.entries: list[RdmEntry] = []
        self._index: dict[str, int] = {}

    @property
    def line(self) -> int:
        return self._scanner.line

    def read(self) -> None:
        row: _Row | None = None
        while True:
            byte = self._scanner.significant(ord("!"))
            if self._depth == 0:
                self._scanner.column += 1
            is_new_row = row is None or row.line != self.line
            if row is not None and is_new_row:
                self._add(row)
            if row is None or is_new_row:
                row = _Row(self.line)
            if byte == END:
                return
            self._read_token(row, byte, is_new_row)

    def _read_token(self, row: _Row, byte: int, is_new_row: bool) -> None:
        scanner = self._scanner
        column = scanner.column
        if is_new_row:
            self._depth = 0
        if byte in b"()":
            token = scanner.take(1)
            if is_new_row or column not in (_LENGTH, _RWF_TYPE):
                raise SourceError(f"unexpected {decode_text(token)!r}")
            if byte == ord("("):
                scanner.column = _LENGTH
            self._depth += 1 if byte == ord("(") else -1
        elif byte == ord('"'):
            text = scanner.quoted()
            if text is None:
                raise SourceError("the quote is not closed")
            row.set_name(column, text)
        elif byte in b"-0123456789":
            token, is_number = scanner.number()
            if is_number:
                row.set_number(column, token, self._depth != 0)
            else:
                row.set_name(column, token)
        else:
            self._read_word(row, byte)

    def _read_word(self, row: _Row, byte: int) -> None:
        scanner = self._scanner
        column = scanner.column
        found = _KEYWORD.match(scanner.data, scanner.position) if column > _RIPPLES else None
        if found is not None:
            row.set_keyword(column, scanner.take(len(found[0])))
        elif chr(byte).isascii() and chr(byte).isalpha():
            row.set_name(column, scanner.word())
        else:
            raise SourceError(f"unexpected {decode_text(scanner.take(1))!r}")

    def _add(self, row: _Row) -> None:
        if max(len(row.name), len(row.dde), len(row.ripples_to)) > MAX_NAME_LEN:
            return
        entry = row.entry()
        position = self._index.setdefault(entry.name, len(self.entries))
        if position < len(self.entries):
            before = self.entries[position]
            if (before.fid, before.md_type, before.size) == (entry.fid, entry.md_type, entry.size):
                self.entries[position] = replace(
                    entry,
                    dde=before.dde,
                    ripples_to=before.ripples_to,
                    length=entry.length or before.length,
                    enum_length=entry.enum_length or before.enum_length,
                    rwf_length=entry.rwf_length or before.rwf_length,
                )
                return
        self.entries.append(entry)
