"""Files → bytes: plain, gzip or zstd, told apart by their content, a bounded piece at a time.

Decompressors are asked for no more bytes than there is room for, so that a file that unpacks to a
thousand times its size costs time but no memory. The bytes end where a file cannot be unpacked, and
`ByteSource.fault` says where and why.
"""

from __future__ import annotations

import io
import os
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO

from wireloom.errors import SourceError

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

__all__ = ["ByteSource", "Fault", "is_compressed", "is_pipe"]

_READ = 1 << 18
"""Bytes read at a time of a compressed file."""
_MAX_AGAIN = 64 << 20
"""Bytes unpacked a second time after a fault, to recover those before it."""
_WINDOW_LOG = 27
"""Largest zstd window: 128 MiB, which `zstd --long` uses; zstd itself needs an option for more."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
"""First words of zstd frames that hold no data; parallel compressors start files with one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a compressed file could not be read to its end."""

    offset: int
    """Where in the compressed file, within one read's length."""
    reason: str


class _Member(ABC):
    """Unpacks one member of a file; what comes before a fault in it is not lost.

    A decompressor call that fails returns nothing at all. So the input since the last known state
    is kept, and the good part of it is read again.
    """

    name = ""

    def __init__(self) -> None:
        self._inner = self._new()
        self._input = b""
        """Input read since the last known state."""
        self._given = 0
        """Bytes unpacked from it."""
        self._fault: Exception | None = None
        self.is_finished = False
        self.has_more = False
        """Whether there may be output without more input."""
        self.rest = b""
        """Input behind the member, once it is finished."""

    def decode(self, data: bytes, room: int) -> bytes:
        """The next bytes, at most `room`.

        Raises:
            zlib.error: it is gzip, and damaged from here on.
            ZstdError: the same for zstd.
        """
        if self._fault is None:
            try:
                out: bytes = self._inner.decompress(self._remember(data), room)
            except (zlib.error, ZstdError) as error:
                self._fault = error
            else:
                self._given += len(out)
                self._look(out, room)
                return out
        out = self._before_fault(room)
        if not out:
            raise self._fault
        self._given += len(out)
        self.has_more = True
        return out

    def _before_fault(self, room: int) -> bytes:
        """The output of the good part of the input that was not yet given out."""
        most = self._given + room
        if most > _MAX_AGAIN:
            return b""
        good, bad = 0, len(self._input)
        found = b""
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                found = self._again().decompress(self._input[:middle], most)
                good = middle
            except (zlib.error, ZstdError):
                bad = middle
        return found[self._given :]

    # --- what differs

    @abstractmethod
    def _new(self) -> Any: ...

    @abstractmethod
    def _remember(self, data: bytes) -> bytes:
        """Keep the next input for a second reading; return what to decompress."""

    @abstractmethod
    def _again(self) -> Any:
        """A decompressor in the last known state."""

    @abstractmethod
    def _look(self, out: bytes, room: int) -> None: ...


class _Gzip(_Member):
    name = "gzip"

    def _new(self) -> Any:
        return zlib.decompressobj(wbits=31)

    def _remember(self, data: bytes) -> bytes:
        # A copy is cheap: the last 32 KiB of output.
        self._known = self._inner.copy()
        self._input, self._given = self._inner.unconsumed_tail + data, 0
        return self._input

    def _again(self) -> Any:
        return self._known.copy()

    def _look(self, out: bytes, room: int) -> None:
        self.is_finished = self._inner.eof
        # If `room` is full, there may be more output, even though all input was taken.
        self.has_more = not self.is_finished and (
            bool(self._inner.unconsumed_tail) or len(out) == room
        )
        self.rest = self._inner.unused_data


class _Zstd(_Member):
    name = "zstd"
    _is_known = True

    def _new(self) -> Any:
        options: dict[int, int] = {DecompressionParameter.window_log_max: _WINDOW_LOG}
        return ZstdDecompressor(options=options)

    def _remember(self, data: bytes) -> bytes:
        # Its state cannot be copied: only a short frame can be read again, from its start.
        self._is_known = self._is_known and len(self._input) + len(data) <= 2 * _READ
        self._input = self._input + data if self._is_known else b""
        return data

    def _again(self) -> Any:
        return self._new()

    def _look(self, out: bytes, room: int) -> None:
        self.is_finished = self._inner.eof
        self.has_more = not self.is_finished and not self._inner.needs_input
        self.rest = self._inner.unused_data if self.is_finished else b""


def _compression(head: bytes) -> type[_Member] | None:
    if head[:2] == _GZIP:
        return _Gzip
    is_skippable = int.from_bytes(head[:4], "little") in _SKIPPABLE
    return _Zstd if head[:4] == _ZSTD or is_skippable else None


def is_compressed(head: bytes) -> bool:
    """Whether a file with these first bytes is taken to be gzip or zstd."""
    return _compression(head) is not None


