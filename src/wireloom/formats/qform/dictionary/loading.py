"""Loading: a path or a text of any kind → `Dictionary`, through the cache where that pays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary.cache import cache_directory, cache_key, fetch, store
from wireloom.formats.qform.dictionary.cfile import included_names, scan_cfile
from wireloom.formats.qform.dictionary.enumtype import scan_enumtype
from wireloom.formats.qform.dictionary.flist import scan_flist
from wireloom.formats.qform.dictionary.model import (
    Dialect,
    Dictionary,
    Problem,
    check_dialect,
)
from wireloom.formats.qform.dictionary.rdm import is_field_line, scan_rdm
from wireloom.formats.qform.dictionary.rdm_model import RdmDictionary
from wireloom.formats.qform.dictionary.sass import to_sass
from wireloom.formats.qform.dictionary.source import (
    MAX_INCLUDES,
    Find,
    Source,
    find_in_directories,
    read_source,
    to_source,
)

__all__ = [
    "MIN_CACHED_BYTES",
    "FileKind",
    "Input",
    "SearchPath",
    "check",
    "detect",
    "load",
    "load_rdm",
]

Input = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A path, or a text: bytes are a text, and so is a `str` with a line end or a brace in it."""

SearchPath = str | Iterable[str | os.PathLike[str]]
"""Directories, one by one or in one `str` with `os.pathsep` between them."""

MIN_CACHED_BYTES: Final = 64 << 10
"""Smaller texts are read faster than a cache file is."""

_FIELDS, _RECORDS = "tss_fields.cf", "tss_records.cf"
_RDM, _ENUMS = "RDMFieldDictionary", "enumtype.def"

_ACRONYM_LINE: Final = re.compile(r"[^\s0-9]\S*+\s++-?[0-9]++", re.ASCII)
_FLIST_LINE: Final = re.compile(r"[0-9]++\s++[A-Za-z]\w*+(?:\s*+\#.*+)?+", re.ASCII | re.DOTALL)


class FileKind(StrEnum):
    """What a dictionary text is."""

    CFILE = "cfile"
    RDM = "RDMFieldDictionary"
    ENUMTYPE = "enumtype.def"
    FLIST = "flistmapping"


def detect(source: Source) -> FileKind:
    """The kind of text, judged by its comments and its first line that is not one."""
    has_bang = False
    for line in map(str.strip, _lines(source.text)):
        if line.startswith("!"):
            has_bang = True
        elif is_field_line(line):
            return FileKind.RDM
        elif line and not line.startswith("#"):
            if _ACRONYM_LINE.fullmatch(line):
                return FileKind.ENUMTYPE
            if has_bang:
                return FileKind.RDM
            return FileKind.FLIST if _FLIST_LINE.fullmatch(line) else FileKind.CFILE
    return FileKind.RDM if has_bang else FileKind.CFILE


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, one by one: mostly the first few tell."""
    start = 0
    while (stop := text.find("\n", start)) >= 0:
        yield text[start:stop]
        start = stop + 1
    yield text[start:]


def load(
    source: Input,
    *,
    enums: Input | None = None,
    path: SearchPath | None = None,
    dialect: Dialect = "clean",
    cache: bool = True,
) -> Dictionary:
    """The dictionary for QForm messages in a file, a directory or a text.

    Args:
        source: a cfile or an `RDMFieldDictionary`, as a path or as the text itself; or a directory
            with `tss_fields.cf` (and `tss_records.cf`), or else with `RDMFieldDictionary` (and
            `enumtype.def`). From an RDM dictionary the SASS fields are made.
        enums: the `enumtype.def` of an RDM dictionary; by default the one next to the file.
        path: where included files are searched; by default the file's own directory.
        dialect: how to read it; the default is right unless a file loads only in the reference
            implementation.
        cache: whether a large dictionary may be kept on disk, parsed, for the next time.

    Raises:
        SourceError: something cannot be found or read; file and line say where.
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    inputs = _gather(source, enums, path)
    if not (cache and inputs.is_on_disk and dialect == "clean"):
        return _without_error(inputs.scan(dialect))
    texts = inputs.all_texts()
    if sum(len(text.data) for text in texts) < MIN_CACHED_BYTES:
        return _without_error(inputs.scan(dialect))
    directory, key = cache_directory(), cache_key(inputs.kind, texts)
    kept = fetch(key, directory)
    if kept is not None:
        return kept
    dictionary = _without_error(inputs.scan(dialect))
    # A text found only now was not part of the key.
    if len(inputs.all_texts()) == len(texts):
        store(key, dictionary, directory)
    return dictionary


