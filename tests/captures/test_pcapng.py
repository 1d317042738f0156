"""pcapng: sections, interfaces, clocks, all packet blocks, and damage."""

from __future__ import annotations

import struct
from random import Random

import pytest

from wireloom.captures import NO_TIME
from wireloom.generate import traffic
from wireloom.generate.traffic import (
    Packet,
    block,
    interface_block,
    packet_block,
    section_block,
    simple_block,
)

TS = 1_700_000_000_123_456_789


def datagram(payload: bytes, link: str = "ethernet") -> bytes:
    inner = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, payload)
    return traffic.LINKS[link][1](traffic.ipv4("10.0.0.1", "10.0.0.2", 17, inner))


def times(result) -> list[int]:
    return [ts for _, ts in result.only.marks]


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize(
    ("resolution", "offset", "ticks", "expected"),
    [
        (None, None, TS // 1000, TS // 1000 * 1000),
        (6, None, TS // 1000, TS // 1000 * 1000),
        (9, None, TS, TS),
        (3, None, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (0, None, 1_700_000_000, 1_700_000_000_000_000_000),
        (12, None, 1_700_000_000_123_456, 1_700_000_000_123),  # picoseconds
        (9, 1_700_000_000, 5, 1_700_000_000_000_000_005),
        (6, -3600, 3_600_000_001, 1000),
        (0x80 | 10, None, (1_700_000_000 << 10) + 512, 1_700_000_000_500_000_000),
        (0x80 | 32, None, (1_700_000_000 << 32) + (1 << 31), 1_700_000_000_500_000_000),
        (0x80 | 40, 1_700_000_000, 1 << 39, 1_700_000_000_500_000_000),
        (0x80 | 63, None, 3 << 62, 1_500_000_000),
        (0x80 | 127, None, 2**64 - 1, 0),
        (0x80, None, 12, 12_000_000_000),
        (28, None, 2**64 - 1, 1),
        (127, None, 2**64 - 1, 0),
        (0, None, 2**64 - 1, NO_TIME),
        (9, None, 2**64 - 1, NO_TIME),
        (9, 2**62, 1, NO_TIME),
        (9, -(2**62), 1, NO_TIME),
        (9, 4_000_000_000, 2**60, NO_TIME),
        (9, None, 2**62, NO_TIME),
        (9, -4_000_000_000, 5, -4_000_000_000_000_000_000 + 5),
    ],
)
def test_clocks(read, resolution, offset, ticks, expected, is_big):
    file = (
        section_block(is_big=is_big)
        + interface_block(resolution=resolution, offset=offset, is_big=is_big)
        + packet_block(Packet(0, datagram(b"x")), ticks=ticks, is_big=is_big)
    )
    assert times(read(file)) == [expected]


def test_every_interface_has_its_own_clock_and_link(read):
    file = section_block()
    kinds = [("ethernet", None, 1000), ("raw", 9, 1), ("cooked", 0x80 | 20, None)]
    for link, resolution, _ in kinds:
        file += interface_block(traffic.LINKS[link][0], resolution=resolution)
    ticks = [TS // 1000, TS, (TS // 10**9) << 20]
    for number in (2, 0, 1, 1, 2, 0):
        packet = Packet(0, datagram(bytes([number]), kinds[number][0]))
        file += packet_block(packet, interface=number, ticks=ticks[number])
    result = read(file)
    assert result.only.data == bytes([2, 0, 1, 1, 2, 0])
    known = [TS // 1000 * 1000, TS, TS // 10**9 * 10**9]
    assert times(result) == [known[n] for n in (2, 0, 1, 1, 2, 0)]


def test_many_interfaces(read):
    file = section_block() + b"".join(interface_block(resolution=9) for _ in range(100))
    file += packet_block(Packet(0, datagram(b"x")), interface=99, ticks=TS)
    assert times(read(file)) == [TS]


def test_sections_of_both_orders_forget_interfaces(read):
    parts = []
    for number, is_big in enumerate([False, True, True, False]):
        nano = 9 if number % 2 else 6
        parts.append(section_block(is_big=is_big) + interface_block(resolution=nano, is_big=is_big))
        ticks = TS if nano == 9 else TS // 1000
        packet = Packet(0, datagram(bytes([number])))
        parts.append(packet_block(packet, ticks=ticks, is_big=is_big))
    result = read(b"".join(parts))
    assert result.only.data == bytes(range(4))
    assert times(result) == [TS // 1000 * 1000, TS] * 2


def test_old_and_simple_blocks(read):
    snap = 60
    file = section_block() + interface_block(snap=snap)
    file += packet_block(Packet(TS, datagram(b"old")), is_old=True)
    whole = Packet(0, datagram(b"y" * 100))
    file += simple_block(whole.cut(snap))
    file += simple_block(Packet(0, datagram(b"z")))
    stream = read(file).only
    assert stream.data == b"old" + b"y" * 18 + bytes(82) + b"z"
    assert [ts for _, ts in stream.marks] == [TS // 1000 * 1000, NO_TIME, NO_TIME]


def test_other_blocks_are_stepped_over_and_counted(read):
    file = section_block()
    file += block(4, bytes(20)) + interface_block() + block(5, bytes(12))
    file += block(0xBAD, bytes(8)) + block(0x40000BAD, b"") + block(0x12345678, bytes(100))
    file += packet_block(Packet(TS, datagram(b"x"))) + block(10, bytes(40))
    result = read(file)
    assert result.only.data == b"x"
    assert result.capture.skipped_blocks == 6
    assert result.damage == []


def test_options_behind_packets_are_no_payload(read):
    packet = datagram(b"x")
    head = struct.pack("<5I", 0, 0, 0, len(packet), len(packet))
    body = head + packet + bytes(-len(packet) % 4) + traffic.option(1, b"comment")
    assert read(section_block() + interface_block() + block(6, body)).only.data == b"x"


def capture(count: int = 20, *, is_big: bool = False) -> tuple[list[bytes], list[bytes]]:
    random = Random(4)
    blocks = [section_block(is_big=is_big), interface_block(is_big=is_big)]
    payloads = []
    for number in range(count):
        payload = random.randbytes(random.choice([1, 60, 1400]))
        payloads.append(payload)
        blocks.append(packet_block(Packet(TS + number, datagram(payload)), is_big=is_big))
    return blocks, payloads


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
@pytest.mark.parametrize("at", [0, 4, 5, 6, 7, -1, -4])
def test_a_damaged_block_costs_one_packet(read, is_big, chunk, at):
    blocks, payloads = capture(is_big=is_big)
    bad = bytearray(blocks[9])
    bad[at] ^= 0x40
    blocks[9] = bytes(bad)
    result = read(b"".join(blocks), chunk_bytes=chunk)
    assert result.only.data == b"".join(payloads[:7] + payloads[8:])
    if at:
        assert b"".join(d.data for d in result.damage) == blocks[9]
        assert result.damage[0].offset == sum(map(len, blocks[:9]))
    else:
        assert result.capture.skipped_blocks == 1  # another kind of block, as far as one can tell


def test_every_truncation(read):
    blocks, payloads = capture(4)
    file = b"".join(blocks)
    ends = [sum(map(len, blocks[:n])) for n in range(len(blocks) + 1)]
    for size in [*ends[1:], *range(ends[1], ends[4]), *range(ends[4], len(file), 61)]:
        result = read(file[:size])
        whole = sum(end <= size for end in ends[3:])
        assert b"".join(bytes(s.data) for s in result.streams.values()) == b"".join(
            payloads[:whole]
        )
        left = size - max(end for end in ends if end <= size)
        assert sum(d.length for d in result.damage) == left


def test_garbage_between_blocks(read):
    blocks, payloads = capture()
    garbage = Random(5).randbytes(4096)
    result = read(b"".join([*blocks[:8], garbage, *blocks[8:]]))
    assert result.only.data == b"".join(payloads)
    assert b"".join(d.data for d in result.damage) == garbage


def test_a_packet_longer_than_its_block(read):
    blocks, payloads = capture()
    bad = bytearray(blocks[9])
    bad[20:24] = struct.pack("<I", len(bad))
    blocks[9] = bytes(bad)
    result = read(b"".join(blocks))
    assert result.only.data == b"".join(payloads[:7] + payloads[8:])
    (damage,) = result.damage
    assert (damage.code, damage.data) == ("packet", blocks[9])


def test_packets_of_an_interface_that_damage_took_have_no_time(read):
    blocks, payloads = capture()
    blocks[1] = b"\xff" * len(blocks[1])
    result = read(b"".join(blocks))
    assert result.only.data == b"".join(payloads)
    assert set(times(result)) == {NO_TIME}
    assert [d.code for d in result.damage] == ["block", "interface"]


def test_an_interface_number_out_of_all_reason(read):
    file = section_block() + packet_block(Packet(0, datagram(b"x")), interface=70_000)
    (damage,) = read(file).damage
    assert damage.reason == "interface 70000 was not described"


def test_an_unknown_link_type_is_told_once(read):
    file = section_block() + interface_block(147)
    file += packet_block(Packet(TS, datagram(b"x"))) * 3
    result = read(file)
    assert result.only.data == b"xxx"
    assert [d.code for d in result.damage] == ["link_type"]


def test_long_garbage_is_told_in_pieces(read):
    blocks, payloads = capture()
    result = read(b"".join([*blocks[:8], bytes(5 << 19), *blocks[8:]]), chunk_bytes=1 << 18)
    assert result.only.data == b"".join(payloads)
    assert sum(d.length for d in result.damage) == 5 << 19
    assert max(d.length for d in result.damage) == 1 << 20


def test_a_section_with_long_options(read):
    order = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    head = block(0x0A0D0D0A, order + traffic.option(1, b"a comment" * 50))
    file = head + interface_block() + packet_block(Packet(TS, datagram(b"x")))
    for chunk in (1, 40, 1 << 20):
        assert read(file, chunk_bytes=chunk).only.data == b"x"


def test_interfaces_are_limited(read):
    file = section_block() + interface_block() * 4100
    result = read(file)
    assert [d.code for d in result.damage] == ["limit"] * 4


@pytest.mark.parametrize(
    "file",
    [
        section_block()[:-4] + b"\0\0\0\1",
        section_block()[:4] + b"\x1b\0\0\0" + section_block()[8:],
        section_block() + b"\x0a\x0d\x0d\x0a" + bytes(40),
        section_block() + block(1, bytes(4)),
        section_block() + interface_block() + block(6, bytes(8)),
        section_block() + interface_block() + block(3, b""),
        section_block() + interface_block() + block(2, bytes(12)),
    ],
)
def test_blocks_that_cannot_be(read, file):
    result = read(file)
    assert result.damage
    assert result.same() == read(file, chunk_bytes=1).same()
