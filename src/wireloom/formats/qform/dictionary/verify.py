"""Golden cases of dictionaries: does this package read them as the reference did?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.cfile import scan_cfile
from wireloom.formats.qform.dictionary.model import Entry, MdType
from wireloom.formats.qform.dictionary.rdm import scan_rdm
from wireloom.formats.qform.dictionary.rdm_model import RdmDictionary, RdmEntry
from wireloom.formats.qform.dictionary.reference.enumtype import found_displays, is_dense
from wireloom.formats.qform.dictionary.sass import to_sass
from wireloom.formats.qform.dictionary.source import find_in, to_source

__all__ = ["PARSE_ERROR", "verify_case"]

PARSE_ERROR = 42
"""The status of a text that the reference refuses; what came before the error counts."""


def verify_case(case: Mapping[str, Any]) -> str | None:
    """None if this package agrees with a case of `tib_dictionaries.jsonl`, else what differs."""
    try:
        if case["format"] == "cfile":
            return _verify_cfile(case)
        if case["format"] == "rdm":
            return _verify_rdm(case)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"the case itself is malformed: {type(error).__name__}: {error}"
    return f"unknown format {case['format']!r}"


def _verify_cfile(case: Mapping[str, Any]) -> str | None:
    find = find_in(case["files"])
    main = find(case["main"])
    if main is None:
        return f"the case itself is malformed: no file {case['main']!r}"
    dictionary = scan_cfile(main, find=find, dialect="reference")
    entries = [_sass_row(entry) for entry in dictionary.entries]
    return _status(case, dictionary.error) or _differences("entries", entries, case["entries"])


def _verify_rdm(case: Mapping[str, Any]) -> str | None:
    enums = to_source(case["enum_def"], "enumtype.def") if case.get("enum_def") else None
    source = to_source(case["field_dict"], "RDMFieldDictionary")
    dictionary = scan_rdm(source, enums=enums, dialect="reference")
    expected = [_without_memory(row, dictionary) for row in case["entries"]]
    # The generator of SASS fields does nothing when the field dictionary cannot be read.
    sass = () if dictionary.error is not None else to_sass(dictionary)
    return (
        _status(case, dictionary.error)
        or _differences("entries", [_rdm_row(e, dictionary) for e in dictionary], expected)
        or _differences("sass_entries", [_sass_row(e) for e in sass], case["sass_entries"])
    )


def _status(case: Mapping[str, Any], error: SourceError | None) -> str | None:
    status = PARSE_ERROR if error is not None else 0
    if status == case["status"]:
        return None
    return f"status {status}, expected {case['status']}: {error or 'no error'}"


def _differences(
    what: str, actual: list[dict[str, object]], expected: Iterable[Mapping[str, Any]]
) -> str | None:
    wanted = list(expected)
    for index, (ours, theirs) in enumerate(zip(actual, wanted, strict=False)):
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                where = f"{what}[{index}] {theirs.get('name')!r} {key}"
                return f"{where}: {ours.get(key)!r}, expected {theirs.get(key)!r}"
    if len(actual) != len(wanted):
        return f"{what}: {len(actual)}, expected {len(wanted)}"
    return None


def _sass_row(entry: Entry) -> dict[str, object]:
    row: dict[str, object] = {
        "fid": entry.fid,
        "name": entry.name,
        "md_type": entry.md_type.value,
        "size": entry.size,
        "fixed": entry.is_fixed,
        "primitive": entry.is_primitive,
    }
    if entry.members:
        row["form_fids"] = list(entry.form_fids)
    return row


def _rdm_row(entry: RdmEntry, dictionary: RdmDictionary) -> dict[str, object]:
    row: dict[str, object] = {
        "fid": entry.fid,
        "name": entry.name,
        "md_type": entry.md_type.value,
        "size": entry.size,
        "dde": entry.dde,
        "ripple": entry.ripples_to,
        "mf_type": entry.field_type,
        "mf_len": entry.length,
        "enum_len": entry.enum_length,
        "rwf_type": entry.rwf_base,
        "rwf_len": entry.rwf_length,
    }
    table = dictionary.enums.by_fid.get(entry.fid)
    if table is not None and entry.md_type is MdType.ENUM:
        found = sorted(found_displays(table).items())
        row["enum"] = {str(value): table.shown(value, display) for value, display in found}
    return row


def _without_memory(row: Mapping[str, Any], dictionary: RdmDictionary) -> dict[str, Any]:
    """The row without what the reference's memory happened to hold after a short text."""
    table = dictionary.enums.by_fid.get(row["fid"])
    if table is None or "enum" not in row or is_dense(table):
        return dict(row)
    shown = {
        value: text[: len(table.display(int(value)) or text)] for value, text in row["enum"].items()
    }
    return {**row, "enum": shown}
