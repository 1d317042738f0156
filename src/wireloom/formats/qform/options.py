"""The option `dictionary`: whatever a caller gives → a `Dictionary`, loaded once (SPEC §7)."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from wireloom.errors import OptionError
from wireloom.formats.qform.dictionary.loading import load
from wireloom.formats.qform.dictionary.model import Dictionary
from wireloom.formats.qform.dictionary.sass import SYSTEM_FIELDS

__all__ = ["DEFAULT", "SYSTEM", "Given", "resolve"]

DEFAULT: Final = "system"
"""The name of the built-in dictionary, which is used when none is given."""

SYSTEM: Final = Dictionary(SYSTEM_FIELDS)
"""The four fields that every SASS message starts with: MSG_TYPE, REC_TYPE, SEQ_NO, REC_STATUS."""

Given = Dictionary | str | os.PathLike[str] | bytes | bytearray | memoryview | None

_KEPT: Final = 16
"""Dictionaries kept in memory. A program uses one or two; verifying vectors, some more."""


def resolve(given: Given) -> Dictionary | None:
    """The dictionary for an option: itself, a path, a text, `DEFAULT`; None if there is none.

    What a path leads to is read once, and again when the file has changed.

    Raises:
        SourceError: it cannot be found or read.
        OptionError: it is not a dictionary.
    """
    if given is None or isinstance(given, Dictionary):
        return given
    if isinstance(given, str) and given == DEFAULT:
        return SYSTEM
    if isinstance(given, (bytes, bytearray, memoryview)):
        given = bytes(given)
    elif isinstance(given, (str, os.PathLike)):
        given = os.fspath(given)
    if not isinstance(given, (str, bytes)):
        raise OptionError(
            f"dictionary must be a Dictionary, a path, a text or {DEFAULT!r}, "
            f"not {type(given).__name__}"
        )
    return _load(type(given), given, _state(given))


@lru_cache(maxsize=_KEPT)
def _load(kind: type, source: str | bytes, state: object) -> Dictionary:
    # The kind comes first: a text and its bytes have the same hash, and must not be compared.
    return load(source)


def _state(source: str | bytes) -> object:
    """A value that changes when the files do; included files are not considered."""
    if isinstance(source, bytes) or "\n" in source or "{" in source:
        return None
    inside = (os.path.join(source, name) for name in _NAMES)  # if it is a directory
    return tuple(_stamp(path) for path in (source, *inside))


_NAMES: Final = ("tss_fields.cf", "tss_records.cf", "RDMFieldDictionary", "enumtype.def")


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # not there, or a NUL in the name
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
