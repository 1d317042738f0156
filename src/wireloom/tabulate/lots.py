"""Frames of any number of streams, gathered until there are enough to be decoded together.

A record batch costs some time, however few rows it has. A capture may have a hundred thousand
streams with a few frames each; so what they give is joined, and decoded as one.
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

__all__ = ["LOT_BYTES", "Joined", "Lot", "Origin", "Piece", "join"]

LOT_BYTES: Final = 4 << 20
"""Bytes of frames that are decoded together: some batches of fields, little memory."""

MAX_PIECES: Final = 4096
"""Pieces that are decoded together: a bound for what many small streams hold at a time."""

_FEW: Final = 64
"""Numbers that are added faster one by one than by a call to Arrow."""


@dataclass(slots=True, eq=False)
class Origin:
    """A stream as the tables know it."""

    source: str
    name: str
    format: str | None = None
    account: Account = field(default_factory=Account)
    direction: Any = None
    """Where bodies are told by others: its `wireloom.tabulate.connections.Direction`."""


@dataclass(slots=True, eq=False)
class Piece:
    """Frames of one stream in a row, and what else there is of it to tell."""

    origin: Origin
    batch: FrameBatch | None
    ts_ns: memoryview | None
    """Capture time of each frame; None if not known."""
    rows: list[dict[str, Any]]
    """Rows of `errors`."""
    size: int
    """Bytes of the frames."""
    words: memoryview | None = None
    """What the body of each frame is, where packets before it tell."""


@dataclass(slots=True, eq=False)
class Lot:
    """Pieces to be decoded together, and what can be told only when they are."""

    pieces: list[Piece] = field(default_factory=list)
    frames: int = 0
    """Frames and other things in it."""
    size: int = 0
    """Bytes of all frames and rows."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `gaps`."""
    ended: list[tuple[Origin, Counts]] = field(default_factory=list)
    """Streams of which nothing more comes."""

    def is_full(self, frames: int) -> bool:
        """Whether it is time to decode it, when so many frames are wanted."""
        return self.frames >= frames or self.size >= LOT_BYTES or len(self.pieces) >= MAX_PIECES

    def add(self, piece: Piece) -> None:
        """One more."""
        self.pieces.append(piece)
        self.frames += (piece.batch.count if piece.batch is not None else 0) + len(piece.rows)
        self.size += piece.size + sum(len(row["raw"]) for row in piece.rows)


@dataclass(frozen=True, slots=True)
class Joined:
    """The frames of several pieces as if they were one batch, with the key of each."""

    batch: FrameBatch
    source: str | pa.DictionaryArray
    stream: str | pa.DictionaryArray
    ts_ns: memoryview | None
    offsets: memoryview | None
    """Stream offset of each; None: the batch's own."""
    bounds: list[int]
    """Where the frames of each piece begin, and where the last end."""
    words: memoryview | None
    """What the body of each frame is, where packets before it tell."""

    @property
    def keys(self) -> Keys:
        """The key columns of the frames."""
        return Keys(self.source, self.stream, self.batch.base, self.ts_ns, self.offsets)


def join(pieces: Sequence[Piece]) -> Joined:
    """Pieces of one format, all with times or all without, as one batch; none is empty."""
    batches = [piece.batch for piece in pieces if piece.batch is not None]
    first, origin = batches[0], pieces[0].origin
    bounds = [0]
    for batch in batches:
        bounds.append(bounds[-1] + batch.count)
    if len(batches) == 1:
        ts_ns = pieces[0].ts_ns
        return Joined(first, origin.source, origin.name, ts_ns, None, bounds, pieces[0].words)
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
    times = [piece.ts_ns for piece in pieces if piece.ts_ns is not None]
    words = [piece.words for piece in pieces if piece.words is not None]
    return Joined(
        joined,
        _repeated(pieces, bounds, lambda piece: piece.origin.source),
        _repeated(pieces, bounds, lambda piece: piece.origin.name),
        memoryview(b"".join(times)).cast("q") if times else None,
        memoryview(b"".join(offsets)).cast("q"),
        bounds,
        memoryview(b"".join(words)).cast("q") if words else None,
    )


def _added(numbers: memoryview, number: int) -> Any:
    """The same 64-bit numbers, all a bit larger, in some buffer."""
    if len(numbers) <= _FEW:
        return array("q", [each + number for each in numbers])
    found = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)], 0)
    return memoryview(pc.add(found, int_scalar(number)).buffers()[1]).cast("B")[: 8 * len(numbers)]


def _repeated(
    pieces: Sequence[Piece], bounds: list[int], text: Callable[[Piece], str]
) -> pa.DictionaryArray:
    """A text of each piece, for each of its frames."""
    places: dict[str, int] = {}
    indices = array("i")
    for index, piece in enumerate(pieces):
        place = places.setdefault(text(piece), len(places))
        indices.extend(array("i", (place,)) * (bounds[index + 1] - bounds[index]))
    found = pa.Array.from_buffers(pa.int32(), len(indices), [None, pa.py_buffer(indices)], 0)
    return dictionary(found, strings(list(places)))
