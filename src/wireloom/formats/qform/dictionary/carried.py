"""A dictionary carried as a message: the `FIDS` submessage of a TibMsg ↔ `Dictionary`. SPEC §8.

The submessage has one field per name: an unsigned id, with the hint
``partial << 24 | tss type << 16 | size``. This module works on ``(name, fid, hint)`` triples, so
that it needs no codec: whoever decodes the message takes the triples from its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from wireloom.errors import EncodeError
from wireloom.formats.qform.dictionary.model import (
    DEFAULT_SIZES,
    Dictionary,
    DictionaryBuilder,
    Entry,
    TssType,
)

__all__ = ["Triple", "from_triples", "to_triples"]

Triple = tuple[str, int, int]
"""Name, id, hint."""

_PARTIAL: Final = 1 << 24
_MAX_CARRIED_SIZE: Final = 0xFFFF


def from_triples(
    triples: Iterable[tuple[str | None, int, int]], *, source: str = "<message>"
) -> Dictionary:
    """The dictionary that a message carries; unusable triples become problems.

    A size of 0 stands for the type's default. The line of a problem is the number of the triple.
    """
    builder = DictionaryBuilder()
    for number, (name, fid, hint) in enumerate(triples, start=1):
        code = hint >> 16 & 0xFF
        if 0 < code <= max(TssType):
            tss_type = TssType(code)
        else:
            tss_type = TssType.OPAQUE
            builder.note(f"{name}: there is no type {code}; taken as OPAQUE", source, number)
        size = hint & _MAX_CARRIED_SIZE or DEFAULT_SIZES.get(tss_type, 0)
        is_partial = bool(hint & _PARTIAL)
        builder.add(Entry(fid, name or "", tss_type, size, is_partial=is_partial), source, number)
    return builder.build()


def to_triples(dictionary: Dictionary) -> Iterator[Triple]:
    """The triples by which a message carries a dictionary; forms are left out.

    Raises:
        EncodeError: a field is variable, or not primitive, or longer than a hint can express.
    """
    for entry in dictionary.entries:
        if entry.tss_type is None:
            continue
        hint = entry.is_partial * _PARTIAL | entry.tss_type << 16 | entry.size
        triple = (entry.name, entry.fid, hint)
        # What can be expressed is what reads back the same.
        if entry.size > _MAX_CARRIED_SIZE or from_triples([triple]).entries != (entry,):
            raise EncodeError("a message cannot carry such a field", path=entry.name)
        yield triple
