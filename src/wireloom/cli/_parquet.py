"""Record batches → Parquet or Arrow files: complete, or not there at all.

Files are written under temporary names and get their own when everything is written. Rows wait
until they fill a row group; those of all tables together are bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import click
import pyarrow as pa
import pyarrow.parquet as pq

from wireloom.cli._output import PART
from wireloom.lake.parquet import GROUP_BYTES, GROUP_ROWS, parquet_writer, write_group
from wireloom.tables import Table, arrow_schema
from wireloom.view import escape

__all__ = [
    "FILE_SUFFIXES",
    "ROW_GROUP_BYTES",
    "ROW_GROUP_ROWS",
    "TableFiles",
    "Written",
    "file_schema",
    "write_batches",
]

ROW_GROUP_ROWS = GROUP_ROWS
ROW_GROUP_BYTES = GROUP_BYTES
WAITING_BYTES = 96 << 20
"""Rows of all tables that wait for a row group to fill; then the largest is written as it is."""

FILE_SUFFIXES = (".parquet", ".arrow")
"""Suffixes of a single file with one table."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a table."""

    table: str
    rows: int
    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.files)


def file_schema(table: Table, suffix: str = ".parquet") -> pa.Schema:
    """The schema of a table's files. Times of day are integer nanoseconds, for Spark.

    Spark refuses a Parquet file with a TIME, even if that column is not read. In an Arrow
    file names are plain text: its dictionaries could not grow from batch to batch.
    """
    plain = arrow_schema(table, spark=True)
    if suffix == ".arrow":
        return plain
    return pa.schema(
        [
            other if pa.types.is_time(field.type) else field
            for field, other in zip(arrow_schema(table), plain, strict=True)
        ]
    )


