"""The wide table: one row per message, with chosen fields as typed columns.

A chosen field's column has one type, whatever a sender puts into a message. Values are converted
where nothing gets lost; one that does not fit is null and counted in `misfits`, so that it can be
told from a field that was not there.

| column | takes |
|---|---|
| ``i64`` | integers, booleans; reals that are whole |
| ``f64`` | reals; integers, as near as doubles come |
| ``decimal(p,s)`` | reals by their hint, else by their shortest text; integers |
| ``text``, ``binary`` | what `value_text`, `value_binary` have |
| ``date``, ``time`` | dates and times; strings that are spelt like one |
| ``timestamp`` | date-times |
| ``bool`` | booleans; 0 and 1 |
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.arrow.arrays import allocate
from wireloom.formats._tib.decimals import is_decimal_hint, scale
from wireloom.formats._tib.texts import parse_date, parse_time
from wireloom.tables import DECIMAL_SCALE, Table, arrow_type, wide_column, wide_table

__all__ = ["Choice", "choose", "kinds_of_rows", "wide_array", "wide_cells", "wide_value"]

KINDS: Final = (
    "i64",
    "f64",
    "decimal",
    "text",
    "binary",
    "date",
    "time",
    "timestamp",
    "bool",
)
"""Column types; a position here is the kind's number in the kernel."""

_STRINGS: Final = frozenset({"string", "sdate", "stime"})
"""Field types whose text may state a date or a time."""

_UNITS_LIMIT: Final = 1 << 128
_SINGLE_SIZES: Final = (4, 5)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen fields."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def table(self) -> Table:
        """The table that they make."""
        return wide_table(zip(self.names, self.types, strict=True))

    @property
    def kinds(self) -> list[int]:
        """The number of each column's kind."""
        return [KINDS.index(type.partition("(")[0]) for type in self.types]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Precision and scale of each column; used for decimals."""
        return [_places(type) for type in self.types]


def _places(type: str) -> tuple[int, int]:
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", type)
    return (int(found[1]), int(found[2])) if found else (38, DECIMAL_SCALE)


def choose(columns: Iterable[str], known: Mapping[str, str]) -> Choice:
    """The fields that a caller names; types that it does not give are taken from `known`.

    A field of unknown type becomes text.

    Raises:
        OptionError: there is no such type, or a name is taken.
    """
    given = [wide_column(text) for text in columns]
    names = tuple(name for name, _ in given)
    types = tuple(type or known.get(name, "text") for name, type in given)
    choice = Choice(names, types)
    _ = choice.table  # fails now if a name is taken
    return choice


def infer(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What type the column of each field should have, judged by rows of the `fields` table.

    Fields of nested messages count, too: these have wide rows of their own.
    """
    found = Inference()
    found.add(rows)
    return found.types


class Inference:
    """Types of columns, from the values seen so far; more values can widen a type."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """More rows of the `fields` table."""
        for row in rows:
            if row["name"] is not None:
                self._seen.setdefault(row["name"], set()).add(_type_of(row))

    @property
    def types(self) -> dict[str, str]:
        """The type of each field seen so far."""
        return {name: _common(types) for name, types in self._seen.items()}


_TYPED: Final = (
    ("value_date", "date"),
    ("value_time", "time"),
    ("value_ts_ns", "timestamp"),
    ("value_decimal", "decimal"),
    ("value_real", "f64"),
)
"""Columns of `fields` with a value of one type; the first that is filled decides."""


def kinds_of_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """One row of `fields` for each kind of row in a batch: however many rows, few are returned.

    Instead of its values a row says which it has: all that `Inference` looks at.
    """
    nothing = pa.scalar(None, pa.bool_())
    columns = {name: batch.column(name).cast(pa.string()) for name in ("name", "type")}
    for name in (*(column for column, _ in _TYPED), "value_int", "value_text"):
        columns[name] = pc.if_else(pc.is_valid(batch.column(name)), True, nothing)
    rows: list[dict[str, Any]] = pa.table(columns).group_by(list(columns)).aggregate([]).to_pylist()
    return rows


def _type_of(row: Mapping[str, Any]) -> str:
    for column, type in _TYPED:
        if row[column] is not None:
            return type
    if row["value_int"] is not None:
        return "bool" if row["type"] == "boolean" else "i64"
    return "text" if row["value_text"] is not None else "binary"


def _common(types: set[str]) -> str:
    """One type for values of several types; what does not fit is a misfit later."""
    if types <= {"text", "date", "time"} and len(types) > 1:
        return "text"  # only some of the texts are spelt like a date
    for type in ("date", "time", "timestamp", "decimal", "f64", "i64", "bool", "text"):
        if type in types:
            return type
    return "binary"


# --- one message, by the object path --------------------------------------------------------------


class _Misfit:
    """The type of `MISFIT`."""


MISFIT: Final = _Misfit()


def wide_cells(rows: Iterable[Mapping[str, Any]], choice: Choice) -> tuple[list[Any], int]:
    """The cells of one message in units of the columns, and how many values did not fit.

    Args:
        rows: the rows of the message's own fields, of the `fields` table.
        choice: the chosen fields.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["name"] is not None:
            first.setdefault(row["name"], row)
    cells: list[Any] = []
    misfits = 0
    for name, type in zip(choice.names, choice.types, strict=True):
        cell = wide_value(first[name], type) if name in first else None
        misfits += cell is MISFIT
        cells.append(None if cell is MISFIT else cell)
    return cells, misfits


