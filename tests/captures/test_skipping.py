"""Streams that are skipped: everything is told of them but their bytes."""

from __future__ import annotations

import io
from random import Random

import pytest

from wireloom.captures import Capture, Dropped, Gap, ReassemblyLimits, StreamData, Suspect
from wireloom.generate import traffic
from wireloom.generate.traffic import ACK, FIN, SYN, Packet, ethernet, ip, tcp, udp

_SEGMENTS = 60
_SIZE = 100


def _talk(random: Random, host: int, turns: int) -> list[Packet]:
    """The packets of connections that use the same ports, with faults of all kinds."""
    src, dst = f"10.0.0.{host}", "192.0.2.1"
    found: list[Packet] = []
    for turn in range(turns):
        seq = 1 + 5_000_000 * turn
        sent = []
        for at in range(0, _SEGMENTS * _SIZE, _SIZE):
            made = tcp(src, dst, 1000, 80, seq + at, random.randbytes(_SIZE), flags=ACK)
            copies = [made] * random.choice((0, 1, 1, 1, 1, 1, 1, 1, 2))
            if random.random() < 0.08:
                # One with a wrong checksum, often without a right copy after it.
                copies = [made[:-1] + bytes([made[-1] ^ 1]), *copies[: random.randrange(2)]]
            sent += [Packet(traffic.START_NS, ethernet(ip(src, dst, 6, each))) for each in copies]
        for _ in range(6):
            place = random.randrange(len(sent) - 1)
            sent[place], sent[place + 1] = sent[place + 1], sent[place]
        ends = [tcp(src, dst, 1000, 80, seq - 1, b"", flags=SYN)]
        ends.append(tcp(src, dst, 1000, 80, seq + _SEGMENTS * _SIZE, b"", flags=FIN | ACK))
        first, last = (Packet(traffic.START_NS, ethernet(ip(src, dst, 6, each))) for each in ends)
        found += [first, *sent, last]
    return found


def _file(seed: int) -> bytes:
    random = Random(seed)
    talks = [_talk(random, host, 3) for host in range(4)]
    for number in range(2):
        host = f"10.0.1.{number}"
        datagrams = [udp(host, "192.0.2.1", 53, 53, random.randbytes(50)) for _ in range(90)]
        made = (ethernet(ip(host, "192.0.2.1", 17, each)) for each in datagrams)
        talks.append([Packet(traffic.START_NS, each) for each in made])
    packets = []
    while any(talks):
        talk = random.choice([each for each in talks if each])
        packets += [talk.pop(0) for _ in range(min(len(talk), 3))]
    return traffic.pcap(packets)


@pytest.mark.parametrize("seed", range(6))
def test_everything_but_the_bytes_is_given(seed, kernel):
    file = _file(seed)
    options = {"batch_packets": 25, "kernel": kernel}
    every = list(Capture(io.BytesIO(file), **options))
    skipped: set[int] = set()
    capture = Capture(io.BytesIO(file), **options)
    found = []
    for batch in capture.batches():
        before = set(skipped)
        for event in batch:
            found.append(event)
            if isinstance(event, StreamData):
                assert event.stream.number not in before
                if event.stream.number % 2:
                    skipped.add(event.stream.number)
                    capture.skip(event.stream)
    assert skipped

    def rest(events):
        return [
            event
            for event in events
            if not isinstance(event, StreamData) or event.stream.number not in skipped
        ]

    assert rest(found) == rest(every)
    assert len(found) < len(every)
    kinds = {type(event) for event in found if getattr(event, "stream", None)}
    if seed == 0:
        assert {Gap, Dropped, Suspect} <= kinds


def test_a_skipped_flow_keeps_its_place_after_an_eviction(kernel):
    def packet(host, seq):
        made = tcp(f"10.0.0.{host}", "192.0.2.1", 1000, 80, seq, b"x", flags=ACK)
        return Packet(traffic.START_NS, ethernet(ip(f"10.0.0.{host}", "192.0.2.1", 6, made)))

    packets = [packet(host, 1) for host in (1, 2)]
    for turn in range(40):
        packets += [packet(100 + turn, 1), packet(2, 2 + turn), packet(1, 2 + turn)]
    limits = ReassemblyLimits(max_flows=8)
    capture = Capture(
        io.BytesIO(traffic.pcap(packets)), limits=limits, batch_packets=2, kernel=kernel
    )
    sizes: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for event in capture:
        host = event.stream.src
        if not isinstance(event, StreamData):
            lengths[host] = event.length
            continue
        sizes[host] = sizes.get(host, 0) + len(event.data)
        if capture.evicted and host == "10.0.0.2":
            capture.skip(event.stream)
    assert capture.evicted
    assert sizes["10.0.0.1"] == lengths["10.0.0.1"] == lengths["10.0.0.2"] == 41
    assert 0 < sizes["10.0.0.2"] < 41


def test_streams_that_are_over_or_raw_are_not_skipped(kernel):
    for file in (_file(1), b"no packets, but bytes"):
        capture = Capture(io.BytesIO(file), kernel=kernel)
        events = list(capture)
        for event in events:
            capture.skip(event.stream)
        assert sum(len(event.data) for event in events if isinstance(event, StreamData))
