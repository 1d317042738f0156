"""Record batches → Parquet files in a lake's staging folder.

This runs in workers. Nothing written here is part of the lake before the driver commits the
descriptions that `StagedWriter.close` returns: a worker that dies, is repeated or runs twice leaves
only files that no commit names.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.lake.durable import sync_file
from wireloom.lake.layout import (
    DAY_NS,
    STAGING,
    TIME_COLUMNS,
    DateRule,
    day_text,
    folder_of,
)
from wireloom.lake.log import DataFile
from wireloom.lake.parquet import GROUP_BYTES, GROUP_ROWS, parquet_writer, write_group

__all__ = [
    "StagedWriter",
    "WriteOptions",
    "by_day",
    "file_schema",
    "schema_digest",
    "stored_batch",
]

_MAX_SOURCES: Final = 64
"""Captures listed with a file; more would make the log large."""
_MAX_OPEN: Final = 48
"""Files open at a time: a capture may claim any day for every packet."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How Parquet files are made."""

    target_bytes: int = 256 << 20
    """Size at which a file is closed and the next one begun: large enough for few files, small
    enough for a reader to work on several."""
    group_rows: int = GROUP_ROWS
    """Rows of a row group."""
    group_bytes: int = GROUP_BYTES
    """Bytes of a row group in memory."""
    held_bytes: int = 192 << 20
    """Bytes waiting for their row groups, all tables together: the memory of a worker."""
    compression: str = "zstd"
    level: int = 1
    """Higher levels take much time and save little: most columns are encoded already."""
    dates: str = "name"
    """See `wireloom.lake.layout.DateRule`."""


def file_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the files that hold batches of this one.

    Text is plain text for readers (in the file it has a dictionary nevertheless), and times of day
    are integers, as Spark has no type for them.
    """
    return pa.schema([(each.name, _stored_type(each.type)) for each in schema])


def _stored_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return type.value_type
    return pa.int64() if pa.types.is_time(type) else type


def schema_digest(schema: pa.Schema) -> str:
    """The same for schemas with the same columns."""
    text = "\n".join(f"{each.name}:{_stored_type(each.type)}" for each in schema)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stored_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns of the types that files are made of.

    Times of day become whole numbers, and dictionaries of all sizes get the same type.
    """
    for index, each in enumerate(batch.schema):
        if pa.types.is_time(each.type):
            numbers = batch.column(index).view(pa.int64())
            batch = batch.set_column(index, each.name, numbers)
        elif pa.types.is_dictionary(each.type) and each.type.index_type != pa.int32():
            wider = pa.dictionary(pa.int32(), each.type.value_type)
            batch = batch.set_column(index, each.name, batch.column(index).cast(wider))
    return batch


class _File:
    """One Parquet file being written."""

    def __init__(
        self,
        root: Path,
        staged: str,
        table: str,
        day: str | None,
        schema: pa.Schema,
        how: WriteOptions,
    ) -> None:
        self.table = table
        self.day = day
        self.schema = schema
        self.path = root / staged
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._staged = staged
        self._how = how
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self._waiting_rows = 0
        self._rows = 0
        self._sources: set[str] | None = set()
        self._times: list[int] = []
        self._sink = pa.OSFile(str(self.path), "wb")
        self._writer = parquet_writer(
            self._sink, schema, compression=how.compression, level=how.level, store_schema=False
        )

    @property
    def size(self) -> int:
        found: int = self._sink.tell()
        return found

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.schema != self.schema:
            batch = batch.cast(self.schema)  # the same columns, with or without dictionaries
        self._note(batch)
        self._waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if (
            self._waiting_rows >= self._how.group_rows
            or self.waiting_bytes >= self._how.group_bytes
        ):
            self.flush()

    def _note(self, batch: pa.RecordBatch) -> None:
        """Remember what the log says about a file."""
        self._rows += batch.num_rows
        if self._sources is not None and "source" in batch.schema.names:
            self._sources.update(name for name in _distinct(batch, "source") if name is not None)
            if len(self._sources) > _MAX_SOURCES:
                self._sources = None
        times = _time_column(self.table)
        if times in batch.schema.names:
            ends = pc.min_max(_nanoseconds(batch.column(times)))
            self._times += [ends[name].as_py() for name in ("min", "max") if ends[name].is_valid]
            self._times = [min(self._times), max(self._times)] if self._times else []

    def flush(self) -> None:
        if not self._waiting:
            return
        write_group(self._writer, self._waiting, self.schema)
        self._waiting.clear()
        self.waiting_bytes = self._waiting_rows = 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        size = self.size
        self._sink.close()
        sync_file(self.path)
        return DataFile(
            table=self.table,
            path="",
            staged=self._staged,
            rows=self._rows,
            bytes=size,
            day=self.day,
            sources=None if self._sources is None else tuple(sorted(self._sources)),
            ts_min_ns=self._times[0] if self._times else None,
            ts_max_ns=self._times[-1] if self._times else None,
            schema=schema_digest(self.schema),
        )

    def abort(self) -> None:
        self._writer.is_open = False  # or its destructor writes to the closed file
        with suppress(Exception):
            self._sink.close()
        with suppress(OSError):
            os.unlink(self.path)


