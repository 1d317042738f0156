"""The compiled message tables against the object path: row for row and column for column.

Each check raises AssertionError with the first difference. The tests give it thousands of inputs,
the fuzzer as many as there is time for.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from oracles.twins import seeds
from wireloom.columnar.messages import MessageDecoder
from wireloom.columnar.wide import Choice, wide_cells
from wireloom.errors import DecodeError
from wireloom.formats.qform import SYSTEM, load
from wireloom.rows import FrameRows, frame_rows, payload_rows, walked_formats
from wireloom.tables import Table, arrow_schema, table
from wireloom.testing.vectors import golden
from wireloom.wire import Limits

__all__ = [
    "WIDE_TYPES",
    "carriers",
    "check_messages",
    "choices",
    "expected",
    "names_in",
    "options_for",
    "plain_rows",
    "tabled",
    "ways",
]

Rows = dict[str, list[dict[str, Any]]]

_BASE = 7
"""Stream offset of the first byte: not zero, so that forgetting it shows."""


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts; times of day as numbers, since Python has none in nanoseconds."""
    for index, field in enumerate(batch.schema):
        if pa.types.is_time64(field.type):
            batch = batch.set_column(index, field.name, batch.column(index).view(pa.int64()))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def tabled(
    format: str | None, frames: Sequence[bytes], *, is_timed: bool = True, **settings: Any
) -> Rows:
    """The rows of the compiled path; every batch is validated."""
    decoder = MessageDecoder(format, source="s", **settings)
    starts, lengths, at = [], [], 0
    for frame in frames:
        starts.append(at)
        lengths.append(len(frame))
        at += len(frame)
    found: Rows = {}
    times = [_time(index) for index in range(len(frames))] if is_timed else None
    fed = decoder.feed(b"".join(frames), starts, lengths, base=_BASE, ts_ns=times, stream="t")
    for part in (fed, decoder.flush()):
        for name, batch in part:
            batch.validate(full=True)
            assert batch.schema.equals(arrow_schema(decoder.table(name))), name
            found.setdefault(name, []).extend(plain_rows(batch))
    return found


def _time(index: int) -> int:
    return 1_700_000_000_000_000_000 + 1_000_000_007 * index


