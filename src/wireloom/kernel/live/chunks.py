"""A chunk of a connection ↔ packets: their headers' words, and their bodies."""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import (
    be16,
    be32,
    bytes_at,
    copy_bytes,
    new_bytes,
    new_bytes_at,
    put_be32,
    u8,
)

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


def join_packets(columns: tuple, count: cython.Py_ssize_t) -> bytes:
    """The bytes of packets that are given column by column.

    A part of a packet is a word, a tuple of words, bytes, or None: the word that has the packet's
    length in bytes.

    Args:
        columns: each a part that all packets have, or a list with the part of each packet.
        count: how many packets.

    Raises:
        ValueError: a list has not as many parts as there are packets.
        OverflowError: a word has more than 32 bits, or is negative.
    """
    total: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    start: cython.Py_ssize_t
    length_at: cython.Py_ssize_t
    for column in columns:
        if isinstance(column, list):
            if len(column) != count:
                raise ValueError(f"{len(column)} parts of {count} packets")
            for part in column:
                total += _part_size(part)
        else:
            total += count * _part_size(column)
    joined = new_bytes(total)
    out = new_bytes_at(joined)
    for place in range(count):
        start = at
        length_at = -1
        for column in columns:
            part = column[place] if isinstance(column, list) else column
            if part is None:
                length_at = at
                at += 4
            elif isinstance(part, tuple):
                for word in part:
                    put_be32(out, at, total, word)
                    at += 4
            elif isinstance(part, bytes):
                copy_bytes(out, at, bytes_at(part), 0, len(part), min(len(part), total - at))
                at += len(part)
            else:
                put_be32(out, at, total, part)
                at += 4
        if length_at >= 0:
            put_be32(out, length_at, total, at - start)
    return bytes(joined)


def _part_size(part):
    if isinstance(part, bytes):
        return len(part)
    return 4 * len(part) if isinstance(part, tuple) else 4
