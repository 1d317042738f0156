"""Headers: IP versions, options, extensions, fragments, and packets that cannot be read."""

from __future__ import annotations

import struct
from random import Random

import pytest

from wireloom.captures import ReassemblyLimits
from wireloom.generate import traffic
from wireloom.generate.traffic import Packet, ethernet, fragments4, fragments6, ip, ipv4, ipv6, tcp

V4 = ("10.0.0.1", "10.0.0.2")
V6 = ("2001:db8::1", "2001:db8::2")
DATA = Random(3).randbytes(4000)


def packets(*frames: bytes) -> list[Packet]:
    return [Packet(traffic.START_NS + n * 1000, frame) for n, frame in enumerate(frames)]


def segment(pair: tuple[str, str], payload: bytes, seq: int = 1) -> bytes:
    return tcp(*pair, 7, 8, seq, payload)


def test_ipv4_options_are_stepped_over(read):
    made = ipv4(*V4, 6, segment(V4, b"data"), options=b"\x01" * 8)
    assert read(traffic.pcap(packets(ethernet(made)))).only.data == b"data"


def test_tcp_options_are_no_payload(read):
    made = tcp(*V4, 7, 8, 1, b"data", options=b"\x01" * 12)
    assert read(traffic.pcap(packets(ethernet(ipv4(*V4, 6, made))))).only.data == b"data"


def test_padding_of_short_frames_is_no_payload(read):
    frame = ethernet(ipv4(*V4, 6, segment(V4, b"x")))
    assert len(frame) == 60
    assert read(traffic.pcap(packets(frame))).only.data == b"x"


def test_ipv6_extensions_are_stepped_over(read):
    extensions = [
        (0, bytes([0]) + bytes(6)),  # hop by hop, 8 bytes
        (60, bytes([1]) + bytes(14)),  # destination options, 16 bytes
        (43, bytes([0]) + bytes(6)),  # routing
        (51, bytes([1]) + bytes(10)),  # authentication, counted in fours
        (44, bytes(7)),  # a fragment that is the whole packet
    ]
    made = ipv6(*V6, 6, segment(V6, b"data"), extensions=extensions)
    result = read(traffic.pcap(packets(ethernet(made))))
    assert list(result.streams) == ["tcp [2001:db8::1]:7 > [2001:db8::2]:8 #1"]
    assert result.only.data == b"data"


def test_length_zero_means_the_whole_packet(read):
    # The network card was to cut it up after it had been captured.
    frame = bytearray(ethernet(ipv4(*V4, 6, segment(V4, DATA))))
    frame[16:18] = b"\0\0"
    assert read(traffic.pcap(packets(bytes(frame)))).only.data == DATA


def test_llc_snap(read):
    inner = ipv4(*V4, 6, segment(V4, b"data"))
    head = bytes(12) + struct.pack(">H", 8 + len(inner)) + bytes.fromhex("aaaa030000000800")
    assert read(traffic.pcap(packets(head + inner))).only.data == b"data"


@pytest.mark.parametrize("pair", [V4, V6], ids=["v4", "v6"])
@pytest.mark.parametrize("order", ["straight", "reversed", "shuffled", "twice"])
def test_fragments_are_put_together(read, pair, order):
    whole = ip(*pair, 6, segment(pair, DATA))
    parts = (fragments6 if pair is V6 else fragments4)(whole, 504)
    if order == "reversed":
        parts.reverse()
    elif order == "shuffled":
        Random(1).shuffle(parts)
    elif order == "twice":
        parts = [part for part in parts for _ in range(2)]
        parts.pop()
    file = traffic.pcap(packets(*(ethernet(part) for part in parts)))
    for options in ({}, {"chunk_bytes": 100}, {"batch_packets": 1}):
        result = read(file, **options)
        assert result.only.data == DATA
        assert result.damage == []
        assert result.capture.packets.fragments == len(parts)


def test_fragments_of_a_segment_behind_a_hole(read):
    first = ethernet(ipv4(*V4, 6, segment(V4, b"a" * 10)))
    late = ethernet(ipv4(*V4, 6, segment(V4, b"b" * 10, seq=11)))
    parts = fragments4(ipv4(*V4, 6, segment(V4, DATA, seq=21)), 800)
    file = traffic.pcap(packets(first, *map(ethernet, parts), late))
    assert read(file).only.data == b"a" * 10 + b"b" * 10 + DATA


