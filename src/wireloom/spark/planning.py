"""Which task reads what: files, ranges of one large file, shares of the connections in packets.

* Raw captures larger than ``split_bytes`` are cut at proven seams, so that the tasks' rows together
  are those of one pass. Smaller ones share a task.
* The packet captures of a folder are one capture, in the order of their names: connections may go
  on from one to the next. Each task reads all of them and keeps the connections of its share.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import PurePath
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wireloom.captures import Capture
from wireloom.spark.files import CaptureFile, examine, find_paths, is_remote, open_source
from wireloom.spark.options import SourceOptions
from wireloom.spark.shares import even_split
from wireloom.tables import arrow_schema
from wireloom.tabulate import Settings, Tabulator, tabulate_range
from wireloom.tabulate.following import find_seams
from wireloom.tabulate.reading import splittable

__all__ = ["Files", "Packets", "Range", "plan", "read", "spark_batches", "table_batches"]

_MAX_PARTS: Final = 16
"""Shares of packet captures. Each one reads them all, so that more would not gain much."""
_THREADS: Final = 8
"""Files looked at in one go: this is waiting for disks, and for other machines."""


@dataclass(frozen=True)
class Files(InputPartition):
    """Whole raw captures, each a stream of its own."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Range(InputPartition):
    """A part of one raw capture, from a seam to a seam."""

    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Packets(InputPartition):
    """A share of the connections in packet captures that follow each other."""

    paths: tuple[str, ...]
    part: int
    parts: int


def plan(options: SourceOptions, wanted: Iterable[str] | None = None) -> list[InputPartition]:
    """The tasks of a batch.

    Args:
        options: what was asked for.
        wanted: names of captures; rows of others are not needed. None: all.

    Raises:
        OptionError: there are no captures, or nobody knows how to read an address.
        SourceError: a capture cannot be read.
    """
    paths = find_paths(options.paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        files = list(pool.map(examine, paths))
    split = split_for(files, options)
    kept = None if wanted is None else set(wanted)
    raw = [file for file in files if not file.is_packets and (kept is None or file.path in kept)]
    packets = [file for file in files if file.is_packets]
    return [*_raw(raw, options, split), *_packets(packets, options, split)]


def split_for(files: Iterable[CaptureFile], options: SourceOptions) -> int:
    """Bytes of a partition: what was asked for, or an even share of these captures.

    Spark does not tell a source how many cores there are: the driver's are taken, fewer than which
    no cluster has that is worth having.
    """
    if options.split_bytes is not None:
        return options.split_bytes
    return even_split(sum(file.size for file in files), os.cpu_count() or 1)


def _raw(files: list[CaptureFile], options: SourceOptions, split: int) -> Iterator[InputPartition]:
    waiting: list[str] = []
    size = 0
    for file in files:
        if file.size > split and _can_split(file, options):
            parts = -(-file.size // split)
            workers = os.cpu_count() or 1
            for first, last in pairwise(
                find_seams(file.path, options.settings, parts, workers=workers)
            ):
                yield Range(file.path, first, last)
            continue
        if waiting and size + file.size > split:
            yield Files(tuple(waiting))
            waiting, size = [], 0
        waiting.append(file.path)
        size += file.size
    if waiting:
        yield Files(tuple(waiting))


def _can_split(file: CaptureFile, options: SourceOptions) -> bool:
    # The account of a stream is one row, which needs one pass over it.
    if is_remote(file.path) or file.is_packed or options.table == "accounting":
        return False
    return splittable(file.path, options.settings)


def _packets(
    files: list[CaptureFile], options: SourceOptions, split: int
) -> Iterator[InputPartition]:
    for _, group in groupby(files, key=lambda file: PurePath(file.path).parent):
        members = list(group)
        paths = tuple(file.path for file in members)
        size = sum(file.size for file in members)
        parts = options.packet_parts or min(-(-size // split) or 1, _MAX_PARTS)
        for part in range(parts):
            yield Packets(paths, part, parts)


def read(partition: InputPartition, settings: Settings, table: str) -> Iterator[pa.RecordBatch]:
    """The rows of a task, as Spark takes them.

    Raises:
        SourceError: a capture cannot be opened or read.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    return spark_batches(_batches(partition, settings), settings, table)


def table_batches(
    partition: InputPartition, settings: Settings, table: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, as they are decoded.

    Raises:
        SourceError: a capture cannot be opened or read.
        DecodeError: something cannot be read, in the mode ``failfast``.
    """
    for name, batch in _batches(partition, settings):
        if name == table and batch.num_rows:
            yield batch


def _batches(partition: InputPartition, settings: Settings) -> Iterator[tuple[str, pa.RecordBatch]]:
    if isinstance(partition, Range):
        reader = tabulate_range(
            partition.path, partition.first, partition.last, settings, is_seam=True
        )
        return reader.batches()
    if isinstance(partition, Packets):
        return _capture(partition.paths, settings, partition.part, partition.parts)
    if isinstance(partition, Files):
        return _capture(partition.paths, settings, 0, 1)
    return iter(())  # what Spark reads where there is nothing to read


def _capture(
    paths: Iterable[str], settings: Settings, part: int, parts: int
) -> Iterator[tuple[str, pa.RecordBatch]]:
    sources = [open_source(path) for path in paths]
    tabulator = Tabulator(settings)
    capture = Capture(sources, limits=settings.reassembly, part=part, parts=parts)
    for event in capture:
        yield from tabulator.feed(event)
    yield from tabulator.close()


def spark_batches(
    batches: Iterable[tuple[str, pa.RecordBatch]], settings: Settings, table: str
) -> Iterator[pa.RecordBatch]:
    """The batches of one table with Spark's types: plain texts, times as whole numbers."""
    schema = arrow_schema(settings.table(table), spark=True)
    for name, batch in batches:
        if name == table and batch.num_rows:
            columns = [
                column if column.type == field.type else _cast(column, field.type)
                for column, field in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    elif pa.types.is_time64(column.type):
        return column.view(pa.int64())
    return column if column.type == type else column.cast(type)
