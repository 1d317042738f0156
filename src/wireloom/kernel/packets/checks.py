"""What the checksum of a TCP segment says about it."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.packetrows import PACKET_UDP
from wireloom.kernel.primitives import be16, sum_words, u8

__all__ = ["CHECK_BAD", "CHECK_GOOD", "CHECK_LEFT"]

CHECK_BAD = cython.declare(cython.int, 0)
CHECK_GOOD = cython.declare(cython.int, 1)
"""It is right, or there is none, or too little was captured to check it."""
CHECK_LEFT = cython.declare(cython.int, 2)
"""Wrong because of a network card: it joined segments, or the sum was left for it to fill in."""

_MTU = cython.declare(cython.Py_ssize_t, 1500)
"""Bytes of an IP packet on Ethernet. A longer one with a bad checksum was joined by a card."""


def segment_check(rows, index, data, end, store):
    """Classify the checksum of a TCP segment or UDP datagram."""
    net: cython.Py_ssize_t = rows.net_at[index]
    pos: cython.Py_ssize_t = rows.host_at[index]
    stop: cython.Py_ssize_t
    pseudo: cython.ulonglong
    found: cython.uint
    is_joined: cython.bint = False
    is_udp: cython.bint = rows.status[index] == PACKET_UDP
    if rows.missing[index]:
        return CHECK_GOOD
    if net < 0:
        # From the store: reassembled from fragments.
        net = ~net
        pos = ~pos
        stop = ~rows.payload_at[index] + rows.payload[index]
        data = store
        end = stop
    else:
        stop = rows.payload_at[index] + rows.payload[index]
        is_joined = stop - net > _MTU
    pseudo = (17 if is_udp else 6) + (stop - pos)
    if u8(data, net, end) >> 4 == 4:
        pseudo += sum16(data, net + 12, net + 20, end)
    else:
        pseudo += sum16(data, net + 8, net + 40, end)
    if folded(pseudo + sum16(data, pos, stop, end)) == 0xFFFF:
        return CHECK_GOOD
    # Linux leaves the sum of the addresses and the length there for the card to complete.
    found = be16(data, pos + (6 if is_udp else 16), end)
    if is_udp and found == 0 and u8(data, net, end) >> 4 == 4:
        return CHECK_GOOD  # RFC 768: the sender made none, which says nothing about the others
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
    sum: cython.ulonglong
    if stop > end:
        stop = end
    if stop <= pos:
        return 0
    # The order of bytes in words does not matter to the sum, only to the result.
    sum = folded(sum_words(data, pos, stop))
    sum = (sum & 0xFF) << 8 | sum >> 8
    pos += (stop - pos) & ~3
    if stop - pos >= 2:
        sum += be16(data, pos, stop)
        pos += 2
    if pos < stop:
        sum += u8(data, pos, stop) << 8
    return sum
