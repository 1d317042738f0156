"""What reassembly found in a batch of packets, gathered into one buffer by stream.

Events are noted in the order of the packets. `gather` sorts them by flow, keeping that order, and
copies the bytes so that what belongs to one stream lies in one place; neighbouring pieces of data
become one run. The next layer sees few large runs instead of many small packets.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import _array
from wireloom.kernel.primitives import copy_bytes

__all__ = [
    "COUNTS",
    "DROP_BEFORE",
    "DROP_CHECKSUM",
    "DROP_CONFLICT",
    "DROP_LATE",
    "DROP_STRAY",
    "END_CAPTURE",
    "END_EVICTED",
    "END_FIN",
    "END_RESET",
    "END_RESTART",
    "END_SYN",
    "PIECE_DATA",
    "PIECE_DROP",
    "PIECE_END",
    "PIECE_GAP",
    "PIECE_START",
    "PIECE_SUSPECT",
    "StreamEvents",
]

PIECE_START = cython.declare(cython.int, 1)
"""A stream begins: `offset` is its number within the flow, `ts` its first packet's time."""
PIECE_DATA = cython.declare(cython.int, 2)
"""Bytes of a stream, in order."""
PIECE_GAP = cython.declare(cython.int, 3)
"""A hole in a stream: `ts` before, `other` after it."""
PIECE_DROP = cython.declare(cython.int, 4)
"""Bytes that are not part of the stream; `other` says why."""
PIECE_END = cython.declare(cython.int, 5)
"""A stream ends: `other` says why, `length` is the index of its counts."""
PIECE_SUSPECT = cython.declare(cython.int, 6)
"""The bytes of the stream that follow have a bad checksum, where others have good ones."""

# Why bytes were dropped.
DROP_STRAY = cython.declare(cython.int, 1)
DROP_CHECKSUM = cython.declare(cython.int, 2)
DROP_BEFORE = cython.declare(cython.int, 3)
DROP_LATE = cython.declare(cython.int, 4)
DROP_CONFLICT = cython.declare(cython.int, 5)

# Why a stream ended.
END_FIN = cython.declare(cython.int, 1)
END_RESET = cython.declare(cython.int, 2)
END_SYN = cython.declare(cython.int, 3)
END_RESTART = cython.declare(cython.int, 4)
END_EVICTED = cython.declare(cython.int, 5)
END_CAPTURE = cython.declare(cython.int, 6)

COUNTS = cython.declare(cython.int, 8)
"""Counts of a stream: packets, captured, delivered, duplicate, dropped, missing, in conflict, and
packets with a bad checksum."""


