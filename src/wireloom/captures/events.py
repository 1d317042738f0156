"""What reading a capture gives, in order: bytes of streams, holes in them, ends, and damage.

Nothing is lost without an event. For every stream the bytes of its packets are in exactly one of
`StreamData`, the duplicates that `StreamEnd` counts, and `Dropped`; only of a stream that its
reader asked to skip (`Capture.skip`) no more `StreamData` comes. What belongs to no stream (damaged
records, packets that cannot be read) is a `Damage`, and packets of other protocols are counted in
a `LeftOut`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wireloom.kernel.packets.records import NO_TIME

__all__ = [
    "NO_TIME",
    "OF_CAPTURES",
    "STREAM_NAME",
    "Counts",
    "Damage",
    "Dropped",
    "Event",
    "Gap",
    "LeftOut",
    "Stream",
    "StreamData",
    "StreamEnd",
    "Suspect",
]


STREAM_NAME = r"^(tcp|udp) (\S+) > (\S+) #(\d+)(e\d+)?$"
"""Takes the name of a TCP or UDP stream apart: protocol, sender, receiver and turn. The streams of
raw captures have other names."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One direction of one connection, or a raw capture as a whole."""

    number: int
    """Unique within one reading of a list of captures."""
    name: str
    """The same for every reading of the same captures: ``tcp 10.0.0.1:80 > 10.0.0.2:1234 #1``."""
    protocol: str
    """``tcp``, ``udp`` or ``raw``."""
    source: str
    """The capture where it starts; it may continue in later ones."""
    src: str = ""
    """Address of the sender."""
    src_port: int = 0
    dst: str = ""
    """Address of the receiver."""
    dst_port: int = 0
    turn: int = 1
    """Which stream between these ports this is: 1, then 2, … as the ports are reused."""


@dataclass(frozen=True, slots=True)
class StreamData:
    """Consecutive bytes of a stream."""

    stream: Stream
    offset: int
    """Where they start in the stream."""
    data: memoryview
    """The bytes; a buffer of their own, which may be kept."""
    mark_offsets: memoryview
    """Stream offsets (int64) where packets start, ascending; for UDP, where datagrams start."""
    mark_times: memoryview
    """Capture times (int64, nanoseconds since 1970) of those packets, or `NO_TIME`."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a stream that were never captured."""

    stream: Stream
    offset: int
    length: int
    ts_before_ns: int
    """Time of the last packet before the hole."""
    ts_after_ns: int
    """Time of the first packet behind it; `NO_TIME` if there is none."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Bytes of a stream have a bad checksum, while others in the stream are good.

    They follow, unless they are the first ones: then this comes with the next good ones.
    """

    stream: Stream
    offset: int
    length: int
    ts_ns: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Captured bytes that were not used for their stream."""

    stream: Stream
    offset: int
    """Where the stream was when that was clear."""
    ts_ns: int
    code: str
    """``stray``, ``checksum``, ``before_start``, ``late`` or ``conflict``."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the payload bytes of a stream went: captured = delivered + duplicate + dropped."""

    packets: int = 0
    """Packets with payload."""
    captured: int = 0
    """Payload bytes of all of them."""
    delivered: int = 0
    """Bytes given out as `StreamData`, or skipped."""
    duplicate: int = 0
    """Bytes captured again: retransmissions and overlaps."""
    dropped: int = 0
    """Bytes given out as `Dropped`."""
    missing: int = 0
    """Bytes of gaps; not captured, so not part of the sum."""
    conflict: int = 0
    """Dropped bytes with a good checksum, where bytes with a bad one had been delivered before."""
    bad_checksums: int = 0
    """Packets with a bad checksum, where those of others are good."""

    @property
    def is_balanced(self) -> bool:
        """Whether every captured byte is accounted for."""
        return self.captured == self.delivered + self.duplicate + self.dropped


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """A stream has ended."""

    stream: Stream
    length: int
    """Bytes of the stream, holes included."""
    reason: str
    """``fin``, ``reset``, ``reused`` (a new SYN), ``restarted`` (foreign sequence numbers),
    ``evicted`` (too many flows) or ``end`` (of the captures)."""
    counts: Counts


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a capture that could not be read."""

    source: str
    offset: int
    """Where it starts in the capture, after decompression."""
    length: int
    layer: str
    """``compression``, ``container``, ``packet`` or ``fragment``."""
    code: str
    """Short machine-readable cause."""
    reason: str
    """The cause in words."""
    data: bytes = field(default=b"", repr=False)
    """The bytes; one event has at most a megabyte of them."""
    ts_ns: int = NO_TIME


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Packets of a capture that carry nothing for a stream. It comes when the captures are over."""

    source: str
    kind: str
    """``not_ip``, ``other_protocol`` or ``encapsulated``: in what is not read."""
    packets: int
    length: int
    """Their captured bytes, headers included."""


Event = StreamData | Gap | Suspect | Dropped | StreamEnd | Damage | LeftOut

OF_CAPTURES = (Damage, LeftOut)
"""Events of captures as a whole: of several readers that share the work, one gives them."""
