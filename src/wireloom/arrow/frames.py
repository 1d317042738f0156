"""Batches of frames, and what belongs to each frame: its key, its refusal, its payloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import allocate, constant, int_scalar, null_array, numbers
from wireloom.arrow.types import arrow_type
from wireloom.columns import Column, key_row
from wireloom.errors import DecodeError
from wireloom.framing import Frame, Problem, Record, Text

__all__ = ["KEY_NAMES", "FrameBatch", "Keys", "Payloads", "Refused"]

KEY_NAMES: Final = ("source", "stream", "frame_offset", "frame_length", "ts_ns", "ts", "path")
"""The key columns, with which every table of frames and messages begins."""


class FrameBatch:
    """Frames in stream order, and what lies between them."""

    __slots__ = ("base", "count", "data", "format", "lengths", "offsets", "others", "reaches")

    format: str
    data: memoryview
    """The bytes that the frames lie in."""
    base: int
    """Where `data` starts in the stream."""
    count: int
    offsets: memoryview
    """Where each frame starts in `data`: 64-bit numbers."""
    lengths: memoryview
    """Bytes of each frame: 32-bit numbers."""
    others: list[Problem | Text]
    """What is not a frame, in stream order."""
    reaches: list[int]
    """For each of `others`, the stream offset up to which the scanner's decisions depend on it."""

    def __init__(
        self, format: str, data: memoryview, base: int, offsets: memoryview, lengths: memoryview
    ) -> None:
        self.format = format
        self.data = data
        self.base = base
        self.count = len(offsets)
        self.offsets = offsets
        self.lengths = lengths
        self.others = []
        self.reaches = []

    def part(self, first: int, last: int) -> FrameBatch:
        """Only the frames from `first` up to `last`, and nothing else."""
        offsets, lengths = self.offsets[first:last], self.lengths[first:last]
        return FrameBatch(self.format, self.data, self.base, offsets, lengths)

    def others_in(self, first: int, last: int) -> list[Problem | Text]:
        """Those of `others` before the frames from `first` up to `last`; after the last frame, too.

        So the parts of a batch together have all of `others`.
        """
        start = self.base + self.offsets[first - 1] if first else -1
        end = self.base + self.offsets[last - 1] if last < self.count else None
        return [o for o in self.others if o.offset > start and (end is None or o.offset < end)]

    def frame(self, index: int) -> bytes:
        """The bytes of one frame."""
        start = self.offsets[index]
        return bytes(self.data[start : start + self.lengths[index]])

    def records(self) -> Iterator[Record]:
        """Everything in stream order, as the object path gives it."""
        others = iter(self.others)
        other = next(others, None)
        for index in range(self.count):
            offset = self.base + self.offsets[index]
            while other is not None and other.offset < offset:
                yield other
                other = next(others, None)
            yield Frame(self.format, offset, self.frame(index))
        if other is not None:
            yield other
            yield from others


@dataclass(frozen=True, slots=True)
class Keys:
    """The key columns of a batch of frames."""

    source: str | pa.DictionaryArray
    """One for all frames, or one for each."""
    stream: str | pa.DictionaryArray
    base: int
    """Stream offset that the frames' offsets count from."""
    ts_ns: memoryview | None
    """Capture time of each frame; None if not known."""
    offsets: memoryview | None = None
    """Stream offset of each frame, where they lie in several streams."""

    def part(self, first: int, last: int) -> Keys:
        """The keys of the frames from `first` up to `last`."""
        source, stream = (
            text if isinstance(text, str) else text.slice(first, last - first)
            for text in (self.source, self.stream)
        )
        return Keys(
            source,
            stream,
            self.base,
            None if self.ts_ns is None else self.ts_ns[first:last],
            None if self.offsets is None else self.offsets[first:last],
        )

    def row(self, index: int, batch: FrameBatch) -> dict[str, Any]:
        """The key of one frame."""
        source, stream = (
            text if isinstance(text, str) else text[index].as_py()
            for text in (self.source, self.stream)
        )
        ts_ns = None if self.ts_ns is None else self.ts_ns[index]
        return key_row(source, stream, self.offset(index, batch), batch.lengths[index], ts_ns)

    def offset(self, index: int, batch: FrameBatch) -> int:
        """Where a frame starts in its stream."""
        found: int = (
            self.base + batch.offsets[index] if self.offsets is None else self.offsets[index]
        )
        return found

    def column(self, column: Column, batch: FrameBatch, kernel: Any) -> pa.Array:
        """One of the key columns, for all frames.

        Args:
            column: which.
            batch: the frames.
            kernel: which kernel to use.
        """
        name, type, count = column.name, arrow_type(column.type), batch.count
        if name in ("source", "stream", "path"):
            text = {"source": self.source, "stream": self.stream, "path": ""}[name]
            return constant(text, count, type) if isinstance(text, str) else text
        if name == "frame_length":
            return numbers(batch.lengths, type)
        if name == "frame_offset":
            if self.offsets is not None:
                return numbers(self.offsets, type)
            found = numbers(batch.offsets, type)
            return pc.add(found, int_scalar(self.base)) if self.base else found
        if self.ts_ns is None:
            return null_array(type, count)
        if name == "ts_ns":
            return numbers(self.ts_ns, type)
        micros = allocate(8 * count)
        kernel.to_micros(self.ts_ns, memoryview(micros).cast("B").cast("q"))
        return pa.Array.from_buffers(type, count, [None, micros], 0)


@dataclass(frozen=True, slots=True)
class Refused:
    """A frame that is not a legal packet."""

    index: int
    """Which frame of its batch it is."""
    offset: int
    """Where it starts in the stream."""
    data: bytes
    error: DecodeError
    """Why; its offset counts from the frame's start."""


class Payloads(NamedTuple):
    """Byte strings in bodies that may be messages, all with the same path."""

    path: str
    data: memoryview | bytes
    """What they lie in."""
    frames: Sequence[int] | memoryview
    """The frame of each."""
    starts: Sequence[int] | memoryview
    sizes: Sequence[int] | memoryview
