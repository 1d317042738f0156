"""Frames → the packet tables of transports, at compiled speed.

The word kernel fills the columns. A frame that it refuses goes to the object path, which says
why, or has the row after all: what is in a table never depends on the kernel alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa

from wireloom.arrow.arrays import plain_column
from wireloom.arrow.frames import FrameBatch, Keys, Refused
from wireloom.columnar.assembly import Assembly, Filled
from wireloom.columnar.program import build_program
from wireloom.columns import column_name
from wireloom.errors import DecodeError, OptionError
from wireloom.format import Format
from wireloom.formats import get, names
from wireloom.kernel import load
from wireloom.messages import Message
from wireloom.tables import Table, table
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["MAX_BATCH_BYTES", "BodyColumn", "PacketDecoder", "PacketRows"]

MAX_BATCH_BYTES = 1 << 26
"""Bytes of frames in one record batch: bounds what its payload columns hold."""

BodyColumn = Callable[[int, int, list[int]], pa.Array | None]
"""Reads bodies. It is called for each record batch with the number of its first frame, the number
behind its last, and the numbers of frames that are not legal packets; it returns the column
`Columns.body`, or None."""


@dataclass(frozen=True, slots=True)
class PacketRows:
    """Rows of a packet table, and the frames that have none."""

    rows: pa.RecordBatch
    refused: list[Refused]
    first: int
    """Number in the batch of the first of these frames."""
    places: tuple[memoryview, memoryview] | None
    """Where each frame's payload starts in the data, and its length plus one; 0: it has none."""
    accepted: dict[int, Message]
    """Packets that the object path read, by frame number; `places` does not have them."""


