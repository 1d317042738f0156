"""``spark.read.format("wireloom")``: captures as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

# Spark imports this module whenever it looks for any source, so what is heavy is imported later.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from wireloom.spark.filters import Mask
    from wireloom.spark.options import SourceOptions

__all__ = ["WireloomReader", "WireloomSource"]


class WireloomSource(DataSource):
    """Reads captures: raw, pcap and pcapng, packed or not, as one of Wireloom's tables.

    ``spark.read.format("wireloom").option("table", "fields").load("captures/")``. The options are
    those of `wireloom.spark.options.OPTIONS` and `wireloom.tabulate.Settings`. A schema given by
    the user chooses columns.
    """

    _options: SourceOptions | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "wireloom"

    def schema(self) -> str:
        """The columns of the table that was asked for.

        Raises:
            OptionError: an option is unknown, missing or has a bad value.
            SourceError: a file that one names cannot be found or read.
        """
        from wireloom.tables import spark_ddl

        return spark_ddl(self._resolved().schema)

    def reader(self, schema: StructType) -> WireloomReader:
        """A reader of these columns.

        Raises:
            OptionError: an option is unknown, missing or has a bad value.
            SourceError: a file that one names cannot be found or read.
        """
        return WireloomReader(_narrowed(self._resolved(), schema), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader that goes on with what is added to the captures.

        Raises:
            OptionError: an option is unknown, missing or has a bad value.
            SourceError: a file that one names cannot be found or read.
        """
        from wireloom.spark.streaming import WireloomStreamReader

        return WireloomStreamReader(_narrowed(self._resolved(), schema), schema.fieldNames())

    def _resolved(self) -> SourceOptions:
        """Kept with the source when that is sent on, so that all see the same types."""
        from wireloom.spark.options import SourceOptions

        if self._options is None:
            self._options = SourceOptions.read(self.options).resolved()
        return self._options


def _narrowed(options: SourceOptions, schema: StructType) -> SourceOptions:
    """The options with the columns of a schema, which must be the table's own.

    Raises:
        OptionError: a column is unknown, or of another type.
    """
    from wireloom.errors import OptionError
    from wireloom.tables import spark_type

    table = options.schema.select(schema.fieldNames())
    for field in schema.fields:
        own = spark_type(table[field.name].type).lower()
        if field.dataType.simpleString() != own:
            raise OptionError(f"{field.name} is {own}, not {field.dataType.simpleString()}")
    select = {**options.settings.select, options.table: table.names}
    return dataclasses.replace(
        options, settings=dataclasses.replace(options.settings, select=select)
    )


class WireloomReader(DataSourceReader):
    """Plans on the driver, decodes on the workers."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._masks: list[Mask] = []
        # Spark reads later queries of the same DataFrame with the filters of this one, too.
        if options.single_query and hasattr(DataSourceReader, "pushFilters"):
            self.pushFilters = _Offer(self)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        """The tasks.

        Raises:
            OptionError: there are no captures, or nobody knows how to read an address.
            SourceError: a capture cannot be read.
        """
        from wireloom.spark.filters import sources
        from wireloom.spark.planning import plan

        return plan(self._options, sources(self._masks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task.

        Raises:
            SourceError: a capture cannot be opened or read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        from wireloom.spark.filters import apply
        from wireloom.spark.planning import read

        for batch in read(partition, self._options.settings, self._options.table):
            kept = apply(batch, self._masks)
            if kept.num_rows:
                yield kept.select(self._columns)

    def take(self, filters: list[Any]) -> Iterable[Any]:
        """Remember the filters; all are given back, so that Spark checks the rows again."""
        from wireloom.spark.filters import masks

        self._masks = masks(filters, self._options.schema.names)
        return filters


class _Offer:
    """`pushFilters` for Spark with push-down switched on, and nothing for Spark without.

    Spark refuses a reader with a `pushFilters` of its own when push-down is off, and the reader is
    not told whether it is. What Spark looks at is ``__func__``.
    """

    def __init__(self, reader: WireloomReader) -> None:
        self._reader = reader
        # Not of the class, which would give it out bound to this.
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._reader.take(filters)
