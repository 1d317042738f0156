"""``spark.read.format("wireloom")``: captures as tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

# Spark imports this module whenever it looks for any source, so heavy imports come later.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader

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
        options = self._resolved()
        if options.query is not None:
            # Spark is given pages; these are the columns of the rows in them.
            schema = StructType.fromJson(json.loads(options.query.schema))
        return WireloomReader(_narrowed(options, schema), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader that follows what is added to the captures.

        Raises:
            OptionError: an option is unknown, missing or has a bad value.
            SourceError: a file that one names cannot be found or read.
        """
        from wireloom.spark.streaming import WireloomStreamReader

        return WireloomStreamReader(_narrowed(self._resolved(), schema), schema.fieldNames())

    def _resolved(self) -> SourceOptions:
        """Pickled with the source, so that all processes see the same types."""
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

    def partitions(self) -> list[InputPartition]:
        """The tasks.

        Raises:
            OptionError: there are no captures, or no file system is known for an address.
            SourceError: a capture cannot be read.
        """
        from wireloom.spark.filters import sources
        from wireloom.spark.planning import plan

        query = self._options.query
        return plan(self._options, None if query is None else sources(query.filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, or pages with them.

        Raises:
            SourceError: a capture cannot be opened or read.
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        from wireloom.spark.filters import apply
        from wireloom.spark.paging.pages import pages
        from wireloom.spark.planning import read, table_batches

        settings, table, query = self._options.settings, self._options.table, self._options.query
        if query is None:
            for batch in read(partition, settings, table):
                yield batch.select(self._columns)
            return
        for batch in table_batches(partition, settings, table):
            kept = apply(batch, query.filters)
            if kept.num_rows:
                yield from pages(kept.select(self._columns))