def test_fragmented_datagrams(read):
    made = ip(*V4, 17, traffic.udp(*V4, 1, 2, DATA))
    stream = read(traffic.pcap(packets(*map(ethernet, fragments4(made, 1000))))).only
    assert stream.data == DATA
    assert len(stream.marks) == 1


def test_a_missing_fragment_is_told_at_the_end(read):
    parts = fragments4(ipv4(*V4, 6, segment(V4, DATA)), 1000)
    result = read(traffic.pcap(packets(*map(ethernet, parts[:-1]))))
    assert result.streams == {}
    assert [d.layer for d in result.damage] == ["fragment"] * (len(parts) - 1)
    assert [d.data for d in result.damage] == parts[:-1]


def broken_up(packet: bytes, changes: dict[int, int], size: int = 1000) -> list[bytes]:
    """Fragments, some with another word of flags and offset."""
    parts = [bytearray(part) for part in fragments4(packet, size)]
    for index, where in changes.items():
        parts[index][6:8] = where.to_bytes(2, "big")
    return [bytes(part) for part in parts]


@pytest.mark.parametrize(
    "changes",
    [
        {2: 0x0000 | 500},  # two last ones
        {1: 0x2000 | 250},  # two for the same place
        {3: 0x2000 | 0x1FFF},  # beyond 64 KB
        {2: 0x2000 | 124},  # overlapping in part
    ],
)
def test_fragments_that_contradict_each_other(read, changes):
    parts = broken_up(ipv4(*V4, 6, segment(V4, DATA)), changes)
    result = read(traffic.pcap(packets(*map(ethernet, parts))))
    assert result.streams == {}
    assert sorted(d.data for d in result.damage) == sorted(parts)


def test_fragments_behind_an_authentication_header(read):
    whole = ipv6(*V6, 6, segment(V6, DATA))
    frames = []
    for part in fragments6(whole, 1000):
        head = bytearray(part[:40])
        head[4:6] = (len(part) - 40 + 16).to_bytes(2, "big")
        head[6] = 60
        options = bytes([51, 0]) + bytes(6)
        authentication = bytes([44, 0]) + bytes(6)
        frames.append(ethernet(bytes(head) + options + authentication + part[40:]))
    assert read(traffic.pcap(packets(*frames))).only.data == DATA


@pytest.mark.parametrize("inner", [bytes(12) + b"\x10" + bytes(27), bytes(11)])
def test_fragments_of_a_segment_that_cannot_be_read(read, inner):
    frames = [ethernet(part) for part in fragments4(ipv4(*V4, 6, inner), 8)]
    result = read(traffic.pcap(packets(*frames)))
    (damage,) = result.damage
    assert (damage.layer, damage.code) == ("fragment", "tcp")
    assert damage.data.endswith(inner)


def test_fragments_of_other_protocols_are_no_damage(read):
    frames = [ethernet(part) for part in fragments4(ipv4(*V4, 1, DATA), 1000)]
    result = read(traffic.pcap(packets(*frames)))
    assert (result.streams, result.damage) == ({}, [])


def test_loopback_families(read):
    v6 = struct.pack("<I", 10) + ipv6(*V6, 6, segment(V6, b"six"))
    other = struct.pack("<I", 7) + bytes(40)
    result = read(traffic.pcap(packets(v6, other), link_type=0))
    assert result.only.data == b"six"
    assert result.capture.packets.not_ip == 1


def test_overlapping_fragments_are_not_believed(read):
    parts = fragments4(ipv4(*V4, 6, segment(V4, DATA)), 1000)
    other = fragments4(ipv4(*V4, 6, segment(V4, bytes(4000))), 1200)
    result = read(traffic.pcap(packets(*map(ethernet, [parts[0], other[1], *parts[1:]]))))
    assert result.streams == {}
    assert {d.reason for d in result.damage} >= {"fragments overlap"}