def _distinct(batch: pa.RecordBatch, column: str) -> list[str | None]:
    found: list[str | None] = pc.unique(batch.column(column)).to_pylist()
    return found


def _nanoseconds(times: pa.Array) -> pa.Array:
    """Times as numbers, which most columns have already."""
    if not pa.types.is_timestamp(times.type):
        return times
    # Not safe: the start of an interval may be out of the range of nanoseconds.
    return times.cast(pa.timestamp("ns", times.type.tz), safe=False).cast(pa.int64())


def _time_column(table: str) -> str | None:
    return TIME_COLUMNS.get(table, "ts_ns")


def by_day(batch: pa.RecordBatch, column: str, rule: DateRule) -> list[tuple[str, pa.RecordBatch]]:
    """The rows of each day, by the times in a column and a rule for rows without time."""
    times = _nanoseconds(batch.column(column))
    if not times.null_count:
        # Nearly always all rows are of one day, as the first and the last one show.
        ends = pc.min_max(times)
        first, last = ends["min"].as_py() // DAY_NS, ends["max"].as_py() // DAY_NS
        if first == last:
            return [(day_text(first), batch)]
    if times.null_count == len(times):
        # A raw capture. A batch seldom has rows of two, and the dictionary shows it.
        found = {rule.day_of(name or "") for name in _distinct(batch, "source")}
        if len(found) == 1:
            return [(found.pop(), batch)]
    sources = batch.column("source").to_pylist()
    names = [
        rule.day_of(source or "") if ns is None else day_text(ns // DAY_NS)
        for ns, source in zip(times.to_pylist(), sources, strict=True)
    ]
    chosen: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        chosen.setdefault(name, []).append(index)
    if len(chosen) == 1:
        return [(names[0], batch)]
    return [(name, batch.take(pa.array(rows))) for name, rows in chosen.items()]


class StagedWriter:
    """Writes batches of any tables into files by table and day.

    A context manager: leaving it by an exception removes what was written.
    """

    def __init__(
        self, root: str | os.PathLike[str], run: str, options: WriteOptions | None = None
    ) -> None:
        """Nothing is written yet.

        Args:
            root: the lake.
            run: name of the staging folder, as `wireloom.lake.Writing` gives it.
            options: how files are made.
        """
        self._root = Path(root)
        self._run = run
        self._how = options or WriteOptions()
        self._dates = DateRule(self._how.dates)
        # Two attempts at the same task must never meet in one file.
        self._attempt = uuid.uuid4().hex
        self._count = 0
        self._open: OrderedDict[tuple[str, str | None, str], _File] = OrderedDict()
        self._done: list[DataFile] = []
        self._held = 0

    def __enter__(self) -> StagedWriter:
        return self

    def __exit__(self, kind: object, *_: Any) -> None:
        if kind is not None:
            self.abort()

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for their row group."""
        return self._held

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Take a batch of a table; its rows may be of several days."""
        column = _time_column(table)
        if column is None:
            self.put(table, None, batch)
            return
        for day, part in by_day(batch, column, self._dates) if batch.num_rows else ():
            self.put(table, day, part)

    def put(self, table: str, day: str | None, batch: pa.RecordBatch) -> None:
        """Take a batch whose rows are all of one day; None: the table has no days."""
        if not batch.num_rows:
            return
        batch = stored_batch(batch)
        key = (table, day, schema_digest(batch.schema))
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._finish(next(iter(self._open)))
            folder = f"{STAGING}/{self._run}/{folder_of(table, day)}"
            staged = f"{folder}/part-{self._attempt}-{self._count:05d}.parquet"
            self._count += 1
            file = self._open[key] = _File(self._root, staged, table, day, batch.schema, self._how)
        self._open.move_to_end(key)
        before = file.waiting_bytes
        file.add(batch)
        self._held += file.waiting_bytes - before
        if file.size >= self._how.target_bytes:
            self._finish(key)
        while self._held > self._how.held_bytes:
            largest = max(self._open.values(), key=lambda each: each.waiting_bytes)
            self._held -= largest.waiting_bytes
            largest.flush()

    def _finish(self, key: tuple[str, str | None, str]) -> None:
        file = self._open.pop(key)
        self._held -= file.waiting_bytes
        self._done.append(file.close())

    def close(self) -> list[DataFile]:
        """Finish all files; return their descriptions for the driver."""
        for key in list(self._open):
            self._finish(key)
        return self._done

    def abort(self) -> None:
        """Remove what was written."""
        for file in self._open.values():
            file.abort()
        for done in self._done:
            with suppress(OSError):
                os.unlink(self._root / done.staged)
        self._open.clear()
        self._done.clear()
