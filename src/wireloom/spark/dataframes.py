"""Captures as a DataFrame, by the fastest way there is.

That is the data source in pages (`wireloom.spark.paging`). Where a session cannot read these, as
with Spark Connect, it is ``mapInArrow``, as Spark copies every row of a data source twice.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wireloom.captures.finding import find_paths
from wireloom.spark.options import SourceOptions
from wireloom.spark.paging import add_paging
from wireloom.spark.planning import plan, read
from wireloom.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_captures"]


def read_captures(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    table: str = "frames",
    **options: object,
) -> DataFrame:
    """A table of captures: ``read_captures(spark, "captures/", table="fields")``.

    The rows are those of ``spark.read.format("wireloom")`` with the same options; bad options and
    missing captures are errors at once. From now on the session reads captures in pages, if it can.

    Args:
        spark: the session.
        paths: files, folders, patterns or addresses.
        table: which table.
        options: those of the data source for batches; several values as text or as a list:
            ``select="stream,name"`` or ``select=["stream", "name"]``.

    Raises:
        OptionError: an option is unknown or has a bad value, or there are no captures.
        SourceError: a capture, or a file that an option names, cannot be found or read.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [os.fspath(path) for path in several]
    given: dict[str, Any] = {name: _text(value) for name, value in options.items()}
    given["table"] = table
    chosen = SourceOptions.read({**given, "paths": json.dumps(names)}).resolved()
    if add_paging(spark):
        find_paths(chosen.paths)
        return spark.read.format("wireloom").options(**given).load(names)
    return _mapped(spark, chosen)


def _mapped(spark: SparkSession, chosen: SourceOptions) -> DataFrame:
    settings, name = chosen.settings, chosen.table
    tasks = [pickle.dumps(each) for each in plan(chosen)]

    def rows(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read(pickle.loads(tasks[number]), settings, name)

    # A number for each task, in a partition of its own.
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(rows, spark_schema(chosen.schema))


def _text(value: object) -> str:
    """An option as Spark would hand it over."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
