"""Where bytes come from: raw files, pcap and pcapng, packed or not → streams of bytes.

`Capture` reads; `PcapWriter`, `PcapngWriter` and `RawWriter` write; `Recorder` writes a program's
own traffic as packets. `packet_ranges` cuts one large capture into parts that can be read
independently. ``wireloom.captures.tcp`` states the rules of reassembly.
"""

from __future__ import annotations

from wireloom.captures.capture import Capture, Progress, Source
from wireloom.captures.events import (
    NO_TIME,
    Counts,
    Damage,
    Dropped,
    Event,
    Gap,
    LeftOut,
    Stream,
    StreamData,
    StreamEnd,
    Suspect,
)
from wireloom.captures.pcap import PcapWriter
from wireloom.captures.pcapng import PcapngWriter
from wireloom.captures.raw import RawWriter
from wireloom.captures.recorder import Recorder, TcpRecording
from wireloom.captures.split import PacketRange, RangeReader, packet_ranges
from wireloom.captures.tcp import PacketCounts, ReassemblyLimits

__all__ = [
    "NO_TIME",
    "Capture",
    "Counts",
    "Damage",
    "Dropped",
    "Event",
    "Gap",
    "LeftOut",
    "PacketCounts",
    "PacketRange",
    "PcapWriter",
    "PcapngWriter",
    "Progress",
    "RangeReader",
    "RawWriter",
    "ReassemblyLimits",
    "Recorder",
    "Source",
    "Stream",
    "StreamData",
    "StreamEnd",
    "Suspect",
    "TcpRecording",
    "packet_ranges",
]
