"""Rows that the kernel has filled → record batches, one class per table."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import (
    NameColumn,
    allocate,
    constant,
    dictionary,
    null_array,
    strings,
    unique_names,
    zeros,
)
from wireloom.columnar.types import DIALECTS, dialect_names, field_map, field_names
from wireloom.columnar.wide import Choice, wide_array
from wireloom.formats import get
from wireloom.kernel.rows import keyrows as keys
from wireloom.kernel.rows import messagerows
from wireloom.kernel.rows.fieldrows import (
    V_BINARY,
    V_BLANK,
    V_DATE,
    V_DECIMAL,
    V_FID,
    V_HINT,
    V_INT,
    V_NAME,
    V_PARTIAL,
    V_POSITION,
    V_REAL,
    V_SIZE,
    V_TEXT,
    V_TIME,
    V_TS,
    V_TYPE,
)
from wireloom.rows import field_types, message_formats
from wireloom.tables import Column, Table, arrow_schema, arrow_type, table

__all__ = ["FIELD_BITS", "BatchSet", "Batches"]

Batches = Iterator[tuple[str, pa.RecordBatch]]
"""Names of tables, each with a record batch of it."""

_MAX_STREAMS: Final = 1 << 16
"""Streams kept before they are forgotten, to bound the memory."""

_KEYS: Final = {
    "frame_offset": keys.K_OFFSET,
    "frame_length": keys.K_LENGTH,
    "ts_ns": keys.K_TS_NS,
    "ts": keys.K_TS,
    "path": keys.K_PATH,
    "source": keys.K_STREAM,
    "stream": keys.K_STREAM,
}
FIELD_BITS: Final = {
    "position": V_POSITION,
    "name": V_NAME,
    "fid": V_FID,
    "type": V_TYPE,
    "size": V_SIZE,
    "value_int": V_INT,
    "value_real": V_REAL,
    "value_decimal": V_DECIMAL,
    "value_text": V_TEXT,
    "value_binary": V_BINARY,
    "value_date": V_DATE,
    "value_time": V_TIME,
    "value_ts_ns": V_TS,
    "is_blank": V_BLANK,
    "hint": V_HINT,
    "partial_offset": V_PARTIAL,
}
"""The kernel's bits for the columns of `fields` that are not part of the key."""

_QUICK: Final = V_POSITION | V_TYPE | V_SIZE | V_NAME | V_TEXT | V_INT | V_REAL | V_DECIMAL | V_HINT
"""The columns that the kernel's fast paths fill; asking for fewer would take longer."""

_MESSAGES: Final = {
    "format": messagerows.G_FORMAT,
    "dialect": messagerows.G_DIALECT,
    "field_count": messagerows.G_FIELDS,
    "depth": messagerows.G_DEPTH,
}
_WIDE_NEEDS: Final = {
    "i64": V_INT | V_REAL,
    "f64": V_INT | V_REAL,
    "decimal": V_INT | V_REAL,
    "text": V_TEXT,
    "binary": V_BINARY,
    "date": V_DATE,
    "time": V_TIME,
    "timestamp": V_TS,
    "bool": V_INT,
}
"""Which parts of a field's value the kernel must read for a wide column of that type."""

_TEXT_A_ROW: Final = 16
"""Bytes of text that a row gets room for at first; it grows when needed."""


def _bits(wanted: Table | None, bits: Mapping[str, int]) -> int:
    found = 0
    for column in wanted.columns if wanted is not None else ():
        found |= bits.get(column.name, 0)
    return found


