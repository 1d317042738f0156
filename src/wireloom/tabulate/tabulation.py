"""Captures → tables in one call, on several cores; and a part of a raw capture by itself."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import strings
from wireloom.captures import Capture, Counts, Progress, Source, Stream, StreamData, StreamEnd
from wireloom.captures.bytesource import ByteSource
from wireloom.captures.capture import source_list
from wireloom.captures.pcap import is_pcap
from wireloom.captures.pcapng import is_pcapng
from wireloom.columnar.framing import FrameBatch
from wireloom.columnar.split import CHAIN, map_frames
from wireloom.columnar.stored import Stored, StoredFile
from wireloom.columnar.wide import Inference, kinds_of_rows
from wireloom.errors import OptionError
from wireloom.kernel import load
from wireloom.tables import table, wide_column
from wireloom.tabulate.accounting import Account, Totals
from wireloom.tabulate.connections import told_formats
from wireloom.tabulate.decoding import Decoded, GroupDecoder
from wireloom.tabulate.detection import PREFIX
from wireloom.tabulate.groups import FrameGroup, Segment
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.streams import UNKNOWN_BYTES, StreamReader
from wireloom.tabulate.tabulator import Batches, Tabulator

__all__ = ["RangeTabulator", "resolved", "splittable", "tabulate", "tabulate_range"]

_SAMPLE_BATCHES: Final = 2
"""Batches of `fields` from which the types of wide columns are inferred."""
_MOST_BATCHES: Final = 256
"""Batches searched for a field that the first ones do not have: 16 million fields."""
_PIPE_SAMPLE: Final = 1 << 18
"""Bytes of a pipe that are waited for, to infer types."""

Report = Callable[[Progress], None]


def tabulate(
    sources: Iterable[Source] | Source,
    settings: Settings | None = None,
    *,
    workers: int = 1,
    progress: Report | None = None,
    totals: Totals | None = None,
    **options: Any,
) -> Batches:
    """The tables of captures: raw, pcap and pcapng, packed or not, read as one capture.

    Args:
        sources: paths or open binary files, in the order in which they were captured.
        settings: what is wanted.
        workers: threads that decode. The rows are the same for any number.
        progress: called from time to time with how far reading has got.
        totals: where to count what becomes of every byte.
        options: changes to the settings, as for `Settings.changed`.

    Returns:
        Pairs of a table's name and a record batch.

    Raises:
        OptionError: an option is unknown, or has a bad value.
        SourceError: a file cannot be opened or read.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    chosen = (settings or Settings()).changed(**options)
    given = source_list(sources)
    if not chosen.is_typed:
        chosen, given = sampled(chosen, given)
    return _tabulate(given, chosen, workers, progress, totals)


def _tabulate(
    sources: list[Source],
    settings: Settings,
    workers: int,
    progress: Report | None = None,
    totals: Totals | None = None,
) -> Batches:
    rest: list[Source] = []
    raws: list[Path] = []
    for source in sources:
        raw = None if workers < 2 else _raw_path(source, settings)
        if raw is None:
            rest.append(source)
        else:
            raws.append(raw)
    capture = Capture(rest, limits=settings.reassembly)
    tabulator = Tabulator(settings, workers=workers, totals=totals, skip=capture.skip)
    try:
        for raw in raws:
            yield from _parallel(raw, settings, workers, tabulator, progress)
        done = -1
        for events in capture.batches():
            yield from tabulator.feed_all(events)
            if progress is not None and capture.progress.done != done:
                done = capture.progress.done
                progress(capture.progress)
        yield from tabulator.close()
        if progress is not None:
            progress(capture.progress)
    finally:
        tabulator.stop()


# --- raw captures on several cores ----------------------------------------------------------------


def splittable(source: Source, settings: Settings) -> bool:
    """Whether a capture can be read in ranges: raw, not packed, and no range depends on others.

    Raises:
        SourceError: the file cannot be opened or read.
    """
    return _raw_path(source, settings) is not None


