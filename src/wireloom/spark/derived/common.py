"""What the derived tables share: connections, time, holes, and the shape of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from wireloom.captures.events import STREAM_NAME
from wireloom.errors import OptionError
from wireloom.tables import Column as TableColumn
from wireloom.tables import Table, spark_ddl, spark_type
from wireloom.tables import table as base_table

__all__ = [
    "TIME",
    "Tables",
    "conform",
    "connected",
    "dialogue_table",
    "dialogues",
    "last_holes",
    "micros",
    "named",
    "optional",
]

Tables = Mapping[str, DataFrame] | Callable[[str], DataFrame]
"""The base tables, by name."""

_SOURCE: Final = TableColumn("source", "name", "the capture where it was first seen")
_CONNECTION: Final = TableColumn(
    "connection", "name", "both directions of a connection; the capture itself for raw ones"
)
TIME: Final = (
    TableColumn("ts_ns", "i64", "time of the first packet of the row, nanoseconds since 1970 UTC"),
    TableColumn("ts", "timestamp", "the same time as a timestamp, in microseconds"),
)
_DOUBTFUL: Final = TableColumn(
    "is_doubtful", "bool", "a part is missing, and the connection has holes that may have held it"
)


def named(tables: Tables, name: str) -> DataFrame:
    """A base table.

    Raises:
        OptionError: it is not among them.
    """
    if not isinstance(tables, Mapping):
        return tables(name)
    if name not in tables:
        known = ", ".join(sorted(tables)) or "none"
        raise OptionError(f"the table {name!r} is needed; given: {known}")
    return tables[name]


def optional(tables: Tables, name: str, like: DataFrame) -> DataFrame:
    """A base table that may be left out: then it is empty."""
    if isinstance(tables, Mapping) and name not in tables:
        return like.sparkSession.createDataFrame([], spark_ddl(base_table(name)))
    return named(tables, name)


def connected(rows: DataFrame, network: str | None = None) -> DataFrame:
    """Rows with the connection they belong to, and who sent them to whom.

    The number at the end of a stream's name is not part of the connection: after a loss in one
    direction the two directions count differently, and the halves of a dialogue must still meet.

    Args:
        rows: of a table with `source` and `stream`.
        network: an SQL expression of `source`. Captures for which it differs are of unrelated
            networks, such as two laboratories that use the same addresses.
    """
    stream = sf.col("stream")
    is_addressed = stream.rlike(STREAM_NAME)
    sender = sf.when(is_addressed, sf.regexp_extract(stream, STREAM_NAME, 2))
    receiver = sf.when(is_addressed, sf.regexp_extract(stream, STREAM_NAME, 3))
    protocol = sf.regexp_extract(stream, STREAM_NAME, 1)
    ends = sf.concat_ws(
        " ", protocol, sf.least(sender, receiver), sf.lit("<>"), sf.greatest(sender, receiver)
    )
    whole = sf.when(is_addressed, ends).otherwise(stream)
    if network is not None:
        whole = sf.concat_ws(" ", sf.expr(network).cast("string"), whole)
    return rows.withColumns({"connection": whole, "sender": sender, "receiver": receiver})


def micros(ts_ns: Column) -> Column:
    """Nanoseconds since 1970 as a timestamp."""
    return sf.timestamp_micros(sf.call_function("div", ts_ns, sf.lit(1000)))


def dialogue_table(name: str, doc: str, columns: Iterable[TableColumn]) -> Table:
    """A table of dialogues on connections: the columns that all of them have, and its own."""
    return Table(name, doc, (_SOURCE, _CONNECTION, *TIME, *columns, _DOUBTFUL))


def dialogues(
    rows: DataFrame, is_half: Column, tables: Tables, network: str | None, table: Table
) -> DataFrame:
    """The rows of a `dialogue_table`: `ts` and `is_doubtful` are added.

    Args:
        rows: with all its other columns.
        is_half: whether a part of a row's dialogue is missing.
        tables: the base tables; holes in `gaps`, if it is among them, may have held that part.
        network: see `connected`.
        table: the table.
    """
    gaps = connected(optional(tables, "gaps", rows), network)
    holed = gaps.select("connection").distinct()
    holed = holed.withColumn("_holed", sf.lit(True))
    joined = rows.join(holed, "connection", "left")
    doubt = is_half & sf.coalesce(sf.col("_holed"), sf.lit(False))
    return conform(joined.withColumns({"ts": micros(sf.col("ts_ns")), "is_doubtful": doubt}), table)


def last_holes(tables: Tables, like: DataFrame) -> DataFrame:
    """For each stream with holes: `hole`, where bytes are last missing or unreadable.

    `cause` says which of the two it is: ``gap`` or ``error``.
    """
    gaps = optional(tables, "gaps", like).select(
        "source", "stream", sf.struct(sf.col("offset"), sf.lit("gap").alias("cause")).alias("last")
    )
    errors = (
        optional(tables, "errors", like)
        .where(sf.col("layer") != "capture")
        .select(
            "source",
            "stream",
            sf.struct(sf.col("frame_offset").alias("offset"), sf.lit("error").alias("cause")).alias(
                "last"
            ),
        )
    )
    last = gaps.unionByName(errors).groupBy("source", "stream").agg(sf.max("last").alias("last"))
    return last.select(
        "source", "stream", sf.col("last.offset").alias("hole"), sf.col("last.cause").alias("cause")
    )


def conform(rows: DataFrame, table: Table) -> DataFrame:
    """Rows with exactly the columns of a table, in its types."""
    return rows.select(
        *(sf.col(each.name).cast(spark_type(each.type)).alias(each.name) for each in table.columns)
    )
