"""Build packets and capture files byte by byte, for tests and for made-up traffic.

Nothing here is shared with `wireloom.captures`, so that a mistake cannot hide on both sides.

>>> talk = Conversation("10.0.0.1:1234", "10.0.0.2:80", first_seq=(1000, 5000))
>>> packets = [*talk.open(), *talk.send(b"hello"), *talk.answer(b"world"), *talk.close()]
>>> len(packets), len(pcap(packets))
(7, 556)
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

__all__ = [
    "ACK",
    "FIN",
    "LINKS",
    "RST",
    "SYN",
    "Conversation",
    "Disturber",
    "Faults",
    "Packet",
    "block",
    "checksum",
    "disturb",
    "ethernet",
    "fragments4",
    "fragments6",
    "interface_block",
    "ip",
    "ipv4",
    "ipv6",
    "option",
    "packet_block",
    "pcap",
    "pcap_header",
    "pcap_record",
    "pcapng",
    "section_block",
    "simple_block",
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
    """Where its payload starts: damage that is made up leaves what is before it alone."""

    def cut(self, snap: int) -> Packet:
        """The same packet of which only the first `snap` bytes were captured."""
        return replace(self, data=self.data[:snap], length=self.length or len(self.data))


def checksum(*parts: bytes) -> int:
    """The Internet checksum of all parts in a row."""
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
    """An IPv6 packet; each extension is its number and its bytes behind the first one."""
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
    """A TCP segment; the checksum is left out as network cards do if not `is_checked`."""
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
"""Link types by a name: the number in captures, and the wrapping of an IP packet."""


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


@dataclass(slots=True)
class _Side:
    address: str
    port: int
    seq: int


class Conversation:
    """The packets of one TCP connection, in the order they were sent."""

    def __init__(
        self,
        client: str,
        server: str,
        *,
        first_seq: tuple[int, int] = (0, 0),
        start_ns: int = START_NS,
        step_ns: int = 1_000_000,
        mss: int = 1460,
        link: str = "ethernet",
        is_checked: bool = True,
    ) -> None:
        """Endpoints are ``address:port``, IPv6 addresses in brackets."""
        self._sides = tuple(
            _Side(*_endpoint(where), seq)
            for where, seq in zip((client, server), first_seq, strict=True)
        )
        self.now_ns = start_ns
        self._step_ns = step_ns
        self._mss = mss
        self.link_type, self._wrap = LINKS[link]
        self._is_checked = is_checked

    def segment(
        self, side: int, payload: bytes, *, seq: int | None = None, flags: int = ACK
    ) -> Packet:
        """One segment of the client (0) or the server (1); `seq` if not the next one."""
        me, other = self._sides[side], self._sides[1 - side]
        packet = tcp(
            me.address,
            other.address,
            me.port,
            other.port,
            me.seq if seq is None else seq,
            payload,
            flags=flags,
            ack=other.seq,
            is_checked=self._is_checked,
        )
        if seq is None:
            me.seq += len(payload) + bool(flags & (SYN | FIN))
        found = Packet(self.now_ns, self._wrap(ip(me.address, other.address, 6, packet)))
        self.now_ns += self._step_ns
        return found

    def open(self) -> Iterator[Packet]:
        """The handshake."""
        yield self.segment(0, b"", flags=SYN)
        yield self.segment(1, b"", flags=SYN | ACK)
        yield self.segment(0, b"")

    def _send(self, side: int, data: bytes) -> Iterator[Packet]:
        for at in range(0, len(data), self._mss):
            yield self.segment(side, data[at : at + self._mss], flags=ACK | PSH)

    def send(self, data: bytes) -> Iterator[Packet]:
        """Data of the client, in segments."""
        return self._send(0, data)

    def answer(self, data: bytes) -> Iterator[Packet]:
        """Data of the server, in segments."""
        return self._send(1, data)

    def close(self) -> Iterator[Packet]:
        """Both sides end."""
        yield self.segment(0, b"", flags=FIN | ACK)
        yield self.segment(1, b"", flags=FIN | ACK)

    def reset(self) -> Iterator[Packet]:
        """The client breaks the connection off."""
        yield self.segment(0, b"", flags=RST)


def _endpoint(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each packet suffers what, from 0 to 1."""

    reorder: float = 0.0
    loss: float = 0.0
    duplicates: float = 0.0
    corruption: float = 0.0
    """One bit is wrong, behind `Packet.body`."""
    cut: float = 0.0
    """Only a part was captured."""
    distance: int = 8
    """How many packets a late or repeated one is behind."""

    @property
    def is_any(self) -> bool:
        """Whether anything can happen at all."""
        kinds = (self.reorder, self.loss, self.duplicates, self.corruption, self.cut)
        return any(kinds)


class Disturber:
    """A bad network and a bad capture: packets go in, and come out late, damaged or not at all."""

    def __init__(self, faults: Faults, random: Random) -> None:
        self._faults = faults
        self._random = random
        self._waiting: list[tuple[int, Packet]] = []
        self._number = 0
        self._now_ns = 0
        self.counts: Counter[str] = Counter()
        """How often each kind of fault happened."""

    def push(self, packet: Packet) -> tuple[list[Packet], bool]:
        """What is captured now, and whether any of this packet's bytes is lost or wrong."""
        faults, random, number = self._faults, self._random, self._number
        self._number += 1
        self._now_ns = packet.ts_ns
        found: list[Packet] = []
        is_hit = False
        if random.random() < faults.loss:
            self.counts["loss"] += 1
            is_hit = True
        else:
            body = len(packet.data) - packet.body
            if random.random() < faults.corruption and body:
                data = bytearray(packet.data)
                data[packet.body + random.randrange(body)] ^= 1 << random.randrange(8)
                packet = replace(packet, data=bytes(data))
                self.counts["corruption"] += 1
                is_hit = True
            if faults.cut and body and random.random() < faults.cut:
                packet = packet.cut(packet.body + random.randrange(body))
                self.counts["cut"] += 1
                is_hit = True
            if random.random() < faults.duplicates:
                self._wait(number, packet)
                self.counts["duplicates"] += 1
            if random.random() < faults.reorder:
                self._wait(number, packet)
                self.counts["reorder"] += 1
            else:
                found.append(packet)
        if self._waiting:
            found += self._due(number)
        return found, is_hit

    def _wait(self, number: int, packet: Packet) -> None:
        self._waiting.append((number + self._random.randint(1, self._faults.distance), packet))

    def _due(self, number: int) -> list[Packet]:
        due = [packet for when, packet in self._waiting if when <= number]
        if due:
            self._waiting = [entry for entry in self._waiting if entry[0] > number]
        return [replace(packet, ts_ns=self._now_ns) for packet in due]

    def finish(self) -> list[Packet]:
        """What is still on its way."""
        return self._due(self._number + self._faults.distance)


def disturb(packets: Iterable[Packet], faults: Faults, random: Random) -> Iterator[Packet]:
    """The packets as a bad network and a bad capture show them; times stay ascending."""
    disturber = Disturber(faults, random)
    for packet in packets:
        yield from disturber.push(packet)[0]
    yield from disturber.finish()
