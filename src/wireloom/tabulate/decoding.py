"""A group of frames → their rows in all tables; nothing is kept from group to group.

Frames that turn out not to be legal packets or messages are refused: they get a row in `errors`,
and the accounts of their streams have to be corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import allocate, constant, flags, int_scalar, null_array, numbers
from wireloom.arrow.bodies import Bodies
from wireloom.arrow.frames import FrameBatch, Payloads, Refused
from wireloom.columnar.messages import MessageDecoder
from wireloom.columnar.packettables import BodyColumn, PacketDecoder, PacketRows
from wireloom.columns import failure_row
from wireloom.formats import get
from wireloom.kernel import load
from wireloom.messages import Message
from wireloom.tables import KEY, arrow_schema, arrow_type
from wireloom.tabulate.connections import read_bodies
from wireloom.tabulate.groups import FrameGroup, Joined, Segment, StreamState, join
from wireloom.tabulate.nested import FormatFrames, carried, placed, shifted, with_magic
from wireloom.tabulate.settings import Settings

__all__ = ["Decoded", "GroupDecoder"]

_INSIDE: Final = ("messages", "fields", "wide", "errors")
"""The tables in which nested messages have rows."""

_KEYS: Final = tuple(column.name for column in KEY)


@dataclass(slots=True)
class Decoded:
    """What a group was decoded to."""

    batches: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)
    """Rows, except those of `errors`."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `errors`, in the order of the segments, then of the stream."""
    refused: list[tuple[StreamState, int, int]] = field(default_factory=list)
    """Streams with refused frames, how many, and their bytes."""


