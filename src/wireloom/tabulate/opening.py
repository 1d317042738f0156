"""Captures → objects: the streams, frames and messages of a capture, every byte accounted for.

>>> import io
>>> import wireloom
>>> from wireloom.formats import tibmsg
>>> file = io.BytesIO(tibmsg.build({"SYM": "ABC", "BIDSIZE": 10}).encode())
>>> capture = wireloom.open_capture(file)
>>> for found in capture.messages():
...     print(found.offset, found.message.fields[0].name)
0 SYM
>>> capture.totals.decoded == capture.totals.captured
True

`wireloom.tabulate` gives the same as record batches, which is many times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wireloom.captures import Capture, Gap, Progress, ReassemblyLimits, Source, StreamData
from wireloom.captures.capture import source_list
from wireloom.codec import Codec, message_codecs, options_of
from wireloom.errors import DecodeError, OptionError
from wireloom.format import COMMON_OPTIONS
from wireloom.formats import get, names
from wireloom.framing import Frame, Problem, Record, Text
from wireloom.kernel import load
from wireloom.messages import Message
from wireloom.nesting import Nested, Unreadable, nested_with
from wireloom.spelling import hint, missing
from wireloom.tabulate.accounting import Totals, balanced
from wireloom.tabulate.groups import FrameGroup, Segment
from wireloom.tabulate.scannerpool import ScannerPool
from wireloom.tabulate.settings import Settings
from wireloom.tabulate.streams import error_row
from wireloom.tabulate.streamtable import StreamTable

__all__ = ["CaptureReader", "Captured", "open_capture"]


@dataclass(frozen=True, slots=True)
class Captured:
    """A record of a stream: a frame, text between frames, or bytes that could not be read."""

    source: str
    """The capture where its stream starts."""
    stream: str
    """The stream, as `wireloom.captures.Stream.name` has it; a raw capture is its own stream.
    Empty where a part of a capture could not be read, and so belongs to none."""
    ts_ns: int | None
    """When it was captured, in nanoseconds since 1970; None if not known."""
    record: Record
    length: int
    """Its bytes in the stream."""
    message: Message | None = None
    """What a frame holds, unless it was not asked for."""
    layer: str = ""
    """Where reading failed: ``capture``, ``stream``, ``frame`` or ``message``."""

    @property
    def offset(self) -> int:
        """Where it starts in the stream."""
        return self.record.offset

    @property
    def is_raw(self) -> bool:
        """Whether its stream is a file of frames back to back."""
        return self.stream == self.source


class CaptureReader:
    """Reads captures once, from their start to their end, or to where its user stops."""

    def __init__(
        self,
        sources: Iterable[Source] | Source,
        settings: Settings,
        options: Mapping[str, Any],
        *,
        progress: Callable[[Progress], None] | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        """See `open_capture`."""
        self._kernel = load()
        self._options = options
        self._codecs: dict[str, Codec] = {}
        self._capture = Capture(
            source_list(sources), limits=settings.reassembly, kernel=self._kernel
        )
        is_live = self._capture.is_live
        self._wait = on_wait if is_live else None
        self._progress = progress
        self._table = StreamTable(
            lambda put: ScannerPool(
                settings, self._kernel, put, options=self._scanner_options, is_live=is_live
            )
        )
        self._is_live = is_live
        self._ended: list[Mapping[str, Any]] | None = None
        self.capture = self._capture
        """What is being read: its packets, and how far reading has got."""
        self.totals = Totals()
        """What became of all bytes of the streams that have ended, and of all problems so far."""

    # --- what is read

    def read(self, *, decode: bool = True) -> Iterator[Captured | Gap]:
        """Everything, in the order of capture and, within a stream, of its bytes.

        Args:
            decode: whether frames get their message. One that is not a message of its format is
                then a `Problem`.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        for event in self._capture:
            self._table.feed(event)
            self._table.own()
            if self._is_live and isinstance(event, StreamData):
                self._table.reader(event.stream).look()
            yield from self._group(decode)
            if isinstance(event, Gap):
                yield event
            if self._progress is not None:
                self._progress(self._capture.progress)
            if self._wait is not None:
                self._wait()
        self._table.close()
        yield from self._group(decode)

    def messages(self) -> Iterator[Captured]:
        """The frames whose message could be read.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        for found in self.read():
            if isinstance(found, Captured) and found.message is not None:
                yield found

    def frames(self) -> Iterator[Captured]:
        """The frames, without reading the messages in them.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        for found in self.read(decode=False):
            if isinstance(found, Captured) and isinstance(found.record, Frame):
                yield found

    def problems(self) -> Iterator[Captured]:
        """What could not be read.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        for found in self.read():
            if isinstance(found, Captured) and isinstance(found.record, Problem):
                yield found

    def gaps(self) -> Iterator[Gap]:
        """The holes in streams.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        for found in self.read(decode=False):
            if isinstance(found, Gap):
                yield found

    def streams(self) -> Iterator[Mapping[str, Any]]:
        """The account of each stream when it has ended: its row of the table `accounting`.

        Raises:
            SourceError: a file cannot be opened or read.
        """
        self._ended = []
        for _ in self.read(decode=False):
            while self._ended:
                yield self._ended.pop(0)
        yield from self._ended

    def nested(self, found: Captured) -> Iterator[Nested | Unreadable]:
        """The messages inside a message, and the payloads that look like one but cannot be read.

        Raises:
            OptionError: an option has a bad value.
            SourceError: a dictionary among the options cannot be found or read.
        """
        if found.message is None:
            return
        # Collected beside the generator: it calls back in the middle of finding the next one.
        failed: list[Unreadable] = []
        for inner in nested_with(self._inner, found.message, on_unreadable=failed.append):
            yield from self._unreadable(found, failed)
            yield inner
        yield from self._unreadable(found, failed)

    def codec(self, format: str) -> Codec:
        """How messages of a format are read here.

        Raises:
            OptionError: an option has a bad value.
            SourceError: a model, dictionary or schema cannot be found or read.
        """
        codec = self._codecs.get(format)
        if codec is None:
            codec = Codec.make(format, options_of(get(format), self._options))
            self._codecs[format] = codec
        return codec

    # --- how

    def _scanner_options(self, format: str) -> dict[str, Any]:
        return dict(self.codec(format).options)

    @cached_property
    def _inner(self) -> list[Codec]:
        own = {
            name: value
            for name, value in self._options.items()
            if any(
                options_of(found, {name: value})
                for found in map(get, names())
                if found.kind == "message"
            )
        }
        return message_codecs(own)

    def _unreadable(self, outer: Captured, failed: list[Unreadable]) -> Iterator[Unreadable]:
        for inner in failed:
            self._fail(outer, inner.format, inner.error, inner.path)
            yield inner
        failed.clear()

    def _fail(self, outer: Captured, format: str, error: DecodeError, path: str = "") -> None:
        row = error_row(outer.source, outer.stream, outer.offset, outer.length, outer.ts_ns)
        row |= {"path": path, "format": format, "code": error.code, "reason": error.reason}
        self.totals.fail([row])

    def _group(self, decode: bool) -> Iterator[Captured]:
        """What a group holds."""
        group: FrameGroup = self._table.take()
        for segment in group.segments:
            for found in _records(segment):
                if isinstance(found.record, Problem):
                    row = error_row(
                        found.source, found.stream, found.offset, found.length, found.ts_ns
                    )
                    row["format"] = found.record.format or None
                    row |= {"code": found.record.code, "reason": found.record.reason}
                    self.totals.fail([row])
                elif decode and isinstance(found.record, Frame):
                    yield self._decoded(found, segment)
                    continue
                yield found
        for state, counts in group.ended:
            row = balanced(state.source, state.name, state.format, state.account, counts)
            self.totals.end([row])
            self.totals.end_texts(state.format, state.account.texts)
            if self._ended is not None:
                self._ended.append(row)

    def _decoded(self, found: Captured, segment: Segment) -> Captured:
        frame = found.record
        where = (found.source, found.stream, found.ts_ns)
        try:
            message = self.codec(frame.format).decode(frame.data)
            return Captured(*where, frame, found.length, message)
        except DecodeError as error:
            segment.state.account.refuse(1, found.length)
            self._fail(found, frame.format, error)
            at = frame.offset + error.offset
            what = (frame.format, frame.offset, frame.data, error.code, error.reason, error.path)
            return Captured(*where, Problem(*what, at), found.length, None, "message")


