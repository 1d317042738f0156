"""A lake's tables in Spark: always whole commits, even while somebody is writing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wireloom.lake import Lake, schema_of
from wireloom.lake.layout import TIME_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table", "register_tables"]


def read_table(spark: SparkSession, lake: Lake | str | os.PathLike[str], table: str) -> DataFrame:
    """A table of a lake, as of its last commit.

    Unlike ``spark.read.parquet(folder)`` it never sees a part of a commit.

    Raises:
        LakeError: there is no such lake or table.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    opened = lake if isinstance(lake, Lake) else Lake(lake)
    schema = from_arrow_schema(schema_of(opened, table))
    files = opened.files(table)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema)
    if TIME_COLUMNS.get(table, "ts_ns") is not None:
        reader = reader.option("basePath", str(opened.path / table))
    return reader.parquet(*(str(opened.place(file)) for file in files))


def register_tables(spark: SparkSession, lake: Lake | str | os.PathLike[str]) -> tuple[str, ...]:
    """Make the tables of a lake known to Spark SQL by name; return the names.

    Raises:
        LakeError: there is no such lake.
    """
    opened = lake if isinstance(lake, Lake) else Lake(lake)
    for name in opened.tables:
        read_table(spark, opened, name).createOrReplaceTempView(name)
    return opened.tables
