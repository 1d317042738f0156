"""Batches → pages: rows for Spark, in a form that is fast to read.

A page is a table of offsets, counted from the page's start, and the buffers of a batch that they
point to, all in the machine's own byte order::

    rows, columns                                           4 bytes each
    form, validity, values, offsets, texts, length of texts 4 bytes each, for every column
    the buffers, each from a multiple of eight on           as in Arrow
    zeros                                                   8 bytes

Columns without a value have no buffers, and those without a null no validity. Texts have offsets;
repeated texts are in the page once, and the values are their numbers. Lists of texts have the
number of the first text of each. ``PageRows.java`` turns pages into rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

__all__ = ["SCHEMA", "pages"]

SCHEMA: Final = pa.schema([pa.field("page", pa.binary(), nullable=False)])

_HAS_VALUES: Final = 1
_HAS_NULLS: Final = 2
_IS_CODED: Final = 4
_IS_SHORT: Final = 8
_MOST: Final = 8 << 20
"""Bytes of a page, except for large rows: Spark holds it three times."""


def pages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch as pages, one in each of the batches that Spark is given."""
    rows = batch.num_rows
    # Multiples of eight, so that the bits of nulls start at a byte.
    size = sum(_size(column) for column in batch.columns)
    step = max(8, rows * _MOST // max(1, size) // 8 * 8)
    for first in range(0, rows, step):
        page = _page(batch.slice(first, step) if step < rows else batch)
        sizes = pa.py_buffer(struct.pack("=2i", 0, len(page)))
        column = pa.Array.from_buffers(pa.binary(), 1, [None, sizes, pa.py_buffer(page)])
        yield pa.RecordBatch.from_arrays([column], schema=SCHEMA)


def _size(column: pa.Array) -> int:
    """Bytes that are divided with the rows."""
    rows = column.indices if isinstance(column, pa.DictionaryArray) else column
    size: int = rows.nbytes
    return size


class _Parts:
    """The buffers of a page."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: list[bytes | memoryview] = []

    def add(self, data: memoryview) -> int:
        """Append a buffer; return its offset."""
        at = self.size
        fill = -len(data) % 8
        self.parts.append(data)
        if fill:
            self.parts.append(bytes(fill))
        self.size += len(data) + fill
        return at


def _page(batch: pa.RecordBatch) -> bytes:
    parts = _Parts(8 + 24 * batch.num_columns)
    heads = [_column(column, parts) for column in batch.columns]
    head = struct.pack("=2i", batch.num_rows, batch.num_columns)
    table = (struct.pack("=6i", *one) for one in heads)
    return b"".join((head, *table, *parts.parts, bytes(8)))


def _column(column: pa.Array, parts: _Parts) -> tuple[int, int, int, int, int, int]:
    """Form, validity, values, offsets, texts, and the length of the texts."""
    form = validity = values = 0
    if column.null_count == len(column):
        return form, validity, values, 0, 0, 0
    if column.offset % 8:
        column = pa.concat_arrays([column])
    first, count = column.offset, len(column)
    form |= _HAS_VALUES
    if column.null_count:
        form |= _HAS_NULLS
        validity = parts.add(_bits(column.buffers()[0], first, count))
    if pa.types.is_list(column.type):
        items = _numbers(column.buffers()[1], first, count + 1)
        values = parts.add(items.cast("B"))
        low, high = items[0], items[-1]
        offsets, texts, length = _texts(column.values.slice(low, high - low), parts)
        return form, validity, values, offsets - 4 * low, texts, length
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > count:
        column = column.dictionary_decode()  # else each of many pages would have all texts
        first = column.offset
    if isinstance(column, pa.DictionaryArray):
        width = column.indices.type.bit_width // 8
        form |= _IS_CODED | (_IS_SHORT if width == 1 else 0)
        values = parts.add(_values(column.indices, width))
        return form, validity, values, *_texts(column.dictionary, parts)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return form, validity, values, *_texts(column, parts)
    if pa.types.is_boolean(column.type):
        values = parts.add(_bits(column.buffers()[1], first, count))
    else:
        values = parts.add(_values(column, column.type.bit_width // 8))
    return form, validity, values, 0, 0, 0


def _texts(column: pa.Array, parts: _Parts) -> tuple[int, int, int]:
    """Offsets, texts, and the length of the texts."""
    places = _numbers(column.buffers()[1], column.offset, len(column) + 1)
    offsets = parts.add(places.cast("B"))
    start, end = places[0], places[-1]
    data = column.buffers()[2]
    return offsets, parts.add(memoryview(data or b"")[start:end]) - start, end


def _values(column: pa.Array, width: int) -> memoryview:
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _numbers(buffer: pa.Buffer, first: int, count: int) -> memoryview:
    return memoryview(buffer)[4 * first : 4 * (first + count)].cast("i")


def _bits(buffer: pa.Buffer, first: int, count: int) -> memoryview:
    return memoryview(buffer)[first // 8 : (first + count + 7) // 8]
