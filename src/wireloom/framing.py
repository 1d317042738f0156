"""Bytes → frames: cut a byte stream into frames, and find the way back in when it is damaged.

A format says three things about its frames (`FrameRules`): how long the frame at a position is,
whether the content fits that length, and where the next one might start. `Scanner` does the rest,
in the same way for every chunking of the same bytes:

* A frame whose content fits is accepted. Where a format's content check is weak, the header after
  the frame decides.
* Otherwise the bytes up to the next position where a frame *does* start are one `Problem`; nothing
  after them is lost, so a damaged length never swallows the frames that follow it.
* Where headers have no magic, such a frame may be a false one, or one that has lost bytes and runs
  into the next. If no header follows it, a frame that starts inside it and is followed by one wins.
* Each byte is in exactly one record: the records' lengths add up to the stream's.

Costs are linear. A full content check of one region is made once: frames that start inside a region
whose check failed are checked for a few steps only (`SUSPECT_STEPS`), otherwise nested false frames
would make the cost quadratic.

A live connection uses `Splitter` instead, which waits for nothing after a frame and gives up at
the first invalid header.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol

from wireloom.errors import DecodeError, FrameTooLargeError, LimitError, TruncatedError
from wireloom.wire import DEFAULT_LIMITS, Buffer, Limits, as_bytes

__all__ = [
    "MAX_PROBLEM",
    "Frame",
    "FrameRules",
    "Framer",
    "Measures",
    "Problem",
    "Record",
    "Scanner",
    "Splitter",
    "Text",
    "scan",
]

MAX_PROBLEM = 1 << 20
"""Longest `Problem`; a longer bad region becomes several, to bound memory on garbage."""

SUSPECT_STEPS = 64
"""How many fields are checked in a frame that starts in a region known to be damaged."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame."""

    format: str
    offset: int
    """Where it starts, in bytes from the start of the stream."""
    data: bytes

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text between frames, on streams that mix both (NAIS)."""

    format: str
    offset: int
    data: bytes
    eol: bool
    """Whether it was ended by a newline, which is part of `data`."""

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Problem:
    """A range of bytes that is not a frame, and why."""

    format: str
    offset: int
    data: bytes
    code: str
    reason: str
    path: str = ""
    """The field where reading failed, if it got that far."""
    at: int = 0
    """Stream offset of the byte where reading failed."""

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)


Record = Frame | Text | Problem


class Framer(Protocol):
    """Turns chunks into records. The records do not depend on how the stream is cut into chunks."""

    def feed(self, data: Buffer) -> list[Record]:
        """Take the next bytes; give the records they complete."""
        ...

    def close(self) -> list[Record]:
        """The stream has ended; give what is left."""
        ...


class FrameRules(Protocol):
    """What `Scanner` must know about a format; offsets in its errors count from ``data[0]``."""

    has_magic: bool
    """Whether bytes that hardly occur elsewhere mark a header. If not, content alone does not prove
    a frame in a damaged region while another frame there is also followed by a header."""

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Length in bytes of the frame whose header starts at `pos`; there may be no data there.

        Raises:
            TruncatedError: the header is not complete in ``data[pos:end]``.
            DecodeError: it is not a header.
        """
        ...

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the content proves the frame ``data[pos:end]``; False when it cannot tell.

        Work is at most linear in the frame, and at most `steps` fields if that is given.

        Raises:
            DecodeError: the content contradicts the frame's length.
        """
        ...

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The first position in ``[pos, end)`` where a frame might start; `end` if there is none.

        A start that the end of the data cuts off after its first bytes counts too.
        """
        ...


# The evidence for a frame in a damaged region.
_CONTENT = 1
_HEADER_BEHIND = 2
_BOTH = 3


class _Wait(Exception):
    def __init__(self, need: int) -> None:
        self.need = need


