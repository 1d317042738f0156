"""`RDMFieldDictionary` (also called appendix A): text → `RdmDictionary`. SPEC §3."""

from __future__ import annotations

import re
from typing import Final

from wireloom.formats.qform.dictionary.enumtype import scan_enumtype
from wireloom.formats.qform.dictionary.lines import LineReader
from wireloom.formats.qform.dictionary.model import (
    MAX_NAME_LEN,
    Dialect,
    MdType,
    check_dialect,
    made_of_columns,
)
from wireloom.formats.qform.dictionary.rdm_model import (
    FIELD_TYPES,
    RWF_BASES,
    RdmDictionary,
    RdmEntry,
    typed_view,
)
from wireloom.formats.qform.dictionary.reference.rdm import scan_rdm as scan_reference
from wireloom.formats.qform.dictionary.source import Source, to_source

__all__ = ["is_field_line", "parse_rdm", "scan_rdm"]

# ACRONYM "DDE ACRONYM" FID RIPPLES_TO FIELD_TYPE LENGTH [ ( ENUM_LENGTH ) ] RWF_TYPE RWF_LEN
# Possessive throughout: a line of blanks must not be split in every possible way.
_FIELD: Final = re.compile(
    r"""("[^"]*+"|[^\s"(]\S*+) \s++
    ("[^"]*+"|[^\s"(]\S*+) \s++
    (-?[0-9]{1,9}+) \s++
    ([^\s"(]\S*+) \s++
    ([A-Za-z]\w*+) \s++
    ([0-9]{1,9}+) (?:\s*+\(\s*+([0-9]{1,9}+)\s*+\))?+ \s++
    ([A-Za-z]\w*+) \s++
    ([0-9]{1,9}+) \s*+ (?:!.*+)?+""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_COLUMNS: Final = "ACRONYM DDE-ACRONYM FID RIPPLES-TO FIELD-TYPE LENGTH RWF-TYPE RWF-LEN"

_Typed = tuple[str, int, int, str, int, MdType, int]
"""The attributes of an `RdmEntry` behind its names."""
_Row = tuple[int, str, str, str | None, str, int, int, str, int, MdType, int]
"""All of them."""

_FIDS: Final = range(-32_768, 32_768)
"""Ids are 16-bit numbers on the wire."""


def parse_rdm(
    text: str | bytes,
    *,
    enums: str | bytes | None = None,
    file: str = "RDMFieldDictionary",
    enum_file: str = "enumtype.def",
    dialect: Dialect = "clean",
) -> RdmDictionary:
    """The dictionary of an `RDMFieldDictionary` text and, if given, its `enumtype.def` text.

    Raises:
        SourceError: a line cannot be read; `scan_rdm` gives the others.
        OptionError: there is no such dialect.
    """
    enum_source = None if enums is None else to_source(enums, enum_file)
    dictionary = scan_rdm(to_source(text, file), enums=enum_source, dialect=dialect)
    if dictionary.error is not None:
        raise dictionary.error
    return dictionary


def scan_rdm(
    source: Source, *, enums: Source | None = None, dialect: Dialect = "clean"
) -> RdmDictionary:
    """What can be read of a field dictionary; a bad line becomes one of the problems.

    Raises:
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    if dialect == "reference":
        dictionary = scan_reference(source)
        if dictionary.error is not None:
            return dictionary  # it does not go on to the enum tables either
    else:
        dictionary = _scan_clean(source)
    if enums is None:
        return dictionary
    return dictionary.with_enums(scan_enumtype(enums, dialect=dialect))


def is_field_line(line: str) -> bool:
    """Whether a line, without white space around it, defines a field."""
    return _FIELD.fullmatch(line) is not None


def _scan_clean(source: Source) -> RdmDictionary:
    lines = LineReader(source, "!")
    rows: list[_Row] = []
    names: dict[str, _Row] = {}
    owners: dict[int, str] = {}
    known: dict[tuple[str, ...], _Typed] = {}
    for line in lines:
        row = _read_field(line, lines, known)
        if row is None:
            continue
        fid, name = row[0], row[1]
        first = names.setdefault(name, row)
        if first is not row:
            if first == row:
                continue
            lines.note(f"{name} is defined twice; the first is used")
        if fid in owners:
            lines.note(f"fid {fid} is {name} and also {owners[fid]}, which is used")
        else:
            owners[fid] = name
        rows.append(row)
    entries = made_of_columns(RdmEntry, len(rows), zip(*rows, strict=True)) if rows else ()
    return RdmDictionary(entries, lines.tags, problems=tuple(lines.problems))


def _read_field(line: str, lines: LineReader, known: dict[tuple[str, ...], _Typed]) -> _Row | None:
    found = _FIELD.fullmatch(line)
    if found is None:
        lines.fail(f"not a field definition ({_COLUMNS}): {line[:60]!r}")
        return None
    acronym, dde, fid_text, ripple, *rest = found.groups()
    columns = tuple(rest)
    name = acronym[1:-1] if acronym[0] == '"' else acronym
    fid = int(fid_text)
    if not 0 < len(name) <= MAX_NAME_LEN:
        lines.note(f"the name of fid {fid} is empty or over {MAX_NAME_LEN} long; left out")
        return None
    if fid not in _FIDS:
        lines.note(f"{name}: fid {fid} does not fit in 16 bits; left out")
        return None
    # What comes behind the names is the same for thousands of fields.
    typed = known.get(columns)
    if typed is None:
        typed = known[columns] = _typed(*columns)
    if typed[0] not in FIELD_TYPES:
        lines.note(f"{name}: unknown field type {typed[0]}; the RWF type decides")
    if typed[3] not in RWF_BASES:
        lines.note(f"{name}: unknown RWF type {typed[3]}; opaque unless the field type decides")
    shown = dde[1:-1] if dde[0] == '"' else dde
    return fid, name, shown, None if ripple == "NULL" else ripple, *typed


def _typed(
    type_text: str, length_text: str, enum_text: str | None, rwf_text: str, rwf_length_text: str
) -> _Typed:
    """What the columns behind a field's names say."""
    field_type, rwf_type = type_text.upper(), rwf_text.upper()
    length, rwf_length = int(length_text), int(rwf_length_text)
    view = typed_view(field_type, length, rwf_type, rwf_length)
    return field_type, length, int(enum_text or 0), rwf_type, rwf_length, *view
