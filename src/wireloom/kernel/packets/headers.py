"""Captured packets → payloads of flows: link, IP, TCP and UDP headers.

One row a packet. The containers (`records`) fill in where a packet lies and when it came;
`scan_packets` adds the flow, the payload and the TCP fields. A flow is one direction between two
addresses with ports, interned like a name, so that it is a small number everywhere after this.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import KEY_SIZE, Flows, _array
from wireloom.kernel.primitives import be16, be32, be64, copy_bytes, le32, room, u8
from wireloom.kernel.walk.names import FULL

__all__ = [
    "CHECK_BAD",
    "CHECK_GOOD",
    "CHECK_LEFT",
    "PACKET_BAD_IP",
    "PACKET_BAD_LINK",
    "PACKET_BAD_TCP",
    "PACKET_BAD_UDP",
    "PACKET_CUT",
    "PACKET_FRAGMENT",
    "PACKET_NOT_IP",
    "PACKET_OTHER",
    "PACKET_TCP",
    "PACKET_UDP",
    "SCAN_DONE",
    "SCAN_FLOWS",
    "SCAN_FRAGMENT",
    "Packets",
    "scan_packets",
]

# What a packet turned out to be; index into `Packets.tally`.
PACKET_TCP = cython.declare(cython.int, 1)
PACKET_UDP = cython.declare(cython.int, 2)
PACKET_OTHER = cython.declare(cython.int, 3)
PACKET_NOT_IP = cython.declare(cython.int, 4)
PACKET_FRAGMENT = cython.declare(cython.int, 5)
PACKET_BAD_LINK = cython.declare(cython.int, 6)
PACKET_BAD_IP = cython.declare(cython.int, 7)
PACKET_BAD_TCP = cython.declare(cython.int, 8)
PACKET_BAD_UDP = cython.declare(cython.int, 9)
PACKET_CUT = cython.declare(cython.int, 10)
"""The capture kept too little of it to see which flow it is of."""

# Why `scan_packets` came back.
SCAN_DONE = cython.declare(cython.int, 0)
SCAN_FLOWS = cython.declare(cython.int, 1)
"""No room for one more flow: make some, and go on with the same packet."""
SCAN_FRAGMENT = cython.declare(cython.int, 2)
"""The packet is a fragment: put it together, and go on with the next."""

# What the checksum of a segment tells.
CHECK_BAD = cython.declare(cython.int, 0)
CHECK_GOOD = cython.declare(cython.int, 1)
"""It is right, or too little was captured to tell."""
CHECK_LEFT = cython.declare(cython.int, 2)
"""It is wrong as a network card makes it: the segment is joined of several, or not yet summed."""

_LOW32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_MTU = cython.declare(cython.Py_ssize_t, 1500)
"""Bytes of an IP packet on Ethernet. A card has joined a longer one whose checksum is bad."""
_MOST_TAGS = cython.declare(cython.int, 8)
"""VLAN tags or IPv6 extension headers in a row; real packets have up to three."""


@cython.final
@cython.cclass
class Packets:
    """Rows of packets; offsets are those of the chunk they lie in."""

    def __init__(self, rows: int) -> None:
        self.capacity = rows
        self.count = 0
        self.stop = 0
        self.skipped = 0
        self.odd_count = 0
        self.at = _array("q", rows)
        self.captured = _array("i", rows)
        self.length = _array("i", rows)
        self.ts = _array("q", rows)
        self.link = _array("i", rows)
        self.status = _array("B", rows)
        self.flow = _array("i", rows)
        self.seq = _array("I", rows)
        self.flags = _array("B", rows)
        self.net_at = _array("q", rows)
        self.host_at = _array("q", rows)
        self.payload_at = _array("q", rows)
        self.payload = _array("i", rows)
        self.missing = _array("i", rows)
        self.odd = _array("i", rows)
        self.tally = _array("q", 16)
        self.key = _array("B", KEY_SIZE)

    def clear(self) -> None:
        """Forget the rows, and what was noted about them."""
        self.count = self.odd_count = self.skipped = 0
        for index in range(16):
            self.tally[index] = 0

    def put(self, at: cython.Py_ssize_t, captured: cython.int, link: cython.int) -> None:
        """Make one row of one whole packet without a time; `scan_packets` reads it."""
        self.at[0] = at
        self.captured[0] = captured
        self.length[0] = captured
        self.link[0] = link
        self.ts[0] = 0
        self.count = 1

    def take(self, index: cython.Py_ssize_t, other: Packets) -> None:
        """Let a row have the headers and the payload of `other`'s first, which lies in the store.

        The row keeps its place and time. Negative offsets are those of the store of held bytes.
        """
        self.status[index] = other.status[0]
        self.flow[index] = other.flow[0]
        self.seq[index] = other.seq[0]
        self.flags[index] = other.flags[0]
        self.net_at[index] = ~other.net_at[0]
        self.host_at[index] = ~other.host_at[0]
        self.payload_at[index] = ~other.payload_at[0]
        self.payload[index] = other.payload[0]
        self.missing[index] = other.missing[0]

    def begin(self, index, at, captured, length, ts, link):
        """Set what a container knows of a packet."""
        self.at[index] = at
        self.captured[index] = cython.cast(cython.int, captured)
        self.length[index] = cython.cast(cython.int, length)
        self.ts[index] = ts
        self.link[index] = link


def scan_packets(
    rows: Packets,
    flows: Flows,
    data: cython.const[cython.uchar][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
) -> int:
    """Read the headers of the packets ``first`` to ``last - 1``; give the first one not done.

    `Packets.stop` says why it came back. Rows of damaged packets are noted in `Packets.odd`.
    """
    index: cython.Py_ssize_t = first
    state: cython.int
    rows.stop = SCAN_DONE
    if first == last:
        return last
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while index < last:
            rows.flow[index] = -1
            rows.payload[index] = 0
            rows.missing[index] = 0
            state = link_packet(rows, flows, start, index)
            if state == FULL:
                rows.stop = SCAN_FLOWS
                break
            rows.status[index] = state
            rows.tally[state] += 1
            if state >= PACKET_FRAGMENT:
                if state == PACKET_FRAGMENT:
                    rows.stop = SCAN_FRAGMENT
                    break
                rows.odd[rows.odd_count] = cython.cast(cython.int, index)
                rows.odd_count += 1
            index += 1
    return index


def link_packet(rows, flows, data, index):
    """Step over the link header; give what the packet is."""
    pos: cython.Py_ssize_t = rows.at[index]
    end: cython.Py_ssize_t = pos + rows.captured[index]
    wire_end: cython.Py_ssize_t = pos + rows.length[index]
    link: cython.int = rows.link[index]
    kind: cython.uint
    tags: cython.int = 0
    if wire_end < end:
        wire_end = end
    if link == 1:
        kind = be16(data, pos + 12, end)
        pos += 14
    elif link == 113:
        kind = be16(data, pos + 14, end)
        pos += 16
    elif link == 276:
        kind = be16(data, pos, end)
        pos += 20
    elif link == 101 or link == 12 or link == 14 or link == 228 or link == 229:
        kind = 0x0800 if u8(data, pos, end) >> 4 == 4 else 0x86DD
    elif link == 0 or link == 108:
        # The family is in the byte order of the capturing machine, and small in that order.
        kind = le32(data, pos, end)
        if kind > 0xFFFF:
            kind = be32(data, pos, end)
        if kind == 2:
            kind = 0x0800
        elif kind == 10 or kind == 24 or kind == 28 or kind == 30:
            kind = 0x86DD
        else:
            kind = 0
        pos += 4
    else:
        # The link type is none of these, or damage took it: what does the packet look like?
        kind = be16(data, pos + 12, end)
        if is_ip_type(kind):
            pos += 14
        elif is_ip_type(be16(data, pos + 14, end)):
            kind = be16(data, pos + 14, end)
            pos += 16
        elif is_ip_type(be16(data, pos, end)):
            kind = be16(data, pos, end)
            pos += 20
        elif u8(data, pos, end) >> 4 == 4 and be16(data, pos + 2, end) == wire_end - pos:
            kind = 0x0800
        elif u8(data, pos, end) >> 4 == 6 and be16(data, pos + 4, end) + 40 == wire_end - pos:
            kind = 0x86DD
        else:
            return PACKET_BAD_LINK
    if pos > end:
        return PACKET_CUT if pos <= wire_end else PACKET_BAD_LINK
    while kind == 0x8100 or kind == 0x88A8 or kind == 0x9100 or kind == 0x9200:
        tags += 1
        if tags > _MOST_TAGS:
            return PACKET_BAD_LINK
        if not room(pos, end, 4):
            return PACKET_CUT if room(pos, wire_end, 4) else PACKET_BAD_LINK
        kind = be16(data, pos + 2, end)
        pos += 4
    if (
        kind <= 1500
        and (link == 1 or link == 113)
        and be16(data, pos, end) == 0xAAAA
        and be32(data, pos + 2, end) == 0x03000000
    ):
        # IEEE 802.3 with LLC and SNAP: the type follows.
        kind = be16(data, pos + 6, end)
        pos += 8
    if kind == 0x0800:
        return ipv4_packet(rows, flows, data, index, pos, end, wire_end)
    if kind == 0x86DD:
        return ipv6_packet(rows, flows, data, index, pos, end, wire_end)
    return PACKET_NOT_IP


def is_ip_type(kind):
    """Whether an Ethernet type is that of IP, or of a VLAN tag."""
    return kind == 0x0800 or kind == 0x86DD or kind == 0x8100 or kind == 0x88A8


def ipv4_packet(rows, flows, data, index, pos, end, wire_end):
    """The IPv4 packet at `pos`."""
    first: cython.uint = u8(data, pos, end)
    size: cython.Py_ssize_t = (first & 15) * 4
    total: cython.Py_ssize_t = be16(data, pos + 2, end)
    stop: cython.Py_ssize_t = wire_end
    if not room(pos, end, 20):
        return PACKET_CUT if room(pos, wire_end, 20) else PACKET_BAD_IP
    if first >> 4 != 4 or size < 20 or not room(pos, wire_end, size):
        return PACKET_BAD_IP
    # A length of zero: the network card was to cut the packet up, after it was captured.
    if total:
        if total < size:
            return PACKET_BAD_IP
        if pos + total < stop:
            stop = pos + total
    rows.net_at[index] = pos
    rows.host_at[index] = pos + size
    rows.payload_at[index] = stop
    if be16(data, pos + 6, end) & 0x3FFF:
        return PACKET_FRAGMENT
    return host_packet(rows, flows, data, index, pos + 12, 4, u8(data, pos + 9, end), end, stop)


def ipv6_packet(rows, flows, data, index, pos, end, wire_end):
    """The IPv6 packet at `pos`."""
    total: cython.Py_ssize_t = be16(data, pos + 4, end)
    stop: cython.Py_ssize_t = wire_end
    at: cython.Py_ssize_t = pos + 40
    kind: cython.uint = u8(data, pos + 6, end)
    size: cython.Py_ssize_t
    seen: cython.int = 0
    if not room(pos, end, 40):
        return PACKET_CUT if room(pos, wire_end, 40) else PACKET_BAD_IP
    if u8(data, pos, end) >> 4 != 6:
        return PACKET_BAD_IP
    if total and at + total < stop:
        stop = at + total
    rows.net_at[index] = pos
    while (
        kind == 0
        or kind == 43
        or kind == 44
        or kind == 51
        or kind == 60
        or kind == 135
        or kind == 139
        or kind == 140
    ):
        seen += 1
        if seen > _MOST_TAGS or not room(at, stop, 8):
            return PACKET_BAD_IP
        if not room(at, end, 8):
            return PACKET_CUT
        size = (u8(data, at + 1, end) + 1) * 8
        if kind == 44:
            if be16(data, at + 2, end) & 0xFFF9:
                rows.host_at[index] = at
                rows.payload_at[index] = stop
                return PACKET_FRAGMENT
            size = 8
        elif kind == 51:
            size = (u8(data, at + 1, end) + 2) * 4
        kind = u8(data, at, end)
        at += size
    rows.host_at[index] = at
    return host_packet(rows, flows, data, index, pos + 8, 16, kind, end, stop)


def host_packet(rows, flows, data, index, addresses, width, kind, end, stop):
    """The TCP segment or UDP datagram of an IP packet; `stop` is where it ended on the wire."""
    pos: cython.Py_ssize_t = rows.host_at[index]
    payload: cython.Py_ssize_t
    size: cython.Py_ssize_t
    flow: cython.int
    if kind != 6 and kind != 17:
        return PACKET_OTHER
    if kind == 6:
        if not room(pos, end, 14):
            return PACKET_CUT if room(pos, stop, 20) else PACKET_BAD_TCP
        size = (u8(data, pos + 12, end) >> 4) * 4
        payload = pos + size
        if size < 20 or payload > stop:
            return PACKET_BAD_TCP
        rows.seq[index] = be32(data, pos + 4, end)
        rows.flags[index] = u8(data, pos + 13, end)
    else:
        if not room(pos, end, 8):
            return PACKET_CUT if room(pos, stop, 8) else PACKET_BAD_UDP
        payload = pos + 8
        size = be16(data, pos + 4, end)
        if size:
            if size < 8:
                return PACKET_BAD_UDP
            if pos + size < stop:
                stop = pos + size
        rows.seq[index] = 0
        rows.flags[index] = 0
    if stop < end:
        end = stop
    rows.payload_at[index] = payload
    size = end - payload
    if size < 0:
        size = 0
    rows.payload[index] = cython.cast(cython.int, size)
    rows.missing[index] = cython.cast(cython.int, stop - payload - size)
    size = 2 * width
    key = cython.address(rows.key[0]) if cython.compiled else rows.key
    copy_bytes(key, 0, data, addresses, addresses + size, end)
    copy_bytes(key, size, data, pos, pos + 4, end)
    rows.key[size + 4] = 0
    rows.key[size + 5] = 0
    rows.key[size + 6] = 0
    rows.key[size + 7] = kind
    if flows.is_router:
        rows.flow[index] = flows.part_of(key, width)
    elif flows.parts == 1 or flows.part_of(key, width) == flows.part:
        flow = flows.intern(key, size + 8)
        if flow == FULL:
            return FULL
        rows.flow[index] = flow
    return PACKET_TCP if kind == 6 else PACKET_UDP


def segment_check(rows, index, data, end, store):
    """What the TCP checksum of a segment tells."""
    net: cython.Py_ssize_t = rows.net_at[index]
    pos: cython.Py_ssize_t = rows.host_at[index]
    stop: cython.Py_ssize_t
    pseudo: cython.ulonglong
    found: cython.uint
    is_joined: cython.bint = False
    if rows.missing[index]:
        return CHECK_GOOD
    if net < 0:
        # Out of the store: put together from fragments.
        net = ~net
        pos = ~pos
        stop = ~rows.payload_at[index] + rows.payload[index]
        data = store
        end = stop
    else:
        stop = rows.payload_at[index] + rows.payload[index]
        is_joined = stop - net > _MTU
    pseudo = 6 + (stop - pos)
    if u8(data, net, end) >> 4 == 4:
        pseudo += sum16(data, net + 12, net + 20, end)
    else:
        pseudo += sum16(data, net + 8, net + 40, end)
    if folded(pseudo + sum16(data, pos, stop, end)) == 0xFFFF:
        return CHECK_GOOD
    # Linux leaves the sum of the addresses and the length there for the card to go on with.
    found = be16(data, pos + 16, end)
    if is_joined or found == 0 or found == folded(pseudo):
        return CHECK_LEFT
    return CHECK_BAD


def folded(sum):
    """A sum of 16-bit words with its carries added in."""
    while sum >> 16:
        sum = (sum & 0xFFFF) + (sum >> 16)
    return sum


def sum16(data, pos, stop, end):
    """A sum that folds to that of the 16-bit words in ``data[pos:stop]``.

    An odd last byte is a high half.
    """
    sum: cython.ulonglong = 0
    word: cython.ulonglong
    if stop > end:
        stop = end
    while stop - pos >= 8:
        word = be64(data, pos, stop)
        sum += (word >> 32) + (word & _LOW32)
        pos += 8
    while stop - pos >= 2:
        sum += be16(data, pos, stop)
        pos += 2
    if pos < stop:
        sum += u8(data, pos, stop) << 8
    return sum
