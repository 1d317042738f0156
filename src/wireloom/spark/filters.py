"""Spark's filters → masks over Arrow batches, so that rows nobody wants are not sent to Java.

A filter is an offer: Spark checks every row again. So what is not understood lets all rows through,
and nothing here may drop a row that Spark would keep.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["Mask", "apply", "masks", "sources"]

Mask = tuple[str, str, Any]
"""Column, kind of filter, value: plain, so that it can be sent to workers."""

_COMPARE: Final[dict[str, Callable[..., Any]]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_PLAIN: Final = (str, int, bytes, datetime.datetime, datetime.date)
"""Values that mean the same to Spark and to Arrow; floats do not (NaN)."""


def masks(filters: Iterable[Filter], names: Sequence[str]) -> list[Mask]:
    """Those filters that can be applied here."""
    found: list[Mask] = []
    for each in filters:
        kind = type(each).__name__
        column: tuple[str, ...] = getattr(each, "attribute", ())
        value: Any = getattr(each, "value", None)
        if len(column) != 1 or column[0] not in names:
            continue
        is_usable = (
            kind in ("IsNull", "IsNotNull")
            or (kind in _COMPARE and isinstance(value, _PLAIN))
            or (kind == "StringStartsWith" and isinstance(value, str))
            or (kind == "In" and value and all(isinstance(one, (str, int)) for one in value))
        )
        if is_usable:
            found.append((column[0], kind, value))
    return found


def sources(wanted: Iterable[Mask]) -> set[str] | None:
    """The captures that can have rows at all; None: any."""
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
    try:
        if kind == "StringStartsWith":
            return pc.starts_with(column, pattern=value)
        if kind == "In":
            return pc.is_in(column, value_set=pa.array(list(value), column.type))
        return _COMPARE[kind](column, pa.scalar(value, column.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None  # a value that the column's type does not have: leave it to Spark
