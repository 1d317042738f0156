"""Capture files: pcap and pcapng, as a whole or record by record."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from wireloom.generate.traffic.ippackets import Packet

__all__ = [
    "block",
    "interface_block",
    "option",
    "packet_block",
    "pcap",
    "pcap_header",
    "pcap_record",
    "pcapng",
    "section_block",
    "simple_block",
]


def pcap_header(
    *, is_big: bool = False, is_nano: bool = False, link_type: int = 1, snap: int = 65535
) -> bytes:
    """The header of a pcap file."""
    magic = 0xA1B23C4D if is_nano else 0xA1B2C3D4
    return struct.pack(">IHHiIII" if is_big else "<IHHiIII", magic, 2, 4, 0, 0, snap, link_type)


def pcap_record(packet: Packet, *, is_big: bool = False, is_nano: bool = False) -> bytes:
    """One record of a pcap file."""
    seconds, ns = divmod(packet.ts_ns, 1_000_000_000)
    length = packet.length if packet.length is not None else len(packet.data)
    ticks = ns if is_nano else ns // 1000
    order = ">4I" if is_big else "<4I"
    return struct.pack(order, seconds, ticks, len(packet.data), length) + packet.data


def pcap(
    packets: Iterable[Packet],
    *,
    is_big: bool = False,
    is_nano: bool = False,
    link_type: int = 1,
) -> bytes:
    """A whole pcap file."""
    head = pcap_header(is_big=is_big, is_nano=is_nano, link_type=link_type)
    return head + b"".join(pcap_record(p, is_big=is_big, is_nano=is_nano) for p in packets)


def block(kind: int, body: bytes, *, is_big: bool = False) -> bytes:
    """A pcapng block; the body is padded."""
    order = ">" if is_big else "<"
    body += bytes(-len(body) % 4)
    size = 12 + len(body)
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def option(code: int, value: bytes, *, is_big: bool = False) -> bytes:
    """An option of a pcapng block."""
    order = ">HH" if is_big else "<HH"
    return struct.pack(order, code, len(value)) + value + bytes(-len(value) % 4)


def section_block(*, is_big: bool = False) -> bytes:
    """A section header."""
    order = ">IHHq" if is_big else "<IHHq"
    return block(0x0A0D0D0A, struct.pack(order, 0x1A2B3C4D, 1, 0, -1), is_big=is_big)


def interface_block(
    link_type: int = 1,
    *,
    resolution: int | None = None,
    offset: int | None = None,
    snap: int = 0,
    is_big: bool = False,
) -> bytes:
    """An interface; `resolution` is the option's byte, `offset` is in seconds."""
    order = ">" if is_big else "<"
    body = struct.pack(order + "HHI", link_type, 0, snap)
    if resolution is not None:
        body += option(9, bytes([resolution]), is_big=is_big)
    if offset is not None:
        body += option(14, struct.pack(order + "q", offset), is_big=is_big)
    if resolution is not None or offset is not None:
        body += option(0, b"", is_big=is_big)
    return block(1, body, is_big=is_big)


def packet_block(
    packet: Packet,
    *,
    interface: int = 0,
    ticks: int | None = None,
    is_old: bool = False,
    is_big: bool = False,
) -> bytes:
    """An enhanced packet block, or the obsolete one; `ticks` are microseconds if not given."""
    order = ">" if is_big else "<"
    ticks = packet.ts_ns // 1000 if ticks is None else ticks
    length = packet.length if packet.length is not None else len(packet.data)
    words = (ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), length)
    if is_old:
        head = struct.pack(order + "HH4I", interface, 0, *words)
    else:
        head = struct.pack(order + "5I", interface, *words)
    padded = packet.data + bytes(-len(packet.data) % 4)
    return block(2 if is_old else 6, head + padded, is_big=is_big)


def simple_block(packet: Packet, *, is_big: bool = False) -> bytes:
    """A simple packet block: no time."""
    length = packet.length if packet.length is not None else len(packet.data)
    return block(3, struct.pack(">I" if is_big else "<I", length) + packet.data, is_big=is_big)


def pcapng(
    packets: Iterable[Packet],
    *,
    is_big: bool = False,
    is_nano: bool = False,
    link_type: int = 1,
) -> bytes:
    """A whole pcapng file with one section and one interface."""
    found = [
        section_block(is_big=is_big),
        interface_block(link_type, resolution=9 if is_nano else None, is_big=is_big),
    ]
    for packet in packets:
        ticks = packet.ts_ns if is_nano else None
        found.append(packet_block(packet, ticks=ticks, is_big=is_big))
    return b"".join(found)
