"""Mutants and noise: only events come out, all bytes are accounted for, both kernels agree."""

from __future__ import annotations

import io
from random import Random

import pytest

from wireloom import kernel as kernels
from wireloom.captures import Capture, Damage, ReassemblyLimits, StreamData
from wireloom.generate import traffic
from wireloom.generate.traffic import Conversation, Faults, Packet, disturb
from wireloom.testing.mutations import Mutator

TIGHT = ReassemblyLimits(
    max_flow_packets=4, max_flow_bytes=4000, max_bytes=6000, max_flows=6, max_fragment_bytes=3000
)


def traffic_of(seed: int) -> list[Packet]:
    random = Random(seed)
    packets: list[Packet] = []
    for number in range(3):
        link = "ethernet"
        client, server = f"10.0.0.{number}:1", "10.0.0.9:2"
        if number == 1:
            client, server = "[2001:db8::1]:1", "[2001:db8::2]:2"
        talk = Conversation(client, server, link=link, mss=random.choice([20, 200, 1400]))
        talk.now_ns += number
        data = random.randbytes(random.choice([100, 2000]))
        packets += [*talk.open(), *talk.send(data), *talk.answer(data[:50]), *talk.close()]
    whole = traffic.ip(
        "10.0.0.1", "10.0.0.2", 17, traffic.udp("10.0.0.1", "10.0.0.2", 1, 2, bytes(900))
    )
    packets += [
        Packet(packets[-1].ts_ns, traffic.ethernet(p)) for p in traffic.fragments4(whole, 400)
    ]
    packets.sort(key=lambda packet: packet.ts_ns)
    return list(disturb(packets, Faults(reorder=0.1, loss=0.05, duplicates=0.1), random))


def samples() -> list[bytes]:
    found = []
    for seed in range(6):
        packets = traffic_of(seed)
        found.append(traffic.pcap(packets, is_big=bool(seed & 1), is_nano=bool(seed & 2)))
        found.append(traffic.pcapng(packets, is_big=bool(seed & 1), is_nano=bool(seed & 2)))
    return found


MUTATOR = Mutator(samples(), seed=3)


@pytest.mark.parametrize("part", range(4))
def test_mutants(read, part):
    for index, mutant in MUTATOR.mutants(part * 60, part * 60 + 60):
        results = [
            read(mutant, limits=TIGHT),
            read(mutant, limits=TIGHT, chunk_bytes=111, batch_packets=5),
        ]
        assert results[0].same() == results[1].same(), index


def test_both_kernels_say_the_same():
    if not kernels.is_compiled():
        pytest.skip("the kernel is not compiled")
    for index, mutant in MUTATOR.mutants(1000, 1150):
        said = []
        for kernel in (kernels.load(), kernels.interpreted()):
            capture = Capture(io.BytesIO(mutant), limits=TIGHT, kernel=kernel)
            said.append([show(event) for event in capture])
        assert said[0] == said[1], index


def show(event: object) -> object:
    if isinstance(event, StreamData):
        marks = list(event.mark_offsets), list(event.mark_times)
        return event.stream, event.offset, bytes(event.data), marks
    return event


@pytest.mark.parametrize("head", [b"", traffic.pcap_header(), traffic.section_block()])
@pytest.mark.parametrize("seed", range(5))
def test_noise(read, head, seed):
    random = Random(seed)
    noise = (
        random.randbytes(3000)
        if seed % 2
        else bytes(random.choice(b"\0\x01\x06") for _ in range(3000))
    )
    result = read(head + noise)
    if head:
        packets = sum(s.counts.captured for s in result.streams.values())
        assert packets + sum(d.length for d in result.damage) <= len(noise)


@pytest.mark.parametrize("make", [traffic.pcap, traffic.pcapng])
def test_one_flipped_bit_costs_no_other_packet(read, make):
    """The bytes of packets that no flip touched are all delivered, at their places."""
    random = Random(9)
    data = random.randbytes(6000)
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2", first_seq=(random.randrange(2**32), 0), mss=100)
    packets = [*talk.open(), *talk.send(data)]
    file = make(packets)
    starts = [file.index(p.data) for p in packets]
    name = "tcp 10.0.0.1:1 > 10.0.0.2:2 #1"
    for _ in range(150):
        at = random.randrange(starts[4] - 32, len(file))
        flipped = bytearray(file)
        flipped[at] ^= 1 << random.randrange(8)
        result = read(bytes(flipped))
        # Which packet was hit? One whose record or block header was may be lost as well.
        hit = max(n for n, start in enumerate(starts) if start - 32 <= at)
        hurt = {hit - 1, hit, hit + 1} if make is traffic.pcap else {hit - 1, hit}
        stream = result.streams[name]
        for number, packet in enumerate(packets[4:], start=4):
            if number in hurt:
                continue
            place = (number - 3) * 100
            payload = packet.data[54:]
            assert stream.data[place : place + len(payload)] == payload, (at, number)


def test_everything_is_an_event_even_for_garbage_in_gzip():
    packed = b"\x1f\x8b\x08" + Random(1).randbytes(500)
    events = list(Capture(io.BytesIO(packed)))
    assert any(isinstance(event, Damage) for event in events)