def expected(
    format: str | None,
    frames: Sequence[bytes],
    *,
    choice: Choice | None = None,
    nested: bool = True,
    is_timed: bool = True,
    **options: Any,
) -> Rows:
    """The rows of the object path, for every table."""
    found: Rows = {"messages": [], "fields": [], "errors": [], "wide": []}
    at = _BASE
    for index, frame in enumerate(frames):
        ts_ns = _time(index) if is_timed else None
        key = {
            "source": "s",
            "stream": "t",
            "frame_offset": at,
            "frame_length": len(frame),
            "ts_ns": ts_ns,
            "ts": None if ts_ns is None else _moment(ts_ns // 1000),
            "path": "",
        }
        try:
            if format is None:
                rows = payload_rows(frame, **options)
            else:
                rows = frame_rows(frame, format, nested=nested, **options)
        except DecodeError as error:
            rows = FrameRows()
            refusal = {
                "layer": "message",
                "format": format,
                "code": error.code,
                "reason": error.reason,
                "failed_at": at + error.offset,
                "field": error.path,
                "raw": frame,
            }
            found["errors"].append(key | refusal)
        found["messages"] += [key | row for row in rows.messages]
        found["fields"] += [key | row for row in rows.fields]
        found["errors"] += [key | row for row in rows.errors]
        if choice is not None:
            found["wide"] += [key | row for row in _wide(rows, choice)]
        at += len(frame)
    return found


def _moment(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def _wide(rows: FrameRows, choice: Choice) -> Iterable[dict[str, Any]]:
    for number, message in enumerate(rows.messages):
        own = [row for row, owner in zip(rows.fields, rows.owners, strict=True) if owner == number]
        cells, misfits = wide_cells(own, choice)
        row = {"path": message["path"], "misfits": misfits}
        for name, type, cell in zip(choice.names, choice.types, cells, strict=True):
            row[name] = _cell(cell, type)
        yield row


def _cell(cell: Any, type: str) -> Any:
    """A cell as Arrow gives it."""
    if cell is None:
        return None
    if type.startswith("decimal"):
        places = 15 if type == "decimal" else int(type[:-1].partition(",")[2])
        sign, digits = (1 if cell < 0 else 0), tuple(map(int, str(abs(cell))))
        return Decimal((sign, digits, -places))
    if type == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=cell)
    return _moment(cell) if type == "timestamp" else cell


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and bool(one == other)


def _compare(what: str, wanted: Table, rows: list[Any], found: list[Any]) -> None:
    for index, (one, other) in enumerate(zip(rows, found, strict=False)):
        if tuple(other) != wanted.names:
            raise AssertionError(f"{what}: columns {tuple(other)}")
        for name in wanted.names:
            if not _same(one.get(name), other[name]):
                raise AssertionError(
                    f"{what} {index}: {name} is {other[name]!r}, should be {one.get(name)!r}\n"
                    f"found {other}\nshould be {one}"
                )
    if len(rows) != len(found):
        raise AssertionError(f"{what}: {len(found)} rows, should be {len(rows)}")


def check_messages(
    format: str | None,
    frames: Sequence[bytes],
    *,
    choice: Choice | None = None,
    select: Mapping[str, Iterable[str]] | None = None,
    nested: bool = True,
    is_timed: bool = True,
    batch_rows: int = 1 << 16,
    kernel: Any = None,
    options: Mapping[str, Any] | None = None,
    limits: Any = None,
) -> Rows:
    """Check that all tables of some frames are those of the object path; returns them.

    Args:
        format: of the frames; None: they are payloads of transports.
        frames: any byte strings.
        choice: the fields of the wide table; None for none.
        select: columns that are wanted.
        nested: whether to look into payloads.
        is_timed: whether the frames have times.
        batch_rows: rows in a batch.
        kernel: which kernel to use.
        options: as for `wireloom.decode`, without limits.
        limits: as for the object path.

    Raises:
        AssertionError: they are not.
    """
    given = dict(options or {})
    settings: dict[str, Any] = {"nested": nested, "kernel": kernel, "batch_rows": batch_rows}
    if limits is not None:
        settings["limits"] = limits
    tables = ["messages", "fields", "errors"] + (["wide"] if choice is not None else [])
    found = tabled(
        format,
        frames,
        is_timed=is_timed,
        tables=tables,
        columns=choice,
        select=select,
        **settings,
        **given,
    )
    if limits is not None:
        given |= {
            "max_frame": limits.max_frame,
            "max_depth": limits.max_depth,
            "max_fields": limits.max_fields,
        }
    rows = expected(format, frames, choice=choice, nested=nested, is_timed=is_timed, **given)
    for name in tables:
        if name == "wide":
            assert choice is not None
            wanted = choice.table
        else:
            wanted = table(name).select((select or {}).get(name))
        _compare(f"{format} {name}", wanted, rows[name], found.get(name, []))
    return found


# --- what to check --------------------------------------------------------------------------------

WIDE_TYPES = (
    "i64",
    "f64",
    "decimal",
    "decimal(18,4)",
    "decimal(38,0)",
    "decimal(5,2)",
    "decimal(38,30)",
    "text",
    "binary",
    "date",
    "time",
    "timestamp",
    "bool",
)
"""Every type that a wide column may have, decimals with few and with many places."""

_LIMITS = (
    Limits(max_depth=1, max_fields=3),
    Limits(max_frame=64),
    Limits(max_depth=2),
    Limits(max_fields=10),
)


@cache
def options_for(format: str | None) -> Mapping[str, Any]:
    """The options for reading the golden vectors of a format, or of all formats in payloads."""
    if format in ("tibmsg", "tibrv"):
        return {}
    found = SYSTEM
    for text in sorted({case["dict"] for case in golden("qform") if case.get("dict")}):
        found = found.merge(load(text))
    return {"dictionary": found}


def carriers(format: str, most: int = 600) -> list[bytes]:
    """Messages of a format, each with a golden vector of any format in a field of opaque bytes."""
    payloads = [data for name in walked_formats() for data in seeds(name, most)]
    if format == "tibmsg":
        bodies = [b"\2A\0\x83" + _u32(len(data)) + data for data in payloads]
        return [b"\xce\x13\xaa\x1f\1" + _u32(len(body)) + body for body in bodies]
    if format == "tibrv":
        # The same name twice: the second is identified by its position.
        bodies = [(b"\2A\0\x07\x7a" + _u32(len(data) + 4) + data) * 2 for data in payloads]
        return [_u32(len(body) + 8) + b"\x99\x55\xee\xaa" + body for body in bodies]
    return []


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def names_in(format: str | None, frames: Iterable[bytes], **options: Any) -> list[str]:
    """The names of all fields in some messages, in order of appearance."""
    found: dict[str, None] = {}
    for frame in frames:
        try:
            rows = (
                payload_rows(frame, **options)
                if format is None
                else frame_rows(frame, format, **options)
            )
        except DecodeError:
            continue
        found.update((row["name"], None) for row in rows.fields if row["name"])
    return list(found)


def choices(names: Sequence[str]) -> list[Choice]:
    """Choices that give each name each type of a wide column once."""
    free = [name for name in names if name not in ("misfits", *table("messages").names)]
    turns = range(len(WIDE_TYPES))
    return [
        Choice(tuple(free), tuple(WIDE_TYPES[(i + turn) % len(turns)] for i in range(len(free))))
        for turn in turns
    ]


def ways(random: Random, names: Sequence[str]) -> dict[str, Any]:
    """Some arguments for `check_messages`: batches, columns, limits, with and without times."""
    way: dict[str, Any] = {}
    if random.random() < 0.6:
        wanted = random.sample(names, min(len(names), random.choice((1, 3, 12, 30))))
        way["choice"] = random.choice(choices(wanted))
    if random.random() < 0.5:
        way["batch_rows"] = random.choice((1, 2, 3, 7, 50))
    if random.random() < 0.4:
        columns = {name: table(name).names for name in ("messages", "fields", "errors")}
        way["select"] = {
            name: random.sample(all, random.choice((1, 1, 2, 3, len(all) - 1)))
            for name, all in columns.items()
            if random.random() < 0.7
        }
    if random.random() < 0.3:
        way["nested"] = False
    if random.random() < 0.4:
        way["is_timed"] = False
    if random.random() < 0.3:
        way["limits"] = random.choice(_LIMITS)
    return way
