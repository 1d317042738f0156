"""What the tests of captures share: reading with either kernel, and one view of the result."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest

from wireloom import kernel as kernels
from wireloom.captures import (
    Capture,
    Counts,
    Damage,
    Dropped,
    Gap,
    LeftOut,
    ReassemblyLimits,
    StreamData,
    StreamEnd,
    Suspect,
)


@dataclass
class Seen:
    """All that was said about one stream; equal for every chunking of the same captures."""

    source: str = ""
    data: bytearray = field(default_factory=bytearray)
    """Delivered bytes, with zeros in the gaps."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    gap_times: list[tuple[int, int]] = field(default_factory=list)
    drops: list[tuple[str, bytes]] = field(default_factory=list)
    suspects: list[tuple[int, int]] = field(default_factory=list)
    end: str = ""
    length: int = -1
    counts: Counts = field(default_factory=Counts)


@dataclass
class Result:
    """A capture, read to its end."""

    streams: dict[str, Seen]
    damage: list[Damage]
    left_out: dict[str, tuple[int, int]]
    """Packets and bytes in no stream, by kind."""
    capture: Capture

    @property
    def only(self) -> Seen:
        (stream,) = self.streams.values()
        return stream

    def same(self) -> tuple[object, ...]:
        """What must not depend on how the file was read."""
        damage: list[tuple[object, ...]] = []
        for found in self.damage:
            # Long damage is told in pieces; joined, they are the same.
            last = damage[-1] if damage else None
            key = (found.source, found.layer, found.code, found.reason)
            if last and found.length and last[0] == key and last[1] + last[2] == found.offset:  # type: ignore[operator]
                damage[-1] = (key, last[1], last[2] + found.length, last[3] + found.data)  # type: ignore[operator]
            else:
                damage.append((key, found.offset, found.length, found.data))
        ordered = sorted(damage, key=repr)
        return self.streams, ordered, self.left_out, self.capture.packets


def read_events(capture: Capture) -> Result:
    """Read all events, checking what must hold for every one."""
    streams: dict[str, Seen] = {}
    damage: list[Damage] = []
    left_out: dict[tuple[str, str], tuple[int, int]] = {}
    numbers: dict[int, str] = {}
    for event in capture:
        if isinstance(event, Damage):
            assert len(event.data) in (0, event.length)
            damage.append(event)
            assert not left_out, "the captures are over"
            continue
        if isinstance(event, LeftOut):
            assert (event.source, event.kind) not in left_out
            left_out[event.source, event.kind] = event.packets, event.length
            continue
        stream = event.stream
        assert numbers.setdefault(stream.number, stream.name) == stream.name
        seen = streams.setdefault(stream.name, Seen(stream.source))
        assert seen.end == "", "nothing comes after the end"
        if isinstance(event, StreamData):
            assert event.offset == len(seen.data)
            marks = list(zip(event.mark_offsets, event.mark_times, strict=True))
            assert all(event.offset <= at for at, _ in marks)
            assert stream.protocol == "raw" or marks[0][0] == event.offset
            seen.marks += marks
            seen.data += event.data
        elif isinstance(event, Gap):
            assert event.offset == len(seen.data)
            assert event.length > 0
            seen.gaps.append((event.offset, event.length))
            seen.gap_times.append((event.ts_before_ns, event.ts_after_ns))
            seen.data += bytes(event.length)
        elif isinstance(event, Suspect):
            # Only the first bytes of a stream are told of afterwards.
            assert event.offset == len(seen.data) or event.offset + event.length <= len(seen.data)
            seen.suspects.append((event.offset, event.length))
        elif isinstance(event, Dropped):
            seen.drops.append((event.code, event.data))
        else:
            assert isinstance(event, StreamEnd)
            seen.end, seen.length, seen.counts = event.reason, event.length, event.counts
    for seen in streams.values():
        check_counts(seen)
    packets = capture.packets
    kinds = (packets.tcp, packets.udp, packets.other, packets.not_ip, packets.fragments)
    assert packets.packets == sum(kinds) + packets.tunnel + packets.damaged
    by_kind: dict[str, tuple[int, int]] = {}
    for (_, kind), (number, size) in left_out.items():
        before = by_kind.get(kind, (0, 0))
        by_kind[kind] = before[0] + number, before[1] + size
    return Result(streams, damage, by_kind, capture)


def check_counts(seen: Seen) -> None:
    """The counts of a stream are those of its events, and they sum up."""
    missing = sum(length for _, length in seen.gaps)
    dropped = sum(len(data) for _, data in seen.drops)
    assert seen.end
    assert seen.length == len(seen.data)
    assert seen.counts.is_balanced, seen.counts
    assert seen.counts.missing == missing
    assert seen.counts.dropped == dropped
    assert seen.counts.delivered == len(seen.data) - missing


Kernel = ModuleType | SimpleNamespace
Read = Callable[..., Result]


@pytest.fixture(scope="session")
def collect() -> Callable[[Capture], Result]:
    """Reads all events of whatever gives events and counts packets."""
    return read_events


@pytest.fixture(params=["compiled", "interpreted"], scope="session")
def kernel(request: pytest.FixtureRequest) -> Kernel:
    if request.param == "interpreted":
        return kernels.interpreted()
    if not kernels.is_compiled():
        pytest.skip("the kernel is not compiled")
    return kernels.load()


@pytest.fixture(scope="session")
def read(kernel: Kernel) -> Read:
    """Reads files given as bytes, with the kernel under test."""

    def run(*files: bytes, limits: ReassemblyLimits | None = None, **options: int) -> Result:
        sources = [io.BytesIO(file) for file in files]
        for number, source in enumerate(sources):
            source.name = f"file{number}"  # type: ignore[attr-defined]
        return read_events(Capture(sources, limits=limits, kernel=kernel, **options))  # type: ignore[arg-type]

    return run
