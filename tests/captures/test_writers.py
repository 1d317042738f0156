"""What the writers write, the readers and the byte-by-byte builder agree on."""

from __future__ import annotations

import io
import struct
from random import Random

import pytest

from wireloom.captures import PcapngWriter, PcapWriter, RawWriter, Recorder
from wireloom.errors import EncodeError
from wireloom.generate import traffic
from wireloom.generate.traffic import Conversation

TS = 1_700_000_000_123_456_789
DATA = Random(2).randbytes(50_000)


@pytest.mark.parametrize("is_nano", [False, True])
@pytest.mark.parametrize("is_big", [False, True])
def test_pcap_is_as_built_by_hand(is_big, is_nano):
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", start_ns=TS)
    packets = [*talk.open(), *talk.send(b"hello")]
    packets.append(packets[-1].cut(50))
    file = io.BytesIO()
    writer = PcapWriter(file, is_nano=is_nano, is_big=is_big, snap_length=65535)
    for packet in packets:
        writer.write(packet.ts_ns, packet.data, packet.length)
    assert file.getvalue() == traffic.pcap(packets, is_big=is_big, is_nano=is_nano)


def test_pcap_cuts_what_is_too_long():
    file = io.BytesIO()
    PcapWriter(file, snap_length=10).write(TS, bytes(30))
    assert struct.unpack_from("<II", file.getvalue(), 32) == (10, 30)


@pytest.mark.parametrize("is_big", [False, True])
def test_pcapng_is_read_back(read, is_big):
    file = io.BytesIO()
    writer = PcapngWriter(file, is_big=is_big)
    cooked = writer.add_interface(113, "any")
    talks = [
        Conversation("10.0.0.1:1", "10.0.0.2:2", start_ns=TS),
        Conversation("10.0.0.3:1", "10.0.0.2:2", start_ns=TS, link="cooked"),
    ]
    for talk, interface in zip(talks, (0, cooked), strict=True):
        for packet in [*talk.open(), *talk.send(DATA)]:
            writer.write(packet.ts_ns, packet.data, interface=interface)
    result = read(file.getvalue())
    assert [bytes(s.data) for s in result.streams.values()] == [DATA, DATA]
    first = next(iter(result.streams.values()))
    assert first.marks[0] == (0, TS + 3_000_000)


@pytest.mark.parametrize("writer", [PcapWriter, PcapngWriter])
@pytest.mark.parametrize("ts", [-1, 2**64 * 10])
def test_times_that_do_not_fit(writer, ts):
    with pytest.raises(EncodeError):
        writer(io.BytesIO()).write(ts, b"")


def test_an_interface_that_was_not_added():
    with pytest.raises(EncodeError):
        PcapngWriter(io.BytesIO()).write(TS, b"", interface=1)


def test_raw_writes_bytes_as_they_are(read):
    file = io.BytesIO()
    writer = RawWriter(file)
    writer.write(b"one")
    writer.write(b"two")
    assert read(file.getvalue()).only.data == b"onetwo"


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (("10.0.0.1", 1000), ("10.0.0.2", 80)),
        (("2001:db8::1", 1000), ("2001:db8::2", 80)),
        (("fe80::1%eth0", 1000), ("fe80::2", 80)),
        (("::1", 1000), ("127.0.0.1", 80)),
    ],
)
def test_recorded_streams_come_back(read, client, server):
    file = io.BytesIO()
    recorder = Recorder(file)
    talk = recorder.connect(client, server, TS)
    for at in range(0, len(DATA), 20_001):
        talk.from_client(DATA[at : at + 20_001], TS + at)
        talk.from_server(DATA[at : at + 20_001][::-1], TS + at + 1)
    talk.close(TS)
    result = read(file.getvalue())
    up, down = result.streams.values()
    assert up.data == DATA
    assert len(down.data) == len(DATA)
    assert (up.end, down.end) == ("fin", "fin")
    assert result.damage == []


def test_recorded_packets_have_right_checksums():
    file = io.BytesIO()
    recorder = Recorder(file)
    recorder.datagram(("10.0.0.1", 1), ("10.0.0.2", 2), b"odd", TS)
    recorder.connect(("10.0.0.1", 1), ("10.0.0.2", 2), TS).from_client(b"data!", TS)
    udp = traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, b"odd")
    assert traffic.ipv4("10.0.0.1", "10.0.0.2", 17, udp) in file.getvalue()
    tcp = traffic.tcp("10.0.0.1", "10.0.0.2", 1, 2, 1, b"data!", flags=24, ack=1)
    assert traffic.ipv4("10.0.0.1", "10.0.0.2", 6, tcp) in file.getvalue()


def test_recorded_datagrams_come_back(read):
    file = io.BytesIO()
    recorder = Recorder(file)
    for data in (b"one", b"", b"three"):
        recorder.datagram(("10.0.0.1", 1), ("10.0.0.255", 2), data, TS)
    stream = read(file.getvalue()).only
    assert stream.data == b"onethree"
    assert [at for at, _ in stream.marks] == [0, 3, 3]


def test_a_name_is_no_address():
    with pytest.raises(EncodeError, match="localhost"):
        Recorder(io.BytesIO()).connect(("localhost", 1), ("10.0.0.1", 2), TS)
    with pytest.raises(EncodeError):
        Recorder(io.BytesIO()).datagram(("10.0.0.2", 1), ("10.0.0.1", 2), bytes(1 << 16), TS)
