"""The part of a capture that is in memory: a chunk, and what is left of the one before."""

from __future__ import annotations

from mmap import mmap

from wireloom.captures.bytesource import ByteSource

__all__ = ["CHUNK", "Window"]

CHUNK = 2 << 20
"""Bytes read at a time: enough to spread the cost per chunk, few enough to stay in cache."""
_SLACK = 1 << 19
"""Room in front of a chunk for what is left of the one before: more than one packet record."""


class Window:
    """A sliding view of a source's bytes."""

    def __init__(self, source: ByteSource, chunk: int = CHUNK, base: int = 0) -> None:
        """Nothing is in memory yet.

        Args:
            source: whose bytes.
            chunk: bytes to read at a time.
            base: where the source is now.
        """
        self.source = source
        self.chunk = chunk
        """Bytes to read at a time; may change."""
        self._buffer = _room(chunk + _SLACK)
        self._used = 0
        self.base = base
        """Offset in the source of the first byte of `data`."""
        self.is_end = False
        """Whether nothing comes after `data`."""

    @property
    def data(self) -> memoryview:
        """The bytes in memory; valid until `advance`."""
        return self._buffer[: self._used]

    def advance(self, pos: int) -> None:
        """Release the bytes before `pos`, and read the next chunk.

        Raises:
            SourceError: reading fails.
        """
        left = self._used - pos
        if left + self.chunk > len(self._buffer):
            # Twice the size each time, so that one long record costs linear time.
            wider = _room(2 * left + self.chunk + _SLACK)
            wider[:left] = self._buffer[pos : self._used]
            self._buffer = wider
        elif pos:
            self._buffer[:left] = self._buffer[pos : self._used]
        self.base += pos
        room, source = self._buffer[left : left + self.chunk], self.source
        # The next bytes of a pipe may take long: those that are there are used at once.
        count = source.read_some(room) if source.is_live else source.read_into(room)
        self._used = left + count
        self.is_end = count < (1 if source.is_live else self.chunk)


def _room(size: int) -> memoryview:
    """Memory whose pages cost nothing until they are used: a small file uses few."""
    return memoryview(mmap(-1, size))
