"""Generated traffic of other protocols: most captures are full of it; nothing must be found there.

Each maker gives the bytes of one direction of a connection; `capture` puts many into a pcap file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random

from wireloom.generate.traffic import (
    START_NS,
    Conversation,
    Packet,
    ethernet,
    ip,
    pcap,
    udp,
)

__all__ = ["DATAGRAMS", "STREAMS", "capture"]


def _tls(random: Random) -> bytes:
    """A handshake and application data."""
    data = b"\x16\x03\x01\x00\xc8" + random.randbytes(200)
    for _ in range(random.randrange(1, 12)):
        size = random.randrange(20, 1400)
        data += b"\x17\x03\x03" + size.to_bytes(2, "big") + random.randbytes(size)
    return data


def _http(random: Random) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: image/png\r\n\r\n"
    return head + random.randbytes(random.randrange(4000))


def _noise(random: Random) -> bytes:
    return random.randbytes(random.randrange(1, 4000))


def _small_numbers(layout: str, most: int) -> Callable[[Random], bytes]:
    """Words, two thirds of them zero, as in tables and length fields."""

    def make(random: Random) -> bytes:
        numbers = (random.choice((0, 0, random.randrange(most))) for _ in range(400))
        return b"".join(struct.pack(layout, each) for each in numbers)[: random.randrange(1, 1600)]

    return make


def _sparse(random: Random) -> bytes:
    """Mostly zeros and small bytes."""
    few = (0, 0, 0, 0, 1, 2, 3, 4, 5)
    size = random.randrange(4, 600)
    return bytes(random.choice((*few, random.randrange(256))) for _ in range(size))


def _modbus(random: Random) -> bytes:
    return b"".join(
        struct.pack(">HHHBBHH", turn, 0, 6, 1, 3, random.randrange(100), random.randrange(20))
        for turn in range(random.randrange(1, 60))
    )


def _rpc(random: Random) -> bytes:
    """Headers with a version 5, as DCE/RPC has them, which is also a first byte of Blaze."""
    data = b""
    for turn in range(random.randrange(1, 20)):
        body = bytes(random.choice((0, 0, random.randrange(256))) for _ in range(80))
        data += b"\x05\0\x00\x03\x10\0\0\0" + struct.pack("<HHI", 96, 0, turn) + body
    return data


def _lengths(random: Random) -> bytes:
    """Items preceded by their lengths."""
    data = b""
    for _ in range(random.randrange(1, 100)):
        size = random.randrange(30)
        item = random.choice((bytes(size), random.randbytes(size)))
        data += struct.pack(random.choice((">H", "<H", "<I", ">I")), size) + item
    return data


STREAMS: dict[str, Callable[[Random], bytes]] = {
    "tls": _tls,
    "http": _http,
    "noise": _noise,
    "numbers u16": _small_numbers(">H", 12),
    "numbers u32": _small_numbers(">I", 2000),
    "numbers u16 little": _small_numbers("<H", 3000),
    "numbers u32 little": _small_numbers("<I", 70_000),
    "sparse": _sparse,
    "modbus": _modbus,
    "rpc": _rpc,
    "lengths": _lengths,
}
"""Makers of TCP streams."""


def _dns(random: Random) -> Iterator[bytes]:
    for _ in range(random.randrange(1, 4)):
        head = random.randbytes(2) + b"\x01\0\0\x01\0\0\0\0\0\0"
        yield head + b"\x07example\x03com\0\0\x01\0\x01"


def _rtp(random: Random) -> Iterator[bytes]:
    for turn in range(random.randrange(1, 40)):
        yield b"\x80\0" + struct.pack(">HII", turn, 160 * turn, 4711) + random.randbytes(160)


def _beacons(random: Random) -> Iterator[bytes]:
    """Short datagrams with a counter, mostly zeros."""
    for turn in range(random.randrange(1, 40)):
        yield struct.pack(">HIIH", random.randrange(12), turn, 0, 0)


DATAGRAMS: dict[str, Callable[[Random], Iterator[bytes]]] = {
    "dns": _dns,
    "rtp": _rtp,
    "beacons": _beacons,
}
"""Makers of UDP streams."""


def capture(streams: int, seed: int = 0) -> bytes:
    """A pcap file with so many streams of each kind, with holes in some of them."""
    random = Random(seed)
    packets: list[Packet] = []
    for number in range(streams):
        for kind, maker in enumerate(STREAMS.values()):
            client = f"10.{kind}.{number >> 8}.{number & 255}:5000"
            talk = Conversation(client, "192.0.2.1:8000", mss=random.choice((300, 1460)))
            sent = [*talk.open(), *talk.send(maker(random)), *talk.close()]
            if len(sent) > 8 and random.random() < 0.3:
                del sent[random.randrange(4, len(sent) - 2)]
            packets += sent
        for kind, datagrams in enumerate(DATAGRAMS.values()):
            source = f"10.{100 + kind}.{number >> 8}.{number & 255}"
            for data in datagrams(random):
                host = udp(source, "192.0.2.1", 5000, 5353, data)
                packets.append(Packet(START_NS, ethernet(ip(source, "192.0.2.1", 17, host))))
    return pcap(packets)
