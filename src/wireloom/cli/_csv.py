"""Tables as comma-separated values, by Arrow's own writer: rows are written as they come."""

from __future__ import annotations

import csv
import io
import os
from codecs import lookup
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from wireloom.cli._flat import json_line, plain
from wireloom.view import escape

__all__ = ["CsvTables"]

_OPTIONS = pacsv.WriteOptions(include_header=False, quoting_style="needed")
_PART_ROWS = 16_384
"""Rows that one thread makes text of, while others do so with those behind them."""
_MOST_THREADS = 4


class CsvTables:
    """Writes batches of tables. With several tables, a first column names the table of each row."""

    def __init__(self, stream: IO[str], tables: Mapping[str, Sequence[str]]) -> None:
        """Write the header.

        Args:
            stream: where to write.
            tables: the columns of each table, by its name.
        """
        self._stream = stream
        # Rows are made as bytes; as text they would be decoded and encoded again.
        encoding = getattr(stream, "encoding", None) or "ascii"
        is_plain = os.linesep == "\n" and lookup(encoding).name == "utf-8"
        self._bytes: IO[bytes] | None = getattr(stream, "buffer", None) if is_plain else None
        self._threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "csv")
        self._is_one = len(tables) == 1
        columns = dict.fromkeys(name for names in tables.values() for name in names)
        self._columns = list(columns) if self._is_one else ["table", *columns]
        csv.writer(stream, lineterminator="\n").writerow([escape(name) for name in self._columns])
        if self._bytes is not None:
            stream.flush()  # what follows goes past it

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Take rows."""
        parts = [batch.slice(at, _PART_ROWS) for at in range(0, batch.num_rows, _PART_ROWS)]
        for lines in self._threads.map(partial(self._lines, table), parts):
            if self._bytes is not None:
                self._bytes.write(lines)
            else:
                self._stream.write(str(lines, "utf-8", "surrogateescape"))

    def _lines(self, table: str, batch: pa.RecordBatch) -> memoryview:
        found = {
            name: _shown(column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        if not self._is_one:
            found["table"] = pa.repeat(table, batch.num_rows)
        none = pa.nulls(batch.num_rows, pa.string())
        arrays = [found.get(name, none) for name in self._columns]
        out = io.BytesIO()
        pacsv.write_csv(pa.RecordBatch.from_arrays(arrays, self._columns), out, _OPTIONS)
        return out.getbuffer()

    def flush(self) -> None:
        """Write out what there is: the next rows may take long to arrive."""
        self._stream.flush()

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)


def _shown(column: pa.Array) -> pa.Array:
    """A column of a type that the writer knows; text is escaped, bytes are in hex."""
    kind = column.type
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_dictionary(kind):
        return _shown(column.dictionary).take(column.indices)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _escaped(column)
    if pa.types.is_binary(kind):
        return _hex(column)
    if pa.types.is_nested(kind):
        texts = [None if each is None else json_line(plain(each)) for each in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return column
    # Times and decimals repeat from row to row, and converting them to text is slow.
    few = column.dictionary_encode()
    texts = few.dictionary.cast(pa.string())
    if pa.types.is_timestamp(kind):
        texts = pc.replace_substring(texts, " ", "T")  # as in JSON
    return texts.take(few.indices)


def _escaped(column: pa.Array) -> pa.Array:
    # Nearly all text is plain; the rest is escaped one by one.
    odd = pc.match_substring_regex(column, "[^ -~]")
    if not pc.any(odd).as_py():
        return column
    texts = [None if text is None else escape(text) for text in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(column, pc.fill_null(odd, False), pa.array(texts, column.type))


def _hex(column: pa.Array) -> pa.Array:
    """The bytes of all rows at once: twice as long, at twice the offsets."""
    valid, offsets, data = column.buffers()
    if data is None:
        return column.cast(pa.string())
    places = pa.Array.from_buffers(pa.int32(), column.offset + len(column) + 1, [None, offsets])
    places = places.slice(column.offset)
    first, last = places[0].as_py(), places[len(places) - 1].as_py()
    if 2 * (last - first) > (1 << 31) - 1:
        half = len(column) // 2
        return pa.concat_arrays([_hex(column[:half]), _hex(column[half:])])
    text = pa.py_buffer(memoryview(data)[first:last].hex().encode("ascii"))
    moved: Any = pc.multiply(pc.subtract(places, first), 2).cast(pa.int32())
    made = pa.Array.from_buffers(pa.string(), len(column), [None, moved.buffers()[1], text])
    if valid is None or not column.null_count:
        return made
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string()))
