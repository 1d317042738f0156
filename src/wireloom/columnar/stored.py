"""Streams with random access: in memory, or in a file.

A file is not mapped: truncating a mapped file while it is read would kill the process. Its blocks
are read instead, which costs no more than the page faults of a map, and a missing one is an error.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from io import FileIO
from mmap import mmap
from threading import Lock
from types import TracebackType
from typing import Final

from wireloom.errors import SourceError

__all__ = ["InMemory", "Stored", "StoredFile"]

_PREAD: Final = getattr(os, "pread", None)
"""Reads at an offset without seeking; Windows has none."""


class Stored(ABC):
    """The bytes of a stream; several threads may read at the same time."""

    size: int
    """How many there are."""
    block: int
    """How many to read at a time."""
    ahead: int
    """How many more, for what begins in a block and ends after it."""

    @abstractmethod
    def read(self, first: int, last: int) -> memoryview:
        """The bytes from `first` up to `last`, or up to the end.

        Raises:
            SourceError: they cannot be read.
        """

    def part(self, first: int, last: int) -> Stored:
        """A part as a stream of its own."""
        return _Part(self, first, min(last, self.size))


class InMemory(Stored):
    """A stream in memory; nothing is copied."""

    def __init__(self, data: bytes | bytearray | memoryview | mmap) -> None:
        self._data = memoryview(data).cast("B")
        self.size = self.block = self.ahead = len(self._data)

    def read(self, first: int, last: int) -> memoryview:
        """The bytes from `first` up to `last`, or up to the end."""
        return self._data[first:last]


class _Part(Stored):
    def __init__(self, whole: Stored, first: int, last: int) -> None:
        self._whole = whole
        self._first = first
        self.size = max(0, last - first)
        self.block, self.ahead = whole.block, whole.ahead

    def read(self, first: int, last: int) -> memoryview:
        begin = self._first
        return self._whole.read(begin + first, begin + min(last, self.size))


class StoredFile(Stored):
    """A file, with the size that it has when it is opened."""

    block = 2 << 20
    ahead = 1 << 14

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open it.

        Raises:
            SourceError: it cannot be opened.
        """
        self._name = os.fspath(path)
        self._lock = Lock()
        try:
            self._file = FileIO(path)
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise SourceError(error.strerror or str(error), file=self._name) from error

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, first: int, last: int) -> memoryview:
        """The bytes from `first` up to `last`, or up to the end.

        Raises:
            SourceError: they cannot be read, or are not there any more.
        """
        last = min(last, self.size)
        parts = []
        while first < last:
            try:
                data = self._some(first, last - first)
            except OSError as error:
                raise SourceError(error.strerror or str(error), file=self._name) from error
            if not data:
                reason = f"it had {self.size} bytes, and ends at {first} now: cut while it was read"
                raise SourceError(reason, file=self._name)
            parts.append(data)
            first += len(data)
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))

    def _some(self, at: int, size: int) -> bytes:
        if _PREAD is not None:
            found: bytes = _PREAD(self._file.fileno(), size, at)
            return found
        with self._lock:
            self._file.seek(at)
            return self._file.read(size)