def load_rdm(
    source: Input, *, enums: Input | None = None, dialect: Dialect = "clean"
) -> RdmDictionary:
    """The RDM dictionary in a file, a directory or a text, with its enum tables.

    Raises:
        SourceError: something cannot be found or read, or is not an RDM dictionary.
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    inputs = _gather(source, enums, None, prefer=FileKind.RDM)
    if inputs.kind is not FileKind.RDM:
        raise SourceError(f"this is a {inputs.kind}, no {FileKind.RDM}", file=inputs.mains[0].name)
    dictionary = scan_rdm(inputs.mains[0], enums=inputs.enums, dialect=dialect)
    if dictionary.error is not None:
        raise dictionary.error
    return dictionary


def check(
    source: Input,
    *,
    enums: Input | None = None,
    path: SearchPath | None = None,
    dialect: Dialect = "clean",
) -> tuple[Problem, ...]:
    """Everything that is wrong or odd with what `load` would read; empty if nothing is.

    An `enumtype.def` or a `flistmapping` can be checked alone.

    Raises:
        OptionError: there is no such dialect.
    """
    check_dialect(dialect)
    try:
        return _gather(source, enums, path, any_kind=True).problems(dialect)
    except SourceError as error:
        return (Problem(error.reason, error.file, error.line, is_error=True),)


def _without_error(dictionary: Dictionary) -> Dictionary:
    if dictionary.error is not None:
        raise dictionary.error
    return dictionary


class _Memory:
    """A search with a memory: each included file is read once, and stays the same."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._answers: dict[str, Source | SourceError | None] = {}

    def __call__(self, name: str) -> Source | None:
        if name not in self._answers:
            try:
                self._answers[name] = self._find(name)
            except SourceError as error:
                self._answers[name] = error
        answer = self._answers[name]
        if isinstance(answer, SourceError):
            raise answer
        return answer

    def collect(self, mains: Iterable[Source]) -> list[Source]:
        """All texts that `mains` may include, directly or not, and those asked for before."""
        waiting = [name for main in mains for name in included_names(main)]
        seen: set[str] = set()
        while waiting and len(seen) <= MAX_INCLUDES:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            try:
                found = self(name)
            except SourceError:
                continue  # reported where it is included
            if found is not None:
                waiting.extend(included_names(found))
        return [text for text in self._answers.values() if isinstance(text, Source)]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What to read, found but not parsed."""

    kind: FileKind
    mains: tuple[Source, ...]
    find: _Memory
    enums: Source | None = None
    is_on_disk: bool = False

    def all_texts(self) -> list[Source]:
        """Everything that affects the result."""
        included = self.find.collect(self.mains) if self.kind is FileKind.CFILE else []
        return [*self.mains, *included, *([] if self.enums is None else [self.enums])]

    def scan(self, dialect: Dialect) -> Dictionary:
        """The dictionary, its errors among its problems."""
        if self.kind is FileKind.RDM:
            source = self.mains[0]
            return to_sass(scan_rdm(source, enums=self.enums, dialect=dialect), file=source.name)
        dictionary = Dictionary()
        for source in self.mains:
            if dictionary.error is None:
                dictionary = scan_cfile(source, find=self.find, base=dictionary, dialect=dialect)
        return dictionary

    def problems(self, dialect: Dialect) -> tuple[Problem, ...]:
        """What is wrong with any kind of text."""
        if self.kind is FileKind.ENUMTYPE:
            return scan_enumtype(self.mains[0], dialect=dialect).problems
        if self.kind is FileKind.FLIST:
            return scan_flist(self.mains[0]).problems
        return self.scan(dialect).problems


def _gather(
    source: Input,
    enums: Input | None,
    path: SearchPath | None,
    *,
    prefer: FileKind = FileKind.CFILE,
    any_kind: bool = False,
) -> _Inputs:
    enum_source = None if enums is None else _read_input(enums, "<enums>")
    place = _as_path(source)
    kind: FileKind | None = None
    mains: tuple[Source, ...]
    if place is None:
        mains = (_read_input(source, "<text>"),)
    elif not os.path.isdir(place):
        mains = (read_source(place),)
        place = place.parent
    elif prefer is FileKind.CFILE and os.path.exists(place / _FIELDS):
        kind = FileKind.CFILE
        names = [name for name in (_FIELDS, _RECORDS) if os.path.exists(place / name)]
        mains = tuple(read_source(place / name) for name in names)
    elif os.path.exists(place / _RDM):
        kind = FileKind.RDM
        mains = (read_source(place / _RDM),)
    else:
        raise SourceError(f"neither {_FIELDS} nor {_RDM} is in this directory", file=str(place))
    kind = kind or detect(mains[0])
    if kind in (FileKind.ENUMTYPE, FileKind.FLIST) and not any_kind:
        raise SourceError(f"{kind} files define no fields on their own", file=mains[0].name)
    if kind is not FileKind.RDM:
        enum_source = None
    elif enum_source is None and place is not None and os.path.exists(place / _ENUMS):
        enum_source = read_source(place / _ENUMS)
    directories = [] if place is None else [place]
    find = find_in_directories(directories if path is None else _directories(path))
    return _Inputs(kind, mains, _Memory(find), enum_source, is_on_disk=place is not None)


def _as_path(source: Input) -> Path | None:
    if isinstance(source, os.PathLike):
        return Path(source)
    if isinstance(source, str) and "\n" not in source and "{" not in source:
        return Path(source)
    return None


def _read_input(source: Input, name: str) -> Source:
    path = _as_path(source)
    if path is not None:
        return read_source(path)
    assert not isinstance(source, os.PathLike)  # those are paths
    return to_source(source, name)


def _directories(path: SearchPath) -> list[str | os.PathLike[str]]:
    if isinstance(path, str):
        return [directory for directory in path.split(os.pathsep) if directory]
    return list(path)
