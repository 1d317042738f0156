"""Payloads of packets that may be messages: where they are, and the keys of their rows."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from wireloom.arrow.frames import FrameBatch, Payloads
from wireloom.columnar.packettables import PacketRows
from wireloom.columns import key_row
from wireloom.formats import get, names
from wireloom.messages import Message
from wireloom.rows import message_formats, walked_formats
from wireloom.tabulate.groups import Segment, join

__all__ = ["FormatFrames", "carried", "placed", "shifted", "with_magic"]


class FormatFrames:
    """The segments of a group that are of one format, joined."""

    def __init__(self, kernel: Any, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.joined = join(segments)
        self._kernel = kernel

    def owner(self, index: int) -> Segment:
        """The segment that a frame belongs to."""
        return self.segments[bisect_right(self.joined.bounds, index) - 1]

    def key(self, index: int, offset: int, length: int) -> dict[str, Any]:
        """The key of a row of `errors`."""
        joined, state = self.joined, self.owner(index).state
        ts_ns = None if joined.ts_ns is None else joined.ts_ns[index]
        return key_row(state.source, state.name, offset, length, ts_ns)

    def by_segment(self, run: Payloads) -> Iterator[tuple[Segment, dict[str, Any]]]:
        """Payloads by segment, in the form that a decoder of messages takes."""
        joined, batch = self.joined, self.joined.batch
        count, frames = len(run.frames), _numbers(run.frames, "i")
        places, shift = joined.offsets, 0
        if places is None:
            places, shift = batch.offsets, batch.base
        columns = {
            "starts": _numbers(run.starts, "q"),
            "lengths": _numbers(run.sizes, "i"),
            "offsets": self._taken(frames, places, shift),
            "framed": self._lengths(frames),
        }
        if joined.ts_ns is not None:
            columns["ts_ns"] = self._taken(frames, joined.ts_ns, 0)
        at = 0
        while at < count:
            number = bisect_right(joined.bounds, frames[at]) - 1
            end = bisect_left(frames, joined.bounds[number + 1], at)
            yield self.segments[number], {name: each[at:end] for name, each in columns.items()}
            at = end

    def _taken(self, frames: memoryview, values: memoryview, shift: int) -> memoryview:
        out = memoryview(bytearray(8 * len(frames))).cast("q")
        self._kernel.take64(frames, values, shift, out)
        return out

    def _lengths(self, frames: memoryview) -> memoryview:
        out = memoryview(bytearray(4 * len(frames))).cast("i")
        self._kernel.take32(frames, self.joined.batch.lengths, out)
        return out


def _numbers(values: Sequence[int] | memoryview, code: str) -> memoryview:
    return values if isinstance(values, memoryview) else memoryview(array(code, values))


def placed(
    kernel: Any, rows: PacketRows, data: memoryview, path: str, passed_over: set[int]
) -> list[Payloads]:
    """The payloads of packets that may be messages, in the order of the frames."""
    runs: list[Payloads] = []
    if rows.places is not None:
        starts, sizes = rows.places
        count = len(starts)
        frames = memoryview(bytearray(4 * count)).cast("i")
        places = memoryview(bytearray(8 * count)).cast("q")
        lengths = memoryview(bytearray(4 * count)).cast("i")
        if len(message_formats()) > len(walked_formats()):
            # There are messages that the kernel does not know; the decoder recognises them.
            found = 0
            for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
                if size > 1:
                    frames[found], places[found] = rows.first + index, start
                    lengths[found] = size - 1
                    found += 1
        else:
            found = kernel.recognised_payloads(
                data, starts, sizes, rows.first, frames, places, lengths
            )
        if found:
            runs.append(Payloads(path, data, frames[:found], places[:found], lengths[:found]))
    if not rows.accepted and not passed_over:
        return runs
    singles = [
        Payloads(path, data, [frame], [start], [size])
        for run in runs
        for frame, start, size in zip(run.frames, run.starts, run.sizes, strict=True)
        if frame not in rows.accepted and frame not in passed_over
    ]
    for index, message in rows.accepted.items():
        singles += carried(index, message)
    return sorted(singles, key=lambda each: each.frames[0])


def carried(index: int, message: Message) -> list[Payloads]:
    """The payloads of a message that the object path has read."""
    return [
        Payloads(path, data, [index], [0], [len(data)]) for path, data in message.payloads() if data
    ]


def shifted(run: Payloads, first: int) -> Payloads:
    """The same payloads, with the frames counted from another one."""
    if not first:
        return run
    return run._replace(frames=[first + frame for frame in run.frames])


def with_magic(batch: FrameBatch) -> Iterator[int]:
    """The frames that contain the magic of a message."""
    if not batch.count:
        return
    magics = [each.magic for each in map(get, names()) if each.kind == "message"]
    if not all(magics):
        yield from range(batch.count)  # only the object path can tell
        return
    base, last = batch.offsets[0], batch.count - 1
    data = bytes(batch.data[base : batch.offsets[last] + batch.lengths[last]])
    found = set()
    for magic in magics:
        at = data.find(magic)
        while at >= 0:
            index = bisect_right(batch.offsets, base + at) - 1
            end = batch.offsets[index] + batch.lengths[index] - base
            if at < end:
                found.add(index)
            # The next one in another frame.
            at = data.find(magic, max(at + 1, end))
    yield from sorted(found)