class ByteSource:
    """The bytes of one capture file, unpacked."""

    def __init__(self, file: str | os.PathLike[str] | BinaryIO, name: str = "") -> None:
        """Open a path, or read from a binary file that the caller closes.

        Raises:
            SourceError: the file cannot be opened or read.
        """
        self._is_owned = isinstance(file, (str, os.PathLike))
        if isinstance(file, (str, os.PathLike)):
            self.name = name or os.fspath(file)
            try:
                # Unbuffered: reads are large anyway.
                self._file: BinaryIO | io.FileIO = io.FileIO(file)
            except OSError as error:
                raise SourceError(error.strerror or str(error), file=self.name) from error
        else:
            self.name = name or str(getattr(file, "name", "<file>"))
            self._file = file
        self.size: int | None = _size_of(self._file)
        """Bytes of the file as stored; None if it is a pipe."""
        self.is_live = is_pipe(self._file)
        """Whether it is a pipe, whose next bytes may take long to arrive."""
        self.consumed = 0
        """Bytes of it read so far."""
        self.fault: Fault | None = None
        self._head = b""
        while len(self._head) < 4 and (more := self._read(4 - len(self._head))):
            self._head += more
        self._kind: type[_Member] | None = _compression(self._head)
        self.compression = "" if self._kind is None else self._kind().name
        """``gzip``, ``zstd`` or nothing."""
        self._decoder: _Member | None = None
        self._is_end = False

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._is_owned:
            self._file.close()

    def seek(self, offset: int) -> None:
        """Continue at an offset of the file, which must not be compressed.

        Raises:
            SourceError: the file is compressed or cannot seek.
        """
        if self._kind is not None:
            raise SourceError("a compressed file is read from its start", file=self.name)
        try:
            self._file.seek(offset)
        except (OSError, ValueError) as error:
            raise SourceError(str(error), file=self.name) from error
        self._head = b""
        self._is_end = False
        self.consumed = offset

    def read_into(self, room: memoryview) -> int:
        """Fill `room` as far as the file goes; return the number of bytes.

        Raises:
            SourceError: reading fails.
        """
        used = 0
        while used < len(room) and not self._is_end:
            used += self._some(room[used:])
        return used

    def read_some(self, room: memoryview) -> int:
        """Put what a pipe has by now into `room`, at least one byte; return 0 at the end.

        Raises:
            SourceError: reading fails.
        """
        used = 0
        while not used and not self._is_end:
            used = self._some(room)
        return used

    def _read(self, size: int, read: Callable[[int], bytes] | None = None) -> bytes:
        try:
            data = (read or self._file.read)(size) or b""
        except OSError as error:
            raise SourceError(error.strerror or str(error), file=self.name) from error
        self.consumed += len(data)
        return data

    def _some(self, room: memoryview) -> int:
        """At least one byte, unless `_is_end` is set."""
        if self._kind is None and not self._head:
            count = self._read_into(room)
            self._is_end = not count
            return count
        if self._kind is None:
            data, self._head = self._head[: len(room)], self._head[len(room) :]
        else:
            data = self._unpack(len(room))
        room[: len(data)] = data
        return len(data)

    def _read_into(self, room: memoryview) -> int:
        # From a pipe, take what is there without waiting for the rest; readinto1 would wait.
        some = getattr(self._file, "read1", None) if self.is_live else None
        if some is not None or not isinstance(self._file, (io.RawIOBase, io.BufferedIOBase)):
            data = self._read(min(len(room), 1 << 20), some)
            room[: len(data)] = data
            return len(data)
        try:
            count = self._file.readinto(room) or 0
        except OSError as error:
            raise SourceError(error.strerror or str(error), file=self.name) from error
        self.consumed += count
        return count

    def _unpack(self, room: int) -> bytes:
        while True:
            data = self._head
            self._head = b""
            if self._decoder is None or not self._decoder.has_more:
                data = data or self._read(_READ)
            if self._decoder is None:
                # gzip pads its files with zeros on tapes.
                data = data.lstrip(b"\0") if self.compression == "gzip" else data
                if not data:
                    if self.consumed == self.size or not (data := self._read(_READ)):
                        self._is_end = True
                        return b""
                    self._head = data
                    continue
                assert self._kind is not None
                self._decoder = self._kind()
            elif not data and not self._decoder.has_more:
                return self._stop("the compressed data ends early")
            try:
                out = self._decoder.decode(data, room)
            except (zlib.error, ZstdError) as error:
                return self._stop(str(error))
            if self._decoder.is_finished:
                self._head = self._decoder.rest
                self._decoder = None
            if out:
                return out

    def _stop(self, reason: str) -> bytes:
        self.fault = Fault(self.consumed, reason)
        self._is_end = True
        return b""


def is_pipe(file: BinaryIO | io.FileIO) -> bool:
    """Whether a file can only be read once, as it arrives."""
    try:
        return not file.seekable()
    except (AttributeError, ValueError):
        return False


def _size_of(file: BinaryIO | io.FileIO) -> int | None:
    try:
        size = os.fstat(file.fileno()).st_size
    except (OSError, AttributeError, ValueError):
        return None
    return size or None
