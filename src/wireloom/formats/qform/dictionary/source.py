"""Where dictionary texts come from: files with limits, include searches, tolerant decoding.

Parsers never open files. They get `Source` texts and a `Find` function that gives the text of an
included name, so that a dictionary can be read from a directory, from memory, or from a message
in the same way, and the bytes hashed for the cache are the bytes that are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from wireloom.errors import SourceError

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_INCLUDED_BYTES",
    "MAX_INCLUDES",
    "MAX_INCLUDE_DEPTH",
    "Find",
    "IncludeBudget",
    "Source",
    "decode_text",
    "encode_text",
    "find_in",
    "find_in_directories",
    "read_source",
    "to_source",
]

MAX_FILE_BYTES: Final = 32 << 20
"""The largest text read. A full 16,000-field dictionary has 2 MB as RDM and 3 MB as a cfile."""
MAX_INCLUDE_DEPTH: Final = 16
"""Files that include files. Real sets have two levels."""
MAX_INCLUDES: Final = 256
"""Files included for one dictionary, each as often as it is included."""
MAX_INCLUDED_BYTES: Final = 64 << 20
"""Bytes of those files: one large file included repeatedly is as bad as a huge one."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text: its name as error messages show it, and its bytes."""

    name: str
    data: bytes

    @property
    def charset(self) -> str:
        """UTF-8 where the bytes are valid in it, else Latin-1, in which all bytes are."""
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return "latin-1"
        return "utf-8"

    @property
    def text(self) -> str:
        """The bytes as text, without a byte order mark; never fails."""
        return decode_text(self.data)


Find = Callable[[str], Source | None]
"""Gives the text of an included name, or None when there is no such file."""


def decode_text(data: bytes) -> str:
    """Text of any bytes: UTF-8 where it is valid (a byte order mark dropped), else Latin-1."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def encode_text(text: str) -> bytes:
    """UTF-8 bytes of any text, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def to_source(text: str | bytes | bytearray | memoryview, name: str) -> Source:
    """A text that is in memory, with a name for error messages."""
    return Source(name, encode_text(text) if isinstance(text, str) else bytes(text))


def find_in(files: Mapping[str, str | bytes]) -> Find:
    """A search in texts that are in memory."""

    def find(name: str) -> Source | None:
        found = files.get(name)
        if found is None:
            return None
        return to_source(found, name)

    return find


def find_in_directories(directories: Iterable[str | os.PathLike[str]]) -> Find:
    """A search in `directories`, one after the other.

    An include that names a place outside of them is refused: a dictionary from elsewhere must not
    read other files of this machine.
    """
    places = [Path(directory) for directory in directories]

    def find(name: str) -> Source | None:
        if _leaves_its_directory(name):
            raise SourceError(f"included file {name[:100]!r} is outside of the search directories")
        for place in places:
            candidate = place / name
            if os.path.exists(candidate):  # unlike Path.exists, it takes any name
                return read_source(candidate)
        return None

    return find


class IncludeBudget:
    """How much one dictionary may still include; one for a whole tree of files."""

    __slots__ = ("_bytes_left", "_files_left", "_open")

    def __init__(self, main: Source) -> None:
        self._files_left = MAX_INCLUDES
        self._bytes_left = MAX_INCLUDED_BYTES
        self._open = [main.name]

    def open(self, name: str, find: Find) -> Source:
        """The text to include.

        Raises:
            SourceError: it is missing, includes itself, or is one too many.
        """
        if len(self._open) > MAX_INCLUDE_DEPTH:
            raise SourceError(f"includes are nested deeper than {MAX_INCLUDE_DEPTH}")
        if not self._files_left:
            raise SourceError(f"more than {MAX_INCLUDES} files are included")
        self._files_left -= 1
        source = find(name)
        if source is None:
            raise SourceError(f"included file {name[:100]!r} not found")
        if source.name in self._open:
            raise SourceError(f"{name[:100]!r} includes itself")
        self._bytes_left -= len(source.data)
        if self._bytes_left < 0:
            raise SourceError(f"more than {MAX_INCLUDED_BYTES} bytes are included")
        return source

    @contextmanager
    def inside(self, source: Source) -> Iterator[None]:
        """While `source` is being read."""
        self._open.append(source.name)
        try:
            yield
        finally:
            self._open.pop()


def _leaves_its_directory(name: str) -> bool:
    # Both kinds of separators on every system, so that a name means the same everywhere.
    return (
        "\0" in name
        or name.startswith("/")
        or bool(PureWindowsPath(name).anchor)
        or ".." in PurePosixPath(name).parts
        or ".." in PureWindowsPath(name).parts
    )


def read_source(path: str | os.PathLike[str], *, limit: int = MAX_FILE_BYTES) -> Source:
    """The text of a regular file of at most `limit` bytes.

    Raises:
        SourceError: it cannot be read, is not a regular file, or is too large.
    """
    name = os.fspath(path)
    try:
        # A pipe would block and a device may never end, so look before opening.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceError("not a regular file", file=name)
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(f"cannot be read: {reason or error}", file=name) from error
    if len(data) > limit:
        raise SourceError(f"larger than {limit} bytes", file=name)
    return Source(name, data)