def wide_value(row: Mapping[str, Any], type: str) -> Any:
    """A field's value in a column of that type: None for null, `MISFIT` if it does not fit.

    Dates are days since 1970, times nanoseconds of the day, timestamps microseconds, decimals
    whole numbers of their last place.
    """
    if row["is_blank"]:
        return None
    kind = type.partition("(")[0]
    number, real = row["value_int"], row["value_real"]
    if kind == "decimal":
        return _decimal(row, *_places(type))
    if kind == "f64":
        if real is None and number is None and row["value_decimal"] is not None:
            number = int(row["value_decimal"])
        value = real if real is not None else number
        return MISFIT if value is None else float(value)
    if kind == "i64":
        if number is None and real is not None and math.isfinite(real) and real == int(real):
            number = int(real)
        return number if number is not None and -(1 << 63) <= number < 1 << 63 else MISFIT
    if kind == "bool":
        return bool(number) if number in (0, 1) else MISFIT
    if kind in ("text", "binary"):
        value = row[f"value_{kind}"]
        return MISFIT if value is None else value
    if kind == "timestamp":
        moment = row["value_ts_ns"]
        return MISFIT if moment is None else moment // 1000
    return _from_text(row, kind)


def _decimal(row: Mapping[str, Any], precision: int, places: int) -> Any:
    real = row["value_real"]
    if real is not None:
        if not math.isfinite(real):
            return MISFIT
        hint = row["hint"] if row["hint"] is not None and is_decimal_hint(row["hint"]) else 0
        scaled = scale(real, hint, single=row["size"] in _SINGLE_SIZES)
        assert scaled is not None  # every finite real with such a hint has one
        value = scaled.value
        assert isinstance(value, Decimal)
    elif row["value_int"] is not None:
        value = Decimal(row["value_int"])
    elif row["value_decimal"] is not None:
        value = row["value_decimal"]
    else:
        return MISFIT
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # finite
    units = int("".join(map(str, digits)))
    # More digits than 128 bits hold, or more places than a hint allows, are not even tried.
    if units >= _UNITS_LIMIT or exponent < -DECIMAL_SCALE:
        return MISFIT
    shift = places + exponent
    units, rest = (units * 10**shift, 0) if shift >= 0 else divmod(units, 10**-shift)
    if rest or units >= 10**precision:
        return MISFIT
    return -units if sign else units


def _from_text(row: Mapping[str, Any], kind: str) -> Any:
    if kind == "date" and row["value_date"] is not None:
        return (row["value_date"] - _EPOCH).days
    if kind == "time" and row["value_time"] is not None:
        return row["value_time"]
    if row["type"] not in _STRINGS or row["partial_offset"] is not None:
        return MISFIT
    text = row["value_text"]
    if text is None:
        return MISFIT  # not UTF-8, which no date or time is
    if kind == "date":
        found = parse_date(text)
        if found is None:
            return MISFIT
        day = found.to_date()
        return None if day is None else (day - _EPOCH).days
    time = parse_time(text)
    if time is None or (not time.is_null and (time.hour > 23 or time.second > 59)):
        return MISFIT
    return None if time.is_null else time.day_ns


_EPOCH: Final = dt.date(1970, 1, 1)


# --- columns --------------------------------------------------------------------------------------


def wide_array(kernel: Any, wide: Any, column: int, base: int, type: str) -> pa.Array:
    """One column of the rows that the kernel has filled; it starts at word `base` of a row."""
    count, at = wide.count, base * wide.capacity
    kind, arrow = type.partition("(")[0], arrow_type(type)
    words = memoryview(wide.buffers["words"]).cast("B").cast("Q")
    flags = memoryview(wide.buffers["flags"]).cast("B")
    valid = allocate(count // 8 + 1)
    kernel.pack_flags(flags, column * wide.capacity, count, memoryview(valid).cast("B"))
    valid = valid.slice(0, (count + 7) // 8)
    if kind in ("text", "binary"):
        ends = allocate(4 * (count + 1))
        size = kernel.wide_ends(words, at, count, memoryview(ends).cast("B").cast("i"))
        data = allocate(size)
        text = memoryview(wide.buffers["text"]).cast("B")
        kernel.wide_text(words, at, count, text, memoryview(data).cast("B"))
        return pa.Array.from_buffers(arrow, count, [valid, ends, data.slice(0, size)])
    if kind == "bool":
        bits = allocate(count // 8 + 1)
        kernel.pack_words(words, at, count, memoryview(bits).cast("B"))
        return pa.Array.from_buffers(arrow, count, [valid, bits.slice(0, (count + 7) // 8)])
    if kind == "date":
        days = allocate(4 * count)
        kernel.wide_narrow(words, at, count, memoryview(days).cast("B").cast("i"))
        return pa.Array.from_buffers(arrow, count, [valid, days.slice(0, 4 * count)])
    width = 16 if kind == "decimal" else 8
    cells = wide.buffers["words"].slice(8 * at, width * count)
    return pa.Array.from_buffers(arrow, count, [valid, cells])
