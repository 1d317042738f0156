"""`bars`: open, high, low, close and volume of each subject, interval by interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wireloom.spark.derived.common import Tables, conform, named
from wireloom.spark.derived.market import (
    MESSAGE,
    SUBJECT_FIELDS,
    TRADES,
    place_in_frame,
    with_subject,
)
from wireloom.tables import SOURCE, STREAM, Column, Table, spark_type

__all__ = ["TABLE", "bars"]

TABLE: Final = Table(
    "bars",
    "one interval in which a subject was traded, in one stream",
    (
        SOURCE,
        STREAM,
        Column("subject", "name", "what was traded"),
        Column("ts", "timestamp", "start of the interval"),
        Column("until", "timestamp", "end of the interval, exclusive"),
        Column("open", "decimal", "first price"),
        Column("high", "decimal", "highest price"),
        Column("low", "decimal", "lowest price"),
        Column("close", "decimal", "last price"),
        Column("volume", "decimal", "sum of the volumes; null if no trade had one"),
        Column("vwap", "f64", "mean of the prices, by volume; null if no trade had one"),
        Column("trades", "i64", "number of trades"),
    ),
)

_NUMBER: Final = spark_type("decimal")


def _number(field: str) -> SparkColumn:
    """A field's number, exactly if the message says how many places it has."""
    value = sf.coalesce(
        sf.col("value_decimal"),
        sf.col("value_int").try_cast(_NUMBER),
        sf.col("value_real").try_cast(_NUMBER),
    )
    return sf.max_by(
        sf.when(sf.col("name") == field, value),
        sf.when(sf.col("name") == field, sf.col("position")),
    )


def bars(
    tables: Tables,
    *,
    interval: str = "1 minute",
    price: str = "TRDPRC_1",
    volume: str = "TRDVOL_1",
    subject_fields: Sequence[str] = SUBJECT_FIELDS,
) -> DataFrame:
    """Bars of the trades in `fields`.

    An update with a price is a trade; a refresh only repeats one, and a correction is not a trade.
    The order is that of the stream's bytes, the interval that of the capture time; messages without
    one are left out.

    Args:
        tables: `fields`.
        interval: its length, as Spark writes it: ``10 seconds``, ``1 hour``.
        price: the field with the price.
        volume: the field with the volume.
        subject_fields: see `wireloom.spark.derived.market.SUBJECT_FIELDS`.

    Raises:
        OptionError: a table is missing.
    """
    fields = named(tables, "fields")
    needed = ("MSG_TYPE", "REC_STATUS", price, volume, *subject_fields)
    rows = with_subject(fields.where(sf.col("name").isin(*needed)), subject_fields)
    rows = rows.where(sf.col("msg_type").isNull() | sf.col("msg_type").isin(*TRADES))
    trades = rows.groupBy(*MESSAGE, "subject").agg(
        sf.max("ts").alias("ts"), _number(price).alias("price"), _number(volume).alias("size")
    )
    place = sf.struct("frame_offset", place_in_frame(sf.col("path")))
    traded = sf.col("price").cast("double") * sf.col("size").cast("double")
    sized = sf.sum(sf.when(sf.col("size").isNotNull(), sf.col("size").cast("double")))
    found = (
        trades.where(sf.col("price").isNotNull() & sf.col("ts").isNotNull())
        .groupBy("source", "stream", "subject", sf.window("ts", interval).alias("_window"))
        .agg(
            sf.min_by("price", place).alias("open"),
            sf.max("price").alias("high"),
            sf.min("price").alias("low"),
            sf.max_by("price", place).alias("close"),
            sf.try_sum("size").alias("volume"),
            sf.try_divide(sf.sum(traded), sized).alias("vwap"),
            sf.count(sf.lit(1)).alias("trades"),
        )
    )
    return conform(
        found.withColumns({"ts": sf.col("_window.start"), "until": sf.col("_window.end")}), TABLE
    )
