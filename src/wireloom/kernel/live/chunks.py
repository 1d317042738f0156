"""A chunk of a connection ↔ packets, column by column: their headers' words, and their bodies."""

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

__all__ = ["cut_runs", "join_packets"]

_NO_LENGTH = cython.declare(cython.uint, 255)
"""The packet is its header."""


def cut_runs(
    data: bytes,
    pos: cython.Py_ssize_t,
    max_size: cython.Py_ssize_t,
    lengths: bytes,
    counters: bytes,
) -> tuple:
    """The packets that are complete, run by run; and where they end.

    A run is packets, one behind the other, that differ in nothing but their counters and their
    bodies: the words of the first one's header, of each counter its values (a range where they rise
    by one), and the bodies. It ends at a packet that is not complete, not legal or too large:
    others say which. A packet's first two bytes have, from the top, 6 bits that are not all zero,
    4 bits with the words of its header, and 6 bits with its kind.

    Args:
        data: the chunk.
        pos: where the first packet starts.
        max_size: the most bytes of a packet.
        lengths: by the 10 lower bits, which of the words is the packet's length; 255: none is, the
            packet is its header; 0: there is no such header.
        counters: by the same bits, two bytes whose bits say which of the words are counters.
    """
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    head: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    count: cython.Py_ssize_t
    first: cython.uint
    length: cython.uint
    places: cython.uint
    rising: cython.uint
    free: cython.uint
    wanted: cython.ulonglong
    raw = bytes_at(data)
    table = bytes_at(lengths)
    masks = bytes_at(counters)
    runs: list = []
    if len(lengths) < 1024 or len(counters) < 2048:
        return runs, pos
    while end - pos >= 4:
        first = be16(raw, pos, end)
        length = u8(table, first & 0x3FF, 1024)
        head = 4 * (first >> 6 & 15)
        if length == 0 or head == 0 or first >> 10 == 0:
            break
        places = be16(masks, 2 * (first & 0x3FF), 2048)
        rising = places
        free = places
        if length != _NO_LENGTH:
            free |= 1 << (length & 15)
        start = pos
        count = 0
        while end - pos >= head:
            size = head
            if length != _NO_LENGTH:
                size = be32(raw, pos + 4 * length, end)
            if size < head or size > max_size or size > end - pos:
                break
            at = 0
            while at < head and (
                free >> (at >> 2) & 1 != 0 or be32(raw, pos + at, end) == be32(raw, start + at, end)
            ):
                at += 4
            if at < head:
                break
            for at in range(0, head, 4):
                if rising >> (at >> 2) & 1 != 0:
                    wanted = be32(raw, start + at, end)
                    wanted += count
                    if wanted != be32(raw, pos + at, end):
                        rising &= ~(1 << (at >> 2))
            count += 1
            pos += size
        if count == 0:
            break
        words: list = []
        for at in range(start, start + head, 4):
            words.append(be32(raw, at, end))
        columns: list = []
        for at in range(0, head, 4):
            if places >> (at >> 2) & 1 == 0:
                continue
            if rising >> (at >> 2) & 1 != 0:
                wanted = be32(raw, start + at, end)
                columns.append(range(wanted, wanted + count))
            else:
                column: list = []
                size = start
                while size < pos:
                    column.append(be32(raw, size + at, end))
                    size += be32(raw, size + 4 * length, end) if length != _NO_LENGTH else head
                columns.append(column)
        bodies: list = []
        while length != _NO_LENGTH and start < pos:
            size = be32(raw, start + 4 * length, end)
            bodies.append(data[start + head : start + size])
            start += size
        runs.append((tuple(words), columns, bodies, count))
    return runs, pos


def join_packets(columns: tuple, count: cython.Py_ssize_t) -> bytes:
    """The bytes of packets that are given column by column.

    A part of a packet is a word, a tuple of words, bytes, or None: the word that has the packet's
    length in bytes.

    Args:
        columns: each a part that all packets have, or a list or a range with the part of each
            packet.
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
    given: list = []  # what all packets have as bytes, the rest as lists
    for column in columns:
        if isinstance(column, range):
            column = list(column)
        if isinstance(column, list):
            if len(column) != count:
                raise ValueError(f"{len(column)} parts of {count} packets")
            for part in column:
                total += _part_size(part)
        elif column is None:
            total += 4 * count
        else:
            column = _raw_part(column)
            total += count * len(column)
        given.append(column)
    joined = new_bytes(total)
    out = new_bytes_at(joined)
    for place in range(count):
        start = at
        length_at = -1
        for column in given:
            part = column[place] if isinstance(column, list) else column
            if isinstance(part, bytes):
                copy_bytes(out, at, bytes_at(part), 0, len(part), min(len(part), total - at))
                at += len(part)
            elif part is None:
                length_at = at
                at += 4
            elif isinstance(part, tuple):
                for word in part:
                    put_be32(out, at, total, word)
                    at += 4
            else:
                put_be32(out, at, total, part)
                at += 4
        if length_at >= 0:
            put_be32(out, length_at, total, at - start)
    return bytes(joined)


def _raw_part(part):
    if isinstance(part, bytes):
        return part
    words = part if isinstance(part, tuple) else (part,)
    return b"".join([word.to_bytes(4, "big") for word in words])


def _part_size(part):
    if isinstance(part, bytes):
        return len(part)
    return 4 * len(part) if isinstance(part, tuple) else 4
