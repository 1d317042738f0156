"""Parts of one capture, read by themselves, give the packets and the damage of one pass."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from wireloom import kernel as kernels
from wireloom.captures.events import Damage
from wireloom.captures.split import PacketRange, RangeReader, packet_ranges
from wireloom.errors import OptionError, SourceError
from wireloom.generate import generate, traffic
from wireloom.generate.traffic import START_NS, Packet

Found = tuple[list[tuple[Any, ...]], list[Damage], int]


def read(part: PacketRange, **options: Any) -> Found:
    """Packets with their place, time and bytes; damage; blocks of other kinds."""
    packets: list[tuple[Any, ...]] = []
    damage: list[Damage] = []
    skipped = 0
    rows = (options.get("kernel") or kernels.load()).Packets(100)
    with RangeReader(part, **options) as reader:
        while not reader.is_done:
            damage += reader.read(rows)
            skipped += rows.skipped
            data, base = reader.window.data, reader.window.base
            for index in range(rows.count):
                at, size = rows.at[index], rows.captured[index]
                packets.append(
                    (
                        base + at,
                        rows.ts[index],
                        rows.link[index],
                        rows.length[index],
                        bytes(data[at : at + size]),
                    )
                )
    return packets, damage, skipped


def together(ranges: list[PacketRange], **options: Any) -> Found:
    packets: list[tuple[Any, ...]] = []
    damage: list[Damage] = []
    skipped = 0
    for part in ranges:
        found = read(part, **options)
        packets += found[0]
        damage += found[1]
        skipped += found[2]
    return packets, damage, skipped


def check(path: Path, all_parts: Any = (2, 3, 7, 64), **options: Any) -> None:
    """Any number of parts gives the same; the ranges fill the file."""
    expected = read(PacketRange(str(path)))
    for parts in all_parts:
        ranges = packet_ranges(path, parts, **options)
        assert len(ranges) <= parts
        assert [part.end for part in ranges] == [part.start for part in ranges[1:]] + [None]
        assert together(ranges) == expected, parts
    # Chunks make no difference either.
    assert together(packet_ranges(path, 3), chunk_bytes=1000) == expected


def noise(random: Random, count: int, most: int = 300) -> list[Packet]:
    return [
        Packet(START_NS + number, random.randbytes(random.randint(1, most)))
        for number in range(count)
    ]


Make = Callable[..., bytes]
MAKERS = pytest.mark.parametrize("make", [traffic.pcap, traffic.pcapng], ids=["pcap", "pcapng"])


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def put(data: bytes) -> Path:
        path = tmp_path / "capture"
        path.write_bytes(data)
        return path

    return put


@pytest.mark.slow
@pytest.mark.parametrize("container", ["pcap", "pcapng"])
def test_parts_of_real_traffic_are_about_equal(write, container):
    out = io.BytesIO()
    generate(out, size=500_000, container=container, symbols=5)
    path = write(out.getvalue())
    check(path, (1, *range(2, 65, 3), 64))
    ranges = packet_ranges(path, 4)
    assert len(ranges) == 4
    starts = [part.start for part in ranges]
    quarter = path.stat().st_size / 4
    assert all(0 <= start - quarter * number < 5000 for number, start in enumerate(starts))


@MAKERS
@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("is_nano", [False, True])
def test_byte_orders_and_resolutions(write, make: Make, is_big, is_nano):
    packets = noise(Random(1), 400)
    check(write(make(packets, is_big=is_big, is_nano=is_nano)))


@MAKERS
def test_payloads_full_of_records_mislead_nobody(write, make: Make):
    random = Random(2)
    inner = make(noise(random, 12, 40))
    at = 24 if make is traffic.pcap else 0
    packets = [
        Packet(START_NS + number, bytes(number % 5) + inner[at:] * 3) for number in range(300)
    ]
    check(write(make(packets)), (2, 3, 5, 8, 13, 33, 64))


@MAKERS
def test_a_single_huge_packet_leaves_fewer_parts(write, make: Make):
    inner = make(noise(Random(3), 2000, 60))
    packets = [
        *noise(Random(4), 5),
        Packet(START_NS + 9, inner[:250_000]),
        *(packet for packet in noise(Random(5), 5)),
    ]
    check(write(make(packets)), (2, 8, 64))


@MAKERS
@pytest.mark.parametrize("seed", range(8))
def test_damage_is_that_of_one_pass(write, make: Make, seed):
    random = Random(seed)
    data = bytearray(make(noise(random, 600)))
    for _ in range(random.randint(1, 12)):
        at = random.randrange(24, len(data))
        kind = random.randrange(4)
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[at : at + random.randrange(2000)] = b""
        elif kind == 2:
            data[at:at] = random.randbytes(random.randrange(3000))
        else:
            data[at : at + 4] = b"\xff\xff\xff\xff"
    path = write(bytes(data[: len(data) - random.randrange(20)]))
    check(path, (2, 5, 16, 64))


@MAKERS
def test_garbage_across_several_cuts_belongs_to_the_part_before(write, make: Make):
    random = Random(6)
    data = make(noise(random, 300))
    middle = len(data) // 2
    garbage = random.randbytes(3 << 20)
    path = write(data[:middle] + garbage + data[middle:])
    check(path, (2, 5, 16))
    assert read(PacketRange(str(path)))[1]


@MAKERS
def test_a_file_without_any_good_record_behind_the_first(write, make: Make):
    path = write(make(noise(Random(7), 2)) + Random(8).randbytes(100_000))
    check(path, (2, 5))


def test_joined_files_of_different_kinds(write):
    random = Random(9)
    files = [
        traffic.pcap(noise(random, 150), is_big=bool(number & 1), is_nano=bool(number & 2))
        for number in range(6)
    ]
    check(write(b"".join(files)), (2, 3, 7, 32))


def test_sections_and_late_interfaces(write):
    random = Random(10)
    parts = []
    for section in range(3):
        is_big = section == 1
        parts.append(traffic.section_block(is_big=is_big))
        for interface in range(4):
            options: dict[str, Any] = {"resolution": 6 + interface, "is_big": is_big}
            parts.append(traffic.interface_block(random.choice((1, 101)), **options))
            for packet in noise(random, 60):
                number = random.randint(0, interface)
                parts.append(traffic.packet_block(packet, interface=number, is_big=is_big))
            parts.append(traffic.block(4, random.randbytes(40), is_big=is_big))
    path = write(b"".join(parts))
    assert read(PacketRange(str(path)))[2] == 12
    check(path, (2, 3, 7, 32, 64))


def test_interfaces_that_nobody_described(write):
    random = Random(11)
    parts = [traffic.section_block(), traffic.interface_block()]
    for number, packet in enumerate(noise(random, 300)):
        parts.append(traffic.packet_block(packet, interface=number // 100 * 3))
    check(write(b"".join(parts)), (2, 5, 16))


def test_an_unknown_link_type_is_noted_once(write):
    path = write(traffic.pcap(noise(Random(12), 300), link_type=147))
    check(path)
    assert len(read(PacketRange(str(path)))[1]) == 1


def test_files_with_nothing_in_them(write):
    for data in (traffic.pcap([]), traffic.pcapng([]), traffic.pcap_header()[:20]):
        check(write(data))


def test_the_interpreted_kernel_finds_the_same(write):
    path = write(traffic.pcapng(noise(Random(13), 60)))
    other = kernels.interpreted()
    ranges = packet_ranges(path, 4, kernel=other)
    assert ranges == packet_ranges(path, 4)
    assert together(ranges, kernel=other) == read(PacketRange(str(path)))


def test_ranges_can_be_sent_to_others(write):
    path = write(traffic.pcapng(noise(Random(14), 100)))
    ranges = packet_ranges(path, 4)
    assert pickle.loads(pickle.dumps(ranges)) == ranges


def test_a_compressed_file_is_one_range(tmp_path):
    path = tmp_path / "capture.gz"
    generate(path, ["tibmsg"], size=100_000, compression="gzip")
    assert packet_ranges(path, 8) == [PacketRange(str(path))]
    with pytest.raises(SourceError, match="compressed"):
        RangeReader(PacketRange(str(path), 100))


def test_what_is_no_packet_capture_is_refused(write):
    path = write(struct.pack(">I", 0xCE13AA1F) + bytes(100))
    with pytest.raises(OptionError, match="not a pcap"):
        packet_ranges(path, 2)
    with pytest.raises(OptionError, match="0 parts"):
        packet_ranges(path, 0)
    with pytest.raises(SourceError):
        packet_ranges(path.with_name("missing"), 2)
