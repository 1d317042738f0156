"""Frames of any number of streams, gathered until there are enough to be decoded together.

A record batch takes some time, however few rows it has. A capture may have a hundred thousand
streams with a few frames each, so their frames are joined and decoded as one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import dictionary, int_scalar, strings
from wireloom.arrow.frames import FrameBatch, Keys
from wireloom.captures import Counts
from wireloom.tabulate.accounting import Account

__all__ = ["GROUP_BYTES", "FrameGroup", "Joined", "Segment", "StreamState", "join"]

GROUP_BYTES: Final = 4 << 20
"""Bytes of frames that are decoded together: a few batches of fields, little memory."""

MAX_SEGMENTS: Final = 4096
"""Segments that are decoded together: bounds what many small streams hold."""

_FEW: Final = 64
"""Numbers that are added faster one by one than by a call to Arrow."""


@dataclass(slots=True, eq=False)
class StreamState:
    """A stream as the tables know it, and its account so far."""

    source: str
    name: str
    format: str | None = None
    account: Account = field(default_factory=Account)
    direction: Any = None
    """Its `wireloom.tabulate.connections.Direction`, if its bodies depend on earlier packets."""


@dataclass(slots=True, eq=False)
class Segment:
    """Consecutive frames of one stream, and the errors among them."""

    state: StreamState
    batch: FrameBatch | None
    ts_ns: memoryview | None
    """Capture time of each frame; None if not known."""
    rows: list[dict[str, Any]]
    """Rows of `errors`."""
    size: int
    """Bytes of the frames."""
    words: memoryview | None = None
    """What the body of each frame is, where packets before it tell."""
    suspect: Sequence[int] = ()
    """The frames of which a part came with a bad checksum."""


@dataclass(slots=True, eq=False)
class FrameGroup:
    """Segments to be decoded together, and what is given out only after them."""

    segments: list[Segment] = field(default_factory=list)
    frames: int = 0
    """Frames and other things in it."""
    size: int = 0
    """Bytes of all frames and rows."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `gaps`."""
    ended: list[tuple[StreamState, Counts]] = field(default_factory=list)
    """Streams that have ended."""

    def is_full(self, frames: int) -> bool:
        """Whether it is time to decode it, if that many frames are wanted."""
        return (
            self.frames >= frames or self.size >= GROUP_BYTES or len(self.segments) >= MAX_SEGMENTS
        )

    def add(self, segment: Segment) -> None:
        """Add a segment."""
        self.segments.append(segment)
        if segment.batch is not None:
            self.frames += segment.batch.count
            self.size += segment.size
        for row in segment.rows:
            self.frames += 1
            self.size += len(row["raw"])


@dataclass(frozen=True, slots=True)
class Joined:
    """The frames of several segments as if they were one batch, with the key of each."""

    batch: FrameBatch
    source: str | pa.DictionaryArray
    stream: str | pa.DictionaryArray
    ts_ns: memoryview | None
    offsets: memoryview | None
    """Stream offset of each; None: the batch's own."""
    bounds: list[int]
    """Where the frames of each segment begin, and where the last end."""
    words: memoryview | None
    """What the body of each frame is, where packets before it tell."""
    suspect: Sequence[int]
    """The frames of which a part came with a bad checksum."""

    @property
    def keys(self) -> Keys:
        """The key columns of the frames."""
        return Keys(self.source, self.stream, self.batch.base, self.ts_ns, self.offsets)


def join(segments: Sequence[Segment]) -> Joined:
    """Segments of one format, all with times or all without, as one batch; none is empty."""
    batches = [segment.batch for segment in segments if segment.batch is not None]
    first, state = batches[0], segments[0].state
    bounds = [0]
    for batch in batches:
        bounds.append(bounds[-1] + batch.count)
    suspect = [
        bound + index
        for bound, segment in zip(bounds, segments, strict=False)
        for index in segment.suspect
    ]
    if len(batches) == 1:
        ts_ns, words_of = segments[0].ts_ns, segments[0].words
        return Joined(first, state.source, state.name, ts_ns, None, bounds, words_of, suspect)
    parts: list[memoryview] = []
    starts: list[Any] = []
    offsets: list[Any] = []
    at = 0
    for batch in batches:
        begin = batch.offsets[0]
        end = batch.offsets[batch.count - 1] + batch.lengths[batch.count - 1]
        parts.append(batch.data[begin:end])
        starts.append(_added(batch.offsets, at - begin))
        offsets.append(_added(batch.offsets, batch.base))
        at += end - begin
    lengths = memoryview(b"".join(batch.lengths for batch in batches)).cast("i")
    data = memoryview(b"".join(parts))
    joined = FrameBatch(first.format, data, 0, memoryview(b"".join(starts)).cast("q"), lengths)
    times = [segment.ts_ns for segment in segments if segment.ts_ns is not None]
    words = [segment.words for segment in segments if segment.words is not None]
    return Joined(
        joined,
        _repeated(segments, bounds, lambda segment: segment.state.source),
        _repeated(segments, bounds, lambda segment: segment.state.name),
        memoryview(b"".join(times)).cast("q") if times else None,
        memoryview(b"".join(offsets)).cast("q"),
        bounds,
        memoryview(b"".join(words)).cast("q") if words else None,
        suspect,
    )


def _added(numbers: memoryview, number: int) -> Any:
    """64-bit numbers, all increased by the same amount, in a new buffer."""
    if len(numbers) <= _FEW:
        return array("q", [each + number for each in numbers])
    found = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)], 0)
    return memoryview(pc.add(found, int_scalar(number)).buffers()[1]).cast("B")[: 8 * len(numbers)]


def _repeated(
    segments: Sequence[Segment], bounds: list[int], text: Callable[[Segment], str]
) -> pa.DictionaryArray:
    """A text of each segment, for each of its frames."""
    places: dict[str, int] = {}
    indices = array("i")
    for index, segment in enumerate(segments):
        place = places.setdefault(text(segment), len(places))
        indices.extend(array("i", (place,)) * (bounds[index + 1] - bounds[index]))
    found = pa.Array.from_buffers(pa.int32(), len(indices), [None, pa.py_buffer(indices)], 0)
    return dictionary(found, strings(list(places)))
