"""Packets that went through an exchange give the events of a reader of the whole captures."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wireloom import kernel as kernels
from wireloom.captures import Capture, PacketRange, ReassemblyLimits, packet_ranges
from wireloom.captures.exchange import SCHEMA, SORT, Part, route
from wireloom.errors import OptionError
from wireloom.generate import Faults, generate, traffic
from wireloom.generate.traffic import START_NS, Packet, ethernet, fragments4, fragments6, ip, udp


def exchanged(
    paths: Sequence[Path], parts: int, *, ranges: int = 3, rows: int = 1000, **options: Any
) -> dict[int, list[pa.RecordBatch]]:
    """What an exchange does: route, divide by part, sort, and cut into batches of some size."""
    batches = [
        batch
        for file, path in enumerate(paths)
        for part in packet_ranges(path, ranges)
        for batch in route(part, file, parts, **options)
    ]
    Random(1).shuffle(batches)
    table = pa.Table.from_batches(batches, SCHEMA)
    found = {}
    for part in range(parts):
        own = table.filter(pa.compute.equal(table["part"], part))
        own = own.sort_by([(name, "ascending") for name in SORT]).combine_chunks()
        found[part] = own.to_batches(max_chunksize=rows)
    return found


def normal(result: Any) -> tuple[Any, Any]:
    """Events without their order between streams and damage, which depends on batches."""
    return result.streams, sorted(result.damage, key=lambda found: (found.source, found.offset))


@pytest.fixture
def check(collect):
    def run(paths: Sequence[Path], counts: Sequence[int] = (1, 2, 7), **options: Any) -> None:
        names = [str(path) for path in paths]
        limits = options.pop("limits", None)
        one_pass = normal(collect(Capture(names, limits=limits)))
        for parts in counts:
            streams: dict[str, Any] = {}
            damage = []
            rows = exchanged(paths, parts, **options)
            for part in range(parts):
                expected = collect(Capture(names, part=part, parts=parts, limits=limits))
                found = collect(Part(rows[part], names, part, parts, limits=limits))
                assert normal(found) == normal(expected), (part, parts)
                assert not streams.keys() & found.streams.keys()
                streams |= found.streams
                damage += normal(found)[1]
            if limits is None:
                assert (streams, damage) == one_pass

    return run


@pytest.mark.parametrize("container", ["pcap", "pcapng"])
@pytest.mark.parametrize(
    "faults", [Faults(), Faults(reorder=0.1, loss=0.02, duplicates=0.05, corruption=0.02, cut=0.02)]
)
def test_parts_give_what_readers_of_everything_give(tmp_path, check, container, faults):
    path = tmp_path / "capture"
    generate(path, size=300_000, container=container, faults=faults, symbols=5)
    check([path])


def test_connections_go_on_in_the_next_file(tmp_path, check):
    whole = io.BytesIO()
    generate(whole, size=200_000, container="pcap", symbols=5)
    data = whole.getvalue()
    cut = packet_ranges_of(tmp_path, data)
    paths = []
    for number, (start, end) in enumerate(cut):
        paths.append(tmp_path / f"part{number}.pcap")
        paths[-1].write_bytes(data[:24] + data[max(start, 24) : end])
    assert len(paths) == 3
    check(paths)


def packet_ranges_of(folder: Path, data: bytes) -> Iterator[tuple[int, int | None]]:
    path = folder / "whole"
    path.write_bytes(data)
    return ((part.start, part.end) for part in packet_ranges(path, 3))


def odd_packets() -> list[Packet]:
    """Fragments, packets that cannot be read, and some that are not TCP or UDP."""
    random = Random(5)
    found = []
    for number in range(60):
        for src, dst, cut in (("10.0.0.1", "10.0.0.2", fragments4), ("fe::1", "fe::2", fragments6)):
            host = udp(src, dst, 5000 + number, 53, random.randbytes(600))
            whole = ip(src, dst, 17, host)
            pieces = cut(whole, 208)
            random.shuffle(pieces)
            found += pieces[: 2 if number % 10 == 0 else None]
        found.append(ip("10.0.0.1", "10.0.0.9", 1, b"ping"))
        found.append(ip("10.0.0.1", "10.0.0.9", 6, b"short"))
    frames = [ethernet(packet) for packet in found]
    frames += [b"\x01\x02", b"", bytes(60)]
    return [Packet(START_NS + number * 1000, frame) for number, frame in enumerate(frames)]


@pytest.mark.parametrize("make", [traffic.pcap, traffic.pcapng])
def test_fragments_and_odd_packets(tmp_path, check, make):
    path = tmp_path / "capture"
    path.write_bytes(make(odd_packets()))
    check([path], rows=37)
    rows = exchanged([path], 4)
    counts = [Part(rows[part], ["x"], part, 4) for part in range(4)]
    for part in counts:
        list(part)
    assert len({part.packets.fragments for part in counts}) == 1
    assert sum(part.packets.other for part in counts) == 60
    assert sum(part.packets.damaged for part in counts) == 62


def test_damage_of_containers_and_packets_without_times(tmp_path, check):
    random = Random(6)
    simple = traffic.section_block() + traffic.interface_block()
    simple += b"".join(traffic.simple_block(packet) for packet in odd_packets()[:20])
    first, second = tmp_path / "simple", tmp_path / "damaged"
    first.write_bytes(simple)
    generate(second, size=150_000, container="pcapng", symbols=5)
    data = bytearray(second.read_bytes())
    for _ in range(20):
        at = random.randrange(100, len(data))
        data[at : at + 50] = random.randbytes(50)
    second.write_bytes(data)
    check([first, second], (1, 3))


def test_a_cut_compressed_file(tmp_path, check):
    whole = io.BytesIO()
    generate(whole, size=100_000, symbols=5)
    path = tmp_path / "capture.gz"
    path.write_bytes(gzip.compress(whole.getvalue())[:-5000])
    check([path], (1, 2))


def test_limits_hold_for_each_part(tmp_path, check):
    path = tmp_path / "capture"
    generate(path, ["tibrv", "nrep"], size=100_000, faults=Faults(loss=0.05), connections=12)
    check([path], (1, 3), limits=ReassemblyLimits(max_flow_packets=8, max_flows=16))


def test_the_interpreted_kernel_gives_the_same(tmp_path, collect):
    path = tmp_path / "capture"
    generate(path, ["nrep", "nais"], size=30_000)
    other = kernels.interpreted()
    rows = exchanged([path], 3)
    for part, batches in exchanged([path], 3, kernel=other).items():
        assert batches == rows[part]
        names = [str(path)]
        found = collect(Part(batches, names, part, 3, kernel=other))
        assert normal(found) == normal(collect(Part(batches, names, part, 3)))


def test_the_schema_is_kept_and_large_binaries_do_as_well(tmp_path, collect):
    path = tmp_path / "capture"
    generate(path, ["tibrv"], size=50_000)
    batches = list(route(PacketRange(str(path)), 0, 2))
    assert all(batch.schema == SCHEMA for batch in batches)
    (batch, *_) = exchanged([path], 1, rows=10_000)[0]
    column = batch["record"].cast(pa.large_binary())
    wide = batch.drop_columns(["part"]).set_column(6, "record", column)
    one, two = (collect(Part([rows], ["x"], 0, 1)) for rows in (batch, wide))
    assert normal(one) == normal(two)


def test_what_is_not_as_it_must_be_is_refused(tmp_path):
    path = tmp_path / "capture"
    generate(path, ["tibrv"], size=50_000)
    (batch, *_) = exchanged([path], 1)[0]
    reverse = batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))
    with pytest.raises(OptionError, match="sorted"):
        list(Part([reverse], ["x"], 0, 1))
    with pytest.raises(OptionError, match="sorted"):
        list(Part([batch, batch], ["x"], 0, 1))
    with pytest.raises(OptionError, match="no capture number 0"):
        list(Part([batch], [], 0, 1))
    with pytest.raises(OptionError, match="position"):
        list(Part([batch.drop_columns(["position"])], ["x"], 0, 1))
    with pytest.raises(OptionError, match="part 2 of 2"):
        Part([], [], 2, 2)
    with pytest.raises(OptionError, match="0 parts"):
        list(route(PacketRange(str(path)), 0, 0))
