"""What is in a lake, as Arrow: any number of files as one table."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from wireloom.arrow.types import arrow_type
from wireloom.errors import LakeError
from wireloom.lake.lake import Lake
from wireloom.lake.layout import TIME_COLUMNS
from wireloom.lake.writing import file_schema
from wireloom.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["dataset", "read", "schema_of", "totals"]


def schema_of(lake: Lake, table: str) -> pa.Schema:
    """The columns of a table, with ``date`` where it has days.

    Files of different versions of a table may differ: a missing column is null.

    Raises:
        LakeError: there is no such table.
    """
    examples = {file.schema: file for file in lake.files(table)}
    if examples:
        found = [pq.read_schema(lake.place(file)) for file in examples.values()]
        schema = pa.unify_schemas(found, promote_options="permissive").remove_metadata()
    elif table in lake.schemas:
        typed = lake.schemas[table].items()
        schema = file_schema(pa.schema([(name, arrow_type(type)) for name, type in typed]))
    else:
        known = ", ".join(lake.tables) or "none"
        near = hint(table, lake.tables)
        raise LakeError(f"no table {table!r}{near}; there are: {known}", path=str(lake.path))
    return schema.append(pa.field("date", pa.date32())) if _has_days(table) else schema


def _has_days(table: str) -> bool:
    return TIME_COLUMNS.get(table, "ts_ns") is not None


def dataset(lake: Lake, table: str) -> ds.Dataset:
    """A table as an Arrow dataset, for DuckDB, Polars, or a scan with a filter.

    Raises:
        LakeError: there is no such table.
    """
    schema = schema_of(lake, table)
    format = ds.ParquetFileFormat()
    fragments = []
    for file in lake.files(table):
        if file.day is None:
            known = pc.scalar(True)
        else:
            known = pc.field("date") == pa.scalar(date.fromisoformat(file.day))
        place = str(lake.place(file))
        fragments.append(
            format.make_fragment(
                place, filesystem=pa.fs.LocalFileSystem(), partition_expression=known
            )
        )
    return ds.FileSystemDataset(fragments, schema, format, pa.fs.LocalFileSystem())


def read(lake: Lake, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a table.

    Raises:
        LakeError: there is no such table.
    """
    return dataset(lake, table).to_table(None if columns is None else list(columns))


def totals(lake: Lake) -> dict[str, int]:
    """The sums of the accounting table: where all captured bytes went.

    Raises:
        LakeError: a file is lost.
    """
    sums = ("captured", "decoded", "quarantined", "gap", "duplicate", "left_out")
    names = (*sums, "missing", "frames")
    if "accounting" not in lake.tables:
        return dict.fromkeys(names, 0)
    # Tables of earlier versions have fewer columns.
    known = [name for name in names if name in schema_of(lake, "accounting").names]
    found = read(lake, "accounting", known)
    return {name: pc.sum(found[name]).as_py() or 0 if name in known else 0 for name in names}
