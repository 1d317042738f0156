"""One stream: bytes → segments of frames with their times; holes, and what is not a frame.

A capture may have very many streams at a time. Between two events a stream keeps the bytes of its
unfinished frame, and nothing else; it has a scanner of its own only in the middle of damage or of a
large frame.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.captures import NO_TIME, Counts, Dropped, Gap, Stream, StreamData, Suspect
from wireloom.columnar.framing import CUT, FrameBatch, FrameScanner
from wireloom.columns import key_row
from wireloom.framing import Problem
from wireloom.rows import shown
from wireloom.tabulate.detection import MOST_DATAGRAMS, PREFIX
from wireloom.tabulate.groups import Segment, StreamState
from wireloom.tabulate.scannerpool import ScannerPool

__all__ = ["UNKNOWN_BYTES", "StreamReader", "error_row"]

UNKNOWN_BYTES: Final = 64 << 10
"""Most bytes in a row of `errors` for a stream of unknown format."""

_SMALL: Final = 4 << 10
"""Bytes of an incomplete frame that are scanned again rather than keeping a scanner for them."""

_FEW: Final = 64
"""Numbers that are added up faster one by one than by a call to Arrow."""

_NO_TIME: Final = struct.pack("=q", NO_TIME)
_NO_MARKS: Final = memoryview(b"").cast("q")


def error_row(
    source: str, stream: str, offset: int, length: int, ts_ns: int | None, **more: Any
) -> dict[str, Any]:
    """A row of `errors`; a missing time is left out."""
    return key_row(source, stream, offset, length, known(ts_ns)) | more


def known(ts_ns: int | None) -> int | None:
    """A capture time; None if there is none."""
    return None if ts_ns == NO_TIME else ts_ns


class StreamReader:
    """Reads one stream."""

    __slots__ = (
        "_at",
        "_behind",
        "_captured",
        "_end",
        "_is_known",
        "_is_udp",
        "_later",
        "_looked",
        "_marks",
        "_missing",
        "_passed",
        "_rest",
        "_scanner",
        "_scanners",
        "_suspects",
        "_tail",
        "_times",
        "state",
        "stream",
    )

    def __init__(self, stream: Stream, scanners: ScannerPool) -> None:
        self.stream = stream
        self.state = StreamState(shown(stream.source), shown(stream.name))
        self._scanners = scanners
        self._is_udp = stream.protocol == "udp"
        self._rest: bytes | bytearray | memoryview = b""  # bytes that wait for others
        self._passed = 0  # how many of no known format wait, where they are only counted
        self._at = 0  # where they start
        self._marks: Any = _NO_MARKS
        self._times: Any = _NO_MARKS
        self._scanner: FrameScanner | None = None
        self._behind = -1  # where the last hole ended
        self._later: list[dict[str, Any]] | None = None  # rows that come after what waits
        self._suspects: list[tuple[int, int]] | None = None  # where bytes are probably damaged
        self._tail: Problem | None = None  # the end of the last datagram, which a hole may have cut
        self._captured = self._missing = self._end = 0
        self._looked = 0  # bytes that were looked at without finding a format
        format = scanners.detector.by_port(stream.src_port, stream.dst_port)
        self._is_known = format is not None
        self.state.format = format

    @property
    def undecided(self) -> int:
        """Bytes that wait until their format is known."""
        return 0 if self._is_known else len(self._rest)

    @property
    def counts(self) -> Counts:
        """What has come so far, in case reading ends before the capture does."""
        return Counts(captured=self._captured, missing=self._missing)

    # --- events

    def data(self, event: StreamData) -> int:
        """Take more bytes of the stream; return by how many those increase that are undecided."""
        came = len(event.data)
        self._captured += came
        self._end = event.offset + came
        if self._is_known:
            self._go_on(event)
            return 0
        before = len(self._rest)
        if before:
            self._hold(event)
        else:
            self._rest, self._at = event.data, event.offset
            self._marks, self._times = event.mark_offsets, event.mark_times
            self._scanners.borrowers.append(self)
        size = before + came
        looks = self._scanners.looks
        # The decision depends on the first bytes only, however many came at once.
        for look in looks if size >= looks[0] else ():
            if before < look <= size and self._decide(look):
                self._release()
                return -before
        return came

    def own(self) -> None:
        """Keep bytes in a buffer of their own: the event's may be part of a much larger one."""
        if isinstance(self._rest, memoryview):
            self._rest = bytearray(self._rest)
            self._marks = array("q", bytes(self._marks))
            self._times = array("q", bytes(self._times))

    def decide(self) -> None:
        """Do not wait for more bytes to tell the format."""
        if not self._is_known and self._rest:
            self._decide(None)
            self._release()

    def look(self) -> None:
        """Give out what is complete by now, however little came since the last batch."""
        scanner = self._scanner
        if scanner is not None:
            for batch in scanner.look():
                self.emit(batch)
            self._after(scanner)

    def glance(self, format: str) -> Iterator[Segment]:
        """Frames of a format among the bytes that wait: for more, or for the format to be known.

        They may turn out to be something else, and will be given out in their turn anyway.
        """
        is_other = self._is_known and self.state.format != format
        if is_other or self._is_udp or not self._rest or self._scanner is not None:
            return
        scanner = self._scanners.borrow(format)
        for batch in scanner.scan_part(bytes(self._rest), self._at, is_last=True):
            if batch.count:
                yield Segment(self.state, batch, self._times_of(batch), [], 0)
        self._scanners.give_back(scanner)

    def gap(self, event: Gap) -> None:
        """A hole."""
        self._reach(event.offset)
        self._missing += event.length
        self._end = event.offset + event.length
        self._finish(event.offset)
        self._suspects = [each for each in self._suspects or () if each[1] > event.offset] or None
        self._behind = event.offset + event.length
        if self.state.format is None and self._looked < PREFIX:
            self._is_known = False  # what comes after the hole may show the format

    def dropped(self, event: Dropped) -> None:
        """Bytes that were not used for the stream."""
        self._reach(event.offset)
        self._captured += len(event.data)
        self.state.account.quarantined += len(event.data)
        row = self._row(
            event.offset,
            event.data,
            event.ts_ns,
            layer="stream",
            code=event.code,
            reason=_DROPPED[event.code],
            failed_at=event.offset,
            field="",
        )
        self._later = [*(self._later or ()), row]
        is_waiting = self._rest or self._passed or self._scanner is not None
        self._tell_later(self._at if is_waiting else None)

    def suspect(self, event: Suspect) -> None:
        """Some bytes are probably damaged; they are read nevertheless."""
        # Frames of the first bytes may have been given out before it was known.
        is_early = event.offset >= self._end
        if is_early and (self.state.format is not None or not self._is_known):
            place = event.offset, event.offset + event.length
            self._suspects = [*(self._suspects or ()), place]
        why = {"layer": "stream", "code": "suspect", "reason": _SUSPECT, "field": ""}
        row = self._row(event.offset, b"", event.ts_ns, failed_at=event.offset, **why)
        row["frame_length"] = min(event.length, (1 << 31) - 1)
        self._later = [*(self._later or ()), row]

    def end(self, length: int | None = None) -> None:
        """The stream has ended, after so many bytes; None: after those that came."""
        if length is not None:
            self._reach(length)
        self._finish(None)
        if self._later is not None:
            self._tell_later(None)

    # --- which format

    def _hold(self, event: StreamData) -> None:
        """Keep more bytes."""
        if not isinstance(self._rest, bytearray):
            self._rest = bytearray(self._rest)
        self._rest += event.data
        self._mark(event, keep=True)

    def _decide(self, size: int | None) -> bool:
        """Look at the first bytes; True if that settles the format, even as unknown."""
        is_last = size is None or size >= PREFIX
        # A copy: whoever still held a part of the buffer would keep it from growing.
        data = self._rest if size is None else bytes(memoryview(self._rest)[:size])
        starts = None
        if self._is_udp:
            last = self._at + len(data)
            marks = self._marks[: MOST_DATAGRAMS + 2]
            starts = [place - self._at for place in marks if self._at <= place < last]
        format = self._scanners.detector.by_bytes(data, is_all=is_last, starts=starts)
        self._is_known = is_last or format is not None
        if is_last:
            self._looked += len(data)
            if format is None and self._looked >= PREFIX and self._scanners.skip is not None:
                self._scanners.skip(self.stream)
        self.state.format = format
        return self._is_known

    def _release(self) -> None:
        """Read what was kept until the format was known."""
        data, offset = self._rest, self._at
        self._rest = b""
        if self.state.format is None:
            self.unknown(data, offset)
        elif self._is_udp:
            self._datagrams(memoryview(bytes(data)), offset)
        else:
            self._scan(bytes(data), offset)

    # --- frames

    def _go_on(self, event: StreamData) -> None:
        """More bytes, after the format was settled: a known one, or none."""
        scanner = self._scanner
        if scanner is not None:
            self._mark(event, keep=True)
            for batch in scanner.feed(event.data):
                self.emit(batch)
            self._after(scanner)
        elif self.state.format is None:
            self._pass(event)
        elif self._is_udp:
            if self._tail is not None:
                self._settle(None)
            self._mark(event, keep=False)
            self._datagrams(event.data, event.offset)
        elif self._rest:
            self._mark(event, keep=True)
            rest, self._rest = self._rest, b""
            self._scan(b"".join((rest, event.data)), self._at)
        else:
            self._mark(event, keep=False)
            self._scan(event.data, event.offset)

    def _scan(self, data: bytes | memoryview, offset: int) -> None:
        """Bytes from a place where nothing before matters."""
        assert self.state.format is not None
        scanner = self._scanners.borrow(self.state.format)
        for batch in scanner.scan_part(data, offset):
            self.emit(batch)
        self._after(scanner)

    def _after(self, scanner: FrameScanner) -> None:
        """Keep what is left over in the cheapest way."""
        rest = scanner.rest
        self._at = scanner.offset
        if len(rest) <= _SMALL and scanner.is_fresh:
            self._rest = bytes(rest)
            self._scanner = None
            self._scanners.give_back(scanner)
        else:
            self._scanner = scanner
        if self._later is not None:
            self._tell_later(self._at)
        if not len(rest):
            self._marks = self._times = _NO_MARKS
        else:
            self._forget()

    def _finish(self, hole: int | None) -> None:
        """Everything up to a hole at that offset, or up to the end."""
        if not self._is_known and self._rest:
            self._decide(None)
            if self.state.format is not None:
                self._release()
        if self._tail is not None:
            self._settle(hole)
        scanner, self._scanner = self._scanner, None
        rest, self._rest = self._rest, b""
        if scanner is not None:
            for batch in scanner.close():
                self.emit(batch, hole)
            self._scanners.give_back(scanner)
        elif self.state.format is None:
            if rest:
                self.unknown(rest, self._at, least=1)
            elif self._passed:
                self._unknown_rows(rest, self._at, least=1)
        elif rest:
            scanner = self._scanners.borrow(self.state.format)
            for batch in scanner.scan_part(bytes(rest), self._at, is_last=True):
                self.emit(batch, hole)
            self._scanners.give_back(scanner)
        self._marks = self._times = _NO_MARKS

    def emit(self, batch: FrameBatch, hole: int | None = None) -> None:
        """Give out a batch: as one segment, unless times are known for only a part of it.

        Args:
            batch: frames of this stream.
            hole: where a hole begins after them.
        """
        state = self.state
        account = state.account
        rows = []
        for other in batch.others:
            if isinstance(other, Problem):
                rows.append(self._problem(other, hole))
            else:
                account.decoded += len(other.data)
                account.texts += 1
        count = batch.count
        size = _total(batch.lengths)
        account.frames += count
        account.decoded += size
        put = self._scanners.put
        times = self._times_of(batch)
        suspect = self._suspect_frames(batch) if self._suspects else ()
        if times is None or _NO_TIME not in bytes(self._times):
            put(Segment(state, batch, times, rows, size, suspect=suspect))
            return
        for first, last, is_timed in _runs(times):
            part = batch.part(first, last)
            part.others = batch.others_in(first, last)
            known = times[first:last] if is_timed else None
            own = [index - first for index in suspect if first <= index < last]
            put(Segment(state, part, known, rows, _total(part.lengths), suspect=own))
            rows = []

    def _suspect_frames(self, batch: FrameBatch) -> list[int]:
        """The frames of a batch of which a part is probably damaged."""
        found: set[int] = set()
        offsets, lengths, base = batch.offsets, batch.lengths, batch.base
        for start, stop in self._suspects or ():
            index = max(bisect_right(offsets, start - base) - 1, 0)
            while index < batch.count and base + offsets[index] < stop:
                if base + offsets[index] + lengths[index] > start:
                    found.add(index)
                index += 1
        if batch.count:
            end = base + offsets[batch.count - 1] + lengths[batch.count - 1]
            self._suspects = [each for each in self._suspects or () if each[1] > end] or None
        return sorted(found)

    # --- rows of errors

    def _row(self, offset: int, data: bytes, ts_ns: int | None, **more: Any) -> dict[str, Any]:
        state = self.state
        key = (state.source, state.name, offset, len(data), ts_ns)
        return error_row(*key, format=state.format, raw=data, **more)

    def _problem(self, problem: Problem, hole: int | None) -> dict[str, Any]:
        """The row for bytes that are not a frame."""
        offset, size, account = problem.offset, len(problem.data), self.state.account
        is_tail = offset == self._behind
        is_head = hole is not None and offset + size == hole and problem.code in CUT
        why: dict[str, Any]
        if is_tail or is_head:
            account.gap += size
            why = {"layer": "stream", "code": "gap", "reason": _CUT_BY_HOLE, "field": ""}
            why["failed_at"] = offset if is_tail else hole
        else:
            account.quarantined += size
            why = {"layer": "frame", "code": problem.code, "reason": problem.reason}
            why |= {"field": problem.path, "failed_at": problem.at}
        return self._row(offset, problem.data, self._time_at(offset), **why)

    def _tell_later(self, offset: int | None) -> None:
        """Rows that waited for the frames before that place; None: all."""
        rows, self._later = self._later or [], None
        ready = [row for row in rows if offset is None or row["frame_offset"] <= offset]
        for row in ready:
            row["format"] = self.state.format  # it may not have been known yet
        if ready:
            self._scanners.put(Segment(self.state, None, None, ready, 0))
        if len(ready) < len(rows):
            assert offset is not None
            self._later = [row for row in rows if row["frame_offset"] > offset]

    # --- no known format

    def _reach(self, offset: int) -> None:
        """Count the bytes up to a place that were skipped, as nobody wants them."""
        size = offset - self._end
        if size <= 0:
            return
        self._captured += size
        if not self._passed:
            self._at = self._end
        self._end = offset
        self._passed += size
        if self._passed >= UNKNOWN_BYTES:
            self._unknown_rows(b"", self._at)

    def _pass(self, event: StreamData) -> None:
        """More bytes of no known format."""
        data, offset = event.data, event.offset
        held = self._passed or len(self._rest)
        if held:
            # The segment that was begun comes first.
            size = min(UNKNOWN_BYTES - held, len(data))
            if self._scanners.is_raw_wanted:
                if not isinstance(self._rest, bytearray):
                    self._rest = bytearray(self._rest)
                self._rest += data[:size]
            else:
                self._passed += size
            if held + size < UNKNOWN_BYTES:
                return
            rest, self._rest = self._rest, b""
            self._unknown_rows(rest, self._at)
            data, offset = data[size:], offset + size
        self._mark(event, keep=False)
        self.unknown(data, offset)

    def unknown(
        self, data: bytes | bytearray | memoryview, offset: int, *, least: int = UNKNOWN_BYTES
    ) -> None:
        """Bytes of no known format, in segments; fewer than `least` are kept."""
        if not self._scanners.is_raw_wanted:
            self._passed, data = len(data), b""
        self._unknown_rows(data, offset, least)

    def _unknown_rows(
        self, data: bytes | bytearray | memoryview, offset: int, least: int = UNKNOWN_BYTES
    ) -> None:
        """Rows of bytes that are given, or of those that were counted."""
        rows, at, state = [], 0, self.state
        left = self._passed or len(data)
        has_times = self._scanners.is_row_wanted
        while left >= least:
            size = min(left, UNKNOWN_BYTES)
            place = offset + at
            raw = bytes(data) if size == len(data) else bytes(data[at : at + size])
            time = known(self._time_at(place)) if has_times else None
            row = key_row(state.source, state.name, place, size, time)
            row |= _UNKNOWN
            row["raw"], row["failed_at"] = raw, place
            rows.append(row)
            state.account.quarantined += size
            at += size
            left -= size
        self._at = offset + at
        self._rest = bytes(data[at:]) if left else b""
        self._passed = left if self._passed else 0
        if left and has_times:
            # When they were captured is all that has to be known of them.
            time = self._time_at(self._at)
            self._marks = array("q", [] if time is None else [self._at])
            self._times = array("q", [] if time is None else [time])
        if rows:
            self._scanners.put(Segment(self.state, None, None, rows, 0))
        if self._later is not None:
            self._tell_later(self._at)

    # --- datagrams

    def _datagrams(self, data: memoryview, offset: int) -> None:
        """Each datagram is framed by itself: a frame never spans two."""
        assert self.state.format is not None
        scanner = self._scanners.borrow(self.state.format)
        batches = scanner.scan_part(data, offset, is_last=True)
        if not _fits(batches, self._marks, offset):
            bounds = [offset, *self._marks, offset + len(data)]
            batches = []
            for first, last in pairwise(bounds):
                if first < last:
                    part = data[first - offset : last - offset]
                    batches += scanner.scan_part(part, first, is_last=True)
        other = batches[-1].others[-1] if batches and batches[-1].others else None
        end = offset + len(data)
        if isinstance(other, Problem) and other.code in CUT and other.offset + other.length == end:
            # If the packet was cut, the hole is the next event.
            batches[-1].others.pop()
            self._tail = other
        for batch in batches:
            self.emit(batch)
        self._scanners.give_back(scanner)
        if self._tail is None:
            self._marks = self._times = _NO_MARKS
        self._tell_later(None)

    def _settle(self, hole: int | None) -> None:
        """Give out the end of the last datagram."""
        tail, self._tail = self._tail, None
        assert tail is not None
        self._scanners.put(Segment(self.state, None, None, [self._problem(tail, hole)], 0))

    # --- times

    def _mark(self, event: StreamData, *, keep: bool) -> None:
        """Note where packets start; earlier ones are kept while there are bytes of them."""
        if not keep:
            self._marks, self._times = event.mark_offsets, event.mark_times
        elif len(event.mark_offsets):
            if not isinstance(self._marks, array):
                self._marks = array("q", bytes(self._marks))
                self._times = array("q", bytes(self._times))
            self._marks.frombytes(event.mark_offsets.cast("B"))
            self._times.frombytes(event.mark_times.cast("B"))

    def _times_of(self, batch: FrameBatch) -> memoryview | None:
        """The times of some frames; None if they are not known."""
        if not batch.count or not len(self._marks):
            return None
        times = memoryview(bytearray(8 * batch.count)).cast("q")
        marks = memoryview(self._marks), memoryview(self._times)
        self._scanners.kernel.times_at(*marks, batch.offsets, batch.base, times)
        return times

    def _forget(self) -> None:
        """Keep the marks of what waits, in arrays of their own."""
        done = max(bisect_right(self._marks, self._at) - 1, 0)
        if done or not isinstance(self._marks, array):
            self._marks = array("q", bytes(self._marks[done:]))
            self._times = array("q", bytes(self._times[done:]))

    def _time_at(self, offset: int) -> int | None:
        index = bisect_right(self._marks, offset) - 1
        return self._times[index] if index >= 0 else None


