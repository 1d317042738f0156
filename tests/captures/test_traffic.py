"""The builder of packets and captures, against values from elsewhere."""

from __future__ import annotations

import io
from random import Random

import pytest

from wireloom.captures import Capture, Gap
from wireloom.generate import traffic
from wireloom.generate.traffic import Conversation, Faults, Packet, disturb


def test_checksum_of_rfc_1071():
    assert traffic.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D


def test_checksum_of_an_odd_number_of_bytes():
    assert traffic.checksum(b"\x12\x34\x56") == 0xFFFF - 0x1234 - 0x5600


def test_ipv4_header_checksum():
    # A header that is widely used as an example; its checksum is b861.
    head = bytes.fromhex("450000730000400040110000c0a80001c0a800c7")
    assert traffic.checksum(head) == 0xB861
    made = traffic.ipv4("192.168.0.1", "192.168.0.199", 17, bytes(0x73 - 20))
    assert made[:20] == head[:10] + b"\xb8\x61" + head[12:]


def test_pcap_layout():
    packet = Packet(1_500_000_002, b"abc", 9)
    made = traffic.pcap([packet], is_big=True, is_nano=True, link_type=101)
    assert made.hex(" ", -4) == (
        "a1b23c4d 00020004 00000000 00000000 0000ffff 00000065 "
        "00000001 1dcd6502 00000003 00000009 616263"
    )


def test_pcapng_layout():
    made = traffic.packet_block(Packet(0, b"abcde"), interface=1, ticks=(7 << 32) + 8)
    assert made.hex(" ", -4) == (
        "06000000 28000000 01000000 07000000 08000000 05000000 05000000 61626364 65000000 28000000"
    )


@pytest.mark.parametrize("size", [8, 1000, 1480])
def test_fragments_cover_the_packet(size):
    packet = traffic.ipv4("10.0.0.1", "10.0.0.2", 17, Random(1).randbytes(3000))
    parts = traffic.fragments4(packet, size)
    assert b"".join(part[20:] for part in parts) == packet[20:]
    assert all(traffic.checksum(part[:20]) == 0 for part in parts)


def test_conversations_number_their_bytes():
    talk = Conversation("[::1]:5", "[::2]:6", first_seq=(2**32 - 2, 9))
    syn, _, _, data, _ = [*talk.open(), *talk.send(b"hello"), talk.segment(0, b"")]
    assert syn.data[54 + 4 : 54 + 8] == b"\xff\xff\xff\xfe"
    assert data.data[54 + 4 : 54 + 8] == b"\xff\xff\xff\xff"


def test_the_same_seed_disturbs_in_the_same_way():
    talk = Conversation("10.0.0.1:5", "10.0.0.2:6", mss=10)
    packets = list(talk.send(bytes(2000)))
    faults = Faults(reorder=0.1, loss=0.1, duplicates=0.1, corruption=0.1)
    one, two = (list(disturb(packets, faults, Random(4))) for _ in range(2))
    assert one == two != packets
    assert [p.ts_ns for p in one] == sorted(p.ts_ns for p in one)
    assert list(disturb(packets, Faults(), Random(4))) == packets


def test_loss_makes_gaps():
    talk = Conversation("10.0.0.1:5", "10.0.0.2:6", mss=10)
    packets = disturb(talk.send(bytes(5000)), Faults(loss=0.1), Random(4))
    events = list(Capture(io.BytesIO(traffic.pcap(packets))))
    assert any(isinstance(event, Gap) for event in events)
