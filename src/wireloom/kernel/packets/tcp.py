"""Payloads of flows → streams: TCP segments in order, UDP datagrams one by one.

The rules, which `wireloom.captures` states for users:

* One stream per direction. Its bytes are numbered from 0 with 64 bits, so that sequence numbers may
  wrap. It starts after the SYN, or with the first payload seen if there was none.
* The first capture of a byte wins; what comes again is counted as duplicate.
* Segments after a hole are buffered, within hard limits; a hole that is not filled in time becomes
  a gap. Acknowledgements are not needed, so one direction alone is enough.
* A SYN with another sequence number, or three segments in a row far away from what is expected or
  before a SYN, start a new stream. The first two are set aside until the third tells whose they
  are.
* A zero byte alone at the start of a capture, without a push flag, is a keep-alive: it repeats the
  byte before the stream.
* Checksums count in a stream whose SYN or first segment has a good one, or one of the next few.
  Segments longer than an MTU, or with a checksum that was left to the network card, show that bad
  ones are normal after all, and so does a share of more than a quarter: from then on they do not
  count. Until then a segment with a bad one waits for a good copy as if it had not arrived; if none
  comes in time, it is used where other segments adjoin it, and dropped where nothing confirms its
  position. A datagram with a bad one is used at once, since no copy of it will come.
* A good copy of bytes already used from a bad segment is a conflict: dropped, but reported.
* Where the position of a stream is known only from a segment with a bad checksum, the next payload
  decides: if its checksum is good and it does not continue that segment, it starts a new stream.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.checks import CHECK_BAD, CHECK_GOOD, CHECK_LEFT, segment_check
from wireloom.kernel.packets.flowrows import (
    F_CHECKED,
    F_CLOSED,
    F_DOUBT,
    F_FINAL,
    F_KNOWN,
    F_PROBED,
    F_RESET,
    F_STARTED,
    F_SYN,
    F_UNREAD,
    F_UNSURE,
    S_ASIDE,
    S_BAD,
    S_BAD_AT,
    S_CAPTURED,
    S_CONFLICT,
    S_DELIVERED,
    S_DROPPED,
    S_DUPLICATE,
    S_FINAL,
    S_FIRST,
    S_FLAGS,
    S_GAP,
    S_GAP_END,
    S_GOOD,
    S_HEAD,
    S_HELD,
    S_HOLE,
    S_HOLE_AT,
    S_LAST,
    S_MISSING,
    S_NEXT,
    S_NODES,
    S_OLD,
    S_OLD_END,
    S_PACKETS,
    S_PROGRESS,
    S_STRAY,
    S_STRAYS,
    S_STREAM,
    S_SUSPECTS,
    S_TURN,
    FlowRows,
)
from wireloom.kernel.packets.packetrows import PACKET_UDP, Packets
from wireloom.kernel.packets.records import NO_TIME
from wireloom.kernel.packets.reorder import ReorderBuffer
from wireloom.kernel.packets.streamevents import (
    COUNTS,
    DROP_BEFORE,
    DROP_CHECKSUM,
    DROP_CONFLICT,
    DROP_LATE,
    DROP_STRAY,
    END_FIN,
    END_RESET,
    END_RESTART,
    END_SYN,
    PIECE_DATA,
    PIECE_DROP,
    PIECE_END,
    PIECE_GAP,
    PIECE_START,
    PIECE_SUSPECT,
    StreamEvents,
)
from wireloom.kernel.primitives import u8

__all__ = [
    "TCP_DONE",
    "TCP_PRESSURE",
    "TCP_ROOM",
    "Streams",
]

# Why `Streams.run` came back.
TCP_DONE = cython.declare(cython.int, 0)
TCP_ROOM = cython.declare(cython.int, 1)
"""No room for the next packet: gather, make room, and continue with that packet."""
TCP_PRESSURE = cython.declare(cython.int, 2)
"""More is buffered than allowed: give up holes, then continue with the next packet."""

TCP_FIN = cython.declare(cython.int, 1)
TCP_SYN = cython.declare(cython.int, 2)
TCP_RST = cython.declare(cython.int, 4)
TCP_PSH = cython.declare(cython.int, 8)
TCP_URG = cython.declare(cython.int, 32)

SEQ_MOD = cython.declare(cython.longlong, 0x100000000)
SEQ_MASK = cython.declare(cython.longlong, 0xFFFFFFFF)
SEQ_HALF = cython.declare(cython.longlong, 0x80000000)
_OPEN_BITS = cython.declare(cython.int, 107)
"""Bits that identify an open stream: F_KNOWN, F_STARTED, F_FINAL, F_CLOSED and F_DOUBT."""
_STRAYS = cython.declare(cython.int, 3)
"""Segments in a row, far from what is expected, that indicate a new connection."""
_NEAR = cython.declare(cython.longlong, 1048576)
"""How far ahead a segment with a bad checksum may be: a window, not a damaged sequence number."""
_FEW = cython.declare(cython.longlong, 3)
"""Up to so many bad checksums prove no pattern, whatever their share."""


@cython.final
@cython.cclass
class Streams:
    """The streams of all flows, and the segments buffered for them."""

    def __init__(
        self,
        pieces: StreamEvents,
        max_flow_packets: int,
        max_flow_bytes: int,
        max_bytes: int,
        max_wait_ns: int,
        max_ahead: int,
        max_behind: int,
    ) -> None:
        self.max_flow_packets = max_flow_packets
        self.max_flow_bytes = max_flow_bytes
        self.max_bytes = max_bytes
        self.max_wait = max_wait_ns
        self.max_ahead = max_ahead
        self.max_behind = max_behind
        self.stop = TCP_DONE
        self.seen = self.streams = 0
        self.flows = FlowRows()
        # The n nodes of a flow cut a segment into at most n + 1 pieces.
        self.held = ReorderBuffer(2 * max_flow_packets + 16)
        # Each of these may become a gap, data, and the gap of what was cut off after it.
        self.most_pieces = 6 * max_flow_packets + 64
        self.use(pieces)

    def use(self, pieces: StreamEvents) -> None:
        """Note pieces there from now on; those noted before have been gathered."""
        self.pieces = pieces
        self.pieces.widen(self.flows.capacity)

    def make_room(self, flows: int, size: int) -> None:
        """Make room for any packet of `size` bytes; the pieces have been gathered."""
        if flows > self.flows.capacity:
            self.flows.widen(max(flows, 2 * self.flows.capacity))
            self.pieces.widen(self.flows.capacity)
        self.held.make_room(size)

    @property
    def is_full(self) -> bool:
        """Whether the pieces must be gathered before `finish` or `give_up`."""
        return self.pieces.count + self.most_pieces > self.pieces.capacity

    def keep(self, flows: list[int]) -> None:
        """Forget all flows but these, which are renumbered; their streams go on."""
        self.flows.keep(flows)
        self.pieces.widen(self.flows.capacity)

    def has_room(self, flow, size):
        """Whether there is room for any outcome of one more packet."""
        return (
            flow < self.flows.capacity
            and self.pieces.count + self.most_pieces <= self.pieces.capacity
            and self.held.has_room(size)
        )

    def run(
        self,
        rows: Packets,
        data: cython.const[cython.uchar][::1],
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> int:
        """Process the packets ``first`` to ``last - 1``; return the first one not done."""
        index: cython.Py_ssize_t = first
        flow: cython.Py_ssize_t
        end: cython.Py_ssize_t = len(data)
        if cython.compiled:
            store = cython.address(self.held.store[0])
            start = cython.address(data[0]) if end else store
        else:
            start, store = data, self.held.store
        with cython.nogil:
            self.stop = TCP_DONE
            while index < last:
                flow = rows.flow[index]
                if flow >= 0:
                    if not self.has_room(flow, rows.payload[index]):
                        self.stop = TCP_ROOM
                        break
                    self.packet(rows, index, flow, start, end, store)
                    if self.held.cost > self.max_bytes:
                        self.stop = TCP_PRESSURE
                        index += 1
                        break
                index += 1
        return index

    def give_up(self, flow: cython.Py_ssize_t) -> None:
        """Declare all holes of a flow, and drop what was set aside; see `is_full`."""
        row = self.flows.row(flow)
        self.forget(row, flow)
        self.flush(row, flow)

    def finish(self, flow: cython.Py_ssize_t, why: cython.int) -> None:
        """End a flow's stream; see `is_full`."""
        row = self.flows.row(flow)
        self.end(row, flow, why)

    def leave_unread(self, flow: cython.Py_ssize_t) -> None:
        """Note no more bytes of the stream that a flow has now; all else about it still is."""
        row = self.flows.row(flow)
        row[S_FLAGS] |= F_UNREAD

    def packet(self, rows, index, flow, data, end, store):
        """One TCP segment or UDP datagram."""
        row = self.flows.row(flow)
        seq: cython.longlong = rows.seq[index]
        at: cython.Py_ssize_t = rows.payload_at[index]
        size: cython.longlong = rows.payload[index]
        total: cython.longlong = size + rows.missing[index]
        ts: cython.longlong = rows.ts[index]
        flags: cython.int = rows.flags[index]
        ahead: cython.longlong
        check: cython.int = CHECK_GOOD
        is_first: cython.bint = not row[S_FLAGS] & F_KNOWN
        is_new: cython.bint = False
        self.seen += 1
        row[S_LAST] = self.seen
        if rows.status[index] == PACKET_UDP:
            if size:
                check = segment_check(rows, index, data, end, store)
            self.datagram(row, flow, at, size, total, ts, check)
            return
        if flags & TCP_SYN:
            seq = (seq + 1) & SEQ_MASK
            if is_first or seq != row[S_FIRST]:
                check = segment_check(rows, index, data, end, store)
                if row[S_FLAGS] & F_CHECKED and check == CHECK_BAD:
                    row[S_BAD] += size > 0
                    self.refuse(row, flow, at, size, ts, DROP_CHECKSUM)
                    return
                self.end(row, flow, END_SYN)
                self.begin(row, seq, ts)
                is_first = True
                row[S_FLAGS] |= F_SYN
                if check == CHECK_BAD:
                    self.doubt(row, seq)
                elif check == CHECK_GOOD:
                    row[S_FLAGS] |= F_CHECKED
        elif total == 0 and not flags & (TCP_FIN | TCP_RST):
            return  # an acknowledgement, or a keep-alive without its byte
        if not row[S_FLAGS] & F_KNOWN:
            if total == 0:
                return
            self.begin(row, seq, ts)
            if (
                total == 1
                and size
                and not flags & (TCP_FIN | TCP_RST | TCP_PSH | TCP_URG)
                and at >= 0
                and u8(data, at, end) == 0
            ):
                row[S_FIRST] = (seq + 1) & SEQ_MASK
                row[S_FLAGS] |= F_PROBED
        elif row[S_FLAGS] & F_PROBED and total > 1:
            row[S_FLAGS] &= ~F_PROBED
            if (seq + 1) & SEQ_MASK == row[S_FIRST] and row[S_NEXT] == 0 and row[S_HEAD] == 0:
                # It probed a window: its byte is one of the stream's.
                row[S_FIRST] = seq
        if row[S_FLAGS] & F_UNSURE and size and size == total:
            check = segment_check(rows, index, data, end, store)
            self.judge(row, flow, (seq - row[S_FIRST]) & SEQ_MASK, size, check)
        if row[S_FLAGS] & F_DOUBT and total and not is_first:
            row[S_FLAGS] &= ~F_DOUBT
            if (
                seq != row[S_STRAY]
                and size == total
                and segment_check(rows, index, data, end, store) == CHECK_GOOD
            ):
                self.end(row, flow, END_RESTART)
                self.begin(row, seq, ts)
        ahead = (seq - row[S_FIRST] - row[S_NEXT]) & SEQ_MASK
        if ahead >= SEQ_HALF:
            ahead -= SEQ_MOD
        if row[S_FLAGS] & F_CHECKED and (size or flags & (TCP_FIN | TCP_RST)):
            check = segment_check(rows, index, data, end, store)
            if check == CHECK_GOOD:
                row[S_GOOD] += 1
            else:
                row[S_BAD] += 1
                if check == CHECK_LEFT or self.is_usual(row):
                    ahead += row[S_NEXT]
                    self.believe(row, flow)
                    ahead -= row[S_NEXT]
                    check = CHECK_GOOD
                else:
                    self.suspect(row, flow, ahead, at, size, ts, data, end)
                    return
        if (
            ahead == 0
            and size
            and size == total
            and row[S_HEAD] == 0
            and row[S_FLAGS] & _OPEN_BITS == F_KNOWN | F_STARTED
            and not flags & (TCP_FIN | TCP_RST)
        ):
            # The common case: the next bytes, and nothing is buffered.
            row[S_PACKETS] += 1
            row[S_CAPTURED] += size
            if row[S_STRAYS]:
                self.forget(row, flow)
            self.append(row, flow, at, size, ts)
            return
        if (
            ahead > self.max_ahead
            or ahead + total < -self.max_behind
            or (row[S_FLAGS] & F_SYN and total > 1 and row[S_NEXT] + ahead + total <= 0)
        ):
            if total == 0:
                return
            if self.is_stray(row, flow, seq, total):
                if row[S_HEAD] == 0:
                    row[S_HOLE_AT] = self.seen
                self.held.set_aside(row, seq, at, size, total - size, ts, data, end)
                return
            self.restart(row, flow, seq, ts)
            is_new = True
            ahead = 0
        elif row[S_FLAGS] & F_CLOSED and ahead >= 0:
            if total == 0:
                return
            self.end(row, flow, END_FIN)
            self.begin(row, seq, ts)
            ahead = 0
        if total:
            if not row[S_FLAGS] & F_STARTED:
                self.start(row, flow, ts)
                is_new = True
            if is_new:
                check = segment_check(rows, index, data, end, store)
                if check == CHECK_GOOD:
                    row[S_FLAGS] |= F_CHECKED
                elif check == CHECK_BAD:
                    self.first_bad(row, row[S_NEXT] + ahead, size)
                    if is_first or ahead:
                        self.forget(row, flow)
                        self.doubt(row, seq + total)
            row[S_PACKETS] += 1
            row[S_CAPTURED] += size
            self.segment(row, flow, row[S_NEXT] + ahead, at, size, total, ts, data, end)
        if flags & TCP_FIN and not row[S_FLAGS] & F_FINAL and ahead + total >= 0:
            row[S_FLAGS] |= F_FINAL
            # Measured again: the segment has moved the next offset.
            ahead = (seq + total - row[S_FIRST] - row[S_NEXT]) & SEQ_MASK
            row[S_FINAL] = row[S_NEXT] + (ahead - SEQ_MOD if ahead >= SEQ_HALF else ahead)
        if flags & TCP_RST:
            row[S_FLAGS] |= F_RESET
            if row[S_HEAD] == 0 and ahead <= 0:
                row[S_FLAGS] |= F_CLOSED
        if row[S_FLAGS] & F_FINAL and row[S_NEXT] >= row[S_FINAL] and row[S_HEAD] == 0:
            row[S_FLAGS] |= F_CLOSED

    def datagram(self, row, flow, at, size, total, ts, check):
        """One UDP datagram; its bytes follow those of the one before."""
        if not row[S_FLAGS] & F_STARTED:
            self.begin(row, 0, ts)
            self.start(row, flow, ts)
            if check == CHECK_GOOD and size:
                row[S_FLAGS] |= F_CHECKED
            elif check == CHECK_BAD:
                self.first_bad(row, 0, size)
        elif row[S_FLAGS] & F_UNSURE and size:
            self.judge(row, flow, row[S_NEXT], size, check)
        row[S_PACKETS] += 1
        row[S_CAPTURED] += size
        if row[S_FLAGS] & F_CHECKED:
            if check == CHECK_GOOD:
                row[S_GOOD] += 1
            else:
                row[S_BAD] += 1
                if check == CHECK_LEFT or self.is_usual(row):
                    self.believe(row, flow)
                else:
                    self.tell(row, flow, row[S_NEXT], size, ts)
        self.append(row, flow, at, size, ts)
        if total > size:
            self.gap(row, flow, total - size, ts)

    def segment(self, row, flow, offset, at, size, total, ts, data, end):
        """Payload at a stream offset: old, next or after a hole."""
        old: cython.longlong
        if offset < 0:
            # Before the first byte seen, so before the stream.
            old = size if size < -offset else -offset
            if old:
                self.drop(row, flow, at, old, ts, DROP_BEFORE)
            at = at + old if at >= 0 else at - old
            size -= old
            total += offset
            offset = 0
            if total <= 0:
                return
        if offset < row[S_NEXT]:
            old = row[S_NEXT] - offset
            if old > size:
                old = size
            self.again(row, flow, offset, at, old, ts)
            at = at + old if at >= 0 else at - old
            size -= old
            total -= old
            offset += old
        if row[S_FLAGS] & F_CLOSED:
            # Only its end is new, beyond the end of the stream.
            if size:
                self.drop(row, flow, at, size, ts, DROP_STRAY)
            return
        if row[S_SUSPECTS] and row[S_FLAGS] & F_CHECKED:
            self.displace(row, flow, offset, offset + size)
        if row[S_HEAD] == 0 and offset <= row[S_NEXT]:
            if size:
                self.forget(row, flow)
                self.append(row, flow, at, size, ts)
            if offset + total > row[S_NEXT]:
                self.gap(row, flow, offset + total - row[S_NEXT], ts)
            return
        if size:
            if row[S_HEAD] == 0:
                row[S_HOLE] = ts
                row[S_HOLE_AT] = self.seen
            self.held.hold(row, offset, at, size, total - size, 0, ts, data, end)
        elif offset <= row[S_NEXT]:
            # None of its new bytes were captured, but those that it announces are a gap.
            self.skip(row, flow, offset + total - row[S_NEXT], ts)
        if self.is_due(row):
            self.forget(row, flow)
            self.release(row, flow)
            row[S_HOLE] = ts
            row[S_HOLE_AT] = self.seen
        self.keep_limits(row, flow, ts)

    def keep_limits(self, row, flow, ts):
        """Give up what has waited too long or takes too much room."""
        while row[S_HEAD] and (
            row[S_NODES] > self.max_flow_packets or row[S_HELD] > self.max_flow_bytes
        ):
            self.declare(row, flow)
        if row[S_HEAD] and ts != NO_TIME:
            if row[S_HOLE] == NO_TIME:
                row[S_HOLE] = ts
            elif ts - row[S_HOLE] > self.max_wait:
                self.declare(row, flow)
                row[S_HOLE] = ts
                row[S_HOLE_AT] = self.seen
        while (
            row[S_SUSPECTS]
            and row[S_PACKETS] - row[S_BAD_AT] > self.max_flow_packets
            and self.held.bad[row[S_HEAD]]
        ):
            self.declare(row, flow)

    def is_usual(self, row):
        """Whether so many checksums are bad that they mean nothing."""
        return row[S_BAD] > _FEW and row[S_BAD] * 4 > row[S_GOOD] + row[S_BAD]

    def believe(self, row, flow):
        """Bad checksums are normal in this stream: stop waiting for good copies."""
        row[S_FLAGS] &= ~F_CHECKED
        row[S_BAD] = 0
        if self.is_due(row):
            self.release(row, flow)

    def suspect(self, row, flow, ahead, at, size, ts, data, end):
        """Buffer a segment with a bad checksum, in case no good copy comes."""
        if ahead < 0 or ahead > _NEAR or row[S_FLAGS] & F_CLOSED or size == 0:
            self.refuse(row, flow, at, size, ts, DROP_CHECKSUM)
            return
        if not row[S_FLAGS] & F_STARTED:
            self.start(row, flow, ts)
        row[S_PACKETS] += 1
        row[S_CAPTURED] += size
        row[S_BAD_AT] = row[S_PACKETS]
        if row[S_HEAD] == 0:
            row[S_HOLE] = ts
            row[S_HOLE_AT] = self.seen
        self.held.hold(row, row[S_NEXT] + ahead, at, size, 0, 1, ts, data, end)
        self.keep_limits(row, flow, ts)

    def first_bad(self, row, offset, size):
        """Note a first segment with a bad checksum: the next ones tell what that means."""
        row[S_FLAGS] |= F_UNSURE
        row[S_BAD] = 1
        row[S_OLD] = offset
        row[S_OLD_END] = offset + size

    def judge(self, row, flow, offset, size, check):
        """After a first segment with a bad checksum: whether those of others are good."""
        if check == CHECK_GOOD:
            row[S_FLAGS] |= F_CHECKED
            self.tell(row, flow, row[S_OLD], row[S_OLD_END] - row[S_OLD], row[S_PROGRESS])
        else:
            row[S_BAD] += 1
            if offset == row[S_OLD_END]:
                row[S_OLD_END] += size
        if check != CHECK_BAD or row[S_BAD] > _FEW:
            row[S_FLAGS] &= ~F_UNSURE

    def tell(self, row, flow, offset, size, ts):
        """Note that bytes of the stream have a bad checksum."""
        self.pieces.put(PIECE_SUSPECT, flow, row[S_STREAM], offset, size, 0, ts, 0)

    def displace(self, row, flow, offset, stop):
        """Drop buffered segments with bad checksums in favour of a good one that overlaps them."""
        node: cython.Py_ssize_t = row[S_HEAD]
        after: cython.Py_ssize_t
        while node and self.held.offset[node] < stop:
            after = self.held.next[node]
            if self.held.bad[node] and self.held.offset[node] + self.held.size[node] > offset:
                self.discard(row, flow, node)
            node = after

    def discard(self, row, flow, node):
        """Drop a buffered segment with a bad checksum."""
        self.drop(
            row, flow, ~self.held.at[node], self.held.size[node], self.held.ts[node], DROP_CHECKSUM
        )
        self.held.remove(row, node)

    def again(self, row, flow, offset, at, size, ts):
        """Bytes at offsets that were already delivered, or given up as a gap."""
        start: cython.longlong = offset if offset > row[S_GAP] else row[S_GAP]
        stop: cython.longlong = row[S_GAP_END]
        if offset + size < stop:
            stop = offset + size
        if stop > start:
            # They fill the last gap: too late, but no duplicates.
            row[S_DUPLICATE] -= stop - start
            if at >= 0:
                self.drop(row, flow, at + (start - offset), stop - start, ts, DROP_LATE)
            else:
                self.drop(row, flow, at - (start - offset), stop - start, ts, DROP_LATE)
        start = offset if offset > row[S_OLD] else row[S_OLD]
        stop = row[S_OLD_END]
        if offset + size < stop:
            stop = offset + size
        if stop > start and row[S_FLAGS] & F_CHECKED:
            # What was delivered for them had a bad checksum, and these have a good one.
            row[S_DUPLICATE] -= stop - start
            row[S_CONFLICT] += stop - start
            if at >= 0:
                self.drop(row, flow, at + (start - offset), stop - start, ts, DROP_CONFLICT)
            else:
                self.drop(row, flow, at - (start - offset), stop - start, ts, DROP_CONFLICT)
            row[S_OLD] = stop
        row[S_DUPLICATE] += size

    def begin(self, row, seq, ts):
        """A stream whose first byte has the sequence number `seq`."""
        index: cython.int
        for index in range(S_STREAM):
            row[index] = 0
        for index in range(S_PACKETS, S_PACKETS + COUNTS):
            row[index] = 0
        row[S_FLAGS] = F_KNOWN
        row[S_FIRST] = seq
        row[S_PROGRESS] = ts

    def doubt(self, row, seq):
        """Only a segment with a bad checksum gives the stream's position; `seq` continues it."""
        row[S_FLAGS] |= F_DOUBT
        row[S_STRAY] = seq & SEQ_MASK

    def start(self, row, flow, ts):
        """Note that a stream has payload."""
        row[S_FLAGS] |= F_STARTED
        row[S_TURN] += 1
        row[S_STREAM] = self.streams
        self.streams += 1
        self.pieces.put(PIECE_START, flow, row[S_STREAM], row[S_TURN], 0, 0, ts, 0)

    def append(self, row, flow, at, size, ts):
        """Deliver the next bytes."""
        if not row[S_FLAGS] & F_UNREAD:
            self.pieces.put(PIECE_DATA, flow, row[S_STREAM], row[S_NEXT], size, at, ts, 0)
        row[S_NEXT] += size
        row[S_DELIVERED] += size
        row[S_PROGRESS] = ts

    def gap(self, row, flow, size, after):
        """Step over bytes that were not captured."""
        self.pieces.put(
            PIECE_GAP, flow, row[S_STREAM], row[S_NEXT], size, 0, row[S_PROGRESS], after
        )
        row[S_GAP] = row[S_NEXT]
        row[S_NEXT] += size
        row[S_GAP_END] = row[S_NEXT]
        row[S_MISSING] += size

    def skip(self, row, flow, size, ts):
        """Step over bytes that were not captured, up to the first buffered one."""
        node: cython.Py_ssize_t = row[S_HEAD]
        if node and size > self.held.offset[node] - row[S_NEXT]:
            size = self.held.offset[node] - row[S_NEXT]
        if size > 0:
            self.gap(row, flow, size, ts)

    def refuse(self, row, flow, at, size, ts, why):
        """Drop the payload of a packet."""
        if size == 0:
            return
        if not row[S_FLAGS] & F_STARTED:
            self.start(row, flow, ts)
        row[S_PACKETS] += 1
        row[S_CAPTURED] += size
        self.drop(row, flow, at, size, ts, why)

    def drop(self, row, flow, at, size, ts, why):
        """Note bytes that are not part of the stream."""
        row[S_DROPPED] += size
        self.pieces.put(PIECE_DROP, flow, row[S_STREAM], row[S_NEXT], size, at, ts, why)

    def end(self, row, flow, why):
        """The stream is over: declare its holes and report its counts."""
        index: cython.int
        at: cython.Py_ssize_t = self.pieces.end_count * COUNTS
        if row[S_FLAGS] & F_RESET:
            why = END_RESET
        elif row[S_FLAGS] & F_FINAL:
            why = END_FIN
        if row[S_FLAGS] & F_KNOWN:
            self.forget(row, flow)
            self.flush(row, flow)
            if row[S_FLAGS] & F_FINAL and row[S_FINAL] > row[S_NEXT]:
                if not row[S_FLAGS] & F_STARTED:
                    self.start(row, flow, row[S_PROGRESS])
                self.gap(row, flow, row[S_FINAL] - row[S_NEXT], NO_TIME)
        if not row[S_FLAGS] & F_CHECKED:
            row[S_BAD] = 0
        if row[S_FLAGS] & F_STARTED:
            for index in range(COUNTS):
                self.pieces.counts[at + index] = row[S_PACKETS + index]
            self.pieces.put(
                PIECE_END, flow, row[S_STREAM], row[S_NEXT], self.pieces.end_count, 0, 0, why
            )
            self.pieces.end_count += 1
        row[S_FLAGS] = 0

    def is_stray(self, row, flow, seq, total):
        """Whether a segment far from what is expected is one alone; else it starts a stream."""
        if row[S_FLAGS] & F_CLOSED:
            return False
        if row[S_STRAY] != seq:
            self.forget(row, flow)
        if row[S_STRAYS] + 1 == _STRAYS:
            return False
        row[S_STRAYS] += 1
        row[S_STRAY] = (seq + total) & SEQ_MASK
        return True

    def restart(self, row, flow, seq, ts):
        """End a stream, and start the next one with what was set aside if `seq` continues that."""
        node: cython.Py_ssize_t = row[S_ASIDE]
        if row[S_STRAY] != seq:
            node = 0
        else:
            row[S_ASIDE] = 0
        self.end(row, flow, END_RESTART)
        if node == 0:
            self.begin(row, seq, ts)
            return
        self.begin(row, self.held.offset[node], self.held.ts[node])
        self.start(row, flow, self.held.ts[node])
        row[S_ASIDE] = node
        while row[S_ASIDE]:
            node = row[S_ASIDE]
            row[S_PACKETS] += 1
            row[S_CAPTURED] += self.held.size[node]
            if self.held.size[node]:
                self.append(
                    row, flow, ~self.held.at[node], self.held.size[node], self.held.ts[node]
                )
            if self.held.cut[node]:
                self.gap(row, flow, self.held.cut[node], self.held.ts[node])
            self.held.drop_aside(row)

    def forget(self, row, flow):
        """Drop the segments that were set aside: they start no stream."""
        node: cython.Py_ssize_t
        while row[S_ASIDE]:
            node = row[S_ASIDE]
            self.refuse(
                row, flow, ~self.held.at[node], self.held.size[node], self.held.ts[node], DROP_STRAY
            )
            self.held.drop_aside(row)
        row[S_STRAYS] = 0

    def is_due(self, row):
        """Whether the first buffered segment is next and need not wait for a good copy."""
        node: cython.Py_ssize_t = row[S_HEAD]
        if node == 0 or self.held.offset[node] != row[S_NEXT]:
            return False
        return not (self.held.bad[node] and row[S_FLAGS] & F_CHECKED)

    def release(self, row, flow):
        """Deliver what is buffered for the next offset, and all that follows it."""
        node: cython.Py_ssize_t
        cut: cython.longlong
        ts: cython.longlong
        while self.is_due(row):
            node = row[S_HEAD]
            ts = self.held.ts[node]
            cut = self.held.cut[node]
            self.append(row, flow, ~self.held.at[node], self.held.size[node], ts)
            self.held.pop(row)
            self.skip(row, flow, cut, ts)

    def flush(self, row, flow):
        """Give up all holes."""
        while row[S_HEAD]:
            self.declare(row, flow)

    def declare(self, row, flow):
        """Give up the first hole or wait, and deliver what follows it."""
        node: cython.Py_ssize_t = row[S_HEAD]
        after: cython.Py_ssize_t = self.held.next[node]
        stop: cython.longlong = self.held.offset[node] + self.held.size[node]
        is_bad: cython.bint = self.held.bad[node] and row[S_FLAGS] & F_CHECKED
        if self.held.offset[node] > row[S_NEXT]:
            if is_bad and (after == 0 or self.held.offset[after] != stop):
                # Nothing confirms that its position is right.
                self.discard(row, flow, node)
                return
            self.gap(row, flow, self.held.offset[node] - row[S_NEXT], self.held.ts[node])
        if is_bad:
            if row[S_OLD_END] != row[S_NEXT]:
                row[S_OLD] = row[S_NEXT]
            row[S_OLD_END] = stop
            self.tell(row, flow, row[S_NEXT], self.held.size[node], self.held.ts[node])
            self.append(row, flow, ~self.held.at[node], self.held.size[node], self.held.ts[node])
            self.held.pop(row)
        self.release(row, flow)
