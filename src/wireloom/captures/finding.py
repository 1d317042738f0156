"""Finding captures: files, folders and patterns, on this machine or at an address.

Everything that looks for captures does it here, so that a path means the same files everywhere.
"""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit

from wireloom.captures.bytesource import ByteSource
from wireloom.captures.capture import Source
from wireloom.captures.pcap import is_pcap
from wireloom.captures.pcapng import is_pcapng
from wireloom.errors import OptionError, SourceError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = [
    "CaptureFile",
    "examine",
    "find_paths",
    "is_remote",
    "is_there",
    "natural_key",
    "open_file",
    "open_sample",
    "open_source",
    "size_and_time",
]

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_WILD: Final = re.compile(r"[*?\[]")
_NUMBER: Final = re.compile(r"(\d+)")

_SAMPLE: Final = 1 << 20
"""Bytes of a remote file that are read to recognise it."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture, and what is known of it without reading it all."""

    path: str
    size: int
    """Bytes as stored."""
    is_packets: bool
    """Whether it holds packets (pcap, pcapng); else it is a raw stream."""
    is_packed: bool
    """Whether it is compressed."""


def natural_key(path: str) -> list[tuple[int, int | str]]:
    """Sorts ``cap9`` before ``cap10``: the order in which captures are rotated."""
    parts = _NUMBER.split(path)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts]


def is_remote(path: str) -> bool:
    """Whether a path is an address of another file system."""
    return _SCHEME.match(path) is not None and not path.startswith("file://")


def find_paths(paths: Iterable[str], *, needed: bool = True) -> list[str]:
    """The files at these paths, each a file, a folder, a pattern or an address of one.

    Folders are searched recursively; names that start with a dot or an underscore are left out. The
    files of a folder are sorted by name, with numbers compared by value.

    Args:
        paths: where to look.
        needed: whether it is an error to find nothing.

    Raises:
        OptionError: there is nothing at a path, or no file system is known for an address.
    """
    found: dict[str, None] = {}
    for path in paths:
        listed = sorted(_remote(path) if is_remote(path) else _local(path), key=natural_key)
        if not listed and needed:
            raise OptionError(f"no captures at {path}")
        found |= dict.fromkeys(listed)
    return list(found)


def _local(path: str) -> Iterator[str]:
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    path = os.path.abspath(os.path.expanduser(path))
    # A file may be named like a pattern.
    matches = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    for match in matches:
        if not os.path.isdir(match):
            yield match
            continue
        for folder, folders, files in os.walk(match):
            folders[:] = [name for name in folders if not _is_hidden(name)]
            yield from (os.path.join(folder, name) for name in files if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _file_system(url: str) -> tuple[FileSystem, str, str]:
    """The file system of an address, the path in it, and the prefix that makes paths addresses.

    Raises:
        OptionError: no file system is known for it.
    """
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    scheme = url.partition("://")[0]
    try:
        found, path = FileSystem.from_uri(url)
    except (OSError, ValueError) as error:
        try:
            import fsspec

            inner, path = fsspec.core.url_to_fs(url)
        except (ImportError, OSError, ValueError) as other:
            reason = f"{url} cannot be read, neither by pyarrow ({error}) nor by fsspec ({other})"
            raise OptionError(reason) from error
        found = PyFileSystem(FSSpecHandler(inner))
    whole = url.partition("://")[2]
    # The path that the file system sees is the end of the address.
    front = whole[: len(whole) - len(path)] if whole.endswith(path) else ""
    return found, path, f"{scheme}://{front}"


def _remote(url: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType

    wild = _WILD.search(url)
    base = url if wild is None else url[: url.rindex("/", 0, wild.start())]
    system, path, front = _file_system(base)
    info = system.get_file_info(path)
    if info.type == FileType.File:
        yield url
    if info.type != FileType.Directory:
        return
    pattern = None if wild is None else url[len(front) :]
    for entry in system.get_file_info(FileSelector(path, recursive=True)):
        inside = entry.path[len(path) :].strip("/")
        if entry.type != FileType.File or any(map(_is_hidden, inside.split("/"))):
            continue
        if pattern is None or fnmatch(entry.path, pattern):
            yield front + entry.path


class _Named:
    """A remote file with a name, which captures are reported by."""

    def __init__(self, url: str) -> None:
        system, path, _ = _file_system(url)
        try:
            self._file = system.open_input_stream(path, compression=None)
        except OSError as error:
            raise SourceError(str(error), file=url) from error
        self.name = url

    def read(self, size: int = -1) -> bytes:
        return bytes(self._file.read(size if size >= 0 else None))

    def close(self) -> None:
        self._file.close()


def open_source(path: str) -> Source:
    """What `wireloom.captures.Capture` reads: a local path, or an open remote file.

    Raises:
        OptionError: no file system is known for the address.
        SourceError: the file cannot be opened.
    """
    return cast("BinaryIO", _Named(path)) if is_remote(path) else path


def open_sample(path: str) -> Source:
    """Something that can be read more than once: a local path, or the start of a remote file.

    Raises:
        OptionError: no file system is known for the address.
        SourceError: the file cannot be opened.
    """
    if not is_remote(path):
        return path
    source = _Named(path)
    try:
        return io.BytesIO(source.read(_SAMPLE))
    finally:
        source.close()


def examine(path: str) -> CaptureFile:
    """Look at the first bytes of a file.

    Raises:
        OptionError: no file system is known for the address.
        SourceError: the file cannot be opened or read.
    """
    source = open_source(path)
    try:
        with ByteSource(source) as opened:
            head = memoryview(bytearray(12))
            head = head[: opened.read_into(head)]
            packed = bool(opened.compression)
    finally:
        if not isinstance(source, str):
            cast("BinaryIO", source).close()
    size, _ = size_and_time(path)
    return CaptureFile(path, size, is_pcap(head) or is_pcapng(head), packed)


def is_there(path: str) -> bool:
    """Whether there is a file. If its file system does not answer, it is not considered gone."""
    if not is_remote(path):
        return os.path.exists(path)
    try:
        system, inside, _ = _file_system(path)
        return bool(system.get_file_info(inside).is_file)
    except (OSError, OptionError):
        return True


def size_and_time(path: str) -> tuple[int, int]:
    """Size of a file as stored, and when it was modified, in nanoseconds since 1970.

    The time is 0 if the file system of an address does not report it.

    Raises:
        OptionError: no file system is known for the address.
        SourceError: there is no such file.
    """
    try:
        if not is_remote(path):
            found = os.stat(path)
            return found.st_size, found.st_mtime_ns
        system, inside, _ = _file_system(path)
        info = system.get_file_info(inside)
    except OSError as error:
        raise SourceError(error.strerror or str(error), file=path) from error
    if not info.is_file:
        raise SourceError("there is no such file", file=path)
    return info.size or 0, info.mtime_ns or 0


def open_file(path: str) -> BinaryIO:
    """Random access to the bytes of a file as stored.

    Raises:
        OptionError: no file system is known for the address.
        SourceError: the file cannot be opened.
    """
    try:
        if not is_remote(path):
            return open(path, "rb")
        system, inside, _ = _file_system(path)
        return cast("BinaryIO", system.open_input_file(inside))
    except OSError as error:
        raise SourceError(error.strerror or str(error), file=path) from error