def _raw_path(source: Source, settings: Settings) -> Path | None:
    """The path of a raw capture that can be split; None if it cannot."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    with ByteSource(source) as opened:
        if opened.compression or not path.is_file():
            return None
        head = memoryview(bytearray(12))
        size = opened.read_into(head)
    if is_pcap(head[:size]) or is_pcapng(head[:size]):
        return None
    if told_formats(settings):
        return None  # bodies depend on what came before them in the stream
    return path


class _RangeDecoder:
    """Decodes frames of one raw capture with random access; for one worker at a time."""

    def __init__(self, name: str, settings: Settings, format: str | None, kernel: Any) -> None:
        self._decoder = GroupDecoder(settings, kernel=kernel)
        self._group = FrameGroup()
        self.scanners = ScannerPool(settings, kernel, self._put)
        self._stream = Stream(-1, name, "raw", name)
        self._format = format

    def _put(self, segment: Segment) -> None:
        self._group.add(segment)

    def reader(self) -> StreamReader:
        """A new account of the stream."""
        made = StreamReader(self._stream, self.scanners)
        made.state.format = self._format
        return made

    def decode(self) -> Decoded:
        """The rows of what the reader has given since the last call."""
        group, self._group = self._group, FrameGroup()
        made = self._decoder.decode(group)
        for state, frames, size in made.refused:
            state.account.refuse(frames, size)
        made.refused = []
        return made

    def __call__(self, batch: FrameBatch) -> tuple[Decoded, Account]:
        """What becomes of a batch."""
        reader = self.reader()
        reader.emit(batch)
        return self.decode(), reader.state.account


def _scan_settings(settings: Settings, format: str, kernel: Any) -> dict[str, Any]:
    return {
        "limits": settings.limits,
        "strict": settings.strict,
        "kernel": kernel,
        **settings.packet_options(format),
    }


def _format_of(data: Stored, settings: Settings, kernel: Any) -> str | None:
    detector = ScannerPool(settings, kernel, _nothing).detector
    return detector.by_port(0, 0) or detector.by_prefix(bytes(data.read(0, PREFIX)))


def _nothing(segment: Segment) -> None:
    raise AssertionError("nothing is read for a look")


def _parallel(
    path: Path, settings: Settings, workers: int, tabulator: Tabulator, progress: Report | None
) -> Batches:
    """The tables of a raw capture, decoded in parts by several threads."""
    kernel = load()
    name = os.fspath(path)
    with StoredFile(path) as data:
        format = _format_of(data, settings, kernel)
        if format is None:
            yield from _unknown(name, data, tabulator)
            return
        total = _RangeDecoder(name, settings, format, kernel).reader().state

        def make_work() -> _RangeDecoder:
            return _RangeDecoder(name, settings, format, kernel)

        found = map_frames(
            format, data, make_work, workers=workers, **_scan_settings(settings, format, kernel)
        )
        for batch, (made, account) in found:
            total.account.merge(account)
            yield from tabulator.accept(FrameGroup(), made)
            if progress is not None and batch.count:
                at = batch.offsets[batch.count - 1] + batch.lengths[batch.count - 1]
                progress(Progress(batch.base + at, data.size, name))
        group = FrameGroup()
        group.ended.append((total, Counts(captured=data.size, delivered=data.size)))
        yield from tabulator.accept(group, Decoded())


def _unknown(name: str, data: Stored, tabulator: Tabulator) -> Batches:
    """A raw capture of no known format."""
    stream = Stream(-(1 << 62), name, "raw", name)
    marks = memoryview(b"").cast("q")
    for at in range(0, data.size, 16 * UNKNOWN_BYTES):
        part = data.read(at, at + 16 * UNKNOWN_BYTES)
        yield from tabulator.feed(StreamData(stream, at, part, marks, marks))
    counts = Counts(captured=data.size, delivered=data.size)
    yield from tabulator.feed(StreamEnd(stream, data.size, "end", counts))


# --- ranges ---------------------------------------------------------------------------------------


class RangeTabulator:
    """Reads a part of a raw capture; see `tabulate_range`."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        first: int,
        last: int,
        settings: Settings,
        is_seam: bool,
    ) -> None:
        self._source = source
        self._bounds = first, last
        self._settings = settings
        self._is_seam = is_seam
        self.start = first
        """Where the rows begin, once `batches` has been iterated."""
        self.end = last
        """Where they end. Both are true seams."""
        self.totals = Totals()
        """What became of the bytes between the two."""

    def batches(self) -> Batches:
        """The tables of the records that begin in the range.

        `accounting` has the bytes of the range: add up the rows of all ranges.

        Raises:
            OptionError: the capture cannot be split.
            SourceError: it cannot be opened, or becomes shorter while it is read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        settings, kernel = self._settings, load()
        path = _raw_path(self._source, settings)
        if path is None:
            raise OptionError(f"{os.fspath(self._source)} cannot be read in parts")
        tabulator = Tabulator(settings, kernel=kernel)
        self.totals = tabulator.totals
        with StoredFile(path) as data:
            first = min(self._bounds[0], data.size)
            last = min(self._bounds[1], data.size)
            format = _format_of(data, settings, kernel)
            name = os.fspath(path)
            work = _RangeDecoder(name, settings, format, kernel)
            reader = work.reader()
            if format is None:
                yield from self._unknown(reader, work, data, first, last, tabulator)
            else:
                scanner = work.scanners.scanner(format)
                chain = CHAIN if first and not self._is_seam else 0
                for batch in scanner.scan_range(data, first, last, chain=chain):
                    reader.emit(batch)
                    yield from tabulator.accept(FrameGroup(), work.decode())
                is_found = scanner.start >= 0
                self.start = scanner.start if is_found else last
                self.end = scanner.position if is_found else last
            size = self.end - self.start
            if size or not data.size:
                group = FrameGroup()
                group.ended.append((reader.state, Counts(captured=size, delivered=size)))
                yield from tabulator.accept(group, Decoded())
            yield from tabulator.close()

    def _unknown(
        self,
        reader: StreamReader,
        work: _RangeDecoder,
        data: Stored,
        first: int,
        last: int,
        tabulator: Tabulator,
    ) -> Batches:
        """A stream of no known format is cut at multiples of the size of its segments."""
        size = UNKNOWN_BYTES
        self.start = min(-(-first // size) * size, data.size)
        self.end = min(-(-last // size) * size, data.size)
        for at in range(self.start, self.end, size):
            reader.unknown(bytes(data.read(at, min(at + size, self.end))), at, least=1)
            yield from tabulator.accept(FrameGroup(), work.decode())


def tabulate_range(
    source: str | os.PathLike[str],
    first: int,
    last: int,
    settings: Settings,
    *,
    is_seam: bool = False,
) -> RangeTabulator:
    """The tables of a part of a raw capture, so that several processes can share one file.

    Reading begins at the first chain of frames after `first`, and continues past `last` until
    nothing before matters any more. If each part ends where the next one began, all parts
    together are what one pass gives. Where they do not, read from the end of the one to the start
    of the other, with `is_seam`, and continue from where that ends.

    Args:
        source: the path of a capture for which `splittable` is true.
        first: where to begin.
        last: where the next part begins.
        settings: what is wanted; the same for all parts.
        is_seam: whether `first` is known to be the end of another part.
    """
    return RangeTabulator(source, first, last, settings, is_seam)


# --- types of wide columns ------------------------------------------------------------------------


def resolved(settings: Settings, sources: Iterable[Source]) -> Settings:
    """The same settings with everything that workers need in them.

    Files that they name are read. Wide columns without a type get that of the first values in the
    sources, nested messages included, else that of the dictionary. Open files are read from their
    current position, which is restored afterwards; pipes are not looked into.

    Raises:
        SourceError: a file cannot be opened or read.
    """
    return _resolved(settings, [each for each in sources if _can_sample(each)])


def sampled(settings: Settings, sources: Iterable[Source]) -> tuple[Settings, list[Source]]:
    """The same for any sources; returns them, too, as the start of a pipe is read and put back.

    Raises:
        SourceError: a file cannot be opened or read.
    """
    given = source_list(sources)
    if settings.is_typed:
        return settings.loaded(), given
    samples: list[Source] = []
    for index, source in enumerate(given):
        if _can_sample(source):
            samples.append(source)
        elif not isinstance(source, (str, os.PathLike)):
            head = _head(source)
            samples.append(io.BytesIO(head))
            given[index] = cast("BinaryIO", io.BufferedReader(_Again(head, source)))
    return _resolved(settings, samples), given


def _resolved(settings: Settings, samples: list[Source]) -> Settings:
    found = settings.loaded()
    if found.is_typed:
        return found
    names = {name for name, type in map(wide_column, found.columns or ()) if type is None}
    types = settings.field_types() | _types_in(found, samples, names)
    columns = []
    for text in found.columns or ():
        name, type = wide_column(text)
        columns.append(f"{name}:{type or types.get(name, 'text')}")
    return dataclasses.replace(found, columns=tuple(columns))


def _types_in(settings: Settings, sources: list[Source], names: set[str]) -> dict[str, str]:
    """Types of some fields, judged by the first rows, and by many more if necessary."""
    wanted = [name for name in table("fields").names if name not in ("source", "stream", "ts")]
    sample = dataclasses.replace(
        settings,
        tables=("fields",),
        columns=None,
        select={"fields": tuple(wanted)},
        mode="dropmalformed",
    )
    found = Inference()
    if not sources:
        return {}
    places = [None if isinstance(each, (str, os.PathLike)) else each.tell() for each in sources]
    chosen = strings(sorted(names))
    batches = _tabulate(list(sources), sample, 1, None)
    for turn, (_, batch) in enumerate(batches):
        at = batch.schema.get_field_index("value_time")
        part = batch.set_column(at, "value_time", batch.column(at).view("int64"))
        own = pc.is_in(part.column("name").cast(pa.string()), value_set=chosen)
        found.add(kinds_of_rows(part.filter(own)))
        # A rare field is searched for longer, so that its column is not all nulls.
        if turn + 1 >= (_SAMPLE_BATCHES if names <= found.types.keys() else _MOST_BATCHES):
            break
    cast("Any", batches).close()
    for source, place in zip(sources, places, strict=True):
        if place is not None:
            cast("BinaryIO", source).seek(place)
    return found.types


def _can_sample(source: Source) -> bool:
    """Whether it can be read twice."""
    if isinstance(source, (str, os.PathLike)):
        return not Path(source).is_fifo()
    try:
        return source.seekable()
    except (AttributeError, ValueError):
        return False


def _head(source: BinaryIO) -> bytes:
    """The first bytes of a pipe: as many as the sample takes, or all."""
    head = bytearray()
    while len(head) < _PIPE_SAMPLE and (data := source.read(_PIPE_SAMPLE - len(head))):
        head += data
    return bytes(head)


class _Again(io.RawIOBase):
    """A pipe whose first bytes were read already; reading starts with them again."""

    def __init__(self, head: bytes, source: BinaryIO) -> None:
        self.name = getattr(source, "name", "<file>")
        self._head = head
        self._source = source

    def readable(self) -> bool:
        """True: it can only be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is available, at most as much as the buffer holds."""
        size = len(buffer)
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
        else:
            data = getattr(self._source, "read1", self._source.read)(size) or b""
        buffer[: len(data)] = data
        return len(data)
