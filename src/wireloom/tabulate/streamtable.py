"""The open streams of a capture: events in, frames and rows of `errors` out, in groups.

This is the only loop that reads captures. `Tabulator` decodes its groups into record batches,
`wireloom.open_capture` into objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from wireloom.captures import (
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
from wireloom.rows import shown
from wireloom.tabulate.accounting import NO_STREAM, Account
from wireloom.tabulate.groups import FrameGroup, Segment, StreamState
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.streams import StreamReader, error_row

__all__ = ["StreamTable"]

MAX_UNDECIDED: Final = 64 << 20
"""Bytes of streams whose format is not known yet; beyond that, formats are decided at once."""


class StreamTable:
    """Reads the streams of one capture; for one thread."""

    def __init__(self, make_scanners: Callable[[Callable[[Segment], None]], ScannerPool]) -> None:
        """No stream is open.

        Args:
            make_scanners: makes what the streams share, given the function that takes segments.
        """
        self._scanners = make_scanners(self._put)
        self._streams: dict[int, StreamReader] = {}
        self._undecided = 0
        self.group = FrameGroup()
        """What was read since the last `take`."""
        self.damaged: dict[str, int] = {}
        """Bytes that could not be read, by capture."""

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, StreamData):
            reader = self._streams.get(event.stream.number) or self.reader(event.stream)
            self._undecided += reader.data(event)
            if self._undecided > MAX_UNDECIDED:
                self._decide_all()
        elif isinstance(event, StreamEnd):
            reader = self.reader(event.stream)
            self._undecided -= reader.undecided
            reader.end(event.length)
            del self._streams[event.stream.number]
            self._end(reader.state, event.counts)
        elif isinstance(event, Gap):
            reader = self.reader(event.stream)
            self._undecided -= reader.undecided
            reader.gap(event)
            self._gap(event, reader.state)
        elif isinstance(event, Suspect):
            self.reader(event.stream).suspect(event)
        elif isinstance(event, Dropped):
            self.reader(event.stream).dropped(event)
        elif isinstance(event, LeftOut):
            self._in_no_stream(event.source, event.kind, event.packets, left_out=event.length)
        else:
            self._damage(event)

    def own(self) -> None:
        """Let go of the events' buffers, after those that were captured together."""
        borrowers = self._scanners.borrowers
        for reader in borrowers:
            reader.own()
        borrowers.clear()

    def take(self) -> FrameGroup:
        """What was read since the last call; it is removed here."""
        group, self.group = self.group, FrameGroup()
        return group

    def look(self) -> None:
        """Have all streams give out what is complete by now."""
        for reader in self._streams.values():
            reader.look()

    def close(self) -> None:
        """Streams that have not ended end here."""
        for reader in self._streams.values():
            reader.end()
            self._end(reader.state, reader.counts)
        self._streams.clear()
        for source, size in sorted(self.damaged.items()):
            self._in_no_stream(source, "damaged", 0, quarantined=size)
        self.damaged.clear()

    def reader(self, stream: Stream) -> StreamReader:
        """The reader of a stream, made on first use."""
        reader = self._streams.get(stream.number)
        if reader is None:
            reader = self._streams[stream.number] = StreamReader(stream, self._scanners)
        return reader

    def __iter__(self) -> Iterator[StreamReader]:
        """The readers of all open streams."""
        return iter(self._streams.values())

    def _decide_all(self) -> None:
        for reader in self._streams.values():
            reader.decide()
        self._undecided = 0

    def _put(self, segment: Segment) -> None:
        self.group.add(segment)

    def _end(self, state: StreamState, counts: Counts) -> None:
        self.group.ended.append((state, counts))
        self.group.frames += 1

    def _in_no_stream(self, source: str, kind: str, packets: int, **sums: int) -> None:
        """The account of bytes of a capture that are in no stream."""
        account = Account(**sums)
        counts = Counts(packets=packets, captured=sum(sums.values()))
        self._end(StreamState(shown(source), NO_STREAM + kind, account=account), counts)

    def _gap(self, event: Gap, state: StreamState) -> None:
        self.group.frames += 1
        self.group.gaps.append(
            {
                "source": state.source,
                "stream": state.name,
                "offset": event.offset,
                "length": event.length,
                "ts_before_ns": _known(event.ts_before_ns),
                "ts_after_ns": _known(event.ts_after_ns),
            }
        )

    def _damage(self, event: Damage) -> None:
        if event.length:
            self.damaged[event.source] = self.damaged.get(event.source, 0) + event.length
        row = error_row(
            shown(event.source),
            "",
            event.offset,
            min(event.length, (1 << 31) - 1),
            event.ts_ns,
            layer="capture",
            format=None,
            code=event.code,
            reason=event.reason,
            failed_at=event.offset,
            field=event.layer,
            raw=event.data,
        )
        self.group.add(Segment(StreamState(row["source"], ""), None, None, [row], 0))


def _known(ts_ns: int) -> int | None:
    return None if ts_ns == NO_TIME else ts_ns
