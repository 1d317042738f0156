"""Bytes → frames and text: the columnar twin of `wireloom.formats.nais.stream.StreamDecoder`.

It is driven like `Scan`, and its marks are the false starts, the junk after them, and the text.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.frames.scan import (
    _FAR,
    RUN_DONE,
    RUN_FULL,
    RUN_MORE,
    RUN_REACHED,
    RUN_WAIT,
    Frames,
)
from wireloom.kernel.primitives import find_byte, u8

__all__ = ["NaisScan"]

# Kinds of marks.
TEXT = cython.declare(cython.int, 16)
TEXT_LINE = cython.declare(cython.int, 17)
"""Text that ends with a newline."""
JUNK = cython.declare(cython.int, 18)
BAD_END = cython.declare(cython.int, 19)
CUT_LINE = cython.declare(cython.int, 20)
"""The stream ended before the frame was complete."""
REFUSED = cython.declare(cython.int, 21)
"""The header or LEN; `LineRules.measure` says why."""

_REFUSE = cython.declare(cython.int, -2)
_SYNC_START = cython.declare(cython.int, 0x1E)
_SYNC_END = cython.declare(cython.int, 0x17)
_NEWLINE = cython.declare(cython.int, 0x0A)
_LINE_HEADER = cython.declare(cython.int, 5)
_RSV_UNUSED = cython.declare(cython.uint, 0xFE)
_HUGE = cython.declare(cython.longlong, 0x4000000000000000)


@cython.final
@cython.cclass
class NaisScan:
    """Cuts one line into frames and text."""

    def __init__(
        self, max_payload: int, max_len_bytes: int, strict_rsv: bool, max_frame: int, max_text: int
    ) -> None:
        self.max_payload = min(max_payload, max_frame)
        self.max_len_bytes = max_len_bytes
        self.strict_rsv = strict_rsv
        self.max_frame = max_frame
        self.max_text = max_text
        self.limit = _FAR
        self.start(0)

    def start(self, pos: cython.Py_ssize_t) -> None:
        """Begin at `pos`, as if nothing came before."""
        self.pos = pos
        self.need = pos + 1
        self.searched = self.junk_end = self.extent = 0

    def drop(self, count: cython.Py_ssize_t) -> None:
        """Forget the first `count` bytes, which have been decided."""
        self.pos -= count
        self.need -= count
        self.searched = max(0, self.searched - count)
        self.junk_end = max(0, self.junk_end - count)

    def run(
        self,
        out: Frames,
        data: cython.const[cython.uchar][::1],
        is_last: cython.bint,
    ) -> int:
        """Decide as many bytes as possible; `is_last`: no more will come."""
        end: cython.Py_ssize_t = len(data)
        state: cython.int = RUN_DONE
        if end > 0:
            start = cython.address(data[0]) if cython.compiled else data
            with cython.nogil:
                state = self.scan(out, start, end, is_last)
        return state

    def stands_at(
        self, data: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, count: cython.int
    ) -> bool:
        """Whether a frame or a line of text starts at `pos`.

        Lines mix both, so one of them must suffice; `count` is there to match `Scan.stands_at`.
        """
        end: cython.Py_ssize_t = len(data)
        found: cython.bint = False
        if 0 < pos < end:
            start = cython.address(data[0]) if cython.compiled else data
            with cython.nogil:
                found = u8(start, pos - 1, end) == _NEWLINE or self.frame_at(start, pos, end) > 0
        return found

    def find_from(
        self, data: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> int:
        """Where a frame or line might start in ``[pos, end)``; `end` if nowhere."""
        newline: cython.Py_ssize_t
        found: cython.Py_ssize_t = end
        if 0 < pos < end:
            start = cython.address(data[0]) if cython.compiled else data
            with cython.nogil:
                newline = find_byte(start, pos - 1, end - 1, _NEWLINE) + 1
                found = find_byte(start, pos, newline, _SYNC_START)
        return found

    def frame_at(self, data, pos, end):
        """Bytes of the whole frame at `pos`; 0 if there is none."""
        size: cython.Py_ssize_t
        if u8(data, pos, end) != _SYNC_START:
            return 0
        size = self.measure(data, pos, end)
        if size <= 0 or pos + size > end or u8(data, pos + size - 1, end) != _SYNC_END:
            return 0
        return size

    def scan(self, out, data, end, is_last):
        """See `run`."""
        stop: cython.Py_ssize_t
        while self.pos < end:
            if self.pos >= self.limit and self.junk_end <= self.pos:
                return RUN_REACHED
            if out.is_full():
                return RUN_FULL
            if u8(data, self.pos, end) == _SYNC_START:
                if not self.sync(out, data, end, is_last):
                    return RUN_MORE
            elif self.pos < self.junk_end:
                stop = find_byte(data, self.pos, self.junk_end, _SYNC_START)
                out.put_mark(self.pos, stop, JUNK, self.junk_end)
                self.pos = stop
            else:
                stop = self.text_end(data, end)
                if stop == RUN_WAIT:
                    if not is_last:
                        self.need = end + 1
                        return RUN_MORE
                    stop = end
                if u8(data, stop - 1, end) == _NEWLINE:
                    out.put_mark(self.pos, stop, TEXT_LINE, 0)
                else:
                    out.put_mark(self.pos, stop, TEXT, 0)
                self.pos = stop
        self.need = self.pos + 1
        return RUN_DONE

    def sync(self, out, data, end, is_last):
        """Decide the SYNC_START at `pos`; False when that takes more bytes."""
        pos: cython.Py_ssize_t = self.pos
        size: cython.Py_ssize_t = self.measure(data, pos, end)
        kind: cython.int = REFUSED
        if size == RUN_WAIT or pos + size > end:
            if not is_last:
                self.need = end + 1 if size == RUN_WAIT else pos + size
                return False
            self.extent = end - pos
            kind = CUT_LINE
        elif size != _REFUSE:
            if u8(data, pos + size - 1, end) == _SYNC_END:
                out.put_frame(pos, pos + size)
                self.pos = pos + size
                return True
            self.extent = size
            kind = BAD_END
        self.junk_end = max(self.junk_end, pos + self.extent)
        out.put_mark(pos, pos + 1, kind, self.junk_end)
        self.pos = pos + 1
        return True

    def measure(self, data, pos, end):
        """Bytes of the frame at `pos`; `_REFUSE` with `extent`; `RUN_WAIT` while LEN is cut."""
        at: cython.Py_ssize_t = pos + _LINE_HEADER
        stop: cython.Py_ssize_t = at + self.max_len_bytes
        length: cython.longlong = 0
        shift: cython.int = 0
        byte: cython.uint = 0x80
        if end - pos < _LINE_HEADER:
            return RUN_WAIT
        if self.strict_rsv and u8(data, pos + 4, end) & _RSV_UNUSED:
            self.extent = _LINE_HEADER
            return _REFUSE
        while byte >= 0x80:
            if at >= stop:
                self.extent = stop - pos
                return _REFUSE
            if at >= end:
                return RUN_WAIT
            byte = u8(data, at, end)
            if shift < 35:
                length |= cython.cast(cython.longlong, byte & 0x7F) << shift
            elif byte & 0x7F:
                # More than any frame may have; shifting further would lose bits.
                length = _HUGE
            shift += 7
            at += 1
        if length > self.max_payload or at - pos + length + 1 > self.max_frame:
            self.extent = at - pos
            return _REFUSE
        return at - pos + length + 1

    def text_end(self, data, end):
        """Where the text at `pos` ends; `RUN_WAIT` when that is not known yet."""
        limit: cython.Py_ssize_t = self.pos + self.max_text
        stop: cython.Py_ssize_t = min(limit, end)
        start: cython.Py_ssize_t = max(self.pos, self.searched)
        newline: cython.Py_ssize_t
        found: cython.Py_ssize_t
        newline = find_byte(data, start, stop, _NEWLINE)
        found = find_byte(data, start, newline, _SYNC_START)
        if found < newline:
            return found
        if newline < stop:
            return newline + 1
        self.searched = stop
        return limit if limit <= end else RUN_WAIT