@cython.final
@cython.cclass
class StreamEvents:
    """Events of a batch, then its runs."""

    def __init__(self, capacity: int, flows: int) -> None:
        self.capacity = capacity
        self.count = self.end_count = 0
        self.kind = _array("B", capacity)
        self.flow = _array("i", capacity)
        self.stream = _array("q", capacity)
        self.offset = _array("q", capacity)
        self.length = _array("q", capacity)
        self.at = _array("q", capacity)
        self.ts = _array("q", capacity)
        self.other = _array("q", capacity)
        self.counts = _array("q", COUNTS * capacity)
        self.order = _array("i", capacity)
        self.fill = _array("i", capacity + 1)
        self.group = _array("i", flows)
        self.run_count = 0
        self.run_kind = _array("B", capacity)
        self.run_flow = _array("i", capacity)
        self.run_stream = _array("q", capacity)
        self.run_offset = _array("q", capacity)
        self.run_length = _array("q", capacity)
        self.run_at = _array("q", capacity)
        self.run_ts = _array("q", capacity)
        self.run_other = _array("q", capacity)
        self.run_mark = _array("i", capacity + 1)

    def widen(self, flows: int) -> None:
        """Make room for so many flows."""
        self.group = _array("i", flows)

    def put(self, kind, flow, stream, offset, length, at, ts, other):
        """Note one piece; the caller has made sure of the room."""
        index: cython.Py_ssize_t = self.count
        self.kind[index] = kind
        self.flow[index] = cython.cast(cython.int, flow)
        self.stream[index] = stream
        self.offset[index] = offset
        self.length[index] = length
        self.at[index] = at
        self.ts[index] = ts
        self.other[index] = other
        self.count = index + 1

    def sort(self):
        """Bring the pieces of each flow together; return the number of bytes to copy."""
        index: cython.Py_ssize_t
        group: cython.Py_ssize_t
        groups: cython.Py_ssize_t = 0
        at: cython.int
        size: cython.Py_ssize_t = 0
        # fill[g] counts the pieces of group g first, and is then where its next one goes.
        for index in range(self.count):
            group = self.group[self.flow[index]]
            if group == 0:
                groups += 1
                group = groups
                self.group[self.flow[index]] = cython.cast(cython.int, groups)
                self.fill[groups] = 0
            self.fill[group] += 1
            if self.kind[index] == PIECE_DATA or self.kind[index] == PIECE_DROP:
                size += self.length[index]
        at = 0
        for group in range(1, groups + 1):
            at += self.fill[group]
            self.fill[group] = at - self.fill[group]
        for index in range(self.count):
            group = self.group[self.flow[index]]
            self.order[self.fill[group]] = cython.cast(cython.int, index)
            self.fill[group] += 1
        for index in range(self.count):
            self.group[self.flow[index]] = 0
        return size

    def gather(
        self, data: cython.const[cython.uchar][::1], store: cython.const[cython.uchar][::1]
    ) -> None:
        """Make the runs, with new buffers for their bytes and marks, and forget the pieces.

        Negative offsets point into `store`.
        """
        size: cython.Py_ssize_t
        with cython.nogil:
            size = self.sort()
        self.out = _array("B", size)
        self.mark_offset = _array("q", self.count)
        self.mark_ts = _array("q", self.count)
        self.run_count = 0
        if self.count == 0:
            return
        if cython.compiled:
            out = cython.address(self.out[0])
            # If the chunk is empty, no piece points into it; any address will do.
            source = cython.address(data[0]) if data.shape[0] else cython.address(store[0])
            held = cython.address(store[0])
        else:
            out, source, held = self.out, data, store
        with cython.nogil:
            self.run_up(out, source, data.shape[0], held, store.shape[0])
        self.count = 0

    def run_up(self, out, data, end, store, store_end):
        """Copy the bytes of all pieces, in their new order."""
        step: cython.Py_ssize_t
        index: cython.Py_ssize_t
        run: cython.Py_ssize_t = -1
        marks: cython.Py_ssize_t = 0
        used: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t
        length: cython.Py_ssize_t
        kind: cython.int
        for step in range(self.count):
            index = self.order[step]
            kind = self.kind[index]
            length = self.length[index]
            if not (
                kind == PIECE_DATA
                and run >= 0
                and self.run_kind[run] == PIECE_DATA
                and self.run_stream[run] == self.stream[index]
                and self.run_offset[run] + self.run_length[run] == self.offset[index]
            ):
                run += 1
                self.run_kind[run] = kind
                self.run_flow[run] = self.flow[index]
                self.run_stream[run] = self.stream[index]
                self.run_offset[run] = self.offset[index]
                self.run_length[run] = 0
                self.run_at[run] = used
                self.run_ts[run] = self.ts[index]
                self.run_other[run] = self.other[index]
                self.run_mark[run] = cython.cast(cython.int, marks)
            self.run_length[run] += length
            if kind in (PIECE_DATA, PIECE_DROP):
                at = self.at[index]
                if at >= 0:
                    copy_bytes(out, used, data, at, at + length, end)
                else:
                    copy_bytes(out, used, store, ~at, ~at + length, store_end)
                used += length
            if kind == PIECE_DATA:
                self.mark_offset[marks] = self.offset[index]
                self.mark_ts[marks] = self.ts[index]
                marks += 1
        self.run_count = run + 1
        self.run_mark[run + 1] = cython.cast(cython.int, marks)
