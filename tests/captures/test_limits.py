"""Limits: held bytes, flows, and what a hostile capture may cost."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Iterator
from random import Random
from types import FrameType
from typing import Any

import pytest

from wireloom import kernel as kernels
from wireloom.captures import Capture, ReassemblyLimits, StreamEnd
from wireloom.generate import traffic
from wireloom.generate.traffic import ACK, SYN, Packet, ethernet, ipv4, tcp

KERNEL = "wireloom.kernel."


def frame(flow: int, seq: int, payload: bytes, flags: int = ACK) -> Packet:
    src = f"10.{flow >> 16 & 255}.{flow >> 8 & 255}.{flow & 255}"
    made = tcp(src, "172.16.0.1", 1000, 80, seq, payload, flags=flags)
    return Packet(traffic.START_NS, ethernet(ipv4(src, "172.16.0.1", 6, made)))


def test_held_bytes_of_one_flow_are_limited(read):
    limits = ReassemblyLimits(max_flow_bytes=10_000)
    packets = [frame(1, 0, b"", SYN)] + [frame(1, 2 + 100 * n, b"x" * 100) for n in range(200)]
    stream = read(traffic.pcap(packets), limits=limits).only
    # The hole was given up once 10,000 bytes had to wait, not at the end.
    assert stream.gaps == [(0, 1)]
    assert stream.length == 20_001


def test_held_bytes_of_all_flows_are_limited(read):
    limits = ReassemblyLimits(max_bytes=20_000)
    packets = []
    for flow in range(30):
        packets.append(frame(flow, 0, b"", SYN))
        packets.append(frame(flow, 101, bytes([flow]) * 1000))
    # The first flows had to give up their holes, so that this comes too late for them.
    packets += [frame(flow, 1, b"y" * 100) for flow in range(30)]
    file = traffic.pcap(packets)
    result = read(file, limits=limits)
    late = [n for n, s in enumerate(result.streams.values()) if s.drops]
    assert late == list(range(len(late)))
    assert 0 < len(late) < 30
    assert all(s.gaps == [(0, 100)] for s in list(result.streams.values())[: len(late)])
    assert all(s.gaps == [] for s in list(result.streams.values())[len(late) :])
    assert read(file, limits=limits, chunk_bytes=99).same() == result.same()


def test_silent_flows_are_evicted_and_named_apart(read):
    limits = ReassemblyLimits(max_flows=8)
    packets = [frame(flow, 1, bytes([flow])) for flow in range(20)]
    packets += [frame(0, 2, b"again")]
    file = traffic.pcap(packets)
    result = read(file, limits=limits)
    names = list(result.streams)
    assert len(names) == 21
    assert names[0] == "tcp 10.0.0.0:1000 > 172.16.0.1:80 #1"
    assert names[-1].startswith("tcp 10.0.0.0:1000 > 172.16.0.1:80 #1e")
    assert result.capture.evicted == sum(s.end == "evicted" for s in result.streams.values())
    assert result.capture.evicted >= 12
    for chunk, batch in ((50, 1000), (1 << 20, 1), (1 << 20, 7)):
        assert read(file, limits=limits, chunk_bytes=chunk, batch_packets=batch).same() == (
            result.same()
        )


def test_flows_that_stay_go_on_after_an_eviction(read):
    limits = ReassemblyLimits(max_flows=8)
    packets = [frame(999, 1, b"a"), frame(999, 3, b"c")]
    for flow in range(40):
        packets.append(frame(flow, 1, b"x"))
        packets.append(frame(999, 4 + flow, b"d"))
    packets.append(frame(999, 2, b"b"))
    result = read(traffic.pcap(packets), limits=limits)
    stream = result.streams["tcp 10.0.3.231:1000 > 172.16.0.1:80 #1"]
    assert stream.data == b"abc" + b"d" * 40
    assert stream.gaps == []


def test_many_flows_grow_the_tables(read):
    packets = [frame(flow, 1 + turn, b"x") for turn in range(3) for flow in range(3000)]
    result = read(traffic.pcap(packets), batch_packets=2000)
    assert len(result.streams) == result.capture.flows == 3000
    assert all(stream.data == b"xxx" for stream in result.streams.values())
    assert result.capture.evicted == 0


def test_what_is_held_can_be_watched(kernel):
    packets = [frame(1, 0, b"", SYN), frame(1, 2, b"held"), frame(2, 1, b"x")]
    capture = Capture(io.BytesIO(traffic.pcap(packets)), kernel=kernel)
    events = iter(capture)
    next(events)
    assert capture.held_bytes == 4 + 64
    assert capture.progress.done > 0
    for _ in events:
        pass
    assert capture.held_bytes == 0


class Endless(io.RawIOBase):
    """A capture made while it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            try:
                self._left = next(self._parts)
            except StopIteration:
                return 0
        data, self._left = self._left[: len(room)], self._left[len(room) :]
        room[: len(data)] = data
        return len(data)


def holes_everywhere(count: int) -> Iterator[bytes]:
    """Every segment is behind a hole, in ever more flows."""
    yield traffic.pcap_header()
    payload = bytes(300)
    for number in range(count):
        flow = number % 1000
        packet = frame(flow, 1 + (number // 1000) * 1000, payload)
        yield traffic.pcap_record(packet)


@pytest.mark.slow
def test_memory_stays_bounded_when_every_segment_is_behind_a_hole(kernel):
    limits = ReassemblyLimits(max_bytes=1 << 17, max_flows=512)
    source = Endless(holes_everywhere(3_000))
    capture = Capture(source, limits=limits, chunk_bytes=1 << 18, kernel=kernel)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        ends = sum(isinstance(event, StreamEnd) for event in capture)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ends
    assert peak < 48 << 20


def steps_of(packets: list[Packet]) -> int:
    """Lines of the kernel that run for these packets: what its time depends on, without a clock."""
    steps = 0

    def inside(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return inside

    def enter(frame: FrameType, event: str, arg: object) -> Any:
        return inside if frame.f_globals["__name__"].startswith(KERNEL) else None

    capture = Capture(io.BytesIO(traffic.pcap(packets)), kernel=kernels.interpreted())
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        for _ in capture:
            pass
    finally:
        sys.settrace(before)
    return steps


def arrived(order: str, count: int) -> list[Packet]:
    """Segments of one stream in some order, behind a hole that is never filled."""
    places = list(range(1, count + 1))
    if order == "backwards":
        places.reverse()
    elif order == "outside in":
        places = [p for pair in zip(places, reversed(places), strict=True) for p in pair][:count]
    elif order == "random":
        Random(1).shuffle(places)
    else:
        places = places[::2] + places[1::2]
    return [frame(1, 0, b"", SYN)] + [frame(1, 1 + 10 * p, b"x" * 10) for p in places]


@pytest.mark.parametrize("order", ["backwards", "outside in", "random", "every second"])
def test_any_order_of_arrival_costs_about_the_same(order):
    few, many = steps_of(arrived(order, 150)), steps_of(arrived(order, 600))
    # Four times the packets: four times the work, and some for a deeper tree; not sixteen times.
    assert few > 150
    assert many < 6 * few
