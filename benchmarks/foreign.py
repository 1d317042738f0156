"""Captures of other protocols, as large as wanted: most of what is captured is none of ours.

A few connections carry most of the bytes and very many carry little, as in real networks: text of
HTTP, records of TLS, protobuf, noise, DNS and media in UDP. About 200 of them talk at a time.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

__all__ = ["write_foreign"]

_START = 1_700_000_000
_MSS = 1448
_AT_A_TIME = 200
_POOL = 1 << 20
_LINK = bytes.fromhex("0200000000010200000000020800")


def _http(random: Random, size: int, pool: bytes) -> bytes:
    line = b"GET /static/%d.js HTTP/1.1\r\nHost: www.example.com\r\nAccept: */*\r\n\r\n"
    found = bytearray()
    while len(found) < size:
        body = b"".join(b"<li class=x>item %d of many</li>\n" % n for n in range(60))
        found += line % random.randrange(10_000)
        found += b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(
            body
        )
        found += body * random.randrange(1, 5)
    return bytes(found[:size])


def _tls(random: Random, size: int, pool: bytes) -> bytes:
    found = bytearray(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + pool[:501])
    while len(found) < size:
        length = random.choice((40, 300, 1400, 4096, 16_401))
        at = random.randrange(_POOL - length)
        found += b"\x17\x03\x03" + length.to_bytes(2, "big") + pool[at : at + length]
    return bytes(found[:size])


def _noise(random: Random, size: int, pool: bytes) -> bytes:
    at = random.randrange(_POOL)
    return (pool[at:] + pool * (size // _POOL + 1))[:size]


def _protobuf(random: Random, size: int, pool: bytes) -> bytes:
    """Messages behind their lengths: numbers, texts, a blob; small numbers prevail."""
    found = bytearray()
    while len(found) < size:
        blob = random.randrange(100)
        at = random.randrange(_POOL - blob)
        body = b"\x08" + bytes([random.randrange(128)]) + b"\x10\x96\x01\x1a\x07testing"
        body += b"\x22" + bytes([blob]) + pool[at : at + blob]
        found += len(body).to_bytes(4, "big") + body
    return bytes(found[:size])


def _tables(random: Random, size: int, pool: bytes) -> bytes:
    """Words of small numbers, two thirds zeros."""
    words = [random.choice((0, 0, random.randrange(3000))) for _ in range(1024)]
    return (struct.pack(">1024I", *words) * (size // 4096 + 1))[:size]


_STREAMS: tuple[Callable[[Random, int, bytes], bytes], ...] = (
    _http,
    _tls,
    _tls,
    _noise,
    _protobuf,
    _tables,
)


def _dns(random: Random, pool: bytes) -> Iterator[bytes]:
    for _ in range(random.randrange(1, 3)):
        yield random.randbytes(2) + b"\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01"


def _media(random: Random, pool: bytes) -> Iterator[bytes]:
    for turn in range(random.choice((20, 2000))):
        at = random.randrange(_POOL - 1200)
        yield (
            b"\x80\x60"
            + struct.pack(">HII", turn & 0xFFFF, 160 * turn, 4711)
            + pool[at : at + 1200]
        )


def _sum(data: bytes) -> int:
    """The sum of the 16-bit words, in the machine's order, not folded."""
    return sum(array("H", data if len(data) % 2 == 0 else data + b"\0"))


def _checksum(*parts: bytes) -> bytes:
    total = sum(map(_sum, parts))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return array("H", [total ^ 0xFFFF]).tobytes()


def _packet(source: bytes, target: bytes, protocol: int, body: bytes) -> bytes:
    head = struct.pack(">BBHIBBH", 0x45, 0, 20 + len(body), 0x4000, 64, protocol, 0)
    sums = _checksum(head, source, target)
    return _LINK + head[:10] + sums + source + target + body


def _connection(random: Random, number: int, pool: bytes) -> Iterator[bytes]:
    """The packets of one flow: its sender talks, its receiver is silent."""
    source, target = struct.pack(">BBH", 10, 1, number & 0xFFFF), bytes([192, 0, 2, 1])
    port = 1024 + (number * 7919) % 60_000
    if random.random() < 0.3:
        talk = random.choice((_dns, _dns, _media))
        for data in talk(random, pool):
            yield _packet(
                source, target, 17, struct.pack(">HHHH", port, 53, 8 + len(data), 0) + data
            )
        return
    size = random.choice((300, 1200, 3000, 9000)) if random.random() < 0.97 else 4_000_000
    data = random.choice(_STREAMS)(random, size, pool)
    seq = random.randrange(1 << 32)
    pseudo = source + target

    def segment(seq: int, flags: int, payload: bytes) -> bytes:
        head = struct.pack(">HHIIBBHHH", port, 443, seq & 0xFFFFFFFF, 1, 0x50, flags, 512, 0, 0)
        size = struct.pack(">HH", 6, 20 + len(payload))
        sums = _checksum(pseudo, size, head, payload)
        return _packet(source, target, 6, head[:16] + sums + head[18:] + payload)

    yield segment(seq, 2, b"")
    for at in range(0, len(data), _MSS):
        if random.random() > 0.0005:  # the others were not captured
            yield segment(seq + 1 + at, 0x18, data[at : at + _MSS])
    yield segment(seq + 1 + len(data), 0x11, b"")


def write_foreign(path: Path, size: int, seed: int = 0) -> None:
    """Write a pcap file of about that size."""
    random = Random(seed)
    pool = random.randbytes(_POOL)
    flows: list[Iterator[bytes]] = []
    number = written = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        while written < size:
            while len(flows) < _AT_A_TIME:
                flows.append(_connection(random, number, pool))
                number += 1
            place = random.randrange(len(flows))
            for _ in range(random.choice((1, 1, 2, 10))):
                packet = next(flows[place], None)
                if packet is None:
                    flows[place] = flows[-1]
                    flows.pop()
                    break
                written += 16 + len(packet)
                ts = written // 100
                words = (_START + ts // 1_000_000, ts % 1_000_000, len(packet), len(packet))
                file.write(struct.pack("<IIII", *words) + packet)