class GroupDecoder:
    """Decodes groups; for one worker at a time."""

    def __init__(self, settings: Settings, *, kernel: Any = None) -> None:
        """A decoder.

        Raises:
            OptionError: the settings cannot be used.
            SourceError: a dictionary or model cannot be found or read.
        """
        self._settings = settings
        self._kernel = load() if kernel is None else kernel
        self._tables = {name: settings.table(name) for name in settings.tables}
        self._packets: dict[str, PacketDecoder] = {}
        self._messages: dict[str | None, MessageDecoder] = {}
        self._bodies: dict[str, Bodies] = read_bodies(settings, self._kernel)
        self._overflow: list[dict[str, Any]] = []
        self._has_inside = settings.nested and any(name in self._tables for name in _INSIDE)

    def decode(self, group: FrameGroup) -> Decoded:
        """The rows of a group."""
        found = Decoded()
        refused: dict[int, list[dict[str, Any]]] = {}  # of each segment
        filled = [
            segment
            for segment in group.segments
            if segment.batch is not None and segment.batch.count
        ]
        # Whether a stream has times may change in between, but its order must not.
        order = sorted(filled, key=lambda segment: _batch(segment).format)
        for (format, _), alike in groupby(order, key=_kind):
            segments = list(alike)
            if get(format).kind == "transport":
                errors = self._transport(format, segments, found)
            else:
                errors = self._message(format, segments, found)
            for segment, row in errors:
                refused.setdefault(id(segment), []).append(row)
        for decoder in self._messages.values():
            for name, batch in decoder.flush():
                self._take(name, batch, found)
        for segment in group.segments:
            rows = segment.rows
            if len(rows) > 1 or id(segment) in refused:
                rows = sorted(
                    [*rows, *refused.get(id(segment), ())], key=itemgetter("frame_offset")
                )
            found.errors += rows
        return found

    def _add(self, found: Decoded, name: str, batch: pa.RecordBatch) -> None:
        """Rows of a table, with the columns that are wanted."""
        wanted = self._tables[name].names
        if tuple(batch.schema.names) != wanted:
            batch = batch.select(wanted)
        if batch.num_rows:
            found.batches.append((name, batch))

    # --- transports

    def _transport(
        self, format: str, segments: list[Segment], found: Decoded
    ) -> list[tuple[Segment, dict[str, Any]]]:
        decoder = self._packet_decoder(format)
        part = FormatFrames(self._kernel, segments)
        joined = part.joined
        errors: list[tuple[Segment, dict[str, Any]]] = []
        bodies: BodyColumn | None = None
        if format in self._bodies:

            def bodies(first: int, last: int, illegal: list[int]) -> pa.Array | None:
                return self._bodies_of(part, first, last, illegal, found, errors)

        for rows in decoder.decode(
            joined.batch,
            source=joined.source,
            stream=joined.stream,
            ts_ns=joined.ts_ns,
            offsets=joined.offsets,
            bodies=bodies,
        ):
            for refused in rows.refused:
                segment = part.owner(refused.index)
                row = part.key(refused.index, refused.offset, len(refused.data))
                errors.append((segment, row | _why(format, "packet", refused)))
                found.refused.append((segment.state, 1, len(refused.data)))
            self._packet_rows(format, rows, joined, found)
            if self._has_inside and bodies is None:
                self._inside(part, rows, found, errors)
        return errors

    def _packet_decoder(self, format: str) -> PacketDecoder:
        if format not in self._packets:
            wanted = set(self._tables[format].names) if format in self._tables else set()
            if "frames" in self._tables:
                own = {*_KEYS, "type_code", "type_name"}
                wanted |= own & set(self._tables["frames"].names)
            if format not in self._bodies:
                wanted.discard(get(format).columns().body)
            self._packets[format] = PacketDecoder(
                format,
                columns=wanted or {"frame_offset"},
                payload=get(format).columns().payload if self._has_inside else None,
                limits=self._settings.limits,
                strict=self._settings.strict,
                kernel=self._kernel,
                **self._settings.packet_options(format),
            )
        return self._packets[format]

    def _packet_rows(self, format: str, part: PacketRows, joined: Joined, found: Decoded) -> None:
        rows = part.rows
        if format in self._tables:
            own, body = self._tables[format], get(format).columns().body
            if body in own.names and body not in rows.schema.names:
                nulls = null_array(arrow_type(own[body].type), rows.num_rows)
                rows = rows.append_column(body, nulls)
            self._add(found, format, rows)
        if "frames" in self._tables:
            batch = joined.batch
            count = part.rows.num_rows + len(part.refused)
            refused = [each.index for each in part.refused]
            sub = batch.part(part.first, part.first + count)
            kept = _without(count, [index - part.first for index in refused])
            suspect = [each - part.first for each in joined.suspect]
            self._add(found, "frames", self._frames(format, part.rows, sub, kept, suspect))

    def _frames(
        self,
        format: str,
        rows: pa.RecordBatch,
        batch: FrameBatch,
        kept: pa.Array | None,
        suspect: Sequence[int],
    ) -> pa.RecordBatch:
        """Rows of `frames`, from columns that other tables have made already."""
        count = rows.num_rows
        arrays = []
        wanted = self._tables["frames"]
        for column in wanted.columns:
            type = arrow_type(column.type)
            if column.name == "format":
                arrays.append(constant(format, count, type))
            elif column.name == "is_suspect":
                marked = flags(batch.count, suspect)
                arrays.append(marked if kept is None else marked.filter(kept))
            elif column.name == "raw" and self._settings.include_raw:
                arrays.append(_raw(self._kernel, batch, kept))
            elif column.name in rows.schema.names:
                arrays.append(rows.column(column.name))
            else:
                arrays.append(null_array(type, count))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(wanted))

    # --- bodies

    def _bodies_of(
        self,
        part: FormatFrames,
        first: int,
        last: int,
        illegal: list[int],
        found: Decoded,
        errors: list[tuple[Segment, dict[str, Any]]],
    ) -> pa.Array | None:
        """Add the rows of the bodies of some frames; return the column of the packet table."""
        joined = part.joined
        format = joined.batch.format
        columns = get(format).columns()
        body, where = columns.body, {"path": columns.payload or ""}
        has_texts = format in self._tables and body in self._tables[format].names
        texts = []
        words = joined.words
        if words is None:  # nothing before says what they are
            words = memoryview(bytes(8 * joined.batch.count)).cast("q")
        for made in self._bodies[format].read(
            joined.batch.part(first, last),
            words[first:last],
            joined.keys.part(first, last),
            passed_over=[index - first for index in illegal],
            texts=has_texts,
            payloads=self._has_inside,
        ):
            if "fields" in self._tables:
                self._add(found, "fields", made.rows)
            for each in made.refused:
                segment = part.owner(first + each.index)
                row = part.key(first + each.index, each.offset, len(each.data))
                errors.append((segment, row | _why(format, "message", each) | where))
            for run in made.payloads or ():
                self._feed(part, shifted(run, first), found, errors)
            texts.append(made.texts)
        return pa.concat_arrays(texts) if has_texts else None

    # --- nested messages

    def _inside(
        self,
        part: FormatFrames,
        rows: PacketRows,
        found: Decoded,
        errors: list[tuple[Segment, dict[str, Any]]],
    ) -> None:
        """Rows of the messages in the payloads of some packets."""
        format, batch = part.joined.batch.format, part.joined.batch
        passed_over = {each.index for each in rows.refused}
        columns = get(format).columns()
        if columns.payload is None or columns.payloads_in_messages:
            # Only the object path knows what is in its messages.
            count = rows.rows.num_rows + len(rows.refused)
            some = batch.part(rows.first, rows.first + count)
            asked = {rows.first + index for index in with_magic(some)} - passed_over
            read = ((index, self._read(format, batch.frame(index))) for index in sorted(asked))
            runs = [run for index, message in read for run in carried(index, message)]
        else:
            runs = placed(self._kernel, rows, batch.data, columns.payload, passed_over)
        for run in runs:
            self._feed(part, run, found, errors)

    def _read(self, format: str, frame: bytes) -> Message:
        settings = self._settings
        return get(format).decode(
            frame,
            limits=settings.limits,
            strict=settings.strict,
            **settings.packet_options(format),
        )

    def _feed(
        self,
        part: FormatFrames,
        run: Payloads,
        found: Decoded,
        errors: list[tuple[Segment, dict[str, Any]]],
    ) -> None:
        """The messages in some payloads, stream by stream."""
        decoder = self._message_decoder(None)
        for segment, more in part.by_segment(run):
            for name, rows in decoder.feed(
                run.data,
                **more,
                source=segment.state.source,
                stream=segment.state.name,
                path=run.path,
            ):
                self._take(name, rows, found)
            errors += self._errors_of(None, segment)

    # --- messages

    def _message_decoder(self, format: str | None) -> MessageDecoder:
        if format not in self._messages:
            settings = self._settings
            tables = [name for name in _INSIDE if name in self._tables or name == "errors"]
            plain: list[str] = [name for name in ("messages", "fields") if name in self._tables]
            self._messages[format] = MessageDecoder(
                format,
                tables=tables,
                columns=settings.choice,
                select={name: self._tables[name].names for name in plain},
                nested=settings.nested,
                limits=settings.limits,
                strict=settings.strict,
                batch_rows=settings.batch_rows,
                kernel=self._kernel,
                **settings.message_options(),
            )
        return self._messages[format]

    def _message(
        self, format: str, segments: list[Segment], found: Decoded
    ) -> list[tuple[Segment, dict[str, Any]]]:
        decoder = self._message_decoder(format)
        errors: list[tuple[Segment, dict[str, Any]]] = []
        lost: list[int] = []
        at = 0
        for segment in segments:
            batch = segment.batch
            assert batch is not None
            for name, rows in decoder.feed(
                batch.data,
                batch.offsets,
                batch.lengths,
                base=batch.base,
                ts_ns=segment.ts_ns,
                source=segment.state.source,
                stream=segment.state.name,
            ):
                self._take(name, rows, found)
            if decoder.refused_frames:
                size = sum(batch.lengths[index] for index in decoder.refused_frames)
                found.refused.append((segment.state, len(decoder.refused_frames), size))
                lost += [at + index for index in decoder.refused_frames]
            errors += self._errors_of(format, segment)
            at += batch.count
        if "frames" in self._tables:
            self._message_frames(format, segments, lost, found)
        return errors

    def _message_frames(
        self, format: str, segments: list[Segment], lost: list[int], found: Decoded
    ) -> None:
        """Rows of `frames`, for frames that are messages."""
        joined = join(segments)
        wanted = [column for column in KEY if column.name in self._tables["frames"].names]
        kept = _without(joined.batch.count, lost)
        columns = [
            joined.keys.column(column, joined.batch, self._kernel) for column in wanted or KEY[3:4]
        ]
        if kept is not None:
            columns = [column.filter(kept) for column in columns]
        rows = pa.RecordBatch.from_arrays(columns, [column.name for column in wanted or KEY[3:4]])
        frames = self._frames(format, rows, joined.batch, kept, joined.suspect)
        self._add(found, "frames", frames)

    def _take(self, name: str, rows: pa.RecordBatch, found: Decoded) -> None:
        """A batch of a decoder of messages."""
        if name == "errors":
            self._overflow += _plain(rows)
        elif name in self._tables:
            self._add(found, name, rows)

    def _errors_of(
        self, format: str | None, segment: Segment
    ) -> list[tuple[Segment, dict[str, Any]]]:
        """What a decoder of messages could not read of the segment it was fed."""
        rows, self._overflow = [*self._overflow, *self._message_decoder(format).take_errors()], []
        return [(segment, row) for row in rows]