class Scanner:
    """The framer of every format that has lengths in its headers."""

    def __init__(
        self, format: str, rules: FrameRules, limits: Limits = DEFAULT_LIMITS, offset: int = 0
    ) -> None:
        self._format = format
        self._rules = rules
        self._max_frame = limits.max_frame
        self._buffer = bytearray()
        self._base = offset  # stream offset of buffer[0]
        self._eof = False
        self._need = 1  # buffer length at which the next decision can be taken
        self._start = 0  # buffer offset of the frame or bad region being decided
        # End of the frame at `_start`, while its content proves nothing; in a bad region, end of
        # the frame at `_searched`, while only its content supports it; else 0.
        self._open = 0
        self._looked = 0  # buffer offset up to which no frame was found inside that frame
        self._bad: DecodeError | None = None  # why the bytes from `_start` on are not a frame
        self._bad_at = 0
        self._searched = 0  # buffer offset up to which a bad region is known to hold no frame
        self._suspect = 0  # buffer offset up to which full content checks have failed

    def feed(self, data: Buffer) -> list[Record]:
        """Take the next bytes; give the records they complete."""
        self._buffer += data
        return self._run() if len(self._buffer) >= self._need else []

    def close(self) -> list[Record]:
        """The stream has ended; give what is left."""
        self._eof = True
        return self._run()

    def _run(self) -> list[Record]:
        records: list[Record] = []
        pos = 0
        try:
            while pos < len(self._buffer):
                step = self._next if self._bad is None else self._resync
                pos = step(pos, records)
            self._need = 1
        except _Wait as wait:
            pos = self._start
            self._need = wait.need - pos
        del self._buffer[:pos]
        self._base += pos
        self._open = max(0, self._open - pos)
        self._looked = max(0, self._looked - pos)
        self._searched = max(0, self._searched - pos)
        self._suspect = max(0, self._suspect - pos)
        return records

    def _next(self, pos: int, records: list[Record]) -> int:
        """Accept the frame at `pos`, or start a bad region there.

        After a good frame, content that fits is enough in every format: whoever waits for an answer
        must not have to wait for the header that follows it. Where content proves nothing, the
        length has no support, and any frame inside shows that it is wrong.
        """
        self._start = pos
        try:
            stop = self._open or self._fill(pos)
            if self._open and not self._header_at(stop) and self._inside(stop, _CONTENT):
                raise DecodeError("the length runs over the next frame", offset=pos, code="length")
        except DecodeError as error:
            self._open = 0
            self._bad = error
            self._bad_at = self._base + error.offset
            self._searched = pos + 1
            return pos
        self._open = 0
        records.append(Frame(self._format, self._base + pos, bytes(self._buffer[pos:stop])))
        return stop

    def _fill(self, pos: int) -> int:
        """The end of the frame at `pos`; `_open` is set when its content proves nothing."""
        end = len(self._buffer)
        size = self._measure(pos)
        stop = pos + size
        if stop > end:
            if not self._eof:
                raise _Wait(stop)
            raise TruncatedError(needed=size, available=end - pos, offset=pos)
        steps = SUSPECT_STEPS if pos < self._suspect else None
        try:
            proven = self._rules.check(self._buffer, pos, stop, steps)
        except DecodeError:
            self._suspect = max(self._suspect, stop)
            raise
        if not proven:
            # Kept while more bytes are awaited: to check or search again for every chunk that
            # comes would make the cost depend on how the stream is cut.
            self._open, self._looked = stop, pos + 1
        return stop

    def _resync(self, pos: int, records: list[Record]) -> int:
        """End the bad region that starts at `pos`: at the next good frame, or with the stream."""
        assert self._bad is not None
        self._start = pos
        try:
            found = self._search()
        except _Wait:
            # Give out what can no longer become part of a frame, in pieces of fixed size.
            while self._searched - pos > MAX_PROBLEM:
                pos = self._quarantine(pos, pos + MAX_PROBLEM, records)
            self._start = pos
            raise
        while found - pos > MAX_PROBLEM:
            pos = self._quarantine(pos, pos + MAX_PROBLEM, records)
        self._quarantine(pos, found, records)
        self._bad = None
        self._open = 0
        return found

    def _quarantine(self, pos: int, stop: int, records: list[Record]) -> int:
        error = self._bad
        assert error is not None
        records.append(
            Problem(
                self._format,
                self._base + pos,
                bytes(self._buffer[pos:stop]),
                error.code,
                error.reason,
                error.path,
                self._bad_at,
            )
        )
        if stop - pos == MAX_PROBLEM:
            self._bad = DecodeError("no frame found yet", code="resync")
            self._bad_at = self._base + stop
        return stop

    def _search(self) -> int:
        """The first position from `_searched` on where a frame starts, or the end of the stream.

        A frame that only its content supports gives way to one inside it that is followed by a
        header. Everything before that one is bad, so nothing is searched again.
        """
        end = len(self._buffer)
        while not self._open:
            self._searched = self._rules.find(self._buffer, self._searched, end)
            if self._searched >= end:
                if self._eof:
                    return end
                raise _Wait(end + 1)
            proof = self._stands(self._searched)
            if proof >= _HEADER_BEHIND:
                return self._searched
            if proof:
                self._open = self._searched + self._measure(self._searched)
                self._looked = self._searched + 1
            else:
                self._searched += 1
        if self._inside(self._open, _BOTH):
            self._searched, self._open = self._looked, 0
        return self._searched

    def _inside(self, stop: int, least: int) -> bool:
        """Whether a frame with that proof starts at a position from `_looked` on, before `stop`."""
        while (found := self._rules.find(self._buffer, self._looked, stop)) < stop:
            self._looked = found
            if self._stands(found) >= least:
                return True
            self._looked = found + 1
        return False

    def _stands(self, pos: int) -> int:
        """The evidence for a frame at `pos`: `_CONTENT`, `_HEADER_BEHIND`, `_BOTH`; 0: none."""
        end = len(self._buffer)
        try:
            stop = pos + self._measure(pos)
            if stop > end:
                if self._eof:
                    return 0
                raise _Wait(stop)
            is_proven = self._rules.check(self._buffer, pos, stop, SUSPECT_STEPS)
        except DecodeError:
            return 0
        if is_proven and self._rules.has_magic:
            return _BOTH  # a magic replaces the next header, for which we would have to wait
        return _CONTENT * is_proven | _HEADER_BEHIND * self._header_at(stop)

    def _header_at(self, pos: int) -> bool:
        """Whether a header starts at `pos`, or the stream ends exactly there."""
        if pos == len(self._buffer) and self._eof:
            return True
        try:
            self._measure(pos)
        except DecodeError:
            return False
        return True

    def _measure(self, pos: int) -> int:
        end = len(self._buffer)
        if pos >= end and not self._eof:
            raise _Wait(end + 1)
        try:
            size = self._rules.measure(self._buffer, pos, end)
        except TruncatedError as error:
            if not self._eof:
                raise _Wait(max(pos + error.needed, end + 1)) from None
            raise
        if size > self._max_frame:
            raise FrameTooLargeError(size, self._max_frame, offset=pos)
        return size


