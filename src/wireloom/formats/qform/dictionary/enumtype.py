"""`enumtype.def`: text → `EnumTables`. SPEC §4."""

from __future__ import annotations

import re
from typing import Final

from wireloom.formats.qform.dictionary.lines import LineReader
from wireloom.formats.qform.dictionary.model import Dialect, check_dialect
from wireloom.formats.qform.dictionary.rdm_model import EnumTable, EnumTables
from wireloom.formats.qform.dictionary.reference.enumtype import scan_enumtype as scan_reference
from wireloom.formats.qform.dictionary.source import Source, to_source

__all__ = ["parse_enumtype", "scan_enumtype"]

# Two columns; what follows them is a remark. An unclosed quote is a word like any other here, so
# that the reader can say what is wrong with it.
_LINE: Final = re.compile(r'("[^"]*+"|\S++)\s++("[^"]*+"|\S++).*+', re.ASCII | re.DOTALL)
_INTEGER: Final = re.compile(r"-?[0-9]{1,9}+", re.ASCII)
_HEX: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})*+)#", re.ASCII)

_VALUES: Final = range(65_536)
"""Enum values are 16-bit numbers on the wire."""


def parse_enumtype(
    text: str | bytes, *, file: str = "enumtype.def", dialect: Dialect = "clean"
) -> EnumTables:
    """The tables of an `enumtype.def` text.

    Raises:
        SourceError: a line cannot be read; `scan_enumtype` gives the others.
        OptionError: there is no such dialect.
    """
    tables = scan_enumtype(to_source(text, file), dialect=dialect)
    if tables.error is not None:
        raise tables.error
    return tables


def scan_enumtype(source: Source, *, dialect: Dialect = "clean") -> EnumTables:
    """What can be read of an `enumtype.def`; a bad line is one of the problems.

    Raises:
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    if dialect == "reference":
        return scan_reference(source)
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._charset = source.charset
        self._lines = LineReader(source, "!")
        self._tables: list[EnumTable] = []
        self._acronyms: list[tuple[str, int]] = []
        self._rows: dict[int, bytes] = {}
        self._hexed: set[int] = set()

    def read(self) -> EnumTables:
        for line in self._lines:
            found = _LINE.fullmatch(line)
            if found is None:
                self._lines.fail(f"two columns expected: {line[:60]!r}")
            elif _INTEGER.fullmatch(found[1]):
                self._read_value(int(found[1]), found[2])
            else:
                self._read_acronym(found[1], found[2])
        self._finish()
        return EnumTables(tuple(self._tables), self._lines.tags, tuple(self._lines.problems))

    def _read_acronym(self, acronym: str, fid: str) -> None:
        if self._rows:
            self._finish()
        if _INTEGER.fullmatch(fid):
            self._acronyms.append((acronym.strip('"'), int(fid)))
        else:
            self._lines.fail(f"a field id expected after {acronym[:40]!r}, not {fid[:40]!r}")

    def _read_value(self, value: int, column: str) -> None:
        display = self._display(column)
        if display is None:
            self._lines.fail(f"not a display text: {column[:40]!r}")
        elif not self._acronyms:
            self._lines.fail("a value before any acronym")
        elif value not in _VALUES:
            self._lines.note(f"value {value} does not fit in 16 bits; left out")
        elif self._rows.setdefault(value, display) is not display:
            self._lines.note(f"value {value} is repeated; the first text is used")
        elif column.startswith("#"):
            self._hexed.add(value)

    def _display(self, column: str) -> bytes | None:
        if column.startswith("#"):
            found = _HEX.fullmatch(column)
            return None if found is None else bytes.fromhex(found[1])
        if column.startswith('"'):
            if len(column) < 2 or not column.endswith('"'):
                return None
            column = column[1:-1]
        return column.encode(self._charset)

    def _finish(self) -> None:
        """Close the current table, if there is one."""
        if self._rows:
            rows, hexed = tuple(self._rows.items()), frozenset(self._hexed)
            self._tables.append(EnumTable(tuple(self._acronyms), rows, hexed))
        elif self._acronyms:
            self._lines.note(f"{self._acronyms[-1][0]} has no values")
        self._acronyms, self._rows = [], {}
        self._hexed.clear()