def test_waiting_fragments_are_limited(read):
    limits = ReassemblyLimits(max_fragment_bytes=5000)
    frames = []
    for number in range(50):
        part = bytearray(fragments4(ipv4(*V4, 6, segment(V4, DATA)), 1000)[0])
        part[4:6] = number.to_bytes(2, "big")
        frames.append(ethernet(bytes(part)))
    result = read(traffic.pcap(packets(*frames)), limits=limits)
    assert len(result.damage) == 50
    assert sum("too many" in d.reason for d in result.damage) == 47


def test_the_same_identification_much_later_is_another_packet(read):
    parts = fragments4(ipv4(*V4, 6, segment(V4, DATA)), 2000)
    frames = [Packet(0, ethernet(parts[0]))]
    frames += [Packet(60 * 10**9 + n, ethernet(part)) for n, part in enumerate(parts)]
    result = read(traffic.pcap(frames, is_nano=True))
    assert result.only.data == DATA
    assert [d.reason for d in result.damage] == ["its other fragments did not come in time"]


def tagged(count: int) -> bytes:
    return ethernet(ipv4(*V4, 6, segment(V4, b"x")), [(0x8100, n) for n in range(count)])


BAD = {
    "too many tags": tagged(9),
    "cut in a tag": tagged(4)[:20],
    "too many extensions": ethernet(
        ipv6(*V6, 6, segment(V6, b"x"), extensions=[(60, bytes(7))] * 9)
    ),
    "not the version the link says": bytes(12) + b"\x86\xdd" + ipv4(*V4, 6, bytes(40)),
    "udp without header": ethernet(ipv4(*V4, 17, b"\0\1"))[:36],
    "link": ethernet(ipv4(*V4, 6, segment(V4, b"x")))[:10],
    "ip": ethernet(b"\x45" + bytes(10))[:30],
    "short ip header": ethernet(b"\x44" + bytes(30)),
    "ip length below its header": ethernet(b"\x45\0\0\x10" + bytes(30)),
    "tcp header short": ethernet(ipv4(*V4, 6, bytes(12) + b"\x40" + bytes(7))),
    "tcp header long": ethernet(ipv4(*V4, 6, bytes(12) + b"\xf0" + bytes(7))),
    "udp length": ethernet(ipv4(*V4, 17, b"\0\1\0\2\0\7\0\0")),
    "ipv6 extension": ethernet(ipv6(*V6, 0, b"\x06\xff")),
}


@pytest.mark.parametrize("name", BAD)
def test_packets_that_cannot_be_read_are_told_with_their_bytes(read, name):
    good = ethernet(ipv4(*V4, 6, segment(V4, b"good")))
    result = read(traffic.pcap(packets(good, BAD[name])))
    assert result.only.data == b"good"
    (damage,) = result.damage
    assert damage.data == BAD[name]
    assert damage.layer == "packet"
    assert damage.offset == 24 + 16 + len(good) + 16
    assert result.capture.packets.damaged == 1


def test_a_packet_cut_in_its_headers(read):
    packet = Packet(0, ethernet(ipv4(*V4, 6, segment(V4, b"good" * 10)))).cut(40)
    (damage,) = read(traffic.pcap([packet])).damage
    assert damage.code == "cut"


def test_other_traffic_is_counted(read):
    arp = bytes(12) + b"\x08\x06" + bytes(46)
    icmp = ethernet(ipv4(*V4, 1, bytes(8)))
    counts = read(traffic.pcap(packets(arp, icmp, icmp))).capture.packets
    assert (counts.not_ip, counts.other, counts.damaged) == (1, 2, 0)


@pytest.mark.parametrize("link", traffic.LINKS)
def test_an_unknown_link_type_is_guessed_by_the_packets(read, link):
    _, wrap = traffic.LINKS[link]
    frames = [wrap(ipv4(*V4, 6, segment(V4, DATA[:100], seq))) for seq in (1, 101)]
    result = read(traffic.pcap(packets(*frames), link_type=147))
    assert result.damage[0].code == "link_type"
    if link.startswith(("null", "loop")):
        assert [d.code for d in result.damage[1:]] == ["link", "link"]
    else:
        assert result.only.data == DATA[:100] * 2
