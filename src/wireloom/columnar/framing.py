"""Bytes → frames at compiled speed: drives the kernel's scanners over a stream.

The records are those of the object path (`wireloom.scan`), for every input and chunking. Frames are
given as arrays of offsets and lengths, ready for the kernels that read them; bytes that are not a
frame, and NAIS text, are rare and become `Problem` and `Text` objects. The object path's own rules
say why bytes are not a frame, so that the reasons are the same by construction.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any

from wireloom.arrow.frames import FrameBatch
from wireloom.columnar.objectscan import FramerScan, object_scan
from wireloom.columnar.stored import InMemory, Stored
from wireloom.errors import DecodeError, FrameTooLargeError, OptionError, TruncatedError
from wireloom.formats import get
from wireloom.framing import SUSPECT_STEPS, Problem, Text
from wireloom.kernel import load
from wireloom.kernel.frames import scan
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = [
    "BATCH_FRAMES",
    "CUT",
    "MAX_FRAME",
    "FrameBatch",
    "FrameScanner",
    "Survey",
    "scan_frames",
]

BATCH_FRAMES = 1 << 16
"""Frames per batch: enough that the cost of a batch does not matter, with 0.8 MB of arrays."""

MAX_FRAME = (1 << 31) - 1
"""No frame can be longer here, whatever the limits say: lengths are 32-bit columns."""

CUT = frozenset({"truncated", "short_header"})
"""Codes of problems that mean that the data ends inside a frame."""

_BATCH_MARKS = 1 << 10
_SURVEYED = 1 << 9
"""Frames or other records noted at a time by a survey."""
_LEAST_STEP = 1 << 16
"""Bytes to wait for before what is held back is joined with them and scanned again."""

Source = bytes | bytearray | memoryview | mmap
"""A piece of a stream. It must not change while batches made from it are in use."""


@dataclass(slots=True)
class Survey:
    """What a scanner finds in some bytes, without the reasons why the rest is not a frame."""

    frames: list[tuple[int, int]]
    """Start and length of each."""
    problems: list[tuple[int, int]]
    """Start and length of what is not a frame."""
    texts: list[tuple[int, int]]
    """Start and length of text between frames."""
    cut: int
    """Bytes of a frame that the end cuts off; they do not count as a problem."""


class FrameScanner:
    """The compiled twin of a format's framer, for one stream.

    `feed` and `close` give batches while they are iterated; each must be iterated to its end before
    the next call. Batches may come later than the object path's records, but hold the same ones.
    """

    def __init__(
        self,
        format: str,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        offset: int = 0,
        batch: int = BATCH_FRAMES,
        kernel: Any = None,
        **options: Any,
    ) -> None:
        """A scanner for one stream.

        Args:
            format: what the stream holds.
            limits: as for the object path.
            strict: as for the object path.
            offset: stream offset of the first byte.
            batch: most frames in a batch.
            kernel: which kernel to use; None: the compiled one if there is one.
            options: the format's own.

        Raises:
            UnknownProtocolError: no such format.
            OptionError: an option has a bad value.
        """
        if limits.max_frame > MAX_FRAME:
            raise OptionError(f"max_frame must be at most {MAX_FRAME} here")
        self.format = format
        found = get(format)
        self._columns = found.columns()
        self._framer = found.framer(limits=limits, strict=strict, **options)
        self._kernel = load() if kernel is None else kernel
        self._scan = self._columns.scan(self._kernel, self._framer, limits)
        self._new_frames = self._kernel.Frames
        self._is_kernel = self._scan is not None
        if not self._is_kernel:
            self._scan = object_scan(
                self._framer,
                limits.max_frame,
                lambda: found.framer(limits=limits, strict=strict, **options),
            )
            self._new_frames = scan.Frames
        self._origin = self._base = offset
        self._parts: list[memoryview] = []
        self._held = 0
        self._least = 0
        self._batch = batch
        self._out: Any = None  # where surveys are noted
        self.start = -1
        """Where `scan_range` has begun; -1 if it found no place."""

    def feed(self, data: Source) -> Iterator[FrameBatch]:
        """Take the next bytes; give the batches they complete."""
        piece = memoryview(data).cast("B")
        self._parts.append(piece)
        self._held += len(piece)
        # What is held back is joined with what comes. Waiting for more first keeps the cost
        # linear, however small the pieces are.
        if self._held >= max(self._scan.need, self._least):
            yield from self._run(False)

    def close(self) -> Iterator[FrameBatch]:
        """The stream has ended; return what is left."""
        yield from self._run(True)

    def look(self) -> Iterator[FrameBatch]:
        """Return what is complete by now, however little came since the last batch."""
        if self._held:
            yield from self._run(False)

    def restart(self, offset: int = 0) -> None:
        """Continue with another stream that starts at that offset, as if newly made."""
        self._scan.start(0)
        self._base = offset
        self._parts = []
        self._held = self._least = 0

    @property
    def offset(self) -> int:
        """Stream offset of the first byte that no batch has covered yet."""
        return self._base

    @property
    def rest(self) -> memoryview:
        """The bytes from `offset` on, after a call of `feed` that gave batches."""
        return self._parts[0] if len(self._parts) == 1 else memoryview(b"".join(self._parts))

    @property
    def is_fresh(self) -> bool:
        """Whether nothing before `offset` affects how the rest is cut.

        Then another scanner that begins at `offset` with these bytes cuts them in the same way.
        """
        return self._columns.is_fresh(self._scan)

    def scan_part(self, data: Source, offset: int, *, is_last: bool = False) -> list[FrameBatch]:
        """Start over with a part of a stream; unless it is the last one, `feed` continues it.

        Cheaper than `restart`, `feed` and `close`, for very many small streams.
        """
        self.restart(offset)
        self._parts.append(memoryview(data).cast("B"))
        return list(self._run(is_last))

    def survey(self, data: bytes) -> Survey | None:
        """The frames in some bytes, which are the whole stream; None if nothing looks like one.

        Used for detection: no objects are made for what is not a frame, which is nearly
        everything when the bytes are in another format.
        """
        self._scan.start(0)
        view = memoryview(data)
        if self._out is None:
            self._out = self._new_frames(_SURVEYED, _SURVEYED)
        out, scanner = self._out, self._scan
        found = Survey([], [], [], 0)
        state, kind = scan.RUN_FULL, 0
        while state == scan.RUN_FULL:
            out.clear()
            state = scanner.run(out, view, True)
            marks = out.mark_count
            if out.count or found.frames or isinstance(scanner, FramerScan):
                self._surveyed(view, out, found)
            elif marks:
                # Without frames, only an unfinished frame at the end is more than a coincidence.
                kind = out.mark_kinds[marks - 1]
                if kind == scan.CUT_FRAME:
                    self._surveyed(view, out, found)
        scanner.start(0)
        return found if found.frames or found.cut else None

    def _surveyed(self, view: memoryview, out: Any, found: Survey) -> None:
        """Add what one run of the kernel has found."""
        count, marks = out.count, out.mark_count
        offsets, lengths = memoryview(out.offsets)[:count], memoryview(out.lengths)[:count]
        found.frames.extend(zip(offsets.tolist(), lengths.tolist(), strict=True))
        offsets, lengths = memoryview(out.mark_offsets), memoryview(out.mark_lengths)
        kinds = memoryview(out.mark_kinds)[:marks].tolist()
        places = zip(offsets[:marks].tolist(), lengths[:marks].tolist(), kinds, strict=True)
        for pos, length, kind in places:
            if self._is_text(kind, pos):
                found.texts.append((pos, length))
            elif pos + length == len(view) and self._is_cut(view, kind, pos, length):
                found.cut = length
            else:
                found.problems.append((pos, length))

    @property
    def kernel_scan(self) -> Any:
        """The kernel's scanner; None if the format has none there."""
        return self._scan if self._is_kernel else None

    def stands(self, data: Source) -> bool:
        """Whether some bytes, which are the whole stream, start with a frame."""
        self._scan.start(0)  # it may remember a header of other bytes
        return bool(self._scan.stands_at(memoryview(data).cast("B"), 0, 1))

    def _is_text(self, kind: int, pos: int) -> bool:
        if isinstance(self._scan, FramerScan):
            return isinstance(self._scan.records[pos], Text)
        return self._columns.is_line(kind) is not None

    def _is_cut(self, data: memoryview, kind: int, pos: int, length: int) -> bool:
        other = self._other(data, kind, pos, length)
        return isinstance(other, Problem) and other.code in CUT

    def scan_range(
        self, data: Stored | memoryview, first: int, limit: int, *, chain: int = 0
    ) -> Iterator[FrameBatch]:
        """Scan a part of a stream that is available as a whole, instead of feeding it.

        It begins as if nothing came before, at `first` or at the first chain of that many frames
        before `limit`; `start` says where. It ends at the first place at or after `limit` where
        nothing before affects what follows; `position` says where.

        Raises:
            SourceError: the bytes cannot be read.
        """
        stored = data if isinstance(data, Stored) else InMemory(data)
        self.start = -1
        while True:
            stop = min(limit, first + stored.block)
            end = min(stop + stored.ahead, stored.size)
            block = stored.read(first, end)
            skipped = self.find_chain(block, 0, stop - first, chain) if chain else 0
            if skipped >= 0:
                break
            if stop == limit:
                return
            first = stop
        block = block[skipped:]
        self.start = first + skipped
        self.restart(self._origin + self.start)
        self._scan.limit = limit - self.start
        while True:
            is_last = end == stored.size
            state = yield from self._batches(block, is_last)
            if is_last or state == scan.RUN_REACHED:
                return
            done = self._scan.pos
            self._scan.drop(done)
            self._scan.limit -= done
            self._base += done
            # What is left is read once more, which costs less than joining it with what follows. It
            # may be long: doubling what is read keeps the cost linear.
            at = self.position
            more = max(end - at, self._scan.need - (end - at), stored.ahead)
            end = min(end + max(more, min(stored.block, limit - end)), stored.size)
            block = stored.read(at, end)

    def find_chain(self, data: memoryview, start: int, stop: int, frames: int) -> int:
        """The first place in ``[start, stop)`` with that many frames in a row; else -1.

        Fewer are enough where the data ends behind them.
        """
        at = start
        while at < stop:
            at = int(self._scan.find_from(data, at, stop))
            if at < stop and self._scan.stands_at(data, at, frames):
                return at
            at += 1
        return -1

    @property
    def position(self) -> int:
        """Where `scan_range` has ended."""
        found: int = self._base - self._origin + self._scan.pos
        return found

    def _batches(self, data: memoryview, is_last: bool) -> Generator[FrameBatch, None, int]:
        state: int = scan.RUN_FULL
        while state == scan.RUN_FULL:
            # Small streams need small arrays; if these are too small, there are just more batches.
            most = len(data) // self._columns.least_frame + 1
            out = self._new_frames(min(self._batch, most), min(_BATCH_MARKS, most))
            state = self._scan.run(out, data, is_last)
            if out.count or out.mark_count:
                yield self._finish(data, out)
        return state

    def _run(self, is_last: bool) -> Iterator[FrameBatch]:
        parts = self._parts
        data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        yield from self._batches(data, is_last)
        done = self._scan.pos
        rest = memoryview(bytes(data[done:]))
        self._scan.drop(done)
        self._base += done
        self._parts = [rest]
        self._held = len(rest)
        self._least = len(rest) + min(len(rest) // 4, _LEAST_STEP)

    def _finish(self, data: memoryview, out: Any) -> FrameBatch:
        offsets, lengths = memoryview(out.offsets), memoryview(out.lengths)
        count = out.count
        batch = FrameBatch(self.format, data, self._base, offsets[:count], lengths[:count])
        for index in range(out.mark_count):
            pos, length = out.mark_offsets[index], out.mark_lengths[index]
            kind, reach = out.mark_kinds[index], out.mark_reach[index]
            batch.others.append(self._other(data, kind, pos, length))
            batch.reaches.append(self._base + reach)
        return batch

    def _other(self, data: memoryview, kind: int, pos: int, length: int) -> Problem | Text:
        offset = self._base + pos
        if isinstance(self._scan, FramerScan):
            record = self._scan.records[pos]
            if isinstance(record, Text):
                return replace(record, offset=offset)
            return replace(record, offset=offset, at=record.at + offset - record.offset)
        raw = bytes(data[pos : pos + length])
        is_line = self._columns.is_line(kind)
        if is_line is not None:
            return Text(self.format, offset, raw, is_line)
        error = self._columns.why(self._framer, data, kind, pos)
        if error is None:
            error = _why_no_frame(self._framer, data, kind, pos, self._columns.max_header)
        at = self._base + error.offset
        return Problem(self.format, offset, raw, error.code, error.reason, error.path, at)


def _why_no_frame(
    framer: Any, data: memoryview, kind: int, pos: int, max_header: int
) -> DecodeError:
    """The reason that `wireloom.framing.Scanner` gives."""
    if kind == scan.GOES_ON:
        return DecodeError("no frame found yet", offset=pos, code="resync")
    if kind == scan.OVERRUN:
        return DecodeError("the length runs over the next frame", offset=pos, code="length")
    rules, limit = framer._rules, framer._max_frame
    head = bytes(data[pos : pos + max_header])
    try:
        size = rules.measure(head, 0, len(head))
        if size > limit:
            return FrameTooLargeError(size, limit, offset=pos)
        if kind == scan.CUT_FRAME:
            return TruncatedError(needed=size, available=len(data) - pos, offset=pos)
        steps = SUSPECT_STEPS if kind == scan.BAD_CONTENT_NEAR else None
        rules.check(bytes(data[pos : pos + size]), 0, size, steps)
    except DecodeError as error:
        error.shifted(pos)
        return error
    raise AssertionError(f"the object path accepts the frame at {pos}")


def scan_frames(
    format: str, data: Source | Iterable[Source], *, offset: int = 0, **settings: Any
) -> Iterator[FrameBatch]:
    """All batches of a stream that is given in one piece, such as a mapped file, or in chunks.

    Raises:
        UnknownProtocolError: no such format.
        OptionError: an option has a bad value.
    """
    scanner = FrameScanner(format, offset=offset, **settings)
    chunks = (data,) if isinstance(data, (bytes, bytearray, memoryview, mmap)) else data
    for chunk in chunks:
        yield from scanner.feed(chunk)
    yield from scanner.close()
