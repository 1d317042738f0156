"""How all of Wireloom's Parquet files are made: encodings, compression, row groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["GROUP_BYTES", "GROUP_ROWS", "parquet_writer", "write_group"]

GROUP_ROWS: Final = 1 << 20
GROUP_BYTES: Final = 64 << 20
"""A row group is written at that many rows or bytes in memory, whichever comes first."""

_KEY_NUMBERS: Final = ("frame_offset", "frame_length", "ts_ns", "ts", "offset", "failed_at")
"""Numbers that hardly repeat but differ little from one row to the next: stored as differences."""


def parquet_writer(
    sink: pa.NativeFile | IO[bytes],
    schema: pa.Schema,
    *,
    compression: str = "zstd",
    level: int = 1,
    store_schema: bool = True,
) -> pq.ParquetWriter:
    """The writer of a Parquet file.

    Args:
        sink: the open file, which the caller closes.
        schema: of all rows.
        compression: of all columns.
        level: of zstd. Higher ones cost much time and save little: most columns are encoded.
        store_schema: whether Arrow's readers get these types exactly, with their dictionaries.
    """
    plain = [
        field.name
        for field in schema
        if field.name in _KEY_NUMBERS
        and (pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type))
    ]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=compression,
        compression_level=level if compression == "zstd" else None,
        use_dictionary=[name for name in schema.names if name not in plain],
        column_encoding=dict.fromkeys(plain, "DELTA_BINARY_PACKED"),
        store_schema=store_schema,
        version="2.6",
    )


def write_group(
    writer: pq.ParquetWriter, batches: Sequence[pa.RecordBatch], schema: pa.Schema
) -> None:
    """Write batches as one row group."""
    table = pa.Table.from_batches(batches, schema)
    # One dictionary per column and row group: the writer drops dictionaries that change.
    writer.write_table(table.unify_dictionaries(), row_group_size=max(1, table.num_rows))
