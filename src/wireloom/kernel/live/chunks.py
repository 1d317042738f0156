"""A chunk of a connection ↔ packets: their headers' words, and their bodies."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import be16, be32, bytes_at, copy_bytes, u8

__all__ = ["cut_packets", "join_packets"]

_NO_LENGTH = cython.declare(cython.uint, 255)
"""The packet is its header."""


def cut_packets(
    data: bytes, pos: cython.Py_ssize_t, max_size: cython.Py_ssize_t, lengths: bytes
) -> tuple:
    """The packets that are complete, as lists of words with the body behind; and where they end.

    It ends at a packet that is not complete, not legal or too large: others say which. A packet's
    first two bytes have, from the top, 6 bits that are not all zero, 4 bits with the words of its
    header, and 6 bits with its kind.

    Args:
        data: the chunk.
        pos: where the first packet starts.
        max_size: the most bytes of a packet.
        lengths: by the 10 lower bits, which of the words is the packet's length; 255: none is, the
            packet is its header; 0: there is no such header.
    """
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    head: cython.Py_ssize_t
    at: cython.Py_ssize_t
    first: cython.uint
    length: cython.uint
    start = bytes_at(data)
    table = bytes_at(lengths)
    packets: list = []
    if len(lengths) < 1024:
        return packets, pos
    while end - pos >= 4:
        first = be16(start, pos, end)
        length = u8(table, first & 0x3FF, 1024)
        if length == 0 or first >> 10 == 0:
            break
        size = head = 4 * (first >> 6 & 15)
        if length != _NO_LENGTH:
            if end - pos < head:
                break
            size = be32(start, pos + 4 * length, end)
        if size < head or size > max_size or size > end - pos:
            break
        packet: list = []
        for at in range(pos, pos + head, 4):
            packet.append(be32(start, at, end))
        packet.append(data[pos + head : pos + size])
        packets.append(packet)
        pos += size
    return packets, pos


def join_packets(packets: list) -> bytes:
    """The bytes of packets, each a tuple of words and perhaps bodies.

    Raises:
        OverflowError: a word has more than 32 bits, or is negative.
    """
    total: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    word: cython.uint
    packet: tuple
    for packet in packets:
        for part in packet:
            total += len(part) if isinstance(part, bytes) else 4
    joined = bytearray(total)
    if total == 0:
        return bytes(joined)
    out: cython.uchar[::1] = joined
    for packet in packets:
        for part in packet:
            if isinstance(part, bytes):
                size = len(part)
                if size == 0:
                    continue
                if cython.compiled:
                    copy_bytes(cython.address(out[at]), 0, bytes_at(part), 0, size, size)
                else:
                    copy_bytes(out, at, part, 0, size, size)
                at += size
            elif cython.compiled:
                word = part
                out[at] = word >> 24 & 0xFF
                out[at + 1] = word >> 16 & 0xFF
                out[at + 2] = word >> 8 & 0xFF
                out[at + 3] = word & 0xFF
                at += 4
            else:
                out[at : at + 4] = part.to_bytes(4, "big")
                at += 4
    return bytes(joined)
