"""Which task reads what: files, ranges of one large file, shares of the connections in packets.

* Raw captures larger than ``split_bytes`` are cut at proven seams, so that the tasks' rows together
  are those of one pass. Smaller ones share a task.
* The packet captures of a folder are one capture, in the order of their names: connections may
  continue from one to the next. Each task reads all of them and keeps the connections of its share.
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

from wireloom.captures.finding import CaptureFile, examine, find_paths
from wireloom.pipeline.plan import Range, Sized, Unit, can_split, plan_packets, plan_raw
from wireloom.pipeline.splitting import even_split
from wireloom.pipeline.work import decode
from wireloom.spark.options import SourceOptions
from wireloom.tables import arrow_schema
from wireloom.tabulate import Batches, Settings
from wireloom.tabulate.following import find_seams

__all__ = ["Task", "plan", "read", "seams_in", "spark_batches", "table_batches"]

_MAX_PARTS: Final = 16
"""Shares of packet captures. Each one reads them all, so more would not help much."""
_THREADS: Final = 8
"""Files looked at in parallel: most of it is waiting for disks and other machines."""


@dataclass(frozen=True)
class Task(InputPartition):
    """A unit of work, as Spark hands it to a worker."""

    unit: Unit


def plan(options: SourceOptions, wanted: Iterable[str] | None = None) -> list[InputPartition]:
    """The tasks of a batch.

    Args:
        options: what was asked for.
        wanted: names of captures; rows of others are not needed. None: all.

    Raises:
        OptionError: there are no captures, or no file system is known for an address.
        SourceError: a capture cannot be read.
    """
    paths = find_paths(options.paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        files = list(pool.map(examine, paths))
    split = split_for(files, options)
    kept = None if wanted is None else set(wanted)
    raw = [file for file in files if not file.is_packets and (kept is None or file.path in kept)]
    packets = [file for file in files if file.is_packets]

    def at_seams(file: Sized) -> list[Range]:
        # The account of a stream is one row, which needs one pass over it.
        is_cut = options.table != "accounting" and can_split(file.path, options.settings)
        return seams_in(file.path, options.settings, split, 0, file.size) if is_cut else []

    units = [*plan_raw(raw, at_seams, split), *_packets(packets, options, split)]
    return [Task(unit) for unit in units]


def split_for(files: Iterable[CaptureFile], options: SourceOptions) -> int:
    """Bytes of a partition: what was asked for, or an even share of these captures.

    Spark does not tell a source how many cores there are, so those of the driver count: a useful
    cluster has at least as many.
    """
    if options.split_bytes is not None:
        return options.split_bytes
    return even_split(sum(file.size for file in files), os.cpu_count() or 1)


def seams_in(path: str, settings: Settings, split: int, first: int, last: int) -> list[Range]:
    """The part of a raw capture between two seams, cut at proven seams.

    Raises:
        SourceError: it cannot be read.
    """
    parts = -(-(last - first) // split)
    cuts = [first, last]
    if parts > 1:
        workers = os.cpu_count() or 1
        cuts = find_seams(path, settings, parts, first=first, last=last, workers=workers)
    return [Range(path, start, end, is_seam=True) for start, end in pairwise(cuts)]


def _packets(files: list[CaptureFile], options: SourceOptions, split: int) -> Iterator[Unit]:
    for _, group in groupby(files, key=lambda file: PurePath(file.path).parent):
        members = list(group)
        size = sum(file.size for file in members)
        parts = options.packet_parts or min(-(-size // split) or 1, _MAX_PARTS)
        yield from plan_packets(members, parts)


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


def _batches(partition: InputPartition, settings: Settings) -> Batches:
    # Spark reads a partition even if there is nothing to read.
    return decode(settings, partition.unit) if isinstance(partition, Task) else iter(())


def spark_batches(
    batches: Iterable[tuple[str, pa.RecordBatch]], settings: Settings, table: str
) -> Iterator[pa.RecordBatch]:
    """The batches of one table with Spark's types: plain texts, times as integers."""
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
