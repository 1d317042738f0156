"""Raw captures: frames back to back, as on a stream, without packets or times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from wireloom.captures.events import Counts, Stream, StreamData, StreamEnd
from wireloom.captures.window import Window

__all__ = ["RawWriter", "read_raw"]

_NO_MARKS = memoryview(b"").cast("q")


def read_raw(window: Window, stream: Stream) -> Iterator[StreamData | StreamEnd]:
    """The bytes of a raw capture as one stream; the first chunk has been read already.

    Raises:
        SourceError: the file cannot be read.
    """
    offset = 0
    while True:
        data = memoryview(bytes(window.data))
        if data:
            yield StreamData(stream, offset, data, _NO_MARKS, _NO_MARKS)
        offset += len(data)
        if window.is_end:
            break
        window.advance(len(data))
    counts = Counts(captured=offset, delivered=offset)
    yield StreamEnd(stream, offset, "end", counts)


class RawWriter:
    """Writes frames back to back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        """Append bytes as they are."""
        self._file.write(data)
