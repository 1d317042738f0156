"""Packets: IP, TCP, UDP, fragments, and the link layers around them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

__all__ = [
    "ACK",
    "FIN",
    "LINKS",
    "PSH",
    "RST",
    "START_NS",
    "SYN",
    "Packet",
    "checksum",
    "ethernet",
    "fragments4",
    "fragments6",
    "ip",
    "ipv4",
    "ipv6",
    "tcp",
    "udp",
]

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

START_NS = 1_700_000_000_000_000_000
"""When made-up traffic starts: November 2023."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet with its time."""

    ts_ns: int
    data: bytes
    length: int | None = None
    """Bytes on the wire, if not all were captured."""
    body: int = 0
    """Where its payload starts: simulated damage leaves the bytes before it alone."""

    def cut(self, snap: int) -> Packet:
        """The same packet of which only the first `snap` bytes were captured."""
        return replace(self, data=self.data[:snap], length=self.length or len(self.data))


def checksum(*parts: bytes) -> int:
    """The Internet checksum of all parts joined."""
    data = b"".join(parts)
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ipv4(
    src: str,
    dst: str,
    protocol: int,
    payload: bytes,
    *,
    ident: int = 0,
    where: int = 0x4000,
    options: bytes = b"",
) -> bytes:
    """An IPv4 packet; `where` is the word of flags and fragment offset."""
    size = 20 + len(options)
    head = struct.pack(
        ">BBHHHBBH4s4s",
        0x40 | size // 4,
        0,
        size + len(payload),
        ident,
        where,
        64,
        protocol,
        0,
        ipaddress.IPv4Address(src).packed,
        ipaddress.IPv4Address(dst).packed,
    )
    head += options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ipv6(
    src: str,
    dst: str,
    protocol: int,
    payload: bytes,
    *,
    extensions: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """An IPv6 packet; each extension is its number and its bytes after the first one."""
    kinds = [number for number, _ in extensions] + [protocol]
    chain = b"".join(
        bytes([following]) + body
        for (_, body), following in zip(extensions, kinds[1:], strict=True)
    )
    head = struct.pack(
        ">IHBB16s16s",
        6 << 28,
        len(chain) + len(payload),
        kinds[0],
        64,
        ipaddress.IPv6Address(src).packed,
        ipaddress.IPv6Address(dst).packed,
    )
    return head + chain + payload


def ip(src: str, dst: str, protocol: int, payload: bytes) -> bytes:
    """An IP packet of the version that the addresses have."""
    return (ipv6 if ":" in src else ipv4)(src, dst, protocol, payload)


def _pseudo(src: str, dst: str, protocol: int, size: int) -> bytes:
    packed = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    return packed + struct.pack(">II", size, protocol)


def tcp(
    src: str,
    dst: str,
    src_port: int,
    dst_port: int,
    seq: int,
    payload: bytes = b"",
    *,
    flags: int = ACK,
    ack: int = 0,
    options: bytes = b"",
    is_checked: bool = True,
) -> bytes:
    """A TCP segment; unless `is_checked`, the checksum is left to a network card."""
    size = 20 + len(options)
    head = struct.pack(
        ">HHIIBBHHH",
        src_port,
        dst_port,
        seq & 0xFFFFFFFF,
        ack & 0xFFFFFFFF,
        size // 4 << 4,
        flags,
        0xFFFF,
        0,
        0,
    )
    head += options
    value = 0xBEEF
    if is_checked:
        value = checksum(_pseudo(src, dst, 6, size + len(payload)), head, payload)
    return head[:16] + struct.pack(">H", value) + head[18:] + payload


def udp(src: str, dst: str, src_port: int, dst_port: int, payload: bytes) -> bytes:
    """A UDP datagram."""
    size = 8 + len(payload)
    head = struct.pack(">HHHH", src_port, dst_port, size, 0)
    value = checksum(_pseudo(src, dst, 17, size), head, payload) or 0xFFFF
    return head[:6] + struct.pack(">H", value) + payload


def fragments4(packet: bytes, size: int) -> list[bytes]:
    """An IPv4 packet without options, cut into fragments with `size` bytes of payload each."""
    head, payload = packet[:20], packet[20:]
    found = []
    for at in range(0, len(payload), size):
        part = payload[at : at + size]
        more = 0x2000 if at + size < len(payload) else 0
        words = struct.pack(">HHH", 20 + len(part), 0x1234, more | at // 8)
        new = head[:2] + words + head[8:10] + b"\0\0" + head[12:]
        found.append(new[:10] + struct.pack(">H", checksum(new)) + new[12:] + part)
    return found


def fragments6(packet: bytes, size: int) -> list[bytes]:
    """An IPv6 packet without extensions, cut into fragments."""
    head, payload = packet[:40], packet[40:]
    found = []
    for at in range(0, len(payload), size):
        part = payload[at : at + size]
        more = 1 if at + size < len(payload) else 0
        extension = struct.pack(">BBHI", head[6], 0, at | more, 0x12345678)
        new = head[:4] + struct.pack(">HB", 8 + len(part), 44) + head[7:]
        found.append(new + extension + part)
    return found


def ethernet(packet: bytes, tags: Sequence[tuple[int, int]] = ()) -> bytes:
    """An IP packet in an Ethernet frame; `tags` are VLAN tags: type and number, from outside."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    chain = b"".join(struct.pack(">HH", *tag) for tag in tags)
    frame = bytes.fromhex("020000000001020000000002") + chain + struct.pack(">H", kind) + packet
    return frame.ljust(60, b"\0")


def _cooked(packet: bytes) -> bytes:
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), kind) + packet


def _cooked2(packet: bytes) -> bytes:
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return struct.pack(">HHIHBB8s", kind, 0, 3, 1, 0, 6, bytes(8)) + packet


def _loopback(order: str) -> Callable[[bytes], bytes]:
    def wrap(packet: bytes) -> bytes:
        return struct.pack(order + "I", 30 if packet[0] >> 4 == 6 else 2) + packet

    return wrap


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, ethernet),
    "vlan": (1, lambda packet: ethernet(packet, [(0x8100, 7)])),
    "qinq": (1, lambda packet: ethernet(packet, [(0x88A8, 5), (0x8100, 7)])),
    "null": (0, _loopback("<")),
    "null, big-endian": (0, _loopback(">")),
    "loop": (108, _loopback(">")),
    "raw": (101, lambda packet: packet),
    "raw 12": (12, lambda packet: packet),
    "cooked": (113, _cooked),
    "cooked v2": (276, _cooked2),
}
"""Link types by name: the number in captures, and how an IP packet is wrapped."""
