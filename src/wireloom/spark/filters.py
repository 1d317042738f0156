"""Filters of a query → masks over Arrow batches, so that unwanted rows are not sent to Java.

A filter only saves work: Spark checks every row again. So a filter that is not understood lets all
rows through, and nothing here may drop a row that Spark would keep. ``paging/Paging.java`` sends
the filters.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import strings

__all__ = ["Mask", "apply", "sources"]

Mask = tuple[str, str, Any]
"""Column, kind of filter, and value: a text, an integer, a bool or a list of these. Dates are in
days, and times in the units of their column, as in Arrow."""

_COMPARE: Final[dict[str, Callable[..., Any]]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}


def sources(wanted: Iterable[Mask]) -> set[str] | None:
    """The captures that can have rows at all; None: all of them."""
    found: set[str] | None = None
    for column, kind, value in wanted:
        if column == "source" and kind in ("EqualTo", "In"):
            names = {value} if kind == "EqualTo" else set(value)
            found = names if found is None else found & names
    return found


def apply(batch: pa.RecordBatch, wanted: Iterable[Mask]) -> pa.RecordBatch:
    """The rows that pass all filters."""
    for column, kind, value in wanted:
        if not batch.num_rows:
            break
        mask = _mask(batch.column(column), kind, value)
        if mask is not None:
            batch = batch.filter(mask)
    return batch


def _mask(column: pa.Array, kind: str, value: Any) -> pa.Array | None:
    if kind == "IsNull":
        return column.is_null()
    if kind == "IsNotNull":
        return column.is_valid()
    if isinstance(column, pa.DictionaryArray):
        mask = _mask(column.dictionary, kind, value)
        return None if mask is None else mask.take(column.indices)
    try:
        if kind == "StartsWith":
            return pc.starts_with(column, pattern=value)
        if kind == "In":
            return pc.is_in(column, value_set=_values(value, column.type))
        if kind in _COMPARE:
            return _COMPARE[kind](column, _values([value], column.type)[0])
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass  # a value that the column's type does not have
    return None  # left to Spark


def _values(values: list[Any], type: pa.DataType) -> pa.Array:
    """The values of a filter; without ``pa.array``, which would have workers import pandas."""
    if pa.types.is_string(type):
        return strings(values)
    if pa.types.is_floating(type) or pa.types.is_decimal(type):
        raise TypeError(f"{type} is compared by Spark alone")  # NaN, and scales
    data = pa.py_buffer(array.array("q", values))
    numbers = pa.Array.from_buffers(pa.int64(), len(values), [None, data])
    return numbers.cast(pa.int32() if pa.types.is_date32(type) else type).cast(type)