def _records(segment: Segment) -> Iterator[Captured]:
    """The frames of a segment, and what lies between them."""
    source, stream, batch = segment.state.source, segment.state.name, segment.batch
    others: list[Captured] = []
    for row in segment.rows:
        what = (row["format"] or "", row["frame_offset"], row["raw"] or b"", row["code"])
        problem = Problem(*what, row["reason"], row["field"], row["failed_at"])
        length = row["frame_length"]
        others.append(Captured(source, stream, row["ts_ns"], problem, length, None, row["layer"]))
    if batch is None:
        yield from others
        return
    texts = [other for other in batch.others if isinstance(other, Text)]
    others += [Captured(source, stream, None, text, text.length) for text in texts]
    if texts:
        others.sort(key=lambda each: each.offset)
    others.reverse()
    times = segment.ts_ns
    for index in range(batch.count):
        offset = batch.base + batch.offsets[index]
        while others and others[-1].offset < offset:
            yield others.pop()
        frame = Frame(batch.format, offset, batch.frame(index))
        yield Captured(source, stream, None if times is None else times[index], frame, frame.length)
    yield from reversed(others)


def open_capture(
    sources: Iterable[Source] | Source,
    format: str | None = None,
    *,
    formats: Iterable[str] | None = None,
    ports: Mapping[int, str] | None = None,
    reassembly: ReassemblyLimits | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_wait: Callable[[], None] | None = None,
    **options: Any,
) -> CaptureReader:
    """Captures as objects: raw, pcap and pcapng, packed or not, read as one capture.

    Nothing is read yet. `CaptureReader.messages`, `frames`, `problems`, `gaps`, or `read` for all
    of them, then read it once.

    Args:
        sources: paths or open binary files, pipes too, in the order in which they were captured.
        format: what every stream holds; each is detected when left out.
        formats: which formats a stream may be in.
        ports: formats by TCP or UDP port, which need no detection.
        reassembly: limits of reassembly.
        progress: called from time to time with how far reading has got.
        on_wait: called before a pipe is waited for, so that what was read can be shown.
        options: of the formats, as for `wireloom.decode`; each goes to the formats that have it,
            and ``blaze.dialect`` to one of them (``**{"blaze.dialect": "2019"}``).

    Raises:
        OptionError: no format has an option, or its value is bad.
        UnknownProtocolError: there is no such format.
        SourceError: a model, dictionary or schema that an option names cannot be found or read.
    """
    if format is not None and formats is not None:
        raise OptionError("format and formats exclude each other")
    allowed = None if formats is None else tuple(formats)
    if format is not None:
        allowed = (get(format).name,)
    _check(options)
    common = options_of(get(names()[0]), {k: v for k, v in options.items() if k in _COMMON})
    limits, strict, _ = get(names()[0]).check_options(common)
    more: dict[str, Any] = {} if reassembly is None else {"reassembly": reassembly}
    settings = Settings(
        tables=(), formats=allowed, ports=ports or {}, limits=limits, strict=strict, **more
    )
    reader = CaptureReader(sources, settings, options, progress=progress, on_wait=on_wait)
    for name in allowed or names():
        if options_of(get(name), options):
            reader.codec(name)  # a bad value is an error now, not in the middle of a capture
    return reader


_COMMON = frozenset(option.name for option in COMMON_OPTIONS)


def _check(options: Mapping[str, Any]) -> None:
    """Check that there is a format for every option.

    Raises:
        OptionError: there is none for one of them.
    """
    for name, value in options.items():
        prefix, dot, own = name.rpartition(".")
        if dot and prefix not in names():
            raise OptionError(f"{name}: {missing('format', prefix, names())}")
        declared = [
            option
            for format in map(get, [prefix] if dot else names())
            for option in (*format.options, *COMMON_OPTIONS)
            if option.name == own
        ]
        if not declared:
            near = hint(own, [option.name for each in map(get, names()) for option in each.options])
            raise OptionError(f"no format has the option {name!r}{near}")
        if all(option.choices and value not in option.choices for option in declared):
            known = sorted({choice for option in declared for choice in option.choices})
            raise OptionError(f"{name} must be one of {', '.join(known)}, not {value!r}")