_CUT_BY_HOLE: Final = "a hole in the capture cuts the frame"
_SUSPECT: Final = "the bytes have a bad checksum, where those of others are good"
_UNKNOWN: Final = {
    "layer": "stream",
    "format": None,
    "code": "unknown_format",
    "reason": "no format was recognised on this stream",
    "field": "",
}
_DROPPED: Final = {
    "stray": "bytes far from what the stream expects",
    "checksum": "a segment whose checksum is wrong",
    "before_start": "bytes before the start of the stream",
    "late": "bytes for a hole that had been given up",
    "conflict": "a copy with a good checksum of bytes that were read with a bad one",
}


def _total(lengths: memoryview) -> int:
    """The sum of 32-bit numbers."""
    if len(lengths) <= _FEW:
        return sum(lengths)
    found = pa.Array.from_buffers(pa.int32(), len(lengths), [None, pa.py_buffer(lengths)], 0)
    total: int = pc.sum(found).as_py()
    return total


def _fits(batches: list[FrameBatch], marks: Any, offset: int) -> bool:
    """Whether frames begin where datagrams do, and nothing else is between.

    Then each datagram by itself has the same frames: a frame is decided by its own bytes or by the
    header after it, and where nothing comes after it, less is required.
    """
    if any(batch.others for batch in batches):
        return False
    left = set(marks)
    for batch in batches:
        base = batch.base
        left.difference_update([base + place for place in batch.offsets.tolist()])
    return not left


def _runs(times: memoryview) -> Iterator[tuple[int, int, bool]]:
    """The runs of frames with known times, and those without."""
    first = 0
    for is_timed, group in groupby(times, lambda ts_ns: ts_ns != NO_TIME):
        last = first + sum(1 for _ in group)
        yield first, last, is_timed
        first = last
