"""`Dictionary` → a text in the cfile language. SPEC §2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from wireloom.errors import EncodeError
from wireloom.formats.qform.dictionary.cfile import KEYWORDS, PARTIAL_TYPES
from wireloom.formats.qform.dictionary.model import (
    Dictionary,
    DictionaryBuilder,
    Entry,
    TssType,
    complete_entry,
)

__all__ = ["to_cfile"]

# Written without quotes: a name that starts with a keyword would be the keyword to the reference.
_PLAIN_NAME: Final = re.compile(
    rf"(?!(?:{'|'.join(sorted(KEYWORDS))}))[A-Za-z][A-Za-z0-9_.]*", re.IGNORECASE | re.ASCII
)
_UNWRITABLE: Final = re.compile('["\n\ud800-\udfff]')


def to_cfile(dictionary: Dictionary) -> str:
    """A cfile text that reads back, in the clean dialect, as an equal dictionary.

    Raises:
        EncodeError: an entry is of a kind that the language cannot express.
    """
    defined: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    parts = []
    for entry in dictionary.entries:
        if (entry.name, entry.fid) in seen:
            raise EncodeError(f"fid {entry.fid} is defined twice", path=entry.name)
        parts.append(_item(entry, dictionary, defined))
        seen.add((entry.name, entry.fid))
        defined.setdefault(entry.name, entry.fid)
    return "\n".join(parts)


def _item(entry: Entry, dictionary: Dictionary, defined: Mapping[str, int]) -> str:
    as_read = DictionaryBuilder()
    as_read.add(complete_entry(entry)[0], "", 0)
    is_expressible = (
        as_read.build().entries == (entry,)
        and 0 <= entry.fid <= 999_999_999
        and entry.tss_type is not TssType.NODATA
        and (not entry.is_partial or entry.tss_type in PARTIAL_TYPES)
        and (not entry.members or entry.is_form)
    )
    if not is_expressible:
        raise EncodeError("the cfile language has no such item", path=entry.name)
    lines = [
        _written_name(entry.name),
        "{",
        f"\tCLASS_ID\t{entry.fid};",
        f"\tIS_PRIMITIVE\t{_boolean(entry.is_primitive)};",
        f"\tIS_FIXED\t{_boolean(entry.is_fixed)};",
    ]
    if entry.is_partial:
        lines.append("\tIS_PARTIAL\ttrue;")
    if entry.size or not entry.is_form:
        lines.append(f"\tDATA_SIZE\t{entry.size};")
    if entry.tss_type is not None:
        lines.append(f"\tDATA_TYPE\t{entry.tss_type.value}; # {entry.tss_type.name}")
    else:
        lines.append("\tFIELDS\n\t{")
        for member in entry.members:
            target = dictionary.get(member.fid)
            if target is None or defined.get(target.name) != member.fid:
                reason = f"member {member.name} has no class defined before"
                raise EncodeError(reason, path=entry.name)
            name, class_name = _quoted(member.name), _quoted(target.name)
            lines.append(f"\t\t{name} {{ FIELD_CLASS_NAME {class_name}; }}")
        lines.append("\t}")
    lines.append("}\n")
    return "\n".join(lines)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _written_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _quoted(name)


def _quoted(name: str) -> str:
    if _UNWRITABLE.search(name):
        reason = "a name with a quote, a line end or half a character cannot be written"
        raise EncodeError(reason, path=name)
    return f'"{name}"'
