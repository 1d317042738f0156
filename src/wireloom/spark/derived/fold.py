"""Go through sorted rows group by group, in Python, in constant memory.

For what SQL cannot express. The rows of a group are in one partition and in order, and Spark hands
them over in Arrow batches; no group is ever held as a whole, as `applyInPandas` would.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from wireloom.tables import Table, arrow_schema, spark_ddl

__all__ = ["State", "fold"]

_BATCH_ROWS = 8192


class State(Protocol):
    """What is known of a group so far."""

    def add(self, row: dict[str, Any]) -> None:
        """Take the next row in."""

    def result(self) -> dict[str, Any]:
        """The group's one row, the keys left out."""


def fold(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    start: Callable[[], State],
    table: Table,
) -> DataFrame:
    """One row for each group of rows with equal keys.

    Args:
        rows: the rows.
        keys: columns that make a group.
        order: columns that order it.
        start: makes the state of a new group; sent to the workers.
        table: the columns of the result.
    """
    schema = arrow_schema(table, spark=True)
    wanted = tuple(keys)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made: list[dict[str, Any]] = []
        for group in _groups(batches, wanted, start):
            made.append(group)
            if len(made) == _BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(made, schema=schema)
                made = []
        if made:
            yield pa.RecordBatch.from_pylist(made, schema=schema)

    ordered = rows.repartition(*keys).sortWithinPartitions(*keys, *order)
    with warnings.catch_warnings():
        # Spark checks the version of pandas, which is not used here.
        warnings.filterwarnings("ignore", ".*pandas", FutureWarning)
        return ordered.mapInArrow(run, spark_ddl(table))


def _groups(
    batches: Iterable[pa.RecordBatch], keys: tuple[str, ...], start: Callable[[], State]
) -> Iterator[dict[str, Any]]:
    current: tuple[Any, ...] | None = None
    state = start()
    for batch in batches:
        for row in batch.to_pylist():
            found = tuple(row[name] for name in keys)
            if found != current:
                if current is not None:
                    yield {**dict(zip(keys, current, strict=True)), **state.result()}
                current, state = found, start()
            state.add(row)
    if current is not None:
        yield {**dict(zip(keys, current, strict=True)), **state.result()}
