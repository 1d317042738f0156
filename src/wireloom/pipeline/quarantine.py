"""Reading the quarantine again: rows of `errors` → rows of the other tables, where possible.

A row of `errors` keeps all that decoding needs (bytes, place, time), so the captures may be gone.
Each row is read as a stream of its own whose name is the row's number; through that number the rows
that come out get their proper key.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wireloom.captures import NO_TIME, Counts, Stream, StreamData, StreamEnd
from wireloom.lake import StagedWriter
from wireloom.rows import join_path
from wireloom.tabulate import Settings, Tabulator

__all__ = ["Quarantine", "Reread", "reread"]

_LAYERS: Final = ("frame", "packet", "message")
"""Errors that other settings may resolve; all others are faults of the capture."""
_NESTED: Final = ("messages", "fields", "wide", "errors")
"""Tables with rows for messages inside frames."""
_BATCH_ROWS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A file of the errors table that is read again."""

    path: str
    """Where it is."""
    file: str
    """Its name in the lake."""
    day: str
    size: int


@dataclass(slots=True)
class Reread:
    """What became of a file of errors."""

    mended: int = 0
    """Rows that could be read."""
    read: int = 0
    """Bytes of all rows that were tried."""
    accounts: list[tuple[str, str, int, int]] = dataclasses.field(default_factory=list)
    """For the accounting: source, stream, bytes now decoded, and frames."""


def reread(settings: Settings, unit: Quarantine, writer: StagedWriter) -> Reread:
    """Write what can be read now, and the remaining errors; nothing if all remain."""
    found = Reread()
    with pq.ParquetFile(unit.path) as opened:
        left = [
            _batch(settings, batch, found, writer) for batch in opened.iter_batches(_BATCH_ROWS)
        ]
    if found.mended:
        for batch in left:
            writer.put("errors", unit.day, batch)
    return found


def _batch(
    settings: Settings, batch: pa.RecordBatch, found: Reread, writer: StagedWriter
) -> pa.RecordBatch:
    """Read a batch again; return the rows that remain errors."""
    rows = batch.select(["format", "layer", "path", "frame_offset", "ts_ns", "raw"]).to_pylist()
    mended: set[int] = set()
    for format in sorted({row["format"] for row in rows if row["format"] is not None}):
        for is_nested in (False, True):
            numbers = [
                number
                for number, row in enumerate(rows)
                if row["format"] == format
                and row["layer"] in _LAYERS
                and row["raw"]
                and bool(row["path"]) == is_nested
            ]
            if numbers:
                found.read += sum(len(rows[number]["raw"]) for number in numbers)
                mended |= _try(settings, format, batch, rows, numbers, is_nested, found, writer)
    found.mended += len(mended)
    return batch.filter(pa.array([number not in mended for number in range(len(rows))]))


def _try(
    settings: Settings,
    format: str,
    batch: pa.RecordBatch,
    rows: list[dict[str, Any]],
    numbers: list[int],
    is_nested: bool,
    found: Reread,
    writer: StagedWriter,
) -> set[int]:
    own = dataclasses.replace(settings, formats=(format,), ports={}, mode="permissive", select={})
    made: list[tuple[str, pa.RecordBatch]] = []
    counted: dict[int, dict[str, Any]] = {}
    tabulator = Tabulator(own)
    for name, part in _fed(tabulator, rows, numbers):
        if name == "accounting":
            counted |= {int(row["stream"]): row for row in part.to_pylist()}
        else:
            made.append((name, part))
    good = {
        number
        for number, row in counted.items()
        if row["frames"] and row["decoded"] == row["captured"]
    }
    if not good:
        return good
    is_good = pa.array([number in good for number in range(len(rows))])
    for name, part in made:
        if is_nested and name not in _NESTED:
            continue
        index = pc.cast(part.column("stream").cast(pa.string()), pa.int32())
        chosen = is_good.take(index)
        part, index = part.filter(chosen), index.filter(chosen)
        if part.num_rows:
            writer.write(name, _keyed(part, batch, index, is_nested))
    if not is_nested:
        sources, streams = batch.column("source"), batch.column("stream")
        found.accounts += [
            (sources[n].as_py(), streams[n].as_py(), counted[n]["decoded"], counted[n]["frames"])
            for n in sorted(good)
        ]
    return good


def _fed(
    tabulator: Tabulator, rows: list[dict[str, Any]], numbers: list[int]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    for number in numbers:
        row = rows[number]
        stream = Stream(number + 1, str(number), "raw", str(number))
        ts_ns = NO_TIME if row["ts_ns"] is None else row["ts_ns"]
        offset, data = row["frame_offset"], row["raw"]
        marks, times = memoryview(array("q", [offset])), memoryview(array("q", [ts_ns]))
        yield from tabulator.feed(StreamData(stream, offset, memoryview(data), marks, times))
        counts = Counts(captured=len(data), delivered=len(data))
        yield from tabulator.feed(StreamEnd(stream, offset + len(data), "end", counts))
    yield from tabulator.close()


def _keyed(
    part: pa.RecordBatch, errors: pa.RecordBatch, index: pa.Array, is_nested: bool
) -> pa.RecordBatch:
    """Rows with the key of the errors that they come from."""
    new = {name: errors.column(name).take(index) for name in ("source", "stream")}
    if is_nested:
        new["frame_length"] = errors.column("frame_length").take(index)
        outer = errors.column("path").take(index).to_pylist()
        inner = part.column("path").cast(pa.string()).to_pylist()
        new["path"] = pa.array(
            [join_path(a, b) if b else a for a, b in zip(outer, inner, strict=True)], pa.string()
        )
    for name, values in new.items():
        at = part.schema.get_field_index(name)
        part = part.set_column(at, part.schema.field(at), values.cast(part.schema.field(at).type))
    return part
