"""One large file scanned by several workers, with the same records as in one pass.

The file is cut into segments. In each, a worker looks for a chain of frames and scans from there up
to the first place behind its segment where nothing before it matters any more. If the next worker
began at that place, the seam is proven: one pass would have gone on the same way. If not, because a
payload looked like frames or damage lay across the seam, the scan goes on from the part before
until both agree. Nothing is taken on trust: a file made to mislead costs time, never a record.

The kernel releases the interpreter's lock, so threads are enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from threading import local
from typing import Any, Generic, TypeVar

from wireloom.columnar.framing import FrameBatch, FrameScanner, Source
from wireloom.columnar.stored import InMemory, Stored

__all__ = ["CHAIN", "SEGMENT", "map_frames", "scan_parallel", "seams"]

SEGMENT = 4 << 20
"""Bytes of a segment: large, so that the cost of a seam and of the batches that end there does not
matter; small, for an even load and because the rows of one segment more than workers are held."""

CHAIN = 4
"""Frames in a row that a worker starts from. False ones cost time only."""

_STEP = 4096
"""Bytes to scan on behind a seam that does not hold, before looking whether both agree again."""

_T = TypeVar("_T")
Work = Callable[[FrameBatch], _T]


@dataclass(slots=True)
class _Part(Generic[_T]):
    """What a worker made of a segment."""

    start: int
    """Where it began; -1 if it found no place to begin."""
    end: int = 0
    batches: list[tuple[FrameBatch, _T]] = field(default_factory=list)


def map_frames(
    format: str,
    data: Source | Stored,
    make_work: Callable[[], Work[_T]],
    *,
    workers: int = 2,
    segment: int = SEGMENT,
    **settings: Any,
) -> Iterator[tuple[FrameBatch, _T]]:
    """All batches of a stream with what `work` makes of each, in stream order.

    Args:
        format: what the stream holds.
        data: the whole stream, in memory or in a file.
        make_work: called once in each worker; the function it returns is called with each batch.
        workers: threads.
        segment: bytes that a worker takes at a time.
        settings: as for `FrameScanner`.

    Raises:
        SourceError: the bytes cannot be read.
    """
    splitter = _Splitter(format, data, make_work, settings)
    size = splitter.data.size
    bounds = [*range(0, size, max(segment, 1)), size]
    yield from splitter.run(bounds, workers)


def scan_parallel(
    format: str, data: Source | Stored, *, workers: int = 2, segment: int = SEGMENT, **settings: Any
) -> Iterator[FrameBatch]:
    """All batches of a stream, in stream order; their records are those of one pass."""
    made = map_frames(format, data, lambda: _nothing, workers=workers, segment=segment, **settings)
    for batch, _ in made:
        yield batch


def seams(
    format: str, data: Source | Stored, parts: int, *, workers: int = 2, **settings: Any
) -> list[int]:
    """Where a stream can be cut into about that many parts that can be read independently.

    Reading from one to the next gives the records that one pass over everything gives there. The
    first is 0, the last is the stream's length.

    Raises:
        SourceError: the bytes cannot be read.
    """
    splitter = _Splitter(format, data, lambda: _nothing, settings)
    size = splitter.data.size
    bounds = sorted({size * part // max(parts, 1) for part in range(max(parts, 1) + 1)})
    found = {0, size}
    for _ in splitter.run(bounds, workers, found):
        pass
    return sorted(found)


def _nothing(batch: FrameBatch) -> None:
    return None


class _Splitter(Generic[_T]):
    def __init__(
        self,
        format: str,
        data: Source | Stored,
        make_work: Callable[[], Work[_T]],
        settings: dict[str, Any],
    ) -> None:
        self.data = data if isinstance(data, Stored) else InMemory(data)
        self._origin: int = settings.get("offset", 0)
        self._format = format
        self._make_work = make_work
        self._settings = settings
        self._own = local()

    # --- in the workers

    def _tools(self) -> tuple[FrameScanner, Work[_T]]:
        """This thread's own scanner and work."""
        if not hasattr(self._own, "tools"):
            scanner = FrameScanner(self._format, **self._settings)
            self._own.tools = scanner, self._make_work()
        found: tuple[FrameScanner, Work[_T]] = self._own.tools
        return found

    def _scan(self, first: int, last: int) -> _Part[_T]:
        """Scan the segment from `first` to `last`."""
        scanner, work = self._tools()
        found = scanner.scan_range(self.data, first, last, chain=CHAIN if first else 0)
        batches = [(batch, work(batch)) for batch in found]
        return _Part(scanner.start, scanner.position if scanner.start >= 0 else 0, batches)

    # --- in the caller's thread

    def run(
        self, bounds: list[int], workers: int, found: set[int] | None = None
    ) -> Iterator[tuple[FrameBatch, _T]]:
        """The batches of all segments between `bounds`; adds to `found` where each one ended."""
        segments = deque(pairwise(bounds))
        waiting: deque[tuple[int, Future[_Part[_T]]]] = deque()
        at = 0  # everything before was given out, and nothing before matters
        with ThreadPoolExecutor(workers) as pool:
            try:
                while segments or waiting:
                    # Few are held at a time: a file may be larger than the memory.
                    while segments and len(waiting) <= workers:
                        first, last = segments.popleft()
                        waiting.append((last, pool.submit(self._scan, first, last)))
                    last, future = waiting.popleft()
                    part = future.result()
                    at = yield from self._join(at, last, part)
                    if found is not None:
                        found.add(at)
            finally:
                pool.shutdown(cancel_futures=True)

    def _join(
        self, at: int, last: int, part: _Part[_T]
    ) -> Generator[tuple[FrameBatch, _T], None, int]:
        """The batches of a part from `at` on; if it begins elsewhere, the seam is repaired."""
        if part.start == at:
            yield from part.batches
            return part.end
        scanner, work = self._tools()
        step = _STEP
        while at < last:
            index = _agreement(part, at, self._origin)
            if index >= 0:
                for batch, made in part.batches[index:]:
                    rest = _from(batch, at + self._origin)
                    yield (batch, made) if rest is batch else (rest, work(rest))
                return part.end
            for batch in scanner.scan_range(self.data, at, min(at + step, last)):
                yield batch, work(batch)
            at = scanner.position
            step *= 2
        return at


def _agreement(part: _Part[Any], at: int, origin: int) -> int:
    """The batch of a part with a record at `at` that nothing before affects; -1: there is none.

    From there on, that part is what one pass gives.
    """
    if not 0 <= part.start <= at < part.end:
        return -1
    at += origin
    for index, (batch, _) in enumerate(part.batches):
        for other, reach in zip(batch.others, batch.reaches, strict=True):
            if other.offset < at < reach:
                return -1
        if _starts_at(batch, at):
            return index
    return -1


def _starts_at(batch: FrameBatch, at: int) -> bool:
    place = at - batch.base
    index = bisect_left(batch.offsets, place)
    if index < batch.count and batch.offsets[index] == place:
        return True
    # A piece of a longer problem is not a start.
    return any(
        other.offset == at and getattr(other, "code", "") != "resync" for other in batch.others
    )


def _from(batch: FrameBatch, at: int) -> FrameBatch:
    """The part of a batch that starts at or after `at` in the stream."""
    index = bisect_left(batch.offsets, at - batch.base)
    kept = [pair for pair in zip(batch.others, batch.reaches, strict=True) if pair[0].offset >= at]
    if not index and len(kept) == len(batch.others):
        return batch
    rest = batch.part(index, batch.count)
    for other, reach in kept:
        rest.others.append(other)
        rest.reaches.append(reach)
    return rest