def write_batches(
    stream: IO[bytes], suffix: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Write rows of any columns, as Parquet or Arrow; those with dictionaries as plain text.

    Raises:
        ArrowException: the file format has no such type.
    """
    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in schema])
    if suffix == ".arrow":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(stream, plain, options=options) as file:
            for batch in batches:
                file.write_batch(batch.cast(plain))
        return
    with parquet_writer(stream, plain) as writer:
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch.cast(plain))
            rows += batch.num_rows
            size += waiting[-1].nbytes
            if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
                write_group(writer, waiting, plain)
                waiting, rows, size = [], 0, 0
        if waiting:
            write_group(writer, waiting, plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


class _Writer:
    """The files of one table, one after the other."""

    def __init__(self, stem: Path, suffix: str, schema: pa.Schema, file_bytes: int | None) -> None:
        self.schema = schema
        self.rows = 0
        self.waiting_bytes = 0
        self.renames: list[tuple[Path, Path]] = []
        self._stem = stem
        self._suffix = suffix
        self._file_bytes = file_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; write a row group when there are enough."""
        if batch.schema != self.schema:
            batch = pa.RecordBatch.from_arrays(
                [
                    column.cast(field.type) if column.type != field.type else column
                    for column, field in zip(batch.columns, self.schema, strict=True)
                ],
                schema=self.schema,
            )
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS or self.waiting_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the waiting rows as one row group."""
        if not self._waiting:
            return
        batches, self._waiting = self._waiting, []
        self._waiting_rows = self.waiting_bytes = 0
        if self._writer is None:
            self._open()
        if self._suffix.lower() == ".parquet":
            write_group(self._writer, batches, self.schema)
        else:
            self._writer.write_table(pa.Table.from_batches(batches, self.schema))
        assert self._sink is not None
        if self._file_bytes is not None and self._sink.tell() >= self._file_bytes:
            self._end()

    def _open(self) -> None:
        number = "" if self._file_bytes is None else f"-{len(self.renames) + 1:05}"
        target = self._stem.with_name(f"{self._stem.name}{number}{self._suffix}")
        hidden = target.with_name(f".{target.name}{PART}")
        self.renames.append((hidden, target))
        self._sink = pa.OSFile(os.fspath(hidden), "wb")
        if self._suffix.lower() == ".parquet":
            self._writer = parquet_writer(self._sink, self.schema)
        else:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = pa.ipc.new_file(self._sink, self.schema, options=options)

    def _end(self) -> None:
        self._writer.close()
        self._writer = None
        assert self._sink is not None
        self._sink.close()

    def finish(self) -> None:
        """Write what is left; a table without rows gets a file, too, which has its columns."""
        self.flush()
        if self._writer is None and not self.renames:
            self._open()
        if self._writer is not None:
            self._end()

    def abandon(self) -> None:
        """Remove what was written."""
        if isinstance(self._writer, pq.ParquetWriter):
            self._writer.is_open = False  # or its destructor writes to the closed file
        if self._sink is not None and not self._sink.closed:
            self._sink.close()
        for hidden, _ in self.renames:
            hidden.unlink(missing_ok=True)


class TableFiles:
    """The files of some tables: in a folder, or one file for one table.

    A context manager: the files get their names when it ends without an error; otherwise nothing
    is left of them.
    """

    def __init__(
        self,
        target: Path,
        tables: Mapping[str, Table],
        *,
        force: bool = False,
        file_bytes: int | None = None,
    ) -> None:
        """Nothing is written yet.

        Args:
            target: the folder, or the file if it ends with ``.parquet`` or ``.arrow``.
            tables: what is written, by name.
            force: whether existing files may be replaced.
            file_bytes: about how large a file of a folder gets before the next is begun.

        Raises:
            UsageError: something exists already, and must not be replaced.
        """
        self.target = target
        self.is_folder = target.suffix.lower() not in FILE_SUFFIXES or target.is_dir()
        self._old: list[Path] = []
        self._left: list[Path] = []
        self._is_new = False
        if self.is_folder:
            self._check_folder(tables, force)
        elif target.exists() and not force:
            raise click.UsageError(f"{escape(str(target))} exists; overwrite it with --force")
        suffix = ".parquet" if self.is_folder else target.suffix
        self._writers = {
            name: _Writer(
                target / name if self.is_folder else target.with_suffix(""),
                suffix,
                file_schema(table, suffix.lower()),
                file_bytes if self.is_folder else None,
            )
            for name, table in tables.items()
        }

    def _check_folder(self, tables: Mapping[str, Table], force: bool) -> None:
        folder = self.target
        self._is_new = not folder.exists()
        if self._is_new:
            return
        if not folder.is_dir():
            raise click.UsageError(f"{escape(str(folder))} is a file; name a folder")
        names = "|".join(map(re.escape, tables))
        ours = re.compile(rf"(?:{names})(?:-\d{{5}})?\.parquet")
        # Remove what a killed run left behind.
        parts = re.compile(rf"\.[\w-]+\.parquet{re.escape(PART)}", re.ASCII)
        there = list(folder.iterdir())
        self._left = [path for path in there if parts.fullmatch(path.name)]
        self._old = [path for path in there if ours.fullmatch(path.name)]
        if len(there) > len(self._left) and not force:
            raise click.UsageError(
                f"{escape(str(folder))} is not empty; replace the tables in it with --force"
            )

    def __enter__(self) -> Self:
        if self.is_folder:
            self.target.mkdir(parents=True, exist_ok=True)
        for path in self._left:
            path.unlink(missing_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._finish()
            except BaseException:
                self._abandon()
                raise
        else:
            self._abandon()

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Take rows of a table."""
        self._writers[name].add(batch)
        while sum(each.waiting_bytes for each in self._writers.values()) > WAITING_BYTES:
            max(self._writers.values(), key=lambda each: each.waiting_bytes).flush()

    def _finish(self) -> None:
        for writer in self._writers.values():
            writer.finish()
        renames = [pair for writer in self._writers.values() for pair in writer.renames]
        for path in set(self._old) - {target for _, target in renames}:
            path.unlink()
        for hidden, target in renames:
            hidden.replace(target)

    def _abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()
        if self._is_new and self.is_folder and not any(self.target.iterdir()):
            self.target.rmdir()

    @property
    def written(self) -> list[Written]:
        """What was written, once the context has ended."""
        return [
            Written(name, writer.rows, tuple(target for _, target in writer.renames))
            for name, writer in self._writers.items()
        ]
