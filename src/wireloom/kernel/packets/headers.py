"""Captured packets → payloads of flows: link, IP, TCP and UDP headers.

One row per packet. The containers (`records`) fill in where a packet is and when it was captured;
`scan_packets` adds the flow, the payload and the TCP fields. A flow is one direction between two
addresses with ports, interned like a name, so that it is a small number everywhere after this.
Packets inside packets are in `tunnels`.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import Flows
from wireloom.kernel.packets.packetrows import (
    PACKET_BAD_IP,
    PACKET_BAD_LINK,
    PACKET_BAD_TCP,
    PACKET_BAD_UDP,
    PACKET_CUT,
    PACKET_FRAGMENT,
    PACKET_OTHER,
    PACKET_TCP,
    PACKET_UDP,
    SCAN_DONE,
    SCAN_FLOWS,
    SCAN_FRAGMENT,
    Packets,
)
from wireloom.kernel.packets.tunnels import (
    MOST_TAGS,
    NO_TUNNEL,
    carried_packet,
    datagram_packet,
    ether_packet,
    hdlc_packet,
    is_ip_type,
    is_padded,
    netfilter_packet,
    ppp_packet,
    pppoe_packet,
    wireless_packet,
)
from wireloom.kernel.primitives import be16, be32, copy_bytes, le16, le32, room, u8
from wireloom.kernel.walk.names import FULL

__all__ = ["scan_packets"]


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
            rows.sizes[state] += rows.captured[index]
            if state >= PACKET_FRAGMENT:
                if state == PACKET_FRAGMENT:
                    rows.stop = SCAN_FRAGMENT
                    break
                rows.odd[rows.odd_count] = cython.cast(cython.int, index)
                rows.odd_count += 1
            index += 1
    return index


def link_packet(rows, flows, data, index):
    """Step over the link header; return the kind of packet."""
    pos: cython.Py_ssize_t = rows.at[index]
    end: cython.Py_ssize_t = pos + rows.captured[index]
    wire_end: cython.Py_ssize_t = pos + rows.length[index]
    link: cython.int = rows.link[index]
    has_padding: cython.bint
    kind: cython.uint
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
    elif link == 9 or link == 50:
        return ppp_packet(rows, flows, data, index, pos, end, wire_end, 0)
    elif link == 51:
        return pppoe_packet(rows, flows, data, index, pos, end, wire_end, 0)
    elif link == 104:
        return hdlc_packet(rows, flows, data, index, pos, end, wire_end, 0)
    elif link == 105:
        return wireless_packet(rows, flows, data, index, pos, end, wire_end, False)
    elif link == 127:
        # Radiotap: its own length says where the 802.11 frame begins.
        has_padding = is_padded(data, pos, end)
        pos += le16(data, pos + 2, end)
        return wireless_packet(rows, flows, data, index, pos, end, wire_end, has_padding)
    elif link == 239:
        return netfilter_packet(rows, flows, data, index, pos, end, wire_end)
    else:
        # The link type is none of these, or damage changed it: what does the packet look like?
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
    return ether_packet(rows, flows, data, index, kind, pos, end, wire_end, 0)


def ipv4_packet(rows, flows, data, index, pos, end, wire_end, level):
    """The IPv4 packet at `pos`."""
    first: cython.uint = u8(data, pos, end)
    size: cython.Py_ssize_t = (first & 15) * 4
    total: cython.Py_ssize_t = be16(data, pos + 2, end)
    stop: cython.Py_ssize_t = wire_end
    if not room(pos, end, 20):
        return PACKET_CUT if room(pos, wire_end, 20) else PACKET_BAD_IP
    if first >> 4 != 4 or size < 20 or not room(pos, wire_end, size):
        return PACKET_BAD_IP
    # A length of zero: the network card was going to segment the packet after it was captured.
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
    return host_packet(
        rows, flows, data, index, pos + 12, 4, u8(data, pos + 9, end), end, stop, level
    )


def ipv6_packet(rows, flows, data, index, pos, end, wire_end, level):
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
        if seen > MOST_TAGS or not room(at, stop, 8):
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
    return host_packet(rows, flows, data, index, pos + 8, 16, kind, end, stop, level)


def host_packet(rows, flows, data, index, addresses, width, kind, end, stop, level):
    """The TCP segment or UDP datagram of an IP packet; `stop` is where it ended on the wire."""
    pos: cython.Py_ssize_t = rows.host_at[index]
    payload: cython.Py_ssize_t
    size: cython.Py_ssize_t
    flow: cython.int
    inner: cython.int
    if kind == 51 and width == 4:
        # An authentication header, which in IPv6 is one among others.
        if not room(pos, end, 12):
            return PACKET_CUT if room(pos, stop, 12) else PACKET_BAD_IP
        kind = u8(data, pos, end)
        pos += (u8(data, pos + 1, end) + 2) * 4
        rows.host_at[index] = pos
    if kind != 6 and kind != 17:
        inner = carried_packet(rows, flows, data, index, kind, pos, end, stop, level)
        return PACKET_OTHER if inner == NO_TUNNEL else inner
    if kind == 17 and flows.tunnels:
        inner = datagram_packet(rows, flows, data, index, pos, end, stop, level)
        if inner != NO_TUNNEL:
            return inner
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