class PacketDecoder:
    """Makes rows of one transport's frames; for one worker at a time."""

    def __init__(
        self,
        format: str,
        *,
        columns: Iterable[str] | None = None,
        payload: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        kernel: Any = None,
        **options: Any,
    ) -> None:
        """A decoder.

        Args:
            format: a transport.
            columns: those that are wanted; None: all.
            payload: the column of byte strings whose places are wanted.
            limits: as for the object path.
            strict: as for the object path, which is then asked about every frame.
            kernel: which kernel to use; None: the compiled one if there is one.
            options: the format's own.

        Raises:
            OptionError: there is no such table, column or option.
        """
        transports = [name for name in names() if get(name).kind == "transport"]
        if format not in transports:
            raise OptionError(f"no packet table {format!r}; there are {', '.join(transports)}")
        self.table: Table = table(format).select(columns)
        self._format: Format = get(format)
        self._columns = self._format.columns()
        self._limits = limits
        self._strict = strict
        # Bodies are read by `Columns.bodies`: a bad one leaves its packet readable.
        bodily = self._columns.body_options
        self._options = {key: value for key, value in options.items() if key not in bodily}
        self._kernel = load() if kernel is None else kernel
        shapes, enums = self._columns.shapes(self._format.packets(), limits, strict, options)
        extra = {column.name for column in self._columns.extra} - {self._columns.body}
        self._more = [name for name in self.table.names if name in extra]
        self._readers = self._columns.extra_readers(self._options) if self._more else None
        payload = None if payload is None else column_name(payload)
        filled = {*self.table.names, *(() if payload is None else (payload,))}
        content = self._columns.payload
        content = None if content is None else column_name(content)
        if self._readers is not None and content is not None:
            filled.add(content)
        program = build_program(self._kernel, table(format).select(filled), shapes, enums)
        self._payload = next((each for each in program.outputs if each.name == payload), None)
        self._content = next((each for each in program.outputs if each.name == content), None)
        self._assembly = Assembly(self._kernel, self.table, program)
        self._program = program
        self._rows: Any = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._assembly.schema

    def decode(
        self,
        batch: FrameBatch,
        *,
        source: str | pa.DictionaryArray = "",
        stream: str | pa.DictionaryArray = "",
        ts_ns: memoryview | None = None,
        offsets: memoryview | None = None,
        bodies: BodyColumn | None = None,
    ) -> Iterator[PacketRows]:
        """The rows of a batch of frames, in one or more record batches.

        Args:
            batch: the frames.
            source: the capture they come from, or that of each.
            stream: the stream they come from, or that of each.
            ts_ns: capture time of each frame, 64-bit numbers; None if not known.
            offsets: stream offset of each, where `batch.base` does not tell it.
            bodies: reads the packets' bodies.
        """
        whole = Keys(source, stream, batch.base, ts_ns, offsets)
        for first, last in _pieces(batch):
            keys = whole.part(first, last)
            part = batch.part(first, last)
            filled, refused, accepted = self._fill(part, first, keys)
            more = self._more_columns(part, filled)
            if bodies is not None:
                found_texts = bodies(first, last, [each.index for each in refused])
                if found_texts is not None and self._columns.body in self.table.names:
                    more[self._columns.body] = found_texts
            rows = self._assembly.batch(filled, keys, part, more)
            if accepted:
                rows = self._with(rows, accepted, part, keys, filled, more)
            found = {first + index: packet for index, packet in accepted.items()}
            yield PacketRows(rows, refused, first, self._places(filled), found)

    def _places(self, filled: Filled) -> tuple[memoryview, memoryview] | None:
        output = self._payload
        if output is None or not filled.there[output.index]:
            return None
        return filled.blobs(output)

    def check(self, batch: FrameBatch) -> list[Refused]:
        """Only the frames of a batch that are not legal packets."""
        keys = Keys("", "", batch.base, None)
        return [
            each
            for first, last in _pieces(batch)
            for each in self._fill(batch.part(first, last), first, keys)[1]
        ]

    def _fill(
        self, batch: FrameBatch, first: int, keys: Keys
    ) -> tuple[Filled, list[Refused], dict[int, Message]]:
        """The kernel's columns, and what the object path says about the frames it refused."""
        if self._rows is None or self._rows.capacity < batch.count:
            self._rows = self._kernel.WordRows(self._program.made, batch.count)
        self._rows.classify(batch.data, batch.offsets, batch.lengths)
        filled = self._assembly.fill(self._rows, batch)
        return filled, *self._ask(batch, first, filled, keys)

    def _read(self, raw: bytes) -> Any:
        return self._format.decode(raw, limits=self._limits, strict=self._strict, **self._options)

    def _ask(
        self, batch: FrameBatch, first: int, filled: Filled, keys: Keys
    ) -> tuple[list[Refused], dict[int, Message]]:
        """Ask the object path about the frames that the kernel refused, or all in strict mode."""
        refused: list[Refused] = []
        accepted: dict[int, Message] = {}
        outcome = bytes(filled.outcome)
        asked = range(batch.count) if self._strict else _places(outcome)
        for index in asked:
            raw = batch.frame(index)
            try:
                packet = self._read(raw)
            except DecodeError as error:
                filled.outcome[index] = 1
                offset = keys.offset(index, batch)
                refused.append(Refused(first + index, offset, raw, error))
            else:
                if outcome[index]:
                    accepted[index] = packet
        return refused, accepted

    def _more_columns(self, batch: FrameBatch, filled: Filled) -> dict[str, pa.Array]:
        """Columns that only the object path can fill, from the payload."""
        if self._readers is None:
            return {}
        (read, columns), data, frames = self._readers, batch.data, batch.offsets.tolist()
        places: Iterable[tuple[int, int]] = repeat((0, 1), batch.count)
        assert self._content is not None
        if filled.there[self._content.index]:
            starts, sizes = filled.blobs(self._content)
            places = zip(starts.tolist(), sizes.tolist(), strict=True)
        readings: list[Any] = [None] * batch.count
        for index, (frame, (start, size), is_refused) in enumerate(
            zip(frames, places, bytes(filled.outcome)[: batch.count], strict=True)
        ):
            if not is_refused:
                readings[index] = read(data, frame, bytes(data[start : start + size - 1]))
        return {
            column.name: plain_column(
                column,
                [None if each is None else columns[column.name](each) for each in readings],
            )
            for column in self.table.columns
            if column.name in self._more
        }

    def _with(
        self,
        rows: pa.RecordBatch,
        accepted: dict[int, Message],
        batch: FrameBatch,
        keys: Keys,
        filled: Filled,
        more: dict[str, pa.Array],
    ) -> pa.RecordBatch:
        """The rows together with those of the object path, in the order of the frames."""
        extra = []
        for index, packet in accepted.items():
            values = keys.row(index, batch)
            values |= {name: column[index].as_py() for name, column in more.items()}
            values |= self._columns.row(packet)
            for column in self.table.columns:  # another packet may have names there
                if column.type == "name" and isinstance(values.get(column.name), int):
                    values[column.name] = str(values[column.name])
            extra.append({name: values.get(name) for name in self.table.names})
        kept = [index for index in range(batch.count) if not filled.outcome[index]]
        places = {index: row for row, index in enumerate([*kept, *accepted])}
        joined = pa.Table.from_batches([rows, pa.RecordBatch.from_pylist(extra, self.schema)])
        taken = joined.unify_dictionaries().take([places[index] for index in sorted(places)])
        return taken.combine_chunks().to_batches()[0]


def _places(outcome: bytes) -> Iterator[int]:
    """The indices of the ones."""
    index = outcome.find(1)
    while index >= 0:
        yield index
        index = outcome.find(1, index + 1)


def _pieces(batch: FrameBatch) -> Iterator[tuple[int, int]]:
    """Ranges of frames of at most `MAX_BATCH_BYTES` each, but of at least one frame."""
    if not batch.count:
        return
    span = batch.offsets[-1] + batch.lengths[-1] - batch.offsets[0]
    if span <= MAX_BATCH_BYTES:
        yield 0, batch.count
        return
    first = size = 0
    for index, length in enumerate(batch.lengths):
        if size + length > MAX_BATCH_BYTES and index > first:
            yield first, index
            first, size = index, 0
        size += length
    yield first, batch.count
