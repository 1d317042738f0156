"""Buffers that the kernel filled, and plain rows → Arrow arrays, without copying where possible.

Nothing here calls ``pa.array`` on a list: that imports pandas where it is installed, which costs a
worker a third of a second.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.types import arrow_type, schema_of
from wireloom.columns import Column, Table

__all__ = [
    "allocate",
    "constant",
    "dictionary",
    "flags",
    "from_rows",
    "int_array",
    "int_scalar",
    "null_array",
    "numbers",
    "plain_column",
    "strings",
    "unique_names",
    "zeros",
]


class _Zeros:
    """One buffer of zeros, shared by all columns that are nothing but zeros."""

    def __init__(self) -> None:
        self.buffer = pa.py_buffer(bytes(1 << 20))

    def get(self, size: int) -> pa.Buffer:
        if size > self.buffer.size:
            self.buffer = pa.py_buffer(bytes(size))
        return self.buffer.slice(0, size)


_ZEROS: Final = _Zeros()


def zeros(size: int) -> pa.Buffer:
    """That many zero bytes, shared: nobody may write to them."""
    return _ZEROS.get(max(size, 1))


def allocate(size: int) -> pa.Buffer:
    """Memory from Arrow's pool, which is not cleared.

    The pool reuses the pages of batches that are no longer in use; asking the system for new ones
    would take as long as decoding does.
    """
    return pa.allocate_buffer(max(size, 1))


def null_array(type: pa.DataType, count: int) -> pa.Array:
    """An array of nulls."""
    bits = zeros(count // 8 + 1)
    if pa.types.is_dictionary(type):
        indices = null_array(type.index_type, count)
        return pa.DictionaryArray.from_arrays(indices, strings([]), safe=False)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        buffers = [bits, zeros(4 * (count + 1)), zeros(1)]
    elif pa.types.is_list(type):
        empty = null_array(type.value_type, 0)
        return pa.Array.from_buffers(
            type, count, [bits, zeros(4 * (count + 1))], count, children=[empty]
        )
    else:
        buffers = [bits, zeros((type.bit_width * count + 7) // 8)]
    return pa.Array.from_buffers(type, count, buffers, count)


_ARROW_CODES: Final = {"int32": "i", "int64": "q", "uint8": "B"}


def int_array(values: Sequence[int], type: pa.DataType | None = None) -> pa.Array:
    """Integers, of 64 bits by default; without ``pa.array``."""
    type = type or pa.int64()
    data = array.array(_ARROW_CODES[str(type)], values)
    return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(data)], 0)


def int_scalar(value: int, type: pa.DataType | None = None) -> pa.Scalar:
    """One integer; without ``pa.scalar``, which imports pandas, too."""
    return int_array([value], type)[0]


def strings(texts: Sequence[str | bytes | None], type: pa.DataType | None = None) -> pa.Array:
    """Texts, or bytes with the type ``binary``."""
    raw = [text.encode() if isinstance(text, str) else text or b"" for text in texts]
    ends = array.array("i", accumulate(map(len, raw), initial=0))
    nulls = texts.count(None)
    valid = _bitmap([text is not None for text in texts]) if nulls else None
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(type or pa.string(), len(raw), buffers, nulls)


def _bitmap(flags: Sequence[bool]) -> pa.Buffer:
    bytes_of = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(bytes(flags))], 0)
    return bytes_of.cast(pa.bool_()).buffers()[1]


def dictionary(indices: pa.Array, names: pa.Array) -> pa.DictionaryArray:
    """A dictionary array of indices, which must be in range, into names."""
    return pa.DictionaryArray.from_arrays(indices, names, safe=False)


def constant(text: str, count: int, type: pa.DataType) -> pa.DictionaryArray:
    """The same text in every row."""
    width = type.index_type.bit_width // 8
    indices = pa.Array.from_buffers(type.index_type, count, [None, zeros(width * count)], 0)
    return dictionary(indices, strings([text]))


def flags(count: int, marked: Iterable[int]) -> pa.BooleanArray:
    """Booleans, true at some places; places outside do not count."""
    bits = bytearray((count + 7) // 8)
    for index in marked:
        if 0 <= index < count:
            bits[index >> 3] |= 1 << (index & 7)
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)], 0)


def numbers(values: memoryview, type: pa.DataType) -> pa.Array:
    """An array of the numbers in a view, none of them null."""
    return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(values)], 0)


def unique_names(texts: Iterable[bytes]) -> tuple[pa.Array, pa.Array | None]:
    r"""Names from the wire as text, and the index of each among them if some became equal.

    Bytes that are not UTF-8 are shown as ``\xNN``, which may be the text of another name.
    """
    shown = [text.decode("utf-8", "backslashreplace") for text in texts]
    places: dict[str, int] = {}
    moved = array.array("i", [places.setdefault(text, len(places)) for text in shown])
    if len(places) == len(shown):
        return strings(shown), None
    where = pa.Array.from_buffers(pa.int32(), len(moved), [None, pa.py_buffer(moved)], 0)
    return strings(list(places)), where


class NameColumn:
    """Turns the numbers of interned names into dictionary arrays."""

    def __init__(self) -> None:
        self._names: Any = None
        self._count = -1
        self._texts = strings([])
        self._moved: pa.Array | None = None

    def array(self, names: Any, buffers: list[pa.Buffer | None], count: int) -> pa.DictionaryArray:
        """A column; the dictionary is rebuilt only when there are new names."""
        if names is not self._names or names.count != self._count:
            self._names, self._count = names, names.count
            self._texts, self._moved = unique_names(names.texts())
        indices = pa.Array.from_buffers(pa.int32(), count, buffers)
        if self._moved is not None:
            indices = pc.take(self._moved, indices)
        return dictionary(indices, self._texts)


# --- plain rows -----------------------------------------------------------------------------------

_CODES: Final = {"i32": "i", "i64": "q", "timestamp": "q"}


def from_rows(table: Table, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """A record batch of plain rows, for small tables; a missing column is null.

    Handles the types that such tables have: text, names, kinds, binary, integers, timestamps (in
    microseconds).
    """
    arrays = [plain_column(column, _values(rows, column.name)) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _values(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def plain_column(column: Column, values: list[Any]) -> pa.Array:
    """One column of `from_rows`."""
    type = arrow_type(column.type)
    if column.type in ("text", "binary"):
        return strings(values, type)
    if column.type in ("name", "kind"):
        count = len(values)
        if count and values.count(values[0]) == count:  # as so often
            same = values[0]
            return null_array(type, count) if same is None else constant(same, count, type)
        places: dict[str, int] = {}
        numbers = [
            None if value is None else places.setdefault(value, len(places)) for value in values
        ]
        code = "i" if column.type == "name" else "b"
        return dictionary(_numbers(numbers, code, type.index_type), strings(list(places)))
    return _numbers(values, _CODES[column.type], type)


def _numbers(values: list[int | None], code: str, type: pa.DataType) -> pa.Array:
    nulls = values.count(None)
    plain = [value or 0 for value in values] if nulls else cast("list[int]", values)
    data = array.array(code, plain)
    valid = _bitmap([value is not None for value in values]) if nulls else None
    return pa.Array.from_buffers(type, len(values), [valid, pa.py_buffer(data)], nulls)
