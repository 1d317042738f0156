"""Bytes → frames: the columnar twin of `wireloom.framing.Scanner`, and its output.

Same decisions, in the same order, for every chunking. The bytes that are not decided yet are kept
by the driver, which calls `Scan.drop` when it lets go of those before `Scan.pos`. Positions here
count from the first byte that is kept.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.frames.framerules import CUT_HEADER, FAILED, PROVEN, UNPROVEN, HeaderRules

__all__ = ["Frames", "Scan"]

# Why `Scan.run` came back.
RUN_DONE = cython.declare(cython.int, 0)
"""Everything is decided."""
RUN_MORE = cython.declare(cython.int, 1)
"""More bytes are needed: `Scan.need` in all."""
RUN_FULL = cython.declare(cython.int, 2)
"""The output has no room left."""
RUN_REACHED = cython.declare(cython.int, 3)
"""`pos` has reached `limit`, and nothing before it matters to what follows."""

# Kinds of marks: bytes that are not a frame. The first five say how the driver finds the reason.
NO_FRAME = cython.declare(cython.int, 1)
"""No header, or that of a frame that is too large, or the stream ends in it."""
CUT_FRAME = cython.declare(cython.int, 2)
"""The stream ends in the frame."""
BAD_CONTENT = cython.declare(cython.int, 3)
"""The content contradicts the length."""
BAD_CONTENT_NEAR = cython.declare(cython.int, 4)
"""The same, found by a check of a few steps in a region known to be damaged."""
OVERRUN = cython.declare(cython.int, 5)
"""The length runs over the next frame."""
GOES_ON = cython.declare(cython.int, 6)
"""The next piece of a long bad region."""

# The evidence for a frame in a damaged region.
_CONTENT = cython.declare(cython.int, 1)
_HEADER_BEHIND = cython.declare(cython.int, 2)
_BOTH = cython.declare(cython.int, 3)

_MAX_PROBLEM = cython.declare(cython.Py_ssize_t, 1048576)
_SUSPECT_STEPS = cython.declare(cython.Py_ssize_t, 64)
RUN_WAIT = cython.declare(cython.int, -1)
_FAR = cython.declare(cython.Py_ssize_t, 0x7FFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Frames:
    """Where the frames are in a piece of a stream, and where something else is: `marks`."""

    def __init__(self, capacity: int, marks: int = 1024) -> None:
        self.capacity = capacity
        self.mark_capacity = marks
        self.reset()

    def reset(self) -> None:
        """Start anew with new buffers; those handed out stay as they are."""
        self.count = self.mark_count = 0
        self.offsets = memoryview(bytearray(8 * self.capacity)).cast("q")
        self.lengths = memoryview(bytearray(4 * self.capacity)).cast("i")
        self.mark_offsets = memoryview(bytearray(8 * self.mark_capacity)).cast("q")
        self.mark_lengths = memoryview(bytearray(8 * self.mark_capacity)).cast("q")
        self.mark_kinds = memoryview(bytearray(self.mark_capacity))
        self.mark_reach = memoryview(bytearray(8 * self.mark_capacity)).cast("q")

    def clear(self) -> None:
        """Start anew in the same buffers, which nobody else uses."""
        self.count = self.mark_count = 0

    def is_full(self):
        """Whether there is no room for one more frame, or one more mark."""
        return self.count >= self.capacity or self.mark_count >= self.mark_capacity

    def put_frame(self, pos, stop):
        """Add a frame; the caller has made sure of the room."""
        self.offsets[self.count] = pos
        self.lengths[self.count] = cython.cast(cython.int, stop - pos)
        self.count += 1

    def put_mark(self, pos, stop, kind, reach):
        """Add a mark. What follows depends on it up to `reach`."""
        self.mark_offsets[self.mark_count] = pos
        self.mark_lengths[self.mark_count] = stop - pos
        self.mark_kinds[self.mark_count] = kind
        self.mark_reach[self.mark_count] = reach
        self.mark_count += 1


@cython.final
@cython.cclass
class Scan:
    """Cuts one stream into frames; see `wireloom.framing.Scanner` for the meaning of its parts."""

    def __init__(self, rules: HeaderRules) -> None:
        self.rules = rules
        self.limit = _FAR
        self.start(0)

    def start(self, pos: cython.Py_ssize_t) -> None:
        """Begin at `pos`, as if nothing came before."""
        self.pos = pos
        self.need = pos + 1
        self.stop = self.looked = self.searched = self.suspect = self.reach = 0
        self.bad = 0
        self.known_at = -1
        self.known_size = 0

    def drop(self, count: cython.Py_ssize_t) -> None:
        """Forget the first `count` bytes, which have been decided."""
        self.pos -= count
        self.need -= count
        self.stop = max(0, self.stop - count)
        self.looked = max(0, self.looked - count)
        self.searched = max(0, self.searched - count)
        self.suspect = max(0, self.suspect - count)
        self.reach = max(0, self.reach - count)
        self.known_at -= count

    def run(
        self,
        out: Frames,
        data: cython.const[cython.uchar][::1],
        is_last: cython.bint,
    ) -> int:
        """Decide as many bytes as possible; `is_last`: no more will come.

        Positions in `out` are those in `data`.
        """
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
        """Whether that many frames follow each other from `pos` on, or up to the end of `data`."""
        end: cython.Py_ssize_t = len(data)
        found: cython.int = 1
        if pos < end:
            start = cython.address(data[0]) if cython.compiled else data
            with cython.nogil:
                while found > 0 and count > 0 and pos < end:
                    found = self.stands(start, pos, end, True)
                    if found > 0:
                        pos += self.rules.measure(start, pos, end)
                    count -= 1
        return found > 0

    def find_from(
        self, data: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> int:
        """Where a frame might start in ``[pos, end)``; `end` if nowhere."""
        if pos < end:
            start = cython.address(data[0]) if cython.compiled else data
            with cython.nogil:
                pos = self.rules.find(start, pos, end)
        return pos

    def scan(self, out, data, end, is_last):
        """See `run`."""
        stop: cython.Py_ssize_t
        found: cython.int
        while self.pos < end:
            if self.pos >= self.limit and self.is_clean():
                return RUN_REACHED
            if out.is_full():
                return RUN_FULL
            if self.bad != 0:
                found = self.resync(out, data, end, is_last)
                if found != RUN_DONE:
                    return found
                continue
            stop = self.stop if self.stop else self.fill(data, end, is_last)
            if stop == RUN_WAIT:
                return RUN_MORE
            if self.stop and stop:
                found = self.header_at(data, stop, end, is_last)
                if found == 0:
                    found = self.inside(data, stop, end, is_last, _CONTENT)
                    if found > 0:
                        self.bad = OVERRUN
                        stop = 0
                if found == RUN_WAIT:
                    return RUN_MORE
            self.stop = 0
            if stop == 0:
                self.searched = self.pos + 1
                continue
            out.put_frame(self.pos, stop)
            self.pos = stop
        self.need = self.pos + 1
        return RUN_DONE

    def is_clean(self):
        """Whether what follows `pos` is decided as if nothing came before."""
        return self.bad == 0 and self.stop == 0 and self.suspect <= self.pos

    def fill(self, data, end, is_last):
        """The end of the frame at `pos`; 0 if there is none (`bad` says why), or `RUN_WAIT`.

        `stop` is set when the content proves nothing.
        """
        size: cython.Py_ssize_t = self.measure(data, self.pos, end, is_last)
        stop: cython.Py_ssize_t = self.pos + size
        is_suspect: cython.bint = self.pos < self.suspect
        found: cython.int
        if size == RUN_WAIT:
            return RUN_WAIT
        self.reach = 0
        if size == 0:
            self.bad = NO_FRAME
            return 0
        if stop > end:
            if not is_last:
                self.need = stop
                return RUN_WAIT
            self.bad = CUT_FRAME
            return 0
        found = self.rules.check(data, self.pos, stop, _SUSPECT_STEPS if is_suspect else -1)
        if found == FAILED:
            self.suspect = max(self.suspect, stop)
            self.reach = self.suspect
            self.bad = BAD_CONTENT_NEAR if is_suspect else BAD_CONTENT
            return 0
        if found == UNPROVEN:
            self.stop = stop
            self.looked = self.pos + 1
        return stop

    def resync(self, out, data, end, is_last):
        """End the bad region at `pos`: at the next good frame, or with the stream."""
        found: cython.Py_ssize_t = self.search(data, end, is_last)
        known: cython.Py_ssize_t = self.searched if found == RUN_WAIT else found
        # What can no longer become part of a frame is emitted, in pieces of fixed size.
        while known - self.pos > _MAX_PROBLEM:
            if out.is_full():
                return RUN_FULL
            out.put_mark(self.pos, self.pos + _MAX_PROBLEM, self.bad, self.reach)
            self.pos += _MAX_PROBLEM
            self.bad = GOES_ON
        if found == RUN_WAIT:
            return RUN_MORE
        if out.is_full():
            return RUN_FULL
        out.put_mark(self.pos, found, self.bad, self.reach)
        self.bad = 0
        self.stop = 0
        self.pos = found
        return RUN_DONE

    def search(self, data, end, is_last):
        """The first position from `searched` on where a frame starts, or the end of the stream.

        In a bad region, `stop` is the end of the frame at `searched`, while only its content
        supports it.
        """
        found: cython.int
        while self.stop == 0:
            self.searched = self.rules.find(data, self.searched, end)
            if self.searched >= end:
                if is_last:
                    return end
                self.need = end + 1
                return RUN_WAIT
            found = self.stands(data, self.searched, end, is_last)
            if found == RUN_WAIT:
                return RUN_WAIT
            if found >= _HEADER_BEHIND:
                return self.searched
            if found == _CONTENT:
                self.stop = self.searched + self.rules.measure(data, self.searched, end)
                self.looked = self.searched + 1
            else:
                self.searched += 1
        found = self.inside(data, self.stop, end, is_last, _BOTH)
        if found == RUN_WAIT:
            return RUN_WAIT
        if found > 0:
            self.searched = self.looked
            self.stop = 0
        return self.searched

    def inside(self, data, stop, end, is_last, least):
        """The proof, at least that one, of a frame at a position from `looked` on, before `stop`.

        0: there is none; or `RUN_WAIT`.
        """
        found: cython.int
        while True:
            self.looked = self.rules.find(data, self.looked, stop)
            if self.looked >= stop:
                return 0
            found = self.stands(data, self.looked, end, is_last)
            if found == RUN_WAIT or found >= least:
                return found
            self.looked += 1

    def stands(self, data, pos, end, is_last):
        """The evidence for a frame at `pos`: `_CONTENT` and so on; 0: none; or `RUN_WAIT`."""
        size: cython.Py_ssize_t = self.measure(data, pos, end, is_last)
        proof: cython.int
        found: cython.int
        if size <= 0:
            return size
        if pos + size > end:
            if is_last:
                return 0
            self.need = pos + size
            return RUN_WAIT
        proof = self.rules.check(data, pos, pos + size, _SUSPECT_STEPS)
        if proof == FAILED:
            return 0
        if proof == PROVEN and self.rules.has_magic:
            return _BOTH
        found = self.header_at(data, pos + size, end, is_last)
        if found == RUN_WAIT:
            return RUN_WAIT
        return _CONTENT * (proof == PROVEN) | _HEADER_BEHIND * found

    def header_at(self, data, pos, end, is_last):
        """1 if a header starts at `pos` or the stream ends exactly there; else 0; or `RUN_WAIT`."""
        size: cython.Py_ssize_t
        if pos == end and is_last:
            return 1
        size = self.measure(data, pos, end, is_last)
        return size if size <= 0 else 1

    def measure(self, data, pos, end, is_last):
        """Bytes of the frame whose header starts at `pos`; 0 if there is none; or `RUN_WAIT`."""
        size: cython.Py_ssize_t
        if pos == self.known_at:
            return self.known_size
        size = self.rules.measure(data, pos, end)
        if size > 0:
            # The header after a frame is measured once more when it is its turn.
            self.known_at = pos
            self.known_size = size
            return size
        if size == CUT_HEADER and not is_last:
            self.need = max(pos + self.rules.needed, end + 1)
            return RUN_WAIT
        return 0
