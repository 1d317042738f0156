"""Bytes of sessions → packets → a capture file.

Headers are packed here and not by `wireloom.captures`, so that generated captures can expose errors
in the readers. Each packet costs a few microseconds, so gigabytes are practical.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv4Address
from random import Random
from typing import BinaryIO, NamedTuple

from wireloom.generate.traffic import Disturber, Faults, Packet

__all__ = [
    "CLIENT",
    "SERVER",
    "Burst",
    "Channel",
    "Kind",
    "PacketFile",
    "RawFile",
    "Stage",
    "Target",
]

CLIENT, SERVER = 0, 1
"""Sides of a channel."""

_CHECKSUM_AT = 14 + 20 + 16
"""Where the checksum of a segment is in its packet."""
_JOINED = b"\xbe\xef"
"""Checksum of joined segments: one that is wrong for nearly all of them."""
_SEGMENT = 1448
"""Payload of a full segment on Ethernet, with the usual options."""
_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16
_WINDOW = 0xFFFF
_TCP = struct.Struct(">12sHBBHHHBBH4s4sHHIIHHHH")
_UDP = struct.Struct(">12sHBBHHHBBH4s4sHHHH")
_RECORD = struct.Struct("<4I")
_PACKET_BLOCK = struct.Struct("<7I")
_WORD = struct.Struct("<I")
_TAILS = [bytes(count) for count in range(4)]
_SECOND = 1_000_000_000
_STEP_NS = 1_200
"""Between two packets of one burst: a full segment at ten gigabits."""
_BUFFER = 1 << 20
"""Bytes gathered before they are written."""


def _sum(data: bytes | memoryview) -> int:
    """A number congruent modulo 65535 to the sum of the data's words."""
    return int.from_bytes(data, "big") << 8 * (len(data) & 1)


class Kind:
    """What a part of a burst is; compared by identity, which is fast."""

    __slots__ = ("format", "name", "nested")

    def __init__(self, format: str, name: str, *nested: str) -> None:
        self.format = format
        """Empty for text between frames."""
        self.name = name
        """Name of the type, as the decoder gives it."""
        self.nested = nested
        """Formats of the messages inside, from the outside in."""


class Burst(NamedTuple):
    """Frames sent in one go."""

    ts_ns: int
    channel: Channel
    side: int
    parts: list[bytes]
    """Frames, or text between them."""
    kinds: list[Kind]
    """What each part is."""


@dataclass(slots=True)
class Stage:
    """What a session plays on."""

    random: Random
    start_ns: int
    is_over: bool = False
    """Set from outside: say goodbye, and end."""


class Channel:
    """A TCP connection, or two UDP ports; knows how its packets look."""

    def __init__(
        self,
        format: str,
        client: tuple[str, int],
        server: tuple[str, int],
        *,
        is_udp: bool = False,
        is_checked: bool = True,
    ) -> None:
        self.format = format
        self.is_checked = is_checked
        """Whether TCP checksums are right, not left to a network card."""
        self.port = server[1]
        self.is_udp = is_udp
        self.is_open = False
        self.has_sent = [False, False]
        random = Random(f"{client} {server}")
        self._seq = [random.randrange(1 << 32), random.randrange(1 << 32)]
        self._ident = [random.randrange(1 << 16), random.randrange(1 << 16)]
        ends = [(IPv4Address(address).packed, port) for address, port in (client, server)]
        protocol = 17 if is_udp else 6
        self._fixed = []
        for side in (CLIENT, SERVER):
            (src, src_port), (dst, dst_port) = ends[side], ends[1 - side]
            link = b"\x02\x00" + dst + b"\x02\x00" + src
            addresses = sum(struct.unpack(">4H", src + dst))
            # The constant part of both checksums.
            ip = 0x4500 + 0x4000 + (64 << 8 | protocol) + addresses
            pseudo = addresses + protocol
            host = pseudo + src_port + dst_port + (0 if is_udp else _WINDOW)
            self._fixed.append((link, src, dst, src_port, dst_port, ip, host, pseudo))

    def datagram(self, side: int, payload: bytes) -> bytes:
        """The headers of a UDP packet."""
        link, src, dst, src_port, dst_port, ip, host, _ = self._fixed[side]
        size = 8 + len(payload)
        ident = self._ident[side] = (self._ident[side] + 1) & 0xFFFF
        check = 0xFFFF - (host + 2 * size + _sum(payload)) % 0xFFFF
        ip_check = 0xFFFF - (ip + 20 + size + ident) % 0xFFFF
        head = (link, 0x0800, 0x45, 0, 20 + size, ident, 0x4000, 64, 17, ip_check, src, dst)
        return _UDP.pack(*head, src_port, dst_port, size, check or 0xFFFF)

    def segment(
        self, side: int, payload: bytes | memoryview, flags: int, *, is_bare: bool = False
    ) -> bytes:
        """The headers of the next TCP packet of a side; `is_bare`: without a right checksum."""
        link, src, dst, src_port, dst_port, ip, host, pseudo = self._fixed[side]
        length = len(payload)
        seq, ack = self._seq[side], self._seq[1 - side] if flags & _ACK else 0
        ident = self._ident[side] = (self._ident[side] + 1) & 0xFFFF
        words = 0x5000 | flags
        # What Linux leaves for a network card to complete; that of a joined segment is no better.
        check = (pseudo + 20 + length) % 0xFFFF
        if self.is_checked and not is_bare:
            # 2**16 is 1 modulo 65535, so a number is congruent to the sum of its words.
            check = 0xFFFF - (host + 20 + length + seq + ack + words + _sum(payload)) % 0xFFFF
        ip_check = 0xFFFF - (ip + 40 + length + ident) % 0xFFFF
        self._seq[side] = (seq + length + (1 if flags & (_SYN | _FIN) else 0)) & 0xFFFFFFFF
        return _TCP.pack(
            link, 0x0800, 0x45, 0, 40 + length, ident, 0x4000, 64, 6, ip_check, src, dst,
            src_port, dst_port, seq, ack, words, _WINDOW, check, 0,
        )  # fmt: skip

    def skip(self, side: int, length: int) -> None:
        """Advance over bytes that are not captured."""
        self._seq[side] = (self._seq[side] + length) & 0xFFFFFFFF


