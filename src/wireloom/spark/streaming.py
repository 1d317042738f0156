"""``spark.readStream.format("wireloom")``: captures as tables while they are written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wireloom.spark.offsets import Follow, Notice, Tail, follow, notice
from wireloom.spark.options import SourceOptions
from wireloom.spark.planning import read, spark_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["WireloomStreamReader"]

try:  # from Spark 4.2 on
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxBytes = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """What Spark calls when it wants only what is available now."""


class WireloomStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, decodes on the workers."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        """Nothing is looked at yet.

        Raises:
            OptionError: a path cannot be followed.
        """
        self._options = options
        self._columns = columns
        self._tail = Tail(options)
        self._last: dict[str, Any] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Nothing is read."""
        return {}

    # Spark before 4.2 gives no arguments, and for `availableNow` asks only once: less than
    # everything would leave the rest unread.
    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """How far the next micro-batch goes.

        Raises:
            SourceError: a capture cannot be read.
        """
        most = None
        if ReadMaxBytes is not None and isinstance(limit, ReadMaxBytes):
            most = limit.max_bytes
        begin = self._last if start is None else start
        self._last = {**self._tail.advance(begin, most, time.time())}
        return self._last

    def getDefaultReadLimit(self) -> Any:
        """The limit of a micro-batch, by the options."""
        most = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, read only what is available now."""
        self._tail.bound()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch.

        Raises:
            SourceError: a capture cannot be read.
        """
        if not self._last:
            self._last = dict(end)  # started again from a checkpoint
        return self._tail.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task.

        Raises:
            SourceError: a capture cannot be opened or read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        settings, table = self._options.settings, self._options.table
        if isinstance(partition, Follow):
            batches = spark_batches(follow(partition, settings), settings, table)
        elif isinstance(partition, Notice):
            batches = spark_batches(notice(partition, settings), settings, table)
        else:
            batches = read(partition, settings, table)
        for batch in batches:
            yield batch.select(self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: no state is kept for finished micro-batches."""

    def stop(self) -> None:
        """Do nothing: no resources are held."""