def scan(framer: Framer, data: Buffer | Iterable[Buffer]) -> Iterator[Record]:
    """All records of a stream that is given as one piece or in chunks."""
    chunks = (data,) if isinstance(data, (bytes, bytearray, memoryview)) else data
    for chunk in chunks:
        yield from framer.feed(chunk)
    yield from framer.close()


class Measures(Protocol):
    """The part of `FrameRules` that a live stream needs: how long is the frame at a position?"""

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the frame whose header starts at `pos`; see `FrameRules.measure`."""
        ...


class Splitter:
    """Frames of a live stream, each as soon as its last byte is there.

    Unlike `Scanner` with a recorded stream, it does not resynchronise with a peer that is wrong:
    the first invalid header ends the connection. Feed what has arrived, take all frames, repeat.

    Costs are linear in the stream, however it is cut. Fed with `bytes`, each byte is copied once at
    most (a few header bytes twice, when a chunk ends inside a header), and not at all when a chunk
    is exactly one frame; a `bytearray` or `memoryview` belongs to the caller and is copied first.
    It holds at most one begun frame of `Limits.max_frame` bytes, and the chunks not yet taken.
    """

    def __init__(self, rules: Measures, limits: Limits = DEFAULT_LIMITS) -> None:
        self._rules = rules
        self._max_frame = limits.max_frame
        self._chunks: deque[bytes] = deque()
        self._pos = 0  # in the first chunk: earlier bytes were given out or are in `_begun`
        self._pending = 0
        self._offset = 0  # stream offset of the next frame
        # A frame that does not end in the chunk it begins in. BytesIO hands out its content without
        # copying it, which a bytearray does not.
        self._begun = BytesIO()
        self._held = 0  # bytes in it
        self._need = 0  # bytes at which the next decision can be taken
        self._is_measured = False  # whether that is the whole frame, or only more of its header

    def feed(self, data: Buffer) -> None:
        """Take the next bytes.

        Raises:
            LimitError: the frames of earlier calls were not taken, and there would be more than two
                frames of the largest size.
        """
        chunk = as_bytes(data)
        if not chunk:
            return
        limit = 2 * self._max_frame
        if self._chunks and self._pending + len(chunk) > limit:
            raise LimitError(
                "bytes not taken", self._pending + len(chunk), limit, offset=self._offset
            )
        self._chunks.append(chunk)
        self._pending += len(chunk)

    def passed(self, size: int) -> None:
        """Count whole frames that were read without it; only while nothing is pending."""
        self._offset += size

    def withdraw(self) -> bytes:
        """Give back what is pending, as if it had not been fed; only when all frames were taken."""
        begun, self._begun = self._begun.getvalue(), BytesIO()
        self._held = self._pending = 0
        return begun

    @property
    def pending(self) -> int:
        """Bytes that are not part of a frame given out yet."""
        return self._pending

    @property
    def offset(self) -> int:
        """Stream offset of the next frame."""
        return self._offset

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next whole frame.

        Raises:
            StopIteration: there is none yet.
            DecodeError: no frame starts here, or it is too large; its offset is that in the stream.
                The stream cannot go on: the next call raises it again.
        """
        if not self._held:
            if not self._chunks:
                raise StopIteration
            chunk, pos = self._chunks[0], self._pos
            self._measure(chunk, pos, len(chunk))
            stop = pos + self._need
            if self._is_measured and stop <= len(chunk):
                self._skip(self._need)
                return self._given(chunk[pos:stop])
        while True:
            self._gather()
            content = self._begun.getvalue()
            if self._is_measured:
                self._begun = BytesIO()
                self._held = 0
                return self._given(content)
            self._measure(content, 0, len(content))
            del content  # or the next write would have to copy what it shares

    def _measure(self, data: bytes, pos: int, end: int) -> None:
        """Set `_need` and `_is_measured` for the frame that starts at `pos`."""
        try:
            need = self._rules.measure(data, pos, end)
            is_measured = True
        except TruncatedError as error:
            need = max(error.needed, end - pos + 1)
            is_measured = False
        except DecodeError as error:
            error.shifted(self._offset - pos)
            raise
        if need > self._max_frame:
            raise FrameTooLargeError(need, self._max_frame, offset=self._offset)
        # Only now: after an error the next call has to measure again.
        self._need, self._is_measured = need, is_measured

    def _gather(self) -> None:
        """Move bytes of the chunks into `_begun` until it holds as many as are needed."""
        while (missing := self._need - self._held) > 0:
            if not self._chunks:
                raise StopIteration
            taken = memoryview(self._chunks[0])[self._pos : self._pos + missing]
            self._begun.write(taken)
            self._held += len(taken)
            self._skip(len(taken))

    def _skip(self, size: int) -> None:
        self._pos += size
        if self._pos == len(self._chunks[0]):
            self._chunks.popleft()
            self._pos = 0

    def _given(self, frame: bytes) -> bytes:
        self._pending -= len(frame)
        self._offset += len(frame)
        return frame