def _batch(segment: Segment) -> FrameBatch:
    assert segment.batch is not None
    return segment.batch


def _kind(segment: Segment) -> tuple[str, bool]:
    """Segments for which this is equal can be joined."""
    assert segment.batch is not None
    return segment.batch.format, segment.ts_ns is not None


def _without(count: int, lost: Sequence[int]) -> pa.Array | None:
    """A mask of the frames that were read; None if all were."""
    if not lost:
        return None
    return pc.invert(flags(count, lost))


def _raw(kernel: Any, batch: FrameBatch, kept: pa.Array | None) -> pa.Array:
    """The bytes of the frames."""
    starts, lengths = numbers(batch.offsets, pa.int64()), numbers(batch.lengths, pa.int32())
    if kept is not None:
        starts, lengths = starts.filter(kept), lengths.filter(kept)
    count = len(starts)
    sizes = pc.add(lengths, int_scalar(1, pa.int32()))
    total = pc.sum(lengths).as_py() or 0
    out, ends = allocate(total), allocate(4 * (count + 1))
    kernel.take_blobs(
        batch.data,
        memoryview(starts.buffers()[1]).cast("B").cast("q")[starts.offset : starts.offset + count],
        memoryview(sizes.buffers()[1]).cast("B").cast("i")[:count],
        bytes(count),
        1,
        False,
        memoryview(ends).cast("B").cast("i"),
        memoryview(out).cast("B"),
        bytearray(count // 8 + 1),
    )
    return pa.Array.from_buffers(pa.binary(), count, [None, ends, out], 0)


def _why(format: str, layer: str, refused: Refused) -> dict[str, Any]:
    error = refused.error
    return failure_row(layer, format, error, refused.data, refused.offset + error.offset)


def _plain(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows of `errors` as they were before they became a batch."""
    found: list[dict[str, Any]] = rows.to_pylist()
    for row in found:
        row["ts"] = None if row["ts_ns"] is None else row["ts_ns"] // 1000
    return found
