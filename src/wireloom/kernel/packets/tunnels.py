"""Packets in packets: tags, PPP, MPLS, GRE, IP in IP and, as an option, tunnels over UDP.

Each function steps over one header and gives what the packet turns out to be. `level` counts the
headers that carry whole packets: what is wrapped too often is not read.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.packetrows import (
    PACKET_BAD_LINK,
    PACKET_CUT,
    PACKET_NOT_IP,
    PACKET_TUNNEL,
)
from wireloom.kernel.primitives import be16, be32, le16, le32, room, u8
from wireloom.kernel.shim import later

__all__ = ["TUNNEL_GENEVE", "TUNNEL_GTP", "TUNNEL_VXLAN"]

# What is read in UDP datagrams: bits of `Flows.tunnels`.
TUNNEL_VXLAN = cython.declare(cython.int, 1)
TUNNEL_GENEVE = cython.declare(cython.int, 2)
TUNNEL_GTP = cython.declare(cython.int, 4)

NO_TUNNEL = cython.declare(cython.int, -3)
"""It carries no packets, as far as this module knows."""
MOST_TAGS = cython.declare(cython.int, 8)
"""VLAN tags, labels or IPv6 extension headers in a row; real packets have up to three."""
_MOST_LEVELS = cython.declare(cython.int, 4)

ipv4_packet = later("packets.headers", "ipv4_packet")
ipv6_packet = later("packets.headers", "ipv6_packet")


def is_ip_type(kind):
    """Whether an Ethernet type is that of IP, or of a VLAN tag."""
    return kind == 0x0800 or kind == 0x86DD or kind == 0x8100 or kind == 0x88A8


def ether_packet(rows, flows, data, index, kind, pos, end, wire_end, level):
    """What follows an Ethernet type: `kind`."""
    tags: cython.int = 0
    if level > _MOST_LEVELS:
        return PACKET_TUNNEL
    while (
        kind == 0x8100
        or kind == 0x88A8
        or kind == 0x9100
        or kind == 0x9200
        or kind == 0x88E7
        or kind == 0x893F
    ):
        tags += 1
        if tags > MOST_TAGS:
            return PACKET_BAD_LINK
        if kind == 0x88E7:
            # Provider backbone: its tag is followed by a whole Ethernet header.
            pos += 14
        elif kind == 0x893F:
            pos += 4
        if not room(pos, end, 4):
            return PACKET_CUT if room(pos, wire_end, 4) else PACKET_BAD_LINK
        kind = be16(data, pos + 2, end)
        pos += 4
    if (
        0 < kind <= 1500
        and be16(data, pos, end) == 0xAAAA
        and be32(data, pos + 2, end) == 0x03000000
    ):
        # IEEE 802.3 with LLC and SNAP: the type follows.
        kind = be16(data, pos + 6, end)
        pos += 8
    if kind == 0x0800:
        return ipv4_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x86DD:
        return ipv6_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x8864:
        return pppoe_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x8847 or kind == 0x8848:
        return mpls_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x6558:
        return ethernet_packet(rows, flows, data, index, pos, end, wire_end, level + 1)
    if kind == 0x880B:
        return ppp_packet(rows, flows, data, index, pos, end, wire_end, level + 1)
    # MACsec, TRILL, network service header, FabricPath: they carry packets, too.
    if kind == 0x88E5 or kind == 0x22F3 or kind == 0x894F or kind == 0x8903:
        return PACKET_TUNNEL
    return PACKET_NOT_IP


def ethernet_packet(rows, flows, data, index, pos, end, wire_end, level):
    """A whole Ethernet frame at `pos`."""
    if not room(pos, end, 14):
        return PACKET_CUT if room(pos, wire_end, 14) else PACKET_TUNNEL
    return ether_packet(
        rows, flows, data, index, be16(data, pos + 12, end), pos + 14, end, wire_end, level
    )


def either_packet(rows, flows, data, index, pos, end, wire_end, level):
    """IP of the version in its first four bits."""
    version: cython.uint = u8(data, pos, end) >> 4
    if pos >= end:
        return PACKET_CUT if pos < wire_end else PACKET_TUNNEL
    if level > _MOST_LEVELS:
        return PACKET_TUNNEL
    if version == 4:
        return ipv4_packet(rows, flows, data, index, pos, end, wire_end, level)
    if version == 6:
        return ipv6_packet(rows, flows, data, index, pos, end, wire_end, level)
    return PACKET_TUNNEL


def pppoe_packet(rows, flows, data, index, pos, end, wire_end, level):
    """A PPPoE session header at `pos`; its length leaves out what pads the frame."""
    if not room(pos, end, 6):
        return PACKET_CUT if room(pos, wire_end, 6) else PACKET_BAD_LINK
    if u8(data, pos + 1, end):
        return PACKET_NOT_IP  # a discovery packet
    if pos + 6 + be16(data, pos + 4, end) < wire_end:
        wire_end = pos + 6 + be16(data, pos + 4, end)
    if wire_end < end:
        end = wire_end
    return ppp_packet(rows, flows, data, index, pos + 6, end, wire_end, level)


def ppp_packet(rows, flows, data, index, pos, end, wire_end, level):
    """A PPP frame at `pos`, with or without the address and control bytes."""
    kind: cython.uint
    if be16(data, pos, end) == 0xFF03:
        pos += 2
    if not room(pos, end, 2):
        return PACKET_CUT if room(pos, wire_end, 2) else PACKET_BAD_LINK
    kind = u8(data, pos, end)
    if kind & 1:
        pos += 1  # compressed to one byte
    else:
        kind = be16(data, pos, end)
        pos += 2
    if kind == 0x21:
        return ipv4_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x57:
        return ipv6_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 0x281 or kind == 0x283:
        return mpls_packet(rows, flows, data, index, pos, end, wire_end, level)
    # Multilink, encryption, compression.
    if kind == 0x3D or kind == 0x53 or kind == 0xFD:
        return PACKET_TUNNEL
    return PACKET_NOT_IP


def hdlc_packet(rows, flows, data, index, pos, end, wire_end, level):
    """Cisco's HDLC at `pos`: an address, a control byte and an Ethernet type."""
    if not room(pos, end, 4):
        return PACKET_CUT if room(pos, wire_end, 4) else PACKET_BAD_LINK
    return ether_packet(
        rows, flows, data, index, be16(data, pos + 2, end), pos + 4, end, wire_end, level
    )