class Target(ABC):
    """Where bursts go: counts what they hold."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = bytearray()
        self.size = 0
        """Bytes written so far."""
        self.frames: Counter[Kind] = Counter()
        self.hit: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.text_bytes = 0
        self.packets = 0
        self.streams = 0
        self.first_ns = 0
        self.last_ns = 0

    def wants(self, burst: Burst) -> bool:
        """Whether a burst will be in the capture."""
        return True

    @abstractmethod
    def write(self, burst: Burst) -> None:
        """Write a burst."""

    def close(self, channels: list[Channel], ts_ns: int) -> None:
        """End all connections, and write what is left."""
        self._flush()

    def _count(self, burst: Burst) -> None:
        self.frames.update(burst.kinds)
        if burst.channel.format == "nais":
            pairs = zip(burst.parts, burst.kinds, strict=True)
            self.text_bytes += sum(len(part) for part, kind in pairs if not kind.format)

    def _out(self, data: bytes) -> None:
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._buffer.clear()


class RawFile(Target):
    """Frames back to back."""

    def __init__(self, file: BinaryIO, faults: Faults, random: Random, one_way: bool) -> None:
        super().__init__(file)
        self._corruption = faults.corruption
        self._random = random
        self._one_way = one_way
        self.streams = 1

    def wants(self, burst: Burst) -> bool:
        """Whether it is captured."""
        return not self._one_way or burst.side == SERVER

    def write(self, burst: Burst) -> None:
        """Append the parts."""
        self._count(burst)
        parts = burst.parts
        if self._corruption:
            parts = [self._part(data, kind) for data, kind in zip(*burst[3:], strict=True)]
        self._out(b"".join(parts))

    def _part(self, data: bytes, kind: Kind) -> bytes:
        random = self._random
        if random.random() >= self._corruption or not kind.format:
            return data
        self.faults["corruption"] += 1
        self.hit[kind.format] += 1
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(changed)


class PacketFile(Target):
    """A pcap or pcapng file, with times in nanoseconds."""

    def __init__(
        self, file: BinaryIO, faults: Faults, random: Random, one_way: bool, *, is_pcapng: bool
    ) -> None:
        super().__init__(file)
        self._is_pcapng = is_pcapng
        self._one_way = one_way
        self._faults = faults
        self._random = Random(random.random()) if faults.offload or faults.zero else random
        self._disturber = Disturber(faults, random) if faults.is_any else None
        self._bursts = 0
        if is_pcapng:
            section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
            options = struct.pack("<HHBxxxHH", 9, 1, 9, 0, 0)
            size = 20 + len(options)
            interface = struct.pack("<IIHHI", 1, size, 1, 0, 0) + options + _WORD.pack(size)
            self._out(section + interface)
        else:
            self._out(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))

    def wants(self, burst: Burst) -> bool:
        """Whether it is captured; if not, its bytes still count for sequence numbers."""
        if not self._one_way or burst.side == SERVER:
            return True
        burst.channel.skip(burst.side, sum(map(len, burst.parts)))
        return False

    def write(self, burst: Burst) -> None:
        """Write the packets of a burst, and now and then an acknowledgement."""
        ts_ns, channel, side, parts, _ = burst
        self._count(burst)
        if not channel.has_sent[side]:
            channel.has_sent[side] = True
            self.streams += 1
        if channel.is_udp:
            # Datagrams have no faults: one that is captured twice would be two messages.
            for number, part in enumerate(parts):
                self._record(ts_ns + number * _STEP_NS, channel.datagram(side, part), part)
            return
        if not channel.is_open:
            self._open(channel, ts_ns)
        data = b"".join(parts)
        is_disturbed = self._disturber is not None
        at = 0
        while at < len(data):
            limit, is_zero = self._offload(len(data) - at)
            piece = data[at : at + limit]
            head = channel.segment(side, piece, _PSH | _ACK, is_bare=limit > _SEGMENT)
            if limit > _SEGMENT:
                head = head[:_CHECKSUM_AT] + _JOINED + head[_CHECKSUM_AT + 2 :]
            elif is_zero:
                head = head[:_CHECKSUM_AT] + b"\0\0" + head[_CHECKSUM_AT + 2 :]
            if is_disturbed:
                self._packet(ts_ns, head, piece, burst, at)
            else:
                self._record(ts_ns, head, piece)
            ts_ns += _STEP_NS
            at += limit
        self._bursts += 1
        if self._bursts & 1 and not self._one_way:
            self._packet(ts_ns, channel.segment(1 - side, b"", _ACK), b"", None, 0)

    def _offload(self, left: int) -> tuple[int, bool]:
        """Most bytes of the next segment, and whether its checksum is left to a network card."""
        faults, random = self._faults, self._random
        if faults.offload and left > _SEGMENT and random.random() < faults.offload:
            self.faults["offload"] += 1
            return random.randint(2, 16) * _SEGMENT, False
        if faults.zero and random.random() < faults.zero:
            self.faults["zero"] += 1
            return _SEGMENT, True
        return _SEGMENT, False

    def close(self, channels: list[Channel], ts_ns: int) -> None:
        """End all connections, and write what is left."""
        if self._disturber is not None:
            # All of them: whatever comes after the end of a connection belongs to a new one.
            for packet in self._disturber.finish():
                self._record(packet.ts_ns, packet.data, b"", packet.length)
            self.faults.update(self._disturber.counts)
        ts_ns = max(ts_ns, self.last_ns)
        for channel in channels:
            if channel.is_open:
                for side in self._sides:
                    self._record(ts_ns, channel.segment(side, b"", _FIN | _ACK))
        super().close(channels, ts_ns)

    @property
    def _sides(self) -> tuple[int, ...]:
        return (SERVER,) if self._one_way else (CLIENT, SERVER)

    def _open(self, channel: Channel, ts_ns: int) -> None:
        """The handshake, which has no faults: where a stream starts must be known."""
        channel.is_open = True
        steps = [(CLIENT, _SYN), (SERVER, _SYN | _ACK), (CLIENT, _ACK)]
        for side, flags in steps:
            head = channel.segment(side, b"", flags)
            if side in self._sides:
                self._record(max(ts_ns - 3 * _STEP_NS, self.last_ns), head)

    def _packet(
        self, ts_ns: int, head: bytes, payload: bytes, burst: Burst | None, at: int
    ) -> None:
        """Capture a packet, whose payload is at `at` in its burst, subject to faults."""
        if self._disturber is None:
            self._record(ts_ns, head, payload)
            return
        found, is_hit = self._disturber.push(Packet(ts_ns, head + payload, body=len(head)))
        if is_hit and burst is not None:
            self._note(burst, at, at + len(payload))
        for packet in found:
            self._record(packet.ts_ns, packet.data, b"", packet.length)

    def _note(self, burst: Burst, start: int, stop: int) -> None:
        """Count the frames of a burst with bytes between `start` and `stop`, each once."""
        at = 0
        for index, part in enumerate(burst.parts):
            end = at + len(part)
            if at < stop and end > start and part:
                kind = burst.kinds[index]
                if kind.format:
                    self.hit[kind.format] += 1
                    burst.kinds[index] = Kind("", "")
            at = end

    def _record(
        self, ts_ns: int, head: bytes, payload: bytes = b"", length: int | None = None
    ) -> None:
        # Bursts of different sessions overlap; a capture's times ascend.
        if ts_ns < self.last_ns:
            ts_ns = self.last_ns
        self.last_ns = ts_ns
        self.packets += 1
        captured = len(head) + len(payload)
        if length is None:
            length = captured
        buffer = self._buffer
        if self._is_pcapng:
            pad = -captured & 3
            size = 32 + captured + pad
            high, low = ts_ns >> 32, ts_ns & 0xFFFFFFFF
            buffer += _PACKET_BLOCK.pack(6, size, 0, high, low, captured, length)
            buffer += head
            buffer += payload
            buffer += _TAILS[pad] + _WORD.pack(size)
        else:
            size = 16 + captured
            buffer += _RECORD.pack(ts_ns // _SECOND, ts_ns % _SECOND, captured, length)
            buffer += head
            buffer += payload
        self.size += size
        if len(buffer) >= _BUFFER:
            self._flush()
        if self.packets == 1:
            self.first_ns = ts_ns
