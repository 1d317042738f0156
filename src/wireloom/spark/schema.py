"""Schemas of tables as Spark's own objects, even where no session runs that could parse DDL."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from wireloom.tables import Table, spark_type

__all__ = ["spark_schema"]

_TYPES: Final[dict[str, DataType]] = {
    "ARRAY<STRING>": ArrayType(StringType()),
    "BIGINT": LongType(),
    "BINARY": BinaryType(),
    "BOOLEAN": BooleanType(),
    "DATE": DateType(),
    "DOUBLE": DoubleType(),
    "INT": IntegerType(),
    "STRING": StringType(),
    "TIMESTAMP": TimestampType(),
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def spark_schema(table: Table) -> StructType:
    """The schema of a table; `wireloom.tables.spark_ddl` gives it as text."""
    return StructType([StructField(column.name, _type(column.type)) for column in table.columns])


def _type(name: str) -> DataType:
    text = spark_type(name)
    places = _DECIMAL.fullmatch(text)
    return _TYPES[text] if places is None else DecimalType(int(places[1]), int(places[2]))