def mpls_packet(rows, flows, data, index, pos, end, wire_end, level):
    """Labels at `pos`. They do not say what follows: IP, or Ethernet after a control word."""
    word: cython.uint
    tags: cython.int = 0
    while True:
        tags += 1
        if tags > MOST_TAGS:
            return PACKET_BAD_LINK
        if not room(pos, end, 4):
            return PACKET_CUT if room(pos, wire_end, 4) else PACKET_BAD_LINK
        word = be32(data, pos, end)
        pos += 4
        if word & 0x100:
            break
    word = u8(data, pos, end) >> 4
    if word == 4 or word == 6:
        # A MAC address may begin like this, too; then the Ethernet type after it is that of IP.
        if not is_ip_type(be16(data, pos + 12, end)) or be16(data, pos + 2, end) <= wire_end - pos:
            return either_packet(rows, flows, data, index, pos, end, wire_end, level)
    if word == 0 and be32(data, pos, end) >> 16 == 0 and is_ip_type(be16(data, pos + 16, end)):
        return ethernet_packet(rows, flows, data, index, pos + 4, end, wire_end, level + 1)
    if is_ip_type(be16(data, pos + 12, end)):
        return ethernet_packet(rows, flows, data, index, pos, end, wire_end, level + 1)
    return PACKET_TUNNEL


def carried_packet(rows, flows, data, index, kind, pos, end, wire_end, level):
    """What an IP packet of that protocol carries; `NO_TUNNEL` if no packet."""
    level += 1
    if kind == 4 or kind == 41:
        return either_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 47:
        return gre_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 137:
        return mpls_packet(rows, flows, data, index, pos, end, wire_end, level)
    if kind == 97:
        return ethernet_packet(rows, flows, data, index, pos + 2, end, wire_end, level)
    # Encrypted, mobile IP, compressed, layer two.
    if kind == 50 or kind == 55 or kind == 98 or kind == 108 or kind == 115:
        return PACKET_TUNNEL
    return NO_TUNNEL


def gre_packet(rows, flows, data, index, pos, end, wire_end, level):
    """A GRE header at `pos`, also that of PPTP and of port mirroring (ERSPAN)."""
    flags: cython.uint = be16(data, pos, end)
    kind: cython.uint = be16(data, pos + 2, end)
    size: cython.Py_ssize_t = 4
    if not room(pos, end, 4):
        return PACKET_CUT if room(pos, wire_end, 4) else PACKET_TUNNEL
    if flags & 0x4007 > 1:
        return PACKET_TUNNEL  # with routing, or of another version
    if flags & 0x8000:
        size += 4
    if flags & 0x2000:
        size += 4
    if flags & 0x1000:
        size += 4
    if flags & 1 and flags & 0x80:
        size += 4  # PPTP: an acknowledgement
    if kind == 0x88BE and flags & 0x1000:
        size += 8
    elif kind == 0x22EB:
        size += 20 if u8(data, pos + size + 11, end) & 1 else 12
    if not room(pos, end, size):
        return PACKET_CUT if room(pos, wire_end, size) else PACKET_TUNNEL
    pos += size
    if pos == wire_end:
        return NO_TUNNEL  # it is empty: an acknowledgement, or a keep-alive
    if kind == 0x88BE or kind == 0x22EB:
        return ethernet_packet(rows, flows, data, index, pos, end, wire_end, level)
    return ether_packet(rows, flows, data, index, kind, pos, end, wire_end, level)


