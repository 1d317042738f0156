"""Column types: their names, and what they are in Arrow and in Spark."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from wireloom.columns import Table
from wireloom.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "DECIMAL_SCALE",
    "arrow_type",
    "decimal_places",
    "schema_of",
    "spark_arrow_type",
    "spark_type",
]

DECIMAL_SCALE: Final = 15
"""Decimal places of decimal columns: hints go up to 15, and 23 digits are left before the point."""

_SPARK: Final = {
    "binary": "BINARY",
    "bool": "BOOLEAN",
    "date": "DATE",
    "f64": "DOUBLE",
    "i32": "INT",
    "i64": "BIGINT",
    "kind": "STRING",
    "name": "STRING",
    "text": "STRING",
    "texts": "ARRAY<STRING>",
    "time": "BIGINT",
    "timestamp": "TIMESTAMP",
}
_DECIMAL: Final = re.compile(r"decimal(?:\((\d{1,2}),(\d{1,2})\))?", re.ASCII)


def decimal_places(type: str) -> tuple[int, int] | None:
    """Precision and scale; None if it is not a decimal type."""
    found = _DECIMAL.fullmatch(type)
    if found is None:
        return None
    if found[1] is None:
        return 38, DECIMAL_SCALE
    precision, scale = int(found[1]), int(found[2])
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None


@cache
def arrow_type(type: str) -> pa.DataType:
    """A column's type in Arrow.

    * ``i32 i64 f64 bool text binary date``: as their names say.
    * ``name``: text that repeats, dictionary-encoded; ``kind``: one of a few texts.
    * ``texts``: a list of text.
    * ``time``: a time of day in nanoseconds; ``timestamp``: in microseconds, UTC.
    * ``decimal``: 23 digits before the point and 15 behind it; ``decimal(p,s)``: others.

    Raises:
        OptionError: there is no such type.
    """
    import pyarrow as pa

    places = decimal_places(type)
    if places is not None:
        return pa.decimal128(*places)
    known: dict[str, pa.DataType] = {
        "binary": pa.binary(),
        "bool": pa.bool_(),
        "date": pa.date32(),
        "f64": pa.float64(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "kind": pa.dictionary(pa.int8(), pa.string()),
        "name": pa.dictionary(pa.int32(), pa.string()),
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "time": pa.time64("ns"),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    if type not in known:
        raise OptionError(f"no column type {type!r}; there are {', '.join(known)}, decimal(p,s)")
    return known[type]


def spark_type(type: str) -> str:
    """A column's type in Spark SQL. Before 4.1 Spark has no TIME: nanoseconds of the day instead.

    Raises:
        OptionError: there is no such type.
    """
    places = decimal_places(type)
    if places is not None:
        return f"DECIMAL({places[0]},{places[1]})"
    if type not in _SPARK:
        raise OptionError(f"no column type {type!r}")
    return _SPARK[type]


@cache
def spark_arrow_type(type: str) -> pa.DataType:
    """The Arrow type that Spark expects for its own type of the column."""
    import pyarrow as pa

    if type in ("name", "kind"):
        return pa.string()
    return pa.int64() if type == "time" else arrow_type(type)


def schema_of(table: Table, *, spark: bool = False) -> pa.Schema:
    """The Arrow schema of a table.

    Args:
        table: the table.
        spark: as Spark expects it: plain text instead of dictionaries, times as integers.
    """
    import pyarrow as pa

    resolve = spark_arrow_type if spark else arrow_type
    return pa.schema([(column.name, resolve(column.type)) for column in table.columns])
