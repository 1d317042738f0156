"""Every container × byte order × resolution × compression gives the same streams."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from random import Random

import pytest

from wireloom.errors import OptionError
from wireloom.generate import traffic
from wireloom.generate.traffic import Conversation, Packet

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstd.compress,
}
CONTAINERS = {"pcap": traffic.pcap, "pcapng": traffic.pcapng}
SENT = Random(7).randbytes(20_000)
NAMES = ["tcp 10.0.0.1:1234 > 10.0.0.2:80 #1", "tcp 10.0.0.2:80 > 10.0.0.1:1234 #1"]


def talk(link: str = "ethernet", data: bytes = SENT) -> list[Packet]:
    """A connection on which the server echoes."""
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80", first_seq=(2**32 - 500, 5000), link=link)
    return [*made.open(), *made.send(data), *made.answer(data), *made.close()]


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("is_nano", [False, True], ids=["us", "ns"])
@pytest.mark.parametrize("is_big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_all_containers_give_the_same_streams(read, container, is_big, is_nano, pack):
    made = CONTAINERS[container](talk(), is_big=is_big, is_nano=is_nano)
    result = read(PACK[pack](made))
    assert list(result.streams) == NAMES
    for stream in result.streams.values():
        assert stream.data == SENT
        assert stream.gaps == stream.drops == []
        assert stream.end == "fin"
    assert result.damage == []
    assert result.capture.packets.packets == len(talk())


def test_times_are_those_of_the_packets(read):
    packets = talk()
    result = read(traffic.pcap(packets, is_nano=True))
    stream = result.streams[NAMES[0]]
    payload = [p.ts_ns for p in packets if len(p.data) > 60][: len(stream.marks)]
    assert [ts for _, ts in stream.marks] == payload
    assert [at for at, _ in stream.marks] == list(range(0, len(SENT), 1460))


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 61, 4096, 65_536, 1 << 22])
def test_chunks_make_no_difference(read, container, pack, chunk):
    file = PACK[pack](CONTAINERS[container](talk(data=SENT[:3000])))
    assert read(file, chunk_bytes=chunk).same() == read(file).same()


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batches_make_no_difference(read, batch):
    file = traffic.pcap(talk())
    assert read(file, batch_packets=batch).same() == read(file).same()


@pytest.mark.parametrize("link", traffic.LINKS)
def test_every_link_type(read, link):
    number, _ = traffic.LINKS[link]
    for make in CONTAINERS.values():
        result = read(make(talk(link), link_type=number))
        assert [bytes(s.data) for s in result.streams.values()] == [SENT, SENT]


def test_a_raw_file_is_one_stream(read):
    result = read(SENT, chunk_bytes=999)
    assert list(result.streams) == ["file0"]
    assert result.only.data == SENT
    assert result.only.counts.captured == result.only.counts.delivered == len(SENT)


def test_an_empty_file_is_an_empty_stream(read):
    assert read(b"").only.data == b""


@pytest.mark.parametrize("first", CONTAINERS)
@pytest.mark.parametrize("second", CONTAINERS)
def test_connections_go_on_in_the_next_file(read, first, second):
    packets = talk()
    one, two = packets[:9], packets[9:]
    result = read(CONTAINERS[first](one), CONTAINERS[second](two))
    assert list(result.streams) == NAMES
    assert [bytes(s.data) for s in result.streams.values()] == [SENT, SENT]
    assert [s.source for s in result.streams.values()] == ["file0", "file1"]


def test_joined_pcap_files_are_one(read):
    packets = talk()
    one = traffic.pcap(packets[:9])
    two = traffic.pcap(packets[9:], is_big=True, is_nano=True)
    for chunk in (1, 100, 1 << 20):
        result = read(one + two, chunk_bytes=chunk)
        assert [bytes(s.data) for s in result.streams.values()] == [SENT, SENT]
        assert result.damage == []


def test_pcap_with_impossible_fractions_is_read_all_the_same(read):
    # Nanoseconds under the magic of microseconds: the file is wrong, but its lengths are not.
    packets = talk()
    odd = traffic.pcap_header() + b"".join(traffic.pcap_record(p, is_nano=True) for p in packets)
    result = read(odd)
    assert [bytes(s.data) for s in result.streams.values()] == [SENT, SENT]


def test_progress_counts_stored_bytes(read):
    file = gzip.compress(traffic.pcap(talk()))
    result = read(file)
    assert result.capture.progress.done == len(file)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_make_up_the_whole(read, parts):
    packets = []
    for number in range(40):
        host = f"10.0.{number}.1" if number % 2 else f"[2001:db8::{number:x}]"
        server = "10.9.9.9:80" if number % 2 else "[2001:db8::9999]:80"
        made = Conversation(f"{host}:{4000 + number}", server)
        packets += [*made.open(), *made.send(SENT[:50]), *made.answer(SENT[:70])]
    packets.append(Packet(0, b"not a packet"))
    file = traffic.pcap(packets)
    whole = read(file)
    found = {}
    for part in range(parts):
        result = read(file, part=part, parts=parts)
        assert result.streams
        assert not found.keys() & result.streams.keys()
        found |= result.streams
        assert len(result.damage) == (1 if part == 0 else 0)
        # Both directions of a connection are of the same part.
        pairs = {frozenset(name.split()[1:4:2]) for name in result.streams}
        assert len(pairs) * 2 == len(result.streams)
    assert found == whole.streams


def test_a_part_that_does_not_exist(read):
    with pytest.raises(OptionError):
        read(b"", part=2, parts=2)
