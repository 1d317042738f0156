"""Packet captures cut into ranges: several readers, the same packets as in one pass.

A file is cut into parts of about the same size. Near each cut a chain of packet records (pcap) or
blocks (pcapng) is searched for; then the records of all parts are walked at the same time, without
looking at packets. A seam holds if the walk of the part before ended at exactly that place, knowing
exactly what the part behind it assumed (byte order, link type, interfaces). If not, because a
payload looked like records, damage lay across the seam or an interface was described late, the part
behind it is walked again from where the one before ended. Nothing is taken on trust: a file made to
mislead costs time, never a packet.

The result is ranges that can be sent to other processes. Reading all of them, one after the
other, gives the packets and the damage that one pass over the file gives.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any

from wireloom.captures.bytesource import ByteSource
from wireloom.captures.container import NO_END, fault_of
from wireloom.captures.events import Damage
from wireloom.captures.packetreaders import packet_reader
from wireloom.captures.pcap import PcapState
from wireloom.captures.pcapng import PcapngState
from wireloom.captures.window import CHUNK, Window
from wireloom.errors import OptionError
from wireloom.kernel import Kernel, load
from wireloom.kernel.packets.records import RECORDS_FOUND

__all__ = ["PacketRange", "RangeReader", "packet_ranges"]

_ROWS = 1 << 14
"""Packets read at a time."""
_LOOK = 4 << 20
"""Bytes searched for the start of a part; if there is none, no part starts there."""


@dataclass(frozen=True, slots=True)
class PacketRange:
    """A part of a packet capture that can be read independently."""

    path: str
    start: int = 0
    """Offset in the file where it begins."""
    end: int | None = None
    """Offset where the next one begins; None: it extends to the end of the file."""
    state: PcapState | PcapngState | None = None
    """What a reader knows at `start`; None at the start of the file."""


def packet_ranges(
    path: str | os.PathLike[str], parts: int, *, workers: int = 2, kernel: Kernel | None = None
) -> list[PacketRange]:
    """Cut a pcap or pcapng file into at most `parts` ranges of about the same size.

    The whole file is read once, by `workers` threads. A compressed file is one range.

    Raises:
        OptionError: the file is not a packet capture, or `parts` is not positive.
        SourceError: the file cannot be read.
    """
    if parts < 1:
        raise OptionError(f"cannot cut a capture into {parts} parts")
    splitter = _Splitter(os.fspath(path), load() if kernel is None else kernel)
    size = splitter.size
    if size is None or parts == 1:
        return [PacketRange(splitter.path)]
    bounds = sorted({size * part // parts for part in range(parts + 1)})
    return splitter.run(bounds, workers)


class RangeReader:
    """Reads the packets of a range, a batch at a time, like the readers of whole captures."""

    def __init__(
        self, part: PacketRange, *, chunk_bytes: int = CHUNK, kernel: Kernel | None = None
    ) -> None:
        """Open the file.

        Raises:
            OptionError: it is not a packet capture.
            SourceError: the file cannot be opened or read.
        """
        kernel = load() if kernel is None else kernel
        self.source = ByteSource(part.path)
        try:
            if part.start:
                self.source.seek(part.start)
            window = Window(self.source, chunk_bytes, part.start)
            until = NO_END if part.end is None else part.end
            reader = packet_reader(window, kernel, part.state, until)
            if reader is None:
                raise OptionError(f"{part.path} is not a pcap or pcapng capture")
        except BaseException:
            self.source.close()
            raise
        self._reader = reader

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.source.close()

    @property
    def is_done(self) -> bool:
        """Whether nothing more comes."""
        return self._reader.is_done

    @property
    def window(self) -> Window:
        """What the rows of the last batch point into."""
        return self._reader.window

    @property
    def position(self) -> int:
        """Offset in the file of what comes next."""
        return self._reader.position

    @property
    def state(self) -> PcapState | PcapngState:
        """What a reader that continues at `position` needs to know."""
        return self._reader.state

    def read(self, rows: Any) -> list[Damage]:
        """Fill `rows` (the kernel's `Packets`) with the next packets; return the damage.

        Raises:
            SourceError: the file cannot be read.
        """
        found = self._reader.read(rows)
        if self.is_done:
            found += fault_of(self.source)
        return found


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk over the records of a part."""

    start: int
    """Where it began; -1 if there was no place to begin."""
    state: PcapState | PcapngState | None = None
    end: int = 0
    end_state: PcapState | PcapngState | None = None


class _Splitter:
    def __init__(self, path: str, kernel: Kernel) -> None:
        self.path = path
        self._kernel: Any = kernel
        # The state at the first packet is what the other parts start with, until proven wrong.
        with RangeReader(PacketRange(path), kernel=kernel) as reader:
            is_plain = not reader.source.compression
            self.size = reader.source.size if is_plain else None
            reader.read(self._kernel.Packets(1))
            self._assumed = reader.state

    def run(self, bounds: list[int], workers: int) -> list[PacketRange]:
        with ThreadPoolExecutor(workers) as pool:
            walks = list(pool.map(self._guess, *zip(*pairwise(bounds), strict=True)))
        found: list[PacketRange] = []
        at, state = 0, None
        for walk, stop in zip(walks, bounds[1:], strict=True):
            if at >= stop and stop != bounds[-1]:
                continue  # the part before had to continue past this one
            if (walk.start, walk.state) != (at, state):
                walk = self._walk(at, state, stop)
            if walk.end > at:
                found.append(PacketRange(self.path, at, walk.end, state))
            at, state = walk.end, walk.end_state
        # Everything behind the last seam belongs to the last range, even if the file grows.
        last = found.pop() if found else PacketRange(self.path)
        return [*found, PacketRange(self.path, last.start, None, last.state)]

    def _guess(self, first: int, last: int) -> _Walk:
        """Walk from the first chain of records behind `first`."""
        if first == 0:
            return self._walk(0, None, last)
        start = self._chain(first)
        return self._walk(start, self._assumed, last) if 0 <= start < last else _Walk(-1)

    def _walk(self, start: int, state: PcapState | PcapngState | None, stop: int) -> _Walk:
        """Step from record to record up to the first one at `stop` or behind it."""
        part = PacketRange(self.path, start, stop, state)
        rows = self._kernel.Packets(_ROWS)
        with RangeReader(part, kernel=self._kernel) as reader:
            while not reader.is_done:
                reader.read(rows)
            return _Walk(start, state, reader.position, reader.state)

    def _chain(self, first: int) -> int:
        """The first place from `first` on that looks like records; -1 if there is none nearby."""
        rows = self._kernel.Packets(1)
        is_big = self._assumed.is_big
        with ByteSource(self.path) as source:
            source.seek(first)
            window = Window(source, _LOOK, first)
            window.advance(0)
            if isinstance(self._assumed, PcapState):
                at = self._kernel.find_record(
                    rows, window.data, 0, len(window.data), 0, window.is_end, is_big
                )
            else:
                at = self._kernel.find_block(rows, window.data, 0, window.is_end, is_big)
            return first + at if rows.stop == RECORDS_FOUND else -1
