"""Which formats some bytes may be in: a cheap first answer, which is never a wrong no.

Most streams of most captures are in none. Looking for frames gives that answer too, but puts down
every frame and every problem for it; here they are only counted, and no further than needed.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.frames.naisscan import _SYNC_START, TEXT, TEXT_LINE, NaisScan
from wireloom.kernel.frames.scan import CUT_FRAME, NO_FRAME, RUN_FULL, Frames, Scan
from wireloom.kernel.primitives import find_byte, u8

__all__ = ["Triage"]

_ROOM = cython.declare(cython.int, 64)
"""Frames and marks that are counted at a time."""
_LEAST = cython.declare(cython.Py_ssize_t, 8)
"""Bytes of the shortest header with a magic: a magic that the end cuts off proves nothing."""
_HEADER = cython.declare(cython.Py_ssize_t, 64)
"""No header is as long: fewer bytes at the end may be one that is cut off."""


@cython.final
@cython.cclass
class Triage:
    """The scanners of some formats; a scanner of another kind may find its format anywhere."""

    def __init__(self, scans: list) -> None:
        self.scans = scans
        self.out = Frames(_ROOM, _ROOM)

    def stream(self, data: cython.const[cython.uchar][::1]) -> int:
        """A bit for each scanner that may find its format in a stream that begins with `data`.

        That takes a magic, or frames in half of all bytes, where text may lie between: with it.
        """
        end: cython.Py_ssize_t = len(data)
        found: cython.int = 0
        bit: cython.int = 1
        if end == 0:
            return 0
        start = cython.address(data[0]) if cython.compiled else data
        for each in self.scans:
            if isinstance(each, Scan):
                scan: Scan = each
                if scan.rules.has_magic:
                    if scan.rules.find(start, 0, end) + _LEAST <= end:
                        found |= bit
                elif self.fills(scan, start, end):
                    found |= bit
            elif isinstance(each, NaisScan):
                line: NaisScan = each
                if self.occurs(line, start, end) and self.reads(line, start, end):
                    found |= bit
            else:
                found |= bit
            bit <<= 1
        return found

    def datagrams(
        self,
        data: cython.const[cython.uchar][::1],
        bounds: cython.const[cython.longlong][::1],
    ) -> int:
        """The same for datagrams: a magic, or frames at the start of half of them.

        `bounds`: where each begins in `data`, and where the last one ends.
        """
        end: cython.Py_ssize_t = len(data)
        count: cython.Py_ssize_t = len(bounds) - 1
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        place: cython.Py_ssize_t
        hits: cython.Py_ssize_t
        filled: cython.Py_ssize_t
        found: cython.int = 0
        bit: cython.int = 1
        if end == 0:
            return 0
        start = cython.address(data[0]) if cython.compiled else data
        for each in self.scans:
            if isinstance(each, Scan):
                scan: Scan = each
                if scan.rules.has_magic:
                    if scan.rules.find(start, 0, end) + _LEAST <= end:
                        found |= bit
                else:
                    hits = filled = 0
                    for place in range(count):
                        at = bounds[place]
                        stop = bounds[place + 1]
                        if 0 <= at < stop <= end:
                            scan.start(at)
                            filled += 1
                            hits += scan.stands(start, at, stop, True) > 0
                    scan.start(0)
                    if hits and 2 * hits >= filled:
                        found |= bit
            elif not isinstance(each, NaisScan):
                found |= bit
            bit <<= 1
        return found

    def fills(self, scan, data, end):
        """Whether frames may be in half of the bytes, one that the end cuts off included."""
        out: Frames = self.out
        other: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        size: cython.Py_ssize_t
        is_last: cython.bint
        is_done: cython.bint = False
        has_frames: cython.bint = False
        stop: cython.Py_ssize_t = end // 2 + _HEADER
        is_half: cython.bint = end >= 4 * _HEADER
        scan.start(0)
        while not is_done and 2 * other <= end:
            out.clear()
            if is_half:
                # Most hold no frame: then there is no need to search the rest for one.
                is_half = scan.scan(out, data, stop, False) == RUN_FULL
                if scan.bad and 2 * (other + scan.searched - scan.pos) > end:
                    has_frames = False
                    break
            else:
                is_done = scan.scan(out, data, end, True) != RUN_FULL
            has_frames = has_frames or out.count > 0
            for index in range(out.mark_count):
                size = out.mark_lengths[index]
                is_last = out.mark_offsets[index] + size == end
                if is_last and out.mark_kinds[index] == CUT_FRAME:
                    has_frames = True
                elif not (is_last and out.mark_kinds[index] == NO_FRAME and size < _HEADER):
                    other += size
        scan.start(0)
        return has_frames and 2 * other <= end

    def occurs(self, line, data, end):
        """Whether there is a frame."""
        pos: cython.Py_ssize_t = find_byte(data, 0, end, _SYNC_START)
        while pos < end and line.frame_at(data, pos, end) == 0:
            pos = find_byte(data, pos + 1, end, _SYNC_START)
        return pos < end

    def reads(self, line, data, end):
        """Whether frames and printable text are half of the bytes."""
        out: Frames = self.out
        proven: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        first: cython.Py_ssize_t
        pos: cython.Py_ssize_t
        byte: cython.uint
        kind: cython.int
        is_done: cython.bint = False
        line.start(0)
        while not is_done:
            out.clear()
            is_done = line.scan(out, data, end, True) != RUN_FULL
            for index in range(out.count):
                proven += out.lengths[index]
            for index in range(out.mark_count):
                kind = out.mark_kinds[index]
                if kind == TEXT or kind == TEXT_LINE:
                    first = out.mark_offsets[index]
                    for pos in range(first, first + out.mark_lengths[index]):
                        byte = u8(data, pos, end)
                        proven += 32 <= byte < 127 or byte == 9 or byte == 10 or byte == 13
        line.start(0)
        return 2 * proven >= end