def datagram_packet(rows, flows, data, index, pos, end, wire_end, level):
    """What the UDP datagram at `pos` carries; `NO_TUNNEL` if that is not to be read."""
    port: cython.uint = be16(data, pos + 2, end)
    flags: cython.uint = u8(data, pos + 8, end)
    kind: cython.uint
    size: cython.Py_ssize_t = be16(data, pos + 4, end)
    tags: cython.int = 0
    if size >= 8 and pos + size < wire_end:
        wire_end = pos + size
    pos += 8
    if not room(pos, end, 8):
        return NO_TUNNEL
    if port == 4789 and flows.tunnels & TUNNEL_VXLAN and flags & 8:
        return ethernet_packet(rows, flows, data, index, pos + 8, end, wire_end, level + 1)
    if port == 6081 and flows.tunnels & TUNNEL_GENEVE and flags >> 6 == 0:
        kind = be16(data, pos + 2, end)
        pos += 8 + (flags & 0x3F) * 4
        return ether_packet(rows, flows, data, index, kind, pos, end, wire_end, level + 1)
    if port == 2152 and flows.tunnels & TUNNEL_GTP and flags >> 4 == 3:
        if u8(data, pos + 1, end) != 0xFF:
            return NO_TUNNEL  # a control message of the tunnel
        pos += 8
        if flags & 7:
            kind = u8(data, pos + 3, end) if flags & 4 else 0
            pos += 4
            while kind:
                tags += 1
                size = u8(data, pos, end) * 4
                if tags > MOST_TAGS or size == 0:
                    return PACKET_TUNNEL
                kind = u8(data, pos + size - 1, end)
                pos += size
        return either_packet(rows, flows, data, index, pos, end, wire_end, level + 1)
    return NO_TUNNEL


def is_padded(data, pos, end):
    """Whether the radiotap header at `pos` says that the 802.11 header is padded to four bytes."""
    at: cython.Py_ssize_t = pos + 4
    fields: cython.uint = le32(data, at, end)
    while le32(data, at, end) >> 31:
        at += 4  # another word of bits
    at += 4
    if fields & 1:
        at = pos + (at - pos + 7 & ~7) + 8  # a time, aligned to its size
    return fields & 2 and u8(data, at, end) & 0x20


def wireless_packet(rows, flows, data, index, pos, end, wire_end, has_padding):
    """An IEEE 802.11 frame at `pos`: data that is not encrypted, in LLC with SNAP."""
    flags: cython.uint = be16(data, pos, end)
    size: cython.Py_ssize_t = 24
    if not room(pos, end, 24):
        return PACKET_CUT if room(pos, wire_end, 24) else PACKET_NOT_IP
    if flags >> 8 & 12 != 8 or flags & 0x4000:
        return PACKET_NOT_IP  # a management or control frame, or one without data
    if flags & 0x40:
        return PACKET_TUNNEL  # encrypted
    if flags & 3 == 3:
        size += 6
    if flags & 0x8000:
        if u8(data, pos + size, end) & 0x80:
            return PACKET_TUNNEL  # several packets in one
        size += 6 if flags & 0x80 else 2
    if has_padding:
        size = size + 3 & ~3
    pos += size
    if be16(data, pos, end) != 0xAAAA or u8(data, pos + 2, end) != 3:
        return PACKET_NOT_IP
    return ether_packet(
        rows, flows, data, index, be16(data, pos + 6, end), pos + 8, end, wire_end, 0
    )


def netfilter_packet(rows, flows, data, index, pos, end, wire_end):
    """Attributes at `pos`, in the byte order of the capturing machine; one is an IP packet."""
    size: cython.Py_ssize_t
    is_big: cython.bint
    kind: cython.uint
    pos += 4
    while room(pos, end, 4):
        # The upper half of the kind is zero but for two bits, and its lower half never is.
        is_big = u8(data, pos + 2, end) & 0x3F == 0 and u8(data, pos + 3, end) != 0
        size = be16(data, pos, end) if is_big else le16(data, pos, end)
        kind = be16(data, pos + 2, end) if is_big else le16(data, pos + 2, end)
        if size < 4:
            return PACKET_BAD_LINK
        if kind & 0x3FFF == 9:
            return either_packet(rows, flows, data, index, pos + 4, end, wire_end, 0)
        pos += size + 3 & ~3
    return PACKET_NOT_IP if pos >= wire_end else PACKET_CUT
