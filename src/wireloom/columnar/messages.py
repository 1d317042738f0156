"""Frames → the tables `messages`, `fields`, `errors` and wide, at compiled speed.

The kernel walks the frames and fills the columns. A frame that it refuses goes to the object path,
which says why, or has the rows after all: what is in a table never depends on the kernel alone.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

from wireloom.arrow.arrays import from_rows
from wireloom.columnar.batches import Batches, BatchSet
from wireloom.columnar.objectrows import DAY_0, kernel_values, wide_rows
from wireloom.columnar.wide import Choice, choose
from wireloom.columns import failure_row, key_row
from wireloom.errors import DecodeError, OptionError
from wireloom.formats import get
from wireloom.formats._tib.texts import parse_date
from wireloom.kernel import load
from wireloom.kernel.walk.messages import PAYLOAD
from wireloom.kernel.walk.texts import DATE_NONE, DATE_NULL
from wireloom.kernel.walk.walk import (
    ASKED,
    GOOD,
    NEED_MESSAGES,
    NEED_NAMES,
    NEED_PATHS,
    NEED_ROWS,
    NEED_TEXT,
    NEED_WIDE,
    NEED_WIDE_TEXT,
    NO_ROOM,
)
from wireloom.options import by_format
from wireloom.rows import FrameRows, frame_rows, message_formats, payload_rows, walked_formats
from wireloom.tables import Table, table
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["BATCH_ROWS", "MAX_FRAME", "MessageDecoder"]

BATCH_ROWS: Final = 1 << 17
"""Rows per batch: from 32k to 256k a reader spends the same time per row, outside of that more.
Making a batch of all columns takes a quarter of a millisecond, as long as reading some thousand
rows."""

MAX_FRAME: Final = (1 << 31) - 1
"""No frame can be longer here, whatever the limits say: lengths are 32-bit columns."""

_MAX_TEXT: Final = 1 << 30
"""Bytes of text in one batch, whose offsets have 31 bits."""
_MAX_NAMES: Final = 1 << 16
"""Names or paths kept before they are forgotten, to bound the memory."""
_MAX_ERRORS: Final = 4096
_MAX_ERROR_BYTES: Final = 1 << 25

_ESCAPE: Final = re.compile(r"\\x[89a-f][0-9a-f]")
"""How a byte of a name that is not UTF-8 is shown."""

_EMPTY: Final = memoryview(b"").cast("q")
_NO_SIZES: Final = memoryview(b"").cast("i")


class MessageDecoder:
    """Makes rows of frames that are self-describing messages; for one worker at a time.

    `feed` it with frames, of one stream or of several in turn, and `flush` it at the end.
    Both give pairs of a table's name and a record batch.
    """

    def __init__(
        self,
        format: str | None,
        *,
        tables: Iterable[str] = ("messages", "fields", "errors"),
        columns: Iterable[str] | Choice | None = None,
        select: Mapping[str, Iterable[str]] | None = None,
        source: str = "",
        nested: bool = True,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        batch_rows: int = BATCH_ROWS,
        kernel: Any = None,
        **options: Any,
    ) -> None:
        """A decoder.

        Args:
            format: a format of messages. None: it is fed with payloads of transports, which may
                hold messages of any such format.
            tables: those that are wanted: ``messages``, ``fields``, ``errors`` and ``wide``.
            columns: the fields of the wide table: ``BID``, ``BID:decimal(18,4)``. Those without a
                type get the one that the format knows, as from a dictionary, or are text.
            select: columns of the other tables that are wanted; all of a table that is not named.
            source: name of the capture, for the key.
            nested: whether messages in the payloads of others get rows too.
            limits: as for the object path.
            strict: as for the object path, which is then asked about every frame.
            batch_rows: rows in a batch.
            kernel: which kernel to use; None: the compiled one if there is one.
            options: the formats' own, as in `wireloom.options`.

        Raises:
            OptionError: there is no such format, table, column or option.
            SourceError: the dictionary cannot be found or read.
        """
        if format is not None and format not in message_formats():
            known = ", ".join(message_formats())
            raise OptionError(f"{format!r} is not a format of messages; there are {known}")
        self._tables = _checked(tables, columns)
        self._format = format
        walker = None if format is None else get(format).columns().walker
        self._code = PAYLOAD if walker is None else walker
        self._limits = limits
        own = _own_options(format, options)
        self._settings = {
            "strict": strict,
            "max_frame": min(limits.max_frame, MAX_FRAME),
            "max_depth": limits.max_depth,
            "max_fields": min(limits.max_fields, MAX_FRAME),
            **{f"{name}.{each}": own[name][each] for name in own for each in own[name]},
        }
        self._is_nested = nested
        self._kernel = load() if kernel is None else kernel
        self._choice = _choice(columns, format, own)
        walked = [get(name).columns() for name in walked_formats()]
        given = [own.get(name, {}) for name in walked_formats()]
        self._is_slow = strict or (format is not None and walker is None)
        self._is_slow |= not all(
            each.is_walked(known) for each, known in zip(walked, given, strict=True)
        )
        others = [get(name) for name in message_formats() if get(name).columns().walker is None]
        # Magics of messages that the kernel would not find: frames with one go the slow way.
        self._magics = [each.magic for each in others] if nested or format is None else []
        self._is_slow |= not all(self._magics)
        # The kernel knows names by their bytes, and several may be shown as the same text.
        self._is_slow |= any(_ESCAPE.search(name) for name in self._choice.names)
        wanted = {name: table(name).select((select or {}).get(name)) for name in self._plain}
        self._errors_table = wanted.get("errors", table("errors"))
        self._batches = BatchSet(
            self._kernel,
            wanted,
            self._choice if "wide" in self._tables else None,
            format,
            batch_rows,
        )
        self._walk = self._batches.walk(nested, self._settings)
        for each, options in zip(walked, given, strict=True):
            each.prepare(self._walk, options)
        if self._chosen:
            self._walk.forget_names(self._chosen)
        self._source = source
        self._errors: list[dict[str, Any]] = []
        self._error_bytes = 0
        self._path = ""
        self.refused = 0
        """Frames and nested messages so far that could not be read."""
        self.refused_frames: list[int] = []
        """Which of the frames fed last could not be read."""

    @property
    def _plain(self) -> list[str]:
        return [name for name in self._tables if name != "wide"]

    @property
    def _chosen(self) -> list[bytes]:
        return [name.encode("utf-8", "surrogateescape") for name in self._choice.names]

    def table(self, name: str) -> Table:
        """The schema of the batches of that name.

        Raises:
            OptionError: the table was not asked for.
        """
        if name not in self._tables:
            raise OptionError(f"{name!r} was not asked for")
        return self._errors_table if name == "errors" else self._batches.table(name)

    def feed(
        self,
        data: Any,
        starts: Any,
        lengths: Any,
        *,
        offsets: Any = None,
        base: int = 0,
        ts_ns: Any = None,
        framed: Any = None,
        source: str | None = None,
        stream: str = "",
        path: str = "",
    ) -> Batches:
        """The batches that these frames complete; it must be iterated to its end.

        Args:
            data: bytes, a memoryview or a mapped file that holds the frames.
            starts: where each starts in `data`: 64-bit numbers.
            lengths: the bytes of each: 32-bit numbers.
            offsets: where each starts in its stream; by default at its start plus `base`.
            base: stream offset of ``data[0]``.
            ts_ns: when each was captured, in nanoseconds since 1970; None if not known.
            framed: the bytes of the frames that payloads lie in, for the key; by default `lengths`.
            source: name of the capture, for the key; by default that of the decoder.
            stream: name of the stream, for the key.
            path: where in their frames the messages lie; empty when they are the frames.
        """
        starts, lengths = _numbers(starts, "q"), _numbers(lengths, "i")
        given = _EMPTY if offsets is None else _numbers(offsets, "q")
        times = _EMPTY if ts_ns is None else _numbers(ts_ns, "q")
        sizes = _NO_SIZES if framed is None else _numbers(framed, "i")
        last = len(lengths)
        if len(starts) != last or any(len(each) not in (0, last) for each in (given, times, sizes)):
            raise OptionError("starts, lengths, offsets, times and sizes differ in number")
        frames = _Frames(memoryview(data).cast("B"), starts, lengths, given, times, sizes, base)
        self.refused_frames = []
        key = (self._source if source is None else source, stream)
        yield from self._batches.turn(key, ts_ns is not None)
        self._walk.set_base(path.encode("utf-8", "surrogateescape"))
        self._path = path
        at = 0
        end = last
        slow = self._with_magic(frames) if self._magics and not self._is_slow else None
        while at < last:
            state = GOOD
            if self._is_slow or (slow and slow[0] == at):
                yield from self._slow(frames, at)
                at += 1
                if slow:
                    slow.popleft()
                continue
            if slow is not None:
                end = slow[0] if slow else last
            at, state = self._kernel.message_rows(
                self._walk,
                self._code,
                frames.data,
                starts,
                lengths,
                given,
                times,
                base,
                at,
                end,
                sizes,
            )
            if state == NO_ROOM:
                yield from self._make_room()
            elif state == ASKED:
                self._answer()
            elif state != GOOD:
                yield from self._slow(frames, at)
                at += 1

    def _with_magic(self, frames: _Frames) -> deque[int]:
        """The frames that may hold a message that the kernel has no walker for."""
        return deque(
            index
            for index in range(len(frames.lengths))
            if any(magic in frames.frame(index) for magic in self._magics)
        )

    def flush(self) -> Batches:
        """What is left."""
        yield from self._batches.flush()
        yield from self._flush_errors()

    def take_errors(self) -> list[dict[str, Any]]:
        """The rows of `errors` that are in no batch yet; they are handed over here instead."""
        found, self._errors, self._error_bytes = self._errors, [], 0
        return found

    def _make_room(self) -> Batches:
        walk = self._walk
        need = walk.need
        if need == NEED_ROWS:
            yield from self._batches.fields.make_room()
        elif need == NEED_MESSAGES:
            yield from self._batches.messages.make_room()
        elif need == NEED_WIDE:
            yield from self._batches.wide.make_room()
        elif need == NEED_TEXT:
            if walk.rows.text_used > _MAX_TEXT or walk.rows.binary_used > _MAX_TEXT:
                yield from self._batches.fields.emit()
            walk.rows.grow_text(3 * walk.need_bytes + 64)
        elif need == NEED_WIDE_TEXT:
            if walk.wide.text_used > _MAX_TEXT:
                yield from self._batches.wide.emit()
            walk.wide.grow_text(walk.need_bytes)
        elif need == NEED_PATHS:
            walk.paths.grow()
        else:
            assert need == NEED_NAMES
            walk.grow_names()
        if walk.names.count > _MAX_NAMES or walk.paths.count > _MAX_NAMES:
            # The numbers of names change now: nothing may keep the old ones.
            yield from self._batches.flush()
            self._batches.open()
            walk.forget_names(self._chosen)
            walk.set_base(self._path.encode("utf-8", "surrogateescape"))

    def _answer(self) -> None:
        """Tell the kernel which of the texts that it asks about are dates."""
        dates = self._walk.dates
        for text in dates.asked():
            found = parse_date(text.decode("utf-8", "surrogateescape"))
            day = None if found is None else found.to_date()
            if day is not None:
                dates.answer(day.toordinal() - DAY_0)
            else:
                dates.answer(DATE_NONE if found is None else DATE_NULL)
        if dates.is_full():
            dates.clear()

    # --- the object path

    def _slow(self, frames: _Frames, at: int) -> Batches:
        """The rows of a frame from the object path, or why it has none."""
        raw = frames.frame(at)
        offset = frames.offset(at)
        length = frames.sizes[at] if len(frames.sizes) else len(raw)
        source, stream = self._batches.key
        ts_ns = frames.times[at] if len(frames.times) else None
        key = key_row(source, stream, offset, length, ts_ns, self._path)
        try:
            if self._format is None:
                found = payload_rows(raw, path=self._path, **self._settings)
            else:
                found = frame_rows(
                    raw, self._format, nested=self._is_nested, path=self._path, **self._settings
                )
        except DecodeError as error:
            at_byte = None if self._path else offset + error.offset
            self._errors.append(key | failure_row("message", self._format, error, raw, at_byte))
            found = FrameRows()
            self._error_bytes += len(raw)
            self.refused += 1
            self.refused_frames.append(at)
        for row in found.errors:
            self._errors.append(key | row)
            self._error_bytes += len(row["raw"])
            self.refused += 1
        if len(self._errors) >= _MAX_ERRORS or self._error_bytes >= _MAX_ERROR_BYTES:
            yield from self._flush_errors()
        yield from self._add(found, offset, length, ts_ns or 0)

    def _flush_errors(self) -> Batches:
        if self._errors and "errors" in self._tables:
            yield "errors", from_rows(self._errors_table, self._errors)
        self._errors = []
        self._error_bytes = 0

    def _add(self, found: FrameRows, offset: int, length: int, ts_ns: int) -> Batches:
        """Put rows of the object path behind those of the kernel."""
        walk, batches = self._walk, self._batches
        walk.begin_slow()
        for row in found.messages if batches.has_messages else ():
            if walk.messages.count >= walk.messages.capacity:
                walk.end_slow(offset, length, ts_ns)
                yield from batches.messages.emit()
                walk.begin_slow()
            batches.messages.add(walk, row)
        for row in found.fields if batches.has_fields else ():
            values = kernel_values(row)
            size = sum(len(value) for _, value in values if isinstance(value, bytes))
            if walk.rows.count >= walk.rows.capacity or walk.rows.text_used > _MAX_TEXT:
                walk.end_slow(offset, length, ts_ns)
                yield from batches.fields.emit()
                walk.begin_slow()
            if not walk.rows.has_room(size):
                walk.rows.grow_text(3 * size + 64)
            batches.fields.add(walk, row, values)
        if batches.has_wide:
            for message, cells, misfits in wide_rows(found, self._choice):
                if walk.wide.count >= walk.wide.capacity:
                    walk.end_slow(offset, length, ts_ns)
                    yield from batches.wide.emit()
                    walk.begin_slow()
                batches.wide.add(walk, message, cells, misfits)
        walk.end_slow(offset, length, ts_ns)


class _Frames:
    """Frames as the caller gave them."""

    __slots__ = ("base", "data", "lengths", "offsets", "sizes", "starts", "times")

    def __init__(
        self,
        data: memoryview,
        starts: memoryview,
        lengths: memoryview,
        offsets: memoryview,
        times: memoryview,
        sizes: memoryview,
        base: int,
    ) -> None:
        self.data = data
        self.starts = starts
        self.lengths = lengths
        self.offsets = offsets
        self.times = times
        self.sizes = sizes
        self.base = base

    def frame(self, at: int) -> bytes:
        start, length = self.starts[at], self.lengths[at]
        # The kernel refuses such a frame too, so that it always ends up here.
        if start < 0 or length < 0 or start + length > len(self.data):
            raise OptionError(f"a frame of {length} bytes at {start} is not in the data")
        return bytes(self.data[start : start + length])

    def offset(self, at: int) -> int:
        found: int = self.offsets[at] if len(self.offsets) else self.starts[at] + self.base
        return found


def _checked(tables: Iterable[str], columns: object) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(tables))
    known = ("messages", "fields", "errors", "wide")
    for name in found:
        if name not in known:
            raise OptionError(f"no table {name!r} of messages; there are {', '.join(known)}")
    if ("wide" in found) != (columns is not None):
        raise OptionError("the table wide and its columns go together: name both or none")
    return found


def _own_options(format: str | None, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options by format, checked to make sense for tables."""
    found = by_format(given, [get(name) for name in message_formats()])
    for name, own in found.items():
        for option in get(name).options:
            if option.name in own and not option.is_for_tables:
                raise OptionError(f"{format or 'a payload'} has no option {option.name!r} here")
    return {name: get(name).check_options(own)[2] for name, own in found.items()}


def _choice(
    columns: Iterable[str] | Choice | None, format: str | None, own: Mapping[str, dict[str, Any]]
) -> Choice:
    if columns is None:
        return Choice((), ())
    if isinstance(columns, Choice):
        return columns
    known = {} if format is None else get(format).columns().wide_types(own.get(format, {}))
    return choose(columns, known)


def _numbers(values: Any, code: Literal["i", "q"]) -> memoryview:
    """Numbers as a view that the kernel can read."""
    if isinstance(values, pa.Array):
        view = memoryview(values.buffers()[1]).cast("B").cast(code)
        return view[values.offset : values.offset + len(values)]
    if isinstance(values, Sequence) and not isinstance(values, memoryview):
        return memoryview(struct.pack(f"={len(values)}{code}", *values)).cast(code)
    return memoryview(values).cast("B").cast(code)
