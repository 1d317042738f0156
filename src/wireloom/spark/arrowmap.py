"""`mapInArrow`: the only way in which Wireloom's own tasks run on Spark.

It needs no RDDs, which Spark Connect does not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Batches", "map_batches", "map_numbers"]

Batches = Iterator[pa.RecordBatch]


def map_batches(frame: DataFrame, function: Callable[[Batches], Batches], schema: str) -> DataFrame:
    """The frame that a function makes of Arrow batches."""
    with warnings.catch_warnings():
        # Spark checks the version of pandas and may reject it; nothing here uses pandas.
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        return frame.mapInArrow(function, schema)


def map_numbers(
    spark: SparkSession, count: int, function: Callable[[Batches], Batches], schema: str
) -> DataFrame:
    """The same for the numbers below `count`, each in a partition, and so a task, of its own."""
    return map_batches(spark.range(0, count, 1, max(1, count)), function, schema)
