"""Small lakes made by hand, and two ways to look at one: by its log and by its folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from wireloom.lake import DataFile, Lake, StagedWriter, WriteOptions, Writing, read
from wireloom.tables import arrow_schema

__all__ = [
    "Row",
    "frames_batch",
    "lake_tables",
    "logged_rows",
    "sorted_rows",
    "stage_frames",
    "visible_rows",
]

Row = tuple[str, int, int | None]
"""Source, offset and time of a frame."""

_SHOWN = ["source", "frame_offset", "ts_ns"]


def frames_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """A batch of the frames table; most of its other columns are null."""
    schema = arrow_schema("frames")
    found = list(rows)
    given: dict[str, list[str | int | None]] = {
        "source": [source for source, _, _ in found],
        "stream": [source for source, _, _ in found],
        "frame_offset": [offset for _, offset, _ in found],
        "ts_ns": [ts for _, _, ts in found],
        "format": ["blaze"] * len(found),
    }
    columns = [pa.array(given.get(each.name, [None] * len(found)), each.type) for each in schema]
    return pa.record_batch(columns, schema=schema)


def stage_frames(
    writing: Writing, rows: Iterable[Row], options: WriteOptions | None = None
) -> list[DataFile]:
    """Rows written into staging, as a worker does it."""
    with StagedWriter(writing.root, writing.run, options) as writer:
        writer.write("frames", frames_batch(rows))
        return writer.close()


def logged_rows(lake: Lake) -> list[Row]:
    """The frames in the files that the log names, sorted."""
    return _sorted(read(lake, "frames", _SHOWN)) if "frames" in lake.tables else []


def visible_rows(root: str | os.PathLike[str]) -> list[Row]:
    """The frames that a reader of the table's folder sees without knowing the log."""
    folder = Path(root) / "frames"
    if not any(folder.rglob("*.parquet")):
        return []
    return _sorted(ds.dataset(folder, format="parquet", partitioning="hive").to_table(_SHOWN))


def lake_tables(root: str | os.PathLike[str]) -> dict[str, list[str]]:
    """All rows of all tables of a lake, sorted, each as text: equal lakes give equal tables."""
    lake = Lake(root)
    found = {}
    for name in lake.tables:
        table = read(lake, name)
        names = [each for each in table.schema.names if each != "date"]
        found[name] = sorted_rows(table.select(names))
    return found


def sorted_rows(table: pa.Table) -> list[str]:
    """The rows as texts, sorted, so that the order does not matter."""
    columns = [_plain(table[name]).to_pylist() for name in table.schema.names]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_time(column.type) else column


def _sorted(table: pa.Table) -> list[Row]:
    rows = [tuple(row[name] for name in _SHOWN) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row[0], row[1], row[2] is not None, row[2]))
