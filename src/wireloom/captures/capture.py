"""Captures → events: any number of files, read one after the other as one capture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from wireloom.captures.bytesource import ByteSource, is_pipe
from wireloom.captures.container import fault_of
from wireloom.captures.events import OF_CAPTURES, Event, Stream
from wireloom.captures.packetreaders import packet_reader
from wireloom.captures.raw import read_raw
from wireloom.captures.tcp import PacketCounts, Reassembler, ReassemblyLimits
from wireloom.captures.window import CHUNK, Window
from wireloom.errors import OptionError
from wireloom.kernel import Kernel, load

__all__ = ["Capture", "Progress", "Source", "source_list"]

Source = str | os.PathLike[str] | BinaryIO
"""What can be read: a path, or an open binary file."""

_BATCH = 1 << 14
"""Packets read before their streams are given out."""
_MAX_BATCH = 1 << 16
"""The same for many streams: a batch's bytes of one stream become one event."""
_MANY = 1000
"""Events of a batch that count as many."""


def source_list(sources: Iterable[Source] | Source) -> list[Source]:
    """The sources as a list; a single one may be given without a list."""
    if isinstance(sources, (str, os.PathLike)) or hasattr(sources, "read"):
        return [cast("Source", sources)]
    return list(sources)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading has got, in bytes of the files as stored."""

    done: int
    total: int | None
    """None if a source has no known size."""
    source: str
    """The file being read."""


class Capture:
    """A list of captures: rotated files of one capture, or single ones.

    Iterating reads them in the given order. TCP connections continue from one file to the next. The
    container and the compression of each are recognised by its content.

    >>> import io
    >>> for event in Capture([io.BytesIO(b"frames, back to back")]):
    ...     print(type(event).__name__)
    StreamData
    StreamEnd
    """

    def __init__(
        self,
        sources: Iterable[Source] | Source,
        *,
        limits: ReassemblyLimits | None = None,
        chunk_bytes: int = CHUNK,
        batch_packets: int = _BATCH,
        part: int = 0,
        parts: int = 1,
        kernel: Kernel | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            sources: paths or open binary files, in the order in which they were captured.
            limits: of reassembly.
            chunk_bytes: read at a time.
            batch_packets: packets read before their streams are given out.
            part: several readers may share the work on the same captures: this one gives the
                connections of one part, and only part 0 gives raw streams, damage and what is left
                out.
            parts: into how many parts connections are divided, by their addresses and ports.
            kernel: the compiled or the interpreted one; the best there is if not given.

        Raises:
            OptionError: there is no such part.
        """
        if not 0 <= part < parts:
            raise OptionError(f"part {part} of {parts} does not exist")
        self._is_first = part == 0
        self._sources = source_list(sources)
        self._chunk = chunk_bytes
        self._kernel: Any = load() if kernel is None else kernel
        self._batch = batch_packets
        self._reassembler = Reassembler(
            self._kernel, limits or ReassemblyLimits(), batch_packets, (part, parts)
        )
        self._raw_streams = 0
        self._done = 0
        self._current: ByteSource | None = None
        self._total = _total(self._sources)
        self.damaged_bytes = 0
        """Bytes of containers that could not be read."""
        self.skipped_blocks = 0
        """pcapng blocks of kinds that hold no packets."""

    @property
    def packets(self) -> PacketCounts:
        """What the packets were, so far, by kind."""
        return self._reassembler.counts

    @property
    def evicted(self) -> int:
        """Streams ended early because there were too many flows."""
        return self._reassembler.evicted

    @property
    def flows(self) -> int:
        """Flows known now."""
        return self._reassembler.flows

    @property
    def held_bytes(self) -> int:
        """Bytes held behind holes now, overhead included."""
        return self._reassembler.held_bytes

    @property
    def is_live(self) -> bool:
        """Whether a source is a pipe, whose next bytes may take long to arrive."""
        return any(
            not isinstance(source, (str, os.PathLike)) and is_pipe(source)
            for source in self._sources
        )

    @property
    def progress(self) -> Progress:
        """How far reading has got."""
        current = self._current
        now = current.consumed if current is not None else 0
        return Progress(self._done + now, self._total, current.name if current else "")

    def skip(self, stream: Stream) -> None:
        """Give no more bytes of a stream from the next batch on, which saves gathering them.

        Its holes, what is dropped and its end are still given; their offsets tell how much was
        skipped. A raw stream is given nevertheless.
        """
        self._reassembler.skip(stream)

    def __iter__(self) -> Iterator[Event]:
        """Read everything, once.

        Raises:
            SourceError: a file cannot be opened or read. Damage *inside* a file does not
                raise: it is a `Damage` event.
        """
        for events in self.batches():
            yield from events

    def batches(self) -> Iterator[Iterable[Event]]:
        """Read everything, once: the events, those together that were captured together.

        Raises:
            SourceError: as when iterating.
        """
        for source in self._sources:
            with ByteSource(source) as opened:
                self._current = opened
                yield from self._read(opened)
                self._done += opened.consumed
                self._current = None
        yield self._own(self._reassembler.finish())

    def _own(self, events: list[Event]) -> list[Event]:
        """Those events that this part gives."""
        if self._is_first:
            return events
        return [event for event in events if not isinstance(event, OF_CAPTURES)]

    def _read(self, source: ByteSource) -> Iterator[Iterable[Event]]:
        window = Window(source, self._chunk)
        reader = packet_reader(window, self._kernel)
        if reader is None:
            if self._is_first:
                self._raw_streams += 1
                stream = Stream(-self._raw_streams, source.name, "raw", source.name)
                for event in read_raw(window, stream):
                    yield (event,)
            yield self._own([*fault_of(source)])
            return
        rows = self._kernel.Packets(self._batch)
        while not reader.is_done:
            damage = reader.read(rows)
            self.skipped_blocks += rows.skipped
            self.damaged_bytes += sum(found.length for found in damage)
            yield self._own([*damage])
            events = self._reassembler.feed(rows, window.data, window.base, source.name)
            yield self._own(events)
            if len(events) > _MANY and self._batch < _MAX_BATCH:
                self._batch *= 2
                self._chunk *= 2
                window.chunk = self._chunk
                rows = self._kernel.Packets(self._batch)
                self._reassembler.enlarge(self._batch)
        yield self._own([*fault_of(source)])


def _total(sources: list[Source]) -> int | None:
    total = 0
    for source in sources:
        try:
            if isinstance(source, (str, os.PathLike)):
                total += Path(source).stat().st_size
            else:
                total += os.fstat(source.fileno()).st_size
        except (OSError, AttributeError, ValueError):
            return None
    return total
