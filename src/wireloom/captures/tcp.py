"""Packets → streams: drives the kernel's reassembly and keeps its memory within limits.

The policy, which the kernel applies packet by packet, so that the result does not depend on how the
capture is cut into chunks:

* **Streams.** One per direction. A SYN starts one at the byte behind it; without a SYN it starts
  with the first payload. Another SYN, or three segments in a row far away from what is expected or
  before its SYN, end it and start the next one between the same ports (``#2``); the first two of
  the three are set aside until then, and dropped as ``stray`` if no third comes. FIN and RST close
  it; what comes after that between the same ports is a new stream. VLAN, tunnel and interface make
  no difference: the same segment captured twice is one segment and a duplicate.
* **Keep-alive.** A zero byte alone, not pushed, with which a capture starts is no data but the
  byte before the stream; dropped as ``before_start``.
* **Tunnels.** Packets in PPP, PPPoE, MPLS, GRE (ERSPAN too), IP in IP, EtherIP and behind
  authentication headers are read like others; those in UDP if `ReassemblyLimits.tunnels` says so.
* **Order.** The first capture of a byte wins. Segments behind a hole are held until it is filled.
  The hole is given up and becomes a `Gap` when `ReassemblyLimits` are reached or the stream ends;
  data that arrives for it later is `Dropped` as ``late``. Nothing is ever made up to fill one.
* **Cut packets.** What the capture program cut off a packet is a gap at once.
* **One way.** Acknowledgements are not looked at, so one direction is enough, at the same cost.
* **Damage.** In a stream whose SYN or first segments have right checksums, a segment with a wrong
  one waits for a right copy, which then takes its place; the wrong one is dropped as ``checksum``.
  If none comes within the limits, it is used after all where its place is certain, next to other
  bytes of the stream, and reported as `Suspect`. A right copy that comes even later is dropped as
  ``conflict`` and counted. A datagram with a wrong checksum is used and reported at once.
  `Counts.bad_checksums` counts all of them.
* **Network cards** join segments and leave checksums to be filled in (GRO, LRO, TSO). After a wrong
  checksum in a packet longer than an MTU, one that is zero or only the pseudo-header's, or when
  more than a quarter are wrong, the stream's checksums mean nothing and nothing is dropped for
  them.
* **First segments.** Where only a segment with a wrong checksum shows where a stream is (the first
  one, or one away from its SYN), the next payload decides: if its checksum is right and it does not
  continue that segment, a new stream starts with it.
* **Memory.** Held bytes are limited per flow and in total, and so is the number of flows: if there
  are too many, the half that has been silent longest is ended (``evicted``).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from wireloom.captures.events import (
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
from wireloom.captures.fragments import Fragments
from wireloom.errors import OptionError
from wireloom.kernel import Kernel
from wireloom.kernel.packets import packetrows as codes
from wireloom.kernel.packets import streamevents as kinds
from wireloom.kernel.packets import tcp as reasons
from wireloom.kernel.packets import tunnels as bits

__all__ = ["PacketCounts", "Reassembler", "ReassemblyLimits"]

_RAW_IP = 101
_NOTHING = memoryview(b"")
_DATA: int = kinds.PIECE_DATA
_DROPS = {
    kinds.DROP_STRAY: "stray",
    kinds.DROP_CHECKSUM: "checksum",
    kinds.DROP_BEFORE: "before_start",
    kinds.DROP_LATE: "late",
    kinds.DROP_CONFLICT: "conflict",
}
_ENDS = {
    kinds.END_FIN: "fin",
    kinds.END_RESET: "reset",
    kinds.END_SYN: "reused",
    kinds.END_RESTART: "restarted",
    kinds.END_EVICTED: "evicted",
    kinds.END_CAPTURE: "end",
}
_NO_STREAM = {
    codes.PACKET_NOT_IP: "not_ip",
    codes.PACKET_OTHER: "other_protocol",
    codes.PACKET_TUNNEL: "encapsulated",
}
_TUNNELS = {
    "vxlan": bits.TUNNEL_VXLAN,
    "geneve": bits.TUNNEL_GENEVE,
    "gtp": bits.TUNNEL_GTP,
}
_FAULTS = {
    codes.PACKET_BAD_LINK: ("link", "the link header cannot be read"),
    codes.PACKET_BAD_IP: ("ip", "the IP header cannot be read"),
    codes.PACKET_BAD_TCP: ("tcp", "the TCP header cannot be read"),
    codes.PACKET_BAD_UDP: ("udp", "the UDP header cannot be read"),
    codes.PACKET_CUT: ("cut", "too little was captured to read the headers"),
}


@dataclass(frozen=True, slots=True)
class ReassemblyLimits:
    """How much reassembly may hold, and for how long."""

    max_flow_packets: int = 2048
    """Segments held behind the holes of one stream: about one large TCP window."""
    max_flow_bytes: int = 4 << 20
    """Bytes held for one stream, plus 64 for each segment."""
    max_bytes: int = 64 << 20
    """Bytes held in total; above that the oldest holes are given up until half is left."""
    max_wait_ns: int = 60_000_000_000
    """How long a hole may hold up a stream, in capture time: longer than retransmissions take."""
    max_ahead: int = 1 << 30
    """How far ahead of the expected sequence number one is still believed, in bytes: the largest
    window that TCP has."""
    max_behind: int = 64 << 20
    """How far behind it one still counts as a retransmission, in bytes."""
    max_flows: int = 1 << 18
    """Flows known at a time, some 300 bytes each."""
    max_fragment_bytes: int = 4 << 20
    """Bytes of IP fragments that wait for others, plus 256 for each."""
    max_fragment_packets: int = 1024
    """Packets that wait for fragments."""
    max_fragment_wait_ns: int = 30_000_000_000
    """After this time the same identification is another packet (RFC 791: 15 s, hosts: 30 s)."""
    tunnels: tuple[str, ...] = ()
    """Tunnels that are read inside UDP datagrams, on their usual ports: ``vxlan``, ``geneve``,
    ``gtp``. Other encapsulations need no option."""

    def __post_init__(self) -> None:
        """Check them.

        Raises:
            OptionError: there is no such tunnel.
        """
        for name in self.tunnels:
            if name not in _TUNNELS:
                raise OptionError(f"there is no tunnel {name!r}; there are {', '.join(_TUNNELS)}")

    @property
    def tunnel_bits(self) -> int:
        """The tunnels, for the kernel."""
        return sum(_TUNNELS[name] for name in set(self.tunnels))


@dataclass(slots=True)
class PacketCounts:
    """What the packets of the captures were."""

    packets: int = 0
    """All; the sum of the rest."""
    tcp: int = 0
    udp: int = 0
    other: int = 0
    """IP packets of other protocols."""
    not_ip: int = 0
    tunnel: int = 0
    """Packets that carry others unread: encrypted, compressed, or in a tunnel not asked for."""
    fragments: int = 0
    """IP fragments; the packets they make are not counted again."""
    damaged: int = 0
    """Packets whose headers cannot be read; each is a `Damage`."""


class Reassembler:
    """Turns batches of packets into events; one for all files of a capture."""

    def __init__(
        self, kernel: Kernel, limits: ReassemblyLimits, batch: int, part: tuple[int, int] = (0, 1)
    ) -> None:
        self._kernel: Any = kernel
        self._limits = limits
        self._part = part
        self.counts = PacketCounts()
        self.evicted = 0
        """Streams ended because there were too many flows."""
        self._batch = batch
        self._room = 0  # packets that there is room for: a small file needs little
        self._pieces: Any = self._kernel.StreamEvents(1, 1)
        self._streams: Any = self._kernel.Streams(
            self._pieces,
            limits.max_flow_packets,
            limits.max_flow_bytes,
            limits.max_bytes,
            limits.max_wait_ns,
            limits.max_ahead,
            limits.max_behind,
        )
        self._flows: Any = self._new_flows()
        self._one: Any = self._kernel.Packets(1)
        self._fragments = Fragments(
            limits.max_fragment_bytes, limits.max_fragment_packets, limits.max_fragment_wait_ns
        )
        self._open: dict[int, Stream] = {}
        self._flow_of: dict[int, int] = {}
        self._left_out: dict[tuple[str, str], tuple[int, int]] = {}
        self._events: list[Event] = []
        self._source = ""
        self._places: memoryview | None = None

    def _new_flows(self) -> Any:
        limits = self._limits
        return self._kernel.Flows(limits.max_flows, *self._part, tunnels=limits.tunnel_bits)

    @property
    def held_bytes(self) -> int:
        """What is held behind holes now."""
        cost: int = self._streams.held.cost
        return cost

    @property
    def flows(self) -> int:
        """Flows known now."""
        count: int = self._flows.count
        return count

    def enlarge(self, batch: int) -> None:
        """From now on, make events only after this many packets."""
        self._batch = batch

    def skip(self, stream: Stream) -> None:
        """Give no more bytes of a stream, if it is still open; see `Capture.skip`."""
        flow = self._flow_of.get(stream.number)
        if flow is not None:
            self._streams.leave_unread(flow)

    def _make_room(self, packets: int) -> None:
        """Make room for that many packets at a time; there must be none in it now."""
        wanted = min(packets, self._batch)
        if wanted > self._room:
            # Most batches are full ones: only a file that is a single small batch needs less.
            self._room = self._batch if self._room else wanted
            # Segments that one packet may release come on top.
            most = self._room + 7 * self._limits.max_flow_packets + 64
            self._pieces = self._kernel.StreamEvents(most, 1)
            self._streams.use(self._pieces)

    def feed(
        self,
        rows: Any,
        data: memoryview,
        base: int,
        source: str,
        places: memoryview | None = None,
    ) -> list[Event]:
        """The events of a batch of packets that lie in `data`, which is at `base` in the file.

        If packets do not lie in `data` as they do in the file, `places` has their offsets there.
        """
        self._source = source
        self._places = places
        done, count = 0, rows.count
        self._make_room(count)
        while done < count:
            scanned = self._kernel.scan_packets(rows, self._flows, data, done, count)
            why = rows.stop
            self._run(rows, data, done, scanned)
            done = scanned
            if done == count:
                break
            if why == codes.SCAN_FLOWS:
                if not self._flows.grow():
                    self._gather(data)
                    self._evict()
            elif why == codes.SCAN_FRAGMENT:
                self._fragment(rows, data, done, base)
                done += 1
        self._odd(rows, data, base)
        self._gather(data)
        self._count(rows)
        return self._take()

    def finish(self) -> list[Event]:
        """The captures are over: the rest of every stream, and its end."""
        for flow in range(min(self._flows.count, self._streams.flows.capacity)):
            self._end(flow, kinds.END_CAPTURE)
        self._gather(_NOTHING)
        self._fragments.close()
        self._lost_fragments()
        self._events += self.left_out
        return self._take()

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _run(self, rows: Any, data: memoryview, first: int, last: int) -> None:
        while first < last:
            first = self._streams.run(rows, data, first, last)
            why = self._streams.stop
            if why == reasons.TCP_ROOM:
                self._gather(data)
                self._streams.make_room(self._flows.count, rows.payload[first])
            elif why == reasons.TCP_PRESSURE:
                self._relieve(data)

    def _relieve(self, data: memoryview) -> None:
        """Give up the oldest holes until half of the allowed bytes is left."""
        for flow in self._streams.flows.holders():
            if self._streams.held.cost <= self._limits.max_bytes // 2:
                break
            if self._streams.is_full:
                self._gather(data)
            self._streams.give_up(flow)

    def _end(self, flow: int, why: int) -> None:
        """End a flow's stream, with no packets in hand."""
        if self._streams.is_full:
            self._gather(_NOTHING)
        self._streams.finish(flow, why)

    def _evict(self) -> None:
        """End the half of the flows that has been silent longest; renumber the others."""
        order = self._streams.flows.by_silence(min(self._flows.count, self._limits.max_flows))
        half = len(order) // 2
        for flow in order[: len(order) - half]:
            self._end(flow, kinds.END_EVICTED)
        self._gather(_NOTHING)
        kept = sorted(order[len(order) - half :])
        flows = self._new_flows()
        for flow in kept:
            flows.add(self._flows.key_of(flow))
        self._flows = flows
        self._streams.keep(kept)
        places = {flow: place for place, flow in enumerate(kept)}
        self._flow_of = {number: places[flow] for number, flow in self._flow_of.items()}

    def _fragment(self, rows: Any, data: memoryview, index: int, base: int) -> None:
        """A packet that is a fragment; the last one stands for the whole."""
        start, stop = rows.net_at[index], rows.payload_at[index]
        at = self._place(rows, index, base)
        end = min(stop, rows.at[index] + rows.captured[index])
        extension = rows.host_at[index] - start
        whole = self._fragments.add(bytes(data[start:end]), extension, rows.ts[index], at)
        self._lost_fragments()
        if whole is None:
            return
        # The store may move only while nothing points into it. Twice: it may have to be held.
        self._gather(data)
        self._streams.make_room(self._flows.count + 1, 2 * len(whole))
        held = self._streams.held
        one = self._one
        one.clear()
        one.put(held.stash(whole), len(whole), _RAW_IP)
        while self._kernel.scan_packets(one, self._flows, held.store, 0, 1) == 0:
            if one.stop != codes.SCAN_FLOWS:
                break  # a fragment made of fragments
            if not self._flows.grow():
                self._evict()
        if one.status[0] in (codes.PACKET_TCP, codes.PACKET_UDP):
            rows.take(index, one)
            self._run(rows, data, index, index + 1)
            self._gather(data)
        elif one.status[0] in _NO_STREAM:
            self._leave_out(one.status[0], 1, len(whole))
        else:
            code, reason = _FAULTS.get(one.status[0], _FAULTS[codes.PACKET_BAD_IP])
            self._damage(at, "fragment", code, reason, whole, rows.ts[index])

    def _lost_fragments(self) -> None:
        for lost in self._fragments.lost:
            self._damage(lost.offset, "fragment", "fragment", lost.reason, lost.data, lost.ts_ns)
        self._fragments.lost.clear()

    def _odd(self, rows: Any, data: memoryview, base: int) -> None:
        for index in memoryview(rows.odd)[: rows.odd_count].tolist():
            code, reason = _FAULTS[rows.status[index]]
            at = rows.at[index]
            packet = bytes(data[at : at + rows.captured[index]])
            place = self._place(rows, index, base)
            self._damage(place, "packet", code, reason, packet, rows.ts[index])

    def _place(self, rows: Any, index: int, base: int) -> int:
        """Offset of a packet in the capture."""
        place: int = base + rows.at[index] if self._places is None else self._places[index]
        return place

    def _damage(
        self, offset: int, layer: str, code: str, reason: str, data: bytes, ts_ns: int
    ) -> None:
        self._events.append(
            Damage(self._source, offset, len(data), layer, code, reason, data, ts_ns)
        )

    def _count(self, rows: Any) -> None:
        tally, counts = rows.tally, self.counts
        counts.packets += rows.count
        counts.tcp += tally[codes.PACKET_TCP]
        counts.udp += tally[codes.PACKET_UDP]
        counts.other += tally[codes.PACKET_OTHER]
        counts.not_ip += tally[codes.PACKET_NOT_IP]
        counts.tunnel += tally[codes.PACKET_TUNNEL]
        counts.fragments += tally[codes.PACKET_FRAGMENT]
        counts.damaged += rows.odd_count
        for status in _NO_STREAM:
            if tally[status]:
                self._leave_out(status, tally[status], rows.sizes[status])

    def _leave_out(self, status: int, packets: int, size: int) -> None:
        """Count packets of the current capture that carry nothing for a stream."""
        place = self._source, _NO_STREAM[status]
        before = self._left_out.get(place, (0, 0))
        self._left_out[place] = before[0] + packets, before[1] + size

    @property
    def left_out(self) -> list[LeftOut]:
        """The packets so far that carry nothing for a stream."""
        return [LeftOut(*place, *numbers) for place, numbers in sorted(self._left_out.items())]

    def _gather(self, data: memoryview) -> None:
        """Make events of what was noted so far, those of one flow together."""
        pieces = self._pieces
        if pieces.count == 0:
            return
        pieces.gather(data, self._streams.held.store)
        out = memoryview(pieces.out)
        offsets, times = memoryview(pieces.mark_offset), memoryview(pieces.mark_ts)
        columns = (
            pieces.run_kind,
            pieces.run_stream,
            pieces.run_offset,
            pieces.run_length,
            pieces.run_at,
            pieces.run_mark,
            pieces.run_mark[1:],
        )
        # As lists: reading an element of a kernel's array costs more than a row of these.
        rows = zip(*(memoryview(c)[: pieces.run_count].tolist() for c in columns), strict=True)
        numbers = memoryview(pieces.counts)[: kinds.COUNTS * pieces.end_count].tolist()
        flow_of, other_of = memoryview(pieces.run_flow), memoryview(pieces.run_other)
        streams, add = self._open, self._events.append
        for run, (kind, number, offset, length, at, mark, next_mark) in enumerate(rows):
            if kind == _DATA:
                add(
                    StreamData(
                        streams[number],
                        offset,
                        out[at : at + length],
                        offsets[mark:next_mark],
                        times[mark:next_mark],
                    )
                )
            elif kind == kinds.PIECE_START:
                flow = self._flow_of[number] = flow_of[run]
                streams[number] = self._start(number, flow, offset)
            elif kind == kinds.PIECE_GAP:
                before, after = pieces.run_ts[run], pieces.run_other[run]
                add(Gap(streams[number], offset, length, before, after))
            elif kind == kinds.PIECE_SUSPECT:
                add(Suspect(streams[number], offset, length, pieces.run_ts[run]))
            elif kind == kinds.PIECE_DROP:
                code = _DROPS[pieces.run_other[run]]
                dropped = bytes(out[at : at + length])
                add(Dropped(streams[number], offset, pieces.run_ts[run], code, dropped))
            else:
                first = length * kinds.COUNTS
                counts = Counts(*numbers[first : first + kinds.COUNTS])
                reason = _ENDS[other_of[run]]
                self.evicted += reason == "evicted"
                add(StreamEnd(streams.pop(number), offset, reason, counts))
                del self._flow_of[number]
        pieces.end_count = 0

    def _start(self, number: int, flow: int, turn: int) -> Stream:
        key = self._flows.key_of(flow)
        width = (len(key) - 8) // 2
        protocol = "tcp" if key[-1] == 6 else "udp"
        src, dst = _address(key[:width]), _address(key[width : 2 * width])
        src_port, dst_port = key[-8] << 8 | key[-7], key[-6] << 8 | key[-5]
        age = self._streams.flows.age_of(flow)
        # After an eviction it is not known which flows were seen before it.
        late = f"e{age}" if age else ""
        name = f"{protocol} {_show(src)}:{src_port} > {_show(dst)}:{dst_port} #{turn}{late}"
        return Stream(number, name, protocol, self._source, src, src_port, dst, dst_port, turn)


def _address(data: bytes) -> str:
    if len(data) == 4:
        return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}"
    return str(IPv6Address(data))


def _show(address: str) -> str:
    return f"[{address}]" if ":" in address else address
