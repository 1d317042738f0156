"""The state of every flow: one row of numbers each, all zero before its first packet."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import _array, _wider

__all__ = ["FlowRows"]

# The numbers of a flow's row.
S_NEXT = cython.declare(cython.int, 0)  # stream offset of the next byte
S_FIRST = cython.declare(cython.int, 1)  # sequence number of offset 0
S_FLAGS = cython.declare(cython.int, 2)
S_HEAD = cython.declare(cython.int, 3)  # first buffered node
S_TAIL = cython.declare(cython.int, 4)  # last buffered node
S_FINGER = cython.declare(cython.int, 5)  # node buffered last: the next one is often its neighbour
S_NODES = cython.declare(cython.int, 6)  # number of buffered nodes
S_HELD = cython.declare(cython.int, 7)  # what they cost
S_HOLE = cython.declare(cython.int, 8)  # when the first hole was noticed
S_HOLE_AT = cython.declare(cython.int, 9)  # the same as a packet count
S_PROGRESS = cython.declare(cython.int, 10)  # time of the last bytes delivered
S_FINAL = cython.declare(cython.int, 11)  # stream offset of the FIN
S_GAP = cython.declare(cython.int, 12)  # the last gap
S_GAP_END = cython.declare(cython.int, 13)
S_STRAY = cython.declare(cython.int, 14)  # sequence number that would continue a stray segment
S_STRAYS = cython.declare(cython.int, 15)
S_GOOD = cython.declare(cython.int, 16)  # segments with good checksums
S_SUSPECTS = cython.declare(cython.int, 17)  # buffered nodes with bad ones
S_BAD_AT = cython.declare(cython.int, 18)  # packets of the stream up to the last of them
S_OLD = cython.declare(cython.int, 19)  # where bytes of the last one delivered start
S_OLD_END = cython.declare(cython.int, 20)
S_STREAM = cython.declare(cython.int, 21)  # number of the stream
S_TURN = cython.declare(cython.int, 22)  # streams of this flow so far
S_LAST = cython.declare(cython.int, 23)  # number of the last packet
S_PACKETS = cython.declare(cython.int, 24)  # with payload; the counts that an end reports
S_CAPTURED = cython.declare(cython.int, 25)
S_DELIVERED = cython.declare(cython.int, 26)
S_DUPLICATE = cython.declare(cython.int, 27)
S_DROPPED = cython.declare(cython.int, 28)
S_MISSING = cython.declare(cython.int, 29)
S_CONFLICT = cython.declare(cython.int, 30)
S_BAD = cython.declare(cython.int, 31)  # segments with bad checksums
S_ASIDE = cython.declare(cython.int, 32)  # first node that may be of the next stream
S_AGE = cython.declare(cython.int, 33)  # rounds of eviction before the flow was first seen
S_SIZE = cython.declare(cython.int, 34)

# Bits of S_FLAGS.
F_KNOWN = cython.declare(cython.int, 1)  # S_FIRST is known
F_STARTED = cython.declare(cython.int, 2)  # the start event was noted
F_CHECKED = cython.declare(cython.int, 4)  # its checksums are right
F_FINAL = cython.declare(cython.int, 8)  # S_FINAL is known
F_RESET = cython.declare(cython.int, 16)
F_CLOSED = cython.declare(cython.int, 32)  # all was delivered
F_DOUBT = cython.declare(cython.int, 64)  # only a bad header told where it is: S_STRAY is next
F_PROBED = cython.declare(cython.int, 128)  # a keep-alive told where it is, and nothing since
F_UNSURE = cython.declare(cython.int, 256)  # the first checksum is bad; whether others are is open
F_SYN = cython.declare(cython.int, 512)  # it starts with a SYN, so nothing comes before
F_UNREAD = cython.declare(cython.int, 1024)  # nobody wants the bytes that are still to come


@cython.final
@cython.cclass
class FlowRows:
    """The rows of all flows."""

    def __init__(self) -> None:
        self.capacity = 0
        self.age = 0
        self.state = _array("q", 1)
        self.widen(1024)

    def row(self, flow):
        """The numbers of a flow."""
        if cython.compiled:
            return cython.address(self.state[flow * S_SIZE])
        return self.state[flow * S_SIZE : (flow + 1) * S_SIZE]

    def widen(self, flows: int) -> None:
        """Make room for so many flows."""
        flow: cython.Py_ssize_t
        self.state = _wider(self.state[: self.capacity * S_SIZE], "q", flows * S_SIZE)
        for flow in range(self.capacity, flows):
            self.state[flow * S_SIZE + S_AGE] = self.age
        self.capacity = flows

    def holders(self) -> list[int]:
        """The flows that keep segments, the one whose hole is oldest first."""
        found = [
            (self.state[flow * S_SIZE + S_HOLE_AT], flow)
            for flow in range(self.capacity)
            if self.state[flow * S_SIZE + S_HEAD] or self.state[flow * S_SIZE + S_ASIDE]
        ]
        return [number for _, number in sorted(found)]

    def by_silence(self, flows: int) -> list[int]:
        """The first `flows` flows, the one that has been silent longest first."""
        found = [(self.state[flow * S_SIZE + S_LAST], flow) for flow in range(flows)]
        return [number for _, number in sorted(found)]

    def age_of(self, flow: cython.Py_ssize_t) -> int:
        """Rounds of eviction before the flow was first seen."""
        return self.state[flow * S_SIZE + S_AGE]

    def keep(self, flows: list[int]) -> None:
        """Renumber the flows: the given ones, in their order, from 0 on."""
        old = self.state
        self.age += 1
        self.capacity = 0
        self.widen(max(1024, 2 * len(flows)))
        at: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t
        for flow in flows:
            start = flow * S_SIZE
            self.state[at : at + S_SIZE] = old[start : start + S_SIZE]
            at += S_SIZE
