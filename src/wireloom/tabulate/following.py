"""Captures in parts that are proven to fit together: where to cut, and how far one is complete.

A capture that is still being written may end anywhere. It is read up to a place such that reading
up to there, and from there on later, gives the rows that one pass over it gives:

* Raw captures are cut at seams: places where nothing before matters any more. Reading from there
  needs no memory of what was read before.
* Packets need that memory: connections are reassembled from packets of any time. `Follower` keeps
  it, and can restore it by reading again from the start. What it has given out at some place
  depends on the bytes up to there, and not on where it stopped on the way.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wireloom.captures import Counts, Event, Stream, StreamData, StreamEnd
from wireloom.captures.bytesource import ByteSource
from wireloom.captures.container import NO_END, fault_of
from wireloom.captures.events import OF_CAPTURES
from wireloom.captures.packetreaders import packet_reader
from wireloom.captures.pcap import PcapReader
from wireloom.captures.pcapng import PcapngReader
from wireloom.captures.tcp import Reassembler
from wireloom.captures.window import Window
from wireloom.columnar.framing import FrameBatch, FrameScanner
from wireloom.columnar.split import SEGMENT, seams
from wireloom.columnar.stored import Stored, StoredFile
from wireloom.errors import SourceError
from wireloom.framing import Problem
from wireloom.kernel import load
from wireloom.tabulate.accounting import Totals
from wireloom.tabulate.detection import FIRST_LOOK, PREFIX
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.streams import UNKNOWN_BYTES
from wireloom.tabulate.tabulation import _format_of, _nothing, _scan_settings
from wireloom.tabulate.tabulator import Batches, Tabulator

__all__ = ["Follower", "PacketWalk", "Step", "find_seams", "packet_frontier", "raw_frontier"]

_PACKETS: Final = 1 << 14
"""Packets read at a time."""
_LOOKAHEAD: Final = 16 << 20
"""Bytes behind damage in a packet capture that its extent may depend on: many of the longest
records."""
_CHUNK: Final = 1 << 20
"""Bytes of a raw capture that are fed at a time."""


# --- raw captures ---------------------------------------------------------------------------------


def find_seams(
    path: str | os.PathLike[str],
    settings: Settings,
    parts: int,
    *,
    first: int = 0,
    last: int | None = None,
    workers: int = 2,
) -> list[int]:
    """Where a raw capture can be cut into about that many parts, for `tabulate_range`.

    Reading each part from its seam gives, together, what one pass gives. The bytes are scanned
    once, by `workers` threads.

    Args:
        path: the capture, for which `splittable` is true.
        settings: what is wanted.
        parts: about how many.
        first: a seam to begin at.
        last: a seam to end at; the end of the file if not given.
        workers: threads.

    Raises:
        SourceError: the file cannot be opened.
    """
    kernel = load()
    with StoredFile(path) as data:
        last = data.size if last is None else min(last, data.size)
        format = _format_of(data, settings, kernel)
        if format is not None:
            options = _scan_settings(settings, format, kernel)
            found = seams(format, data.part(first, last), parts, workers=workers, **options)
            return [first + at for at in found]
        step = max(-(-(last - first) // parts // UNKNOWN_BYTES), 1) * UNKNOWN_BYTES
        return [*range(first, last, step), last]


def raw_frontier(
    path: str | os.PathLike[str],
    settings: Settings,
    start: int,
    limit: int | None = None,
    *,
    is_final: bool = False,
) -> int:
    """How far a growing raw capture can be read from a seam: to another seam.

    Args:
        path: the capture, for which `splittable` is true.
        settings: what is wanted.
        start: a seam.
        limit: about how many bytes are wanted at most; a seam may be further away.
        is_final: the capture no longer grows, so its end is a seam, too.

    Raises:
        SourceError: the file cannot be opened.
    """
    kernel = load()
    with StoredFile(path) as data:
        size = data.size
        stop = size if limit is None else min(size, start + max(limit, 1))
        if stop <= start or (is_final and stop == size):
            return max(size, start)
        is_decided, format = _decided(data, settings, kernel, is_final)
        if not is_decided:
            return start
        if format is None:
            segments = stop // UNKNOWN_BYTES or (1 if size >= UNKNOWN_BYTES else 0)
            return max(start, segments * UNKNOWN_BYTES)
        scanner = FrameScanner(format, **_scan_settings(settings, format, kernel))
        while True:
            found = _last_seam(scanner, data, start, stop)
            if found > start or stop == size:
                return size if is_final and stop == size else found
            stop = min(size, start + 2 * (stop - start))  # one frame, or damage, is longer


def _decided(
    data: Stored, settings: Settings, kernel: Any, is_final: bool
) -> tuple[bool, str | None]:
    """Whether more bytes cannot change the format any more, and the format."""
    if is_final or data.size >= PREFIX:
        return True, _format_of(data, settings, kernel)

    detector = ScannerPool(settings, kernel, _nothing).detector
    found = detector.by_port(0, 0)
    if found is None and data.size >= FIRST_LOOK:
        found = detector.by_bytes(bytes(data.read(0, FIRST_LOOK)), is_all=False)
    return found is not None, found


def _last_seam(scanner: FrameScanner, data: Stored, start: int, stop: int) -> int:
    """The last place up to `stop` that is a seam whatever comes after it."""
    scanner.restart(start)
    problems: list[tuple[int, int, int]] = []
    for batch in _fed(scanner, data, start, stop):
        for other, reach in zip(batch.others, batch.reaches, strict=True):
            if isinstance(other, Problem):
                problems.append((other.offset, other.offset + other.length, reach))
    at = scanner.offset
    if scanner.is_fresh:
        return at
    # Not directly after a problem, which may continue, and not where one still matters.
    for first, last, reach in reversed(problems):
        if last == at or first < at < reach:
            at = first
    return at


def _fed(scanner: FrameScanner, data: Stored, start: int, stop: int) -> Iterator[FrameBatch]:
    for at in range(start, stop, SEGMENT):
        yield from scanner.feed(data.read(at, min(at + SEGMENT, stop)))
    yield from scanner.look()


# --- packet captures ------------------------------------------------------------------------------


@dataclass(slots=True)
class PacketWalk:
    """How far a packet capture has been walked, to continue from there."""

    position: int = 0
    state: Any = None


def packet_frontier(
    path: str | os.PathLike[str],
    walk: PacketWalk,
    limit: int | None = None,
    *,
    is_final: bool = False,
) -> int:
    """How far a growing packet capture can be read: to the end of its last whole record.

    Args:
        path: a pcap or pcapng capture, not compressed.
        walk: where the last call ended; it is moved on.
        limit: about how many bytes are wanted at most, behind `walk`.
        is_final: the capture no longer grows, so its last bytes count as they are.

    Raises:
        SourceError: the file cannot be opened or read.
        OptionError: it is not a packet capture.
    """
    size = Path(path).stat().st_size
    if size <= walk.position:
        return walk.position
    until = size if limit is None else walk.position + max(limit, 1)
    rows = load().Packets(_PACKETS)
    needed = 0  # how far beyond damage reading has to go
    while True:
        with _packets_in(path, walk.position, size, walk.state, until) as (reader, _):
            while not reader.is_done:
                for found in reader.read(rows):
                    if not found.length or is_final:
                        continue
                    needed = max(needed, found.offset + found.length + _LOOKAHEAD)
                    if needed > size:
                        # Not complete yet, or more bytes may change the result.
                        return walk.position
                if reader.position >= needed:
                    walk.position, walk.state = reader.position, reader.state
        if is_final and until >= size:
            walk.position = size  # whatever is at its end
        if walk.position >= needed:
            return walk.position
        until = needed


@contextmanager
def _packets_in(
    path: str | os.PathLike[str], start: int, end: int, state: Any, until: int = NO_END
) -> Iterator[tuple[PcapReader | PcapngReader, ByteSource]]:
    """What reads the records of a capture from `start` on as if it ended at `end`."""
    with _Until(path, end) as file, ByteSource(file, os.fspath(path)) as source:
        if start:
            source.seek(start)
        reader = packet_reader(Window(source, base=start), load(), state, until)
        if reader is None:
            raise SourceError("not a pcap or pcapng capture any more", file=os.fspath(path))
        yield reader, source


class _Until(io.FileIO):
    """A file that appears to end where it did when it was measured."""

    def __init__(self, path: str | os.PathLike[str], end: int) -> None:
        try:
            super().__init__(path)
        except OSError as error:
            raise SourceError(error.strerror or str(error), file=os.fspath(path)) from error
        self._end = end

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._end - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left)) or b""

    def readinto(self, room: Any, /) -> int:
        left = max(0, self._end - self.tell())
        return super().readinto(memoryview(room).cast("B")[:left]) or 0


@dataclass(frozen=True, slots=True)
class Step:
    """A capture, and how far it is to be read."""

    path: str
    end: int
    """Offset in the file. A compressed one is read as a whole: its size."""
    is_packets: bool = True


@dataclass(slots=True)
class _Place:
    """Where a follower is in a capture."""

    position: int = 0
    state: Any = None
    stream: Stream | None = None


class Follower:
    """Reads captures that grow and follow one another, as far as it is told, in any steps."""

    def __init__(
        self, settings: Settings, *, part: int = 0, parts: int = 1, workers: int = 1
    ) -> None:
        """Nothing is read yet.

        Args:
            settings: what is wanted.
            part: which share of the connections; raw captures and damage are in the first.
            parts: into how many shares connections are divided.
            workers: threads that decode; 1: none besides the caller's. `close` ends them.
        """
        self._kernel: Any = load()
        self._is_first = part == 0
        self._tabulator = Tabulator(settings, workers=workers)
        self._reassembler = Reassembler(self._kernel, settings.reassembly, _PACKETS, (part, parts))
        self._rows: Any = self._kernel.Packets(_PACKETS)
        self._places: dict[str, _Place] = {}

    @property
    def positions(self) -> dict[str, int]:
        """How far it has read every capture that it has begun."""
        return {path: place.position for path, place in self._places.items() if place.position}

    @property
    def totals(self) -> Totals:
        """What became of the bytes of all streams that have ended."""
        return self._tabulator.totals

    @property
    def unfinished(self) -> dict[str, int]:
        """What became of the bytes of the streams still open, after `advance`.

        Also of those in no stream, which become rows in the end.
        """
        found = self._tabulator.unfinished
        if self._is_first:
            found["left_out"] = sum(each.length for each in self._reassembler.left_out)
        return found

    def begin(self, path: str, position: int) -> None:
        """Skip what is before that place of a packet capture, which is the end of a record.

        Raises:
            SourceError: the capture cannot be opened or read.
        """
        walk = PacketWalk()
        packet_frontier(path, walk, position, is_final=True)
        self._places[path] = _Place(walk.position, walk.state)

    def close(self) -> None:
        """End its threads."""
        self._tabulator.stop()

    def can_reach(self, positions: Mapping[str, int]) -> bool:
        """Whether it has read no capture beyond these places."""
        return all(at <= positions.get(path, 0) for path, at in self.positions.items())

    def advance(self, steps: Iterable[Step]) -> Batches:
        """Read on up to these places; return the rows that are certain then.

        Raises:
            SourceError: a capture cannot be opened or read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        for step in steps:
            place = self._places.setdefault(step.path, _Place())
            if step.end <= place.position:
                continue
            events = self._packets(step, place) if step.is_packets else self._raw(step, place)
            for event in events:
                if self._is_first or not isinstance(event, OF_CAPTURES):
                    yield from self._tabulator.feed(event)
        yield from self._tabulator.flush()

    def finish(self) -> Batches:
        """The captures are over: what is left.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        for event in self._reassembler.finish():
            if self._is_first or not isinstance(event, OF_CAPTURES):
                yield from self._tabulator.feed(event)
        for place in self._places.values():
            if place.stream is not None:
                size = place.position
                counts = Counts(captured=size, delivered=size)
                yield from self._tabulator.feed(StreamEnd(place.stream, size, "end", counts))
        yield from self._tabulator.close()

    def _packets(self, step: Step, place: _Place) -> Iterable[Event]:
        # The end of a compressed capture is where its packed bytes end.
        with _packets_in(step.path, place.position, step.end, place.state) as (reader, source):
            window = reader.window
            while not reader.is_done:
                yield from reader.read(self._rows)
                yield from self._reassembler.feed(self._rows, window.data, window.base, step.path)
            yield from fault_of(source)
            place.position, place.state = step.end, reader.state

    def _raw(self, step: Step, place: _Place) -> Iterable[Event]:
        if place.stream is None:
            place.stream = Stream(-len(self._places), step.path, "raw", step.path)
        none = memoryview(b"").cast("q")
        with ByteSource(step.path) as source:
            if place.position:
                source.seek(place.position)
            while place.position < step.end:
                room = memoryview(bytearray(min(_CHUNK, step.end - place.position)))
                count = source.read_into(room)
                if not count:
                    raise SourceError("shorter than it was", file=step.path)
                yield StreamData(place.stream, place.position, room[:count], none, none)
                place.position += count
