"""`RDMFieldDictionary` (also called appendix A): text → `RdmDictionary`. SPEC §3."""

from __future__ import annotations

import re
from typing import Final

from wireloom.formats.qform.dictionary.enumtype import scan_enumtype
from wireloom.formats.qform.dictionary.lines import LineReader
from wireloom.formats.qform.dictionary.model import MAX_NAME_LEN, Dialect, check_dialect
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
    entries: list[RdmEntry] = []
    names: dict[str, RdmEntry] = {}
    fids: dict[int, RdmEntry] = {}
    for line in lines:
        entry = _read_field(line, lines)
        if entry is None or names.get(entry.name) == entry:
            continue
        if names.setdefault(entry.name, entry) is not entry:
            lines.note(f"{entry.name} is defined twice; the first is used")
        if (owner := fids.setdefault(entry.fid, entry)) is not entry:
            lines.note(f"fid {entry.fid} is {entry.name} and also {owner.name}, which is used")
        entries.append(entry)
    return RdmDictionary(tuple(entries), lines.tags, problems=tuple(lines.problems))


def _read_field(line: str, lines: LineReader) -> RdmEntry | None:
    found = _FIELD.fullmatch(line)
    if found is None:
        lines.fail(f"not a field definition ({_COLUMNS}): {line[:60]!r}")
        return None
    acronym, dde, fid_text, ripple, type_text, length_text, enum_text, rwf_text, rwf_length_text = (
        found.groups()
    )
    name, fid = _unquoted(acronym), int(fid_text)
    field_type, rwf_type = type_text.upper(), rwf_text.upper()
    if not 0 < len(name) <= MAX_NAME_LEN:
        lines.note(f"the name of fid {fid} is empty or over {MAX_NAME_LEN} long; left out")
        return None
    if fid not in _FIDS:
        lines.note(f"{name}: fid {fid} does not fit in 16 bits; left out")
        return None
    if field_type not in FIELD_TYPES:
        lines.note(f"{name}: unknown field type {field_type}; the RWF type decides")
    if rwf_type not in RWF_BASES:
        lines.note(f"{name}: unknown RWF type {rwf_type}; opaque unless the field type decides")
    length, rwf_length = int(length_text), int(rwf_length_text)
    md_type, size = typed_view(field_type, length, rwf_type, rwf_length)
    return RdmEntry(
        fid,
        name,
        _unquoted(dde),
        None if ripple == "NULL" else ripple,
        field_type,
        length,
        int(enum_text or 0),
        rwf_type,
        rwf_length,
        md_type,
        size,
    )


def _unquoted(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text