class _TableBatches(ABC):
    """What the tables have in common: the key columns, and making a batch."""

    name: str

    def __init__(self, kernel: Any, streams: list[tuple[str, str]], wanted: Table) -> None:
        self.table = wanted
        self.has_times = False
        self.walk: Any = None
        self.rows: Any = None
        self._kernel = kernel
        self._streams = streams
        self._schema = arrow_schema(wanted)
        self._paths = NameColumn()
        self._same_columns: dict[str, pa.Array] = {}
        self._same_count = -1
        self._is_open = True

    def emit(self) -> Batches:
        """The rows so far as a batch, if there are any; then starts an empty one."""
        if self.rows.count:
            yield self.name, self._batch()
            self.rows.reset()

    def close(self) -> Batches:
        """The rows so far as a batch, if there are any; holds no memory until `open`."""
        if self.rows.count:
            batch = self._batch()
            self.rows.let_go()
            self._is_open = False
            yield self.name, batch

    def open(self) -> None:
        """See to it that there is room for rows."""
        if not self._is_open:
            self.rows.reset()
            self._is_open = True

    def _batch(self) -> pa.RecordBatch:
        self.rows.finish()
        arrays = [self._array(column) for column in self.table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def make_room(self) -> Batches:
        """Give the batch away and start an empty one; if it is empty already, enlarge it."""
        if self.rows.count:
            yield from self.emit()
        else:
            self.rows.grow_rows()

    def _array(self, column: Column) -> pa.Array:
        found = self._key(column)
        return self._own(column) if found is None else found

    @abstractmethod
    def _own(self, column: Column) -> pa.Array:
        """A column that the other tables do not have."""

    def _same(self, name: str, make: Callable[[], pa.Array]) -> pa.Array:
        """A column that is the same in every batch of the same length, which most are."""
        count = self.rows.count
        if self._same_count != count:
            self._same_columns.clear()
            self._same_count = count
        found = self._same_columns.get(name)
        if found is None:
            found = self._same_columns[name] = make()
        return found

    def _nulls(self, name: str, type: pa.DataType) -> pa.Array:
        return self._same(name, lambda: null_array(type, self.rows.count))

    def _constant(self, text: str, type: pa.DataType) -> pa.Array:
        return self._same(f"={text}", lambda: constant(text, self.rows.count, type))

    def _key(self, column: Column) -> pa.Array | None:
        name, type, count = column.name, arrow_type(column.type), self.rows.count
        buffers, kept = self.rows.keys.buffers, self.rows.keys
        if name in ("source", "stream"):
            texts = [pair[name == "stream"] for pair in self._streams]
            if not kept.stream_filled:
                return self._constant(texts[0], type)
            buffer = buffers["stream"].slice(0, 4 * count)
            indices = pa.Array.from_buffers(pa.int32(), count, [None, buffer], 0)
            # Streams of several captures may have the same name, and a capture has several streams.
            found, moved = unique_names([text.encode("utf-8", "surrogateescape") for text in texts])
            return dictionary(indices if moved is None else pc.take(moved, indices), found)
        if name == "path":
            buffer = buffers["path"].slice(0, 4 * count) if kept.path_filled else zeros(4 * count)
            return self._paths.array(self.walk.paths, [None, buffer], count)
        if name in ("ts_ns", "ts") and not self.has_times:
            return self._nulls(name, type)
        if name in _KEYS:
            buffer = buffers[name].slice(0, type.bit_width // 8 * count)
            return pa.Array.from_buffers(type, count, [None, buffer], 0)
        return None


class FieldBatches(_TableBatches):
    """Batches of `fields`; if that table is not wanted, the row that wide cells are taken from."""

    name = "fields"

    def __init__(
        self,
        kernel: Any,
        streams: list[tuple[str, str]],
        wanted: Table | None,
        format: str | None,
        rows: int,
        wide_types: Iterable[str],
    ) -> None:
        super().__init__(kernel, streams, wanted or table("fields"))
        want = _bits(wanted, FIELD_BITS)
        for type in wide_types:
            want |= _WIDE_NEEDS[type.partition("(")[0]] | V_BLANK
        # Messages that name their fields are read by layouts, which fill these columns anyway:
        # asking for fewer of them would cost more.
        names_fields = format is None or not get(format).columns().knows_fields
        if wanted is not None and names_fields:
            want |= _QUICK
        dense = V_INT | V_REAL
        if format is None or get(format).columns().has_hints:
            dense |= V_DECIMAL | V_HINT
        keeps = wanted is not None
        rows = rows if keeps else 1
        self.rows = kernel.FieldRows(
            want, dense, _bits(wanted, _KEYS), rows, _TEXT_A_ROW * rows + 64, allocate, keeps
        )
        self._names = NameColumn()
        self._valid: list[pa.Buffer] = []
        self._types = {name: index for index, name in enumerate(field_types())}

    def _batch(self) -> pa.RecordBatch:
        count = self.rows.count
        stride = (count + 7) // 8
        self._valid = []
        for part in ("low", "high"):
            bits = allocate(8 * stride)
            flags = memoryview(self.rows.buffers[part]).cast("B")
            self._kernel.pack_bits(flags, count, memoryview(bits).cast("B")[: 8 * stride])
            self._valid += [bits.slice(stride * i, stride) for i in range(8)]
        return super()._batch()

    def add(self, walk: Any, row: Mapping[str, Any], values: list[tuple[int, Any]]) -> None:
        """A row of the object path."""
        name = row["name"]
        self.rows.add(
            row["position"],
            self._types[row["type"]],
            row["size"],
            -1 if name is None else walk.names.add(name.encode()),
            walk.paths.add(row["path"].encode()),
            values,
        )

    def _own(self, column: Column) -> pa.Array:
        name, type, count = column.name, arrow_type(column.type), self.rows.count
        buffers, bit = self.rows.buffers, FIELD_BITS[column.name]
        if name == "type":
            codes = buffers[name].slice(0, count)
            indices = pa.Array.from_buffers(pa.int8(), count, [None, codes], 0)
            return dictionary(indices, field_names())
        if name in ("position", "size"):
            return pa.Array.from_buffers(type, count, [None, buffers[name].slice(0, 4 * count)], 0)
        if name == "is_blank":
            return pa.Array.from_buffers(type, count, [None, self._bitmap(bit)], 0)
        if name == "name":
            indices = [self._bitmap(bit), buffers[name].slice(0, 4 * count)]
            return self._names.array(self.walk.names, indices, count)
        if not self.rows.seen & bit:
            return self._nulls(name, type)
        if name in ("value_text", "value_binary"):
            part = name.removeprefix("value_")
            used = self.rows.text_used if part == "text" else self.rows.binary_used
            ends = buffers[f"{part}_ends"].slice(0, 4 * (count + 1))
            data = buffers[part].slice(0, used)
            return pa.Array.from_buffers(type, count, [self._bitmap(bit), ends, data])
        data = buffers[name].slice(0, type.bit_width // 8 * count)
        return pa.Array.from_buffers(type, count, [self._bitmap(bit), data])

    def _bitmap(self, bit: int) -> pa.Buffer:
        return self._valid[bit.bit_length() - 1]


class MessageBatches(_TableBatches):
    """Batches of `messages`."""

    name = "messages"

    def __init__(
        self, kernel: Any, streams: list[tuple[str, str]], wanted: Table | None, rows: int
    ) -> None:
        super().__init__(kernel, streams, wanted or table("messages"))
        self._formats = message_formats()
        rows = rows if wanted is not None else 1
        self.rows = kernel.MessageRows(
            _bits(wanted, _MESSAGES), _bits(wanted, _KEYS), rows, allocate
        )

    def add(self, walk: Any, row: Mapping[str, Any]) -> None:
        """A row of the object path."""
        self.rows.add(
            self._formats.index(row["format"]),
            -1 if row["dialect"] is None else DIALECTS.index(row["dialect"]),
            walk.paths.add(row["path"].encode()),
            row["field_count"],
            row["depth"],
        )

    def _own(self, column: Column) -> pa.Array:
        name, count = column.name, self.rows.count
        buffers = self.rows.buffers
        if name == "format":
            codes = buffers[name].slice(0, count)
            indices = pa.Array.from_buffers(pa.int8(), count, [None, codes], 0)
            return dictionary(indices, strings(self._formats))
        if name == "dialect":
            stride = (count + 7) // 8
            bits = allocate(8 * stride)
            flags = memoryview(buffers["has_dialect"]).cast("B")
            self._kernel.pack_bits(flags, count, memoryview(bits).cast("B")[: 8 * stride])
            found = [bits.slice(0, stride), buffers[name].slice(0, count)]
            return dictionary(pa.Array.from_buffers(pa.int8(), count, found), dialect_names())
        return pa.Array.from_buffers(
            pa.int32(), count, [None, buffers[name].slice(0, 4 * count)], 0
        )


class WideBatches(_TableBatches):
    """Batches of the wide table."""

    name = "wide"

    def __init__(
        self,
        kernel: Any,
        streams: list[tuple[str, str]],
        wanted: Choice | None,
        rows: int,
        dates: Any,
    ) -> None:
        choice = wanted or Choice((), ())
        super().__init__(kernel, streams, choice.table)
        rows = rows if wanted is not None else 1
        precisions = [precision for precision, _ in choice.places]
        scales = [scale for _, scale in choice.places]
        self.rows = kernel.WideRows(
            choice.kinds,
            precisions,
            scales,
            _bits(choice.table, _KEYS),
            rows,
            _TEXT_A_ROW * rows,
            dates,
            allocate,
        )
        self._places: dict[str, tuple[int, int]] = {}
        base = 0
        for index, (name, type) in enumerate(zip(choice.names, choice.types, strict=True)):
            self._places[name] = index, base
            base += 2 if type.partition("(")[0] in ("decimal", "text", "binary") else 1

    def add(self, walk: Any, row: Mapping[str, Any], cells: list[Any], misfits: int) -> None:
        """A row of the object path."""
        words = [_word(cell) for cell in cells]
        self.rows.add(walk.paths.add(row["path"].encode()), misfits, words)

    def _own(self, column: Column) -> pa.Array:
        if column.name == "misfits":
            data = self.rows.buffers["misfits"].slice(0, 4 * self.rows.count)
            return pa.Array.from_buffers(pa.int32(), self.rows.count, [None, data], 0)
        index, base = self._places[column.name]
        return wide_array(self._kernel, self.rows, index, base, column.type)


def _word(cell: Any) -> Any:
    """A cell as the kernel takes it: a whole number or bytes."""
    if isinstance(cell, float):
        return struct.unpack("<Q", struct.pack("<d", cell))[0]
    if isinstance(cell, bool):
        return int(cell)
    return cell.encode() if isinstance(cell, str) else cell


class BatchSet:
    """The batches of all tables that are wanted."""

    def __init__(
        self,
        kernel: Any,
        wanted: Mapping[str, Table],
        choice: Choice | None,
        format: str | None,
        rows: int,
    ) -> None:
        self.has_messages = "messages" in wanted
        self.has_fields = "fields" in wanted
        self.has_wide = choice is not None
        self.key = ("", "")
        self._keys: list[tuple[str, str]] = [self.key]
        self._numbers = {self.key: 0}
        self._has_times = False
        self._kernel = kernel
        shared = (kernel, self._keys)
        dates = kernel.Dates()
        types = choice.types if choice is not None else ()
        self.fields = FieldBatches(*shared, wanted.get("fields"), format, rows, types)
        self.messages = MessageBatches(*shared, wanted.get("messages"), rows)
        self.wide = WideBatches(*shared, choice, rows, dates)
        self._dates = dates
        self._walk: Any = None

    def table(self, name: str) -> Table:
        """The wanted columns of a table."""
        found = {"fields": self.fields, "messages": self.messages, "wide": self.wide}[name]
        return found.table

    def walk(self, nested: bool, settings: Mapping[str, Any]) -> Any:
        """The kernel's state, with these batches' rows in it."""
        self._walk = self._kernel.Walk(
            self.fields.rows,
            self.messages.rows,
            self.wide.rows,
            self._dates,
            field_map(),
            has_messages=self.has_messages,
            has_wide=self.has_wide,
            is_nested=nested,
            max_frame=settings["max_frame"],
            max_fields=settings["max_fields"],
            max_depth=settings["max_depth"],
        )
        for each in (self.fields, self.messages, self.wide):
            each.walk = self._walk
        return self._walk

    def turn(self, key: tuple[str, str], has_times: bool) -> Batches:
        """Continue with another stream, of that source and name."""
        if has_times != self._has_times or len(self._keys) > _MAX_STREAMS:
            yield from self.flush()
        self._has_times = has_times
        if self.is_empty():
            self._keys[:] = []
            self._numbers = {}
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        self.key = key
        self._walk.stream = self._numbers[key]
        for each in (self.fields, self.messages, self.wide):
            each.has_times = has_times
        self.open()

    def open(self) -> None:
        """See to it that there is room for rows."""
        for each in (self.fields, self.messages, self.wide):
            each.open()

    def is_empty(self) -> bool:
        """Whether no table has rows."""
        return not any(each.rows.count for each in (self.fields, self.messages, self.wide))

    def flush(self) -> Batches:
        """The rows so far, of all tables; call `open` before adding more."""
        for each in (self.messages, self.fields, self.wide):
            yield from each.close()
