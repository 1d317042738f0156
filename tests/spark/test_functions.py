from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from wireloom.errors import OptionError
from wireloom.formats import get, tibmsg
from wireloom.spark import decode_column, register_functions
from wireloom.spark.functions import FUNCTION, PayloadDecoder
from wireloom.spark.schema import spark_schema
from wireloom.tables import spark_ddl, table, table_names, wide_table
from wireloom.tabulate import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def quote(symbol: str, size: int) -> bytes:
    return tibmsg.build({"SYM": symbol, "BIDSIZE": size}).encode()


VALUES = [
    quote("ABC", 1),
    None,
    b"",
    quote("DEF", 2) + quote("GHI", 3),
    quote("JKL", 4)[:-3],
    quote("MNO", 5),
]


def messages(spark: SparkSession) -> DataFrame:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    rows = [(number, value, moment) for number, value in enumerate(VALUES)]
    return spark.createDataFrame(rows, "number int, payload binary, sent timestamp")


def test_each_value_is_decoded_by_itself() -> None:
    decoder = PayloadDecoder(Settings(tables=("frames",), formats=("tibmsg",)), "frames", "p")
    values = pa.array(VALUES, pa.binary())
    for _ in range(2):
        ((batch, index),) = decoder.decode(values)
        assert index.to_pylist() == [0, 3, 3, 5]
        assert batch["frame_offset"].to_pylist() == [0, 0, len(quote("DEF", 2)), 0]
        assert set(batch["source"].to_pylist()) == {"p"}
    assert list(decoder.decode(pa.array([None, b""], pa.binary()))) == []


def test_rows_stand_beside_the_columns_that_are_kept(spark: SparkSession) -> None:
    rows = decode_column(messages(spark), "payload", format="tibmsg", table="fields", ts="sent")
    found = rows.where("name = 'BIDSIZE'").select("number", "value_int", "ts_ns").collect()
    moment = 1_704_164_645_678_901_000
    assert sorted(map(tuple, found)) == [
        (0, 1, moment),
        (3, 2, moment),
        (3, 3, moment),
        (5, 5, moment),
    ]


def test_wide_columns_and_a_choice_of_columns(spark: SparkSession) -> None:
    wide = decode_column(
        messages(spark),
        "payload",
        format="tibmsg",
        table="wide",
        columns=("SYM", "BIDSIZE:decimal(9,2)"),
        select=("SYM", "BIDSIZE"),
        keep=("number",),
    )
    assert wide.columns == ["number", "SYM", "BIDSIZE"]
    assert (5, "MNO", Decimal("5.00")) in [tuple(row) for row in wide.collect()]


def test_what_cannot_be_read_is_in_errors(spark: SparkSession) -> None:
    errors = decode_column(messages(spark), "payload", format="tibmsg", table="errors", keep=())
    (row,) = errors.collect()
    assert row["code"] == "truncated"
    assert row["raw"] == VALUES[4]


def test_wrong_uses_are_refused(spark: SparkSession) -> None:
    frame = messages(spark)
    with pytest.raises(OptionError, match="gaps is about the streams"):
        decode_column(frame, "payload", format="tibmsg", table="gaps")
    with pytest.raises(OptionError, match="ts is also a column of fields"):
        decode_column(frame.withColumnRenamed("sent", "ts"), "payload", format="tibmsg")
    with pytest.raises(OptionError, match="no format 'morse'"):
        decode_column(frame, "payload", format="morse")


def test_sql_has_it_as_a_table_function(spark: SparkSession) -> None:
    register_functions(spark)
    messages(spark).createOrReplaceTempView("messages_in_sql")
    found = spark.sql(
        f"select m.number, t.value_int from messages_in_sql m, "
        f"lateral {FUNCTION}(payload, 'tibmsg', 'fields') t where t.name = 'BIDSIZE'"
    ).collect()
    assert sorted(map(tuple, found)) == [(0, 1), (3, 2), (3, 3), (5, 5)]
    one = spark.sql(
        f"select * from {FUNCTION}(X'{get('nrep').samples()['hello'].hex()}', 'nrep', 'nrep')"
    )
    row: Any = one.first()
    assert row["type_name"] == "HELLO"


@pytest.mark.parametrize("name", table_names())
def test_schemas_are_what_their_texts_say(spark: SparkSession, name: str) -> None:
    from pyspark.sql.types import StructType

    assert spark_schema(table(name)) == StructType.fromDDL(spark_ddl(name))


def test_schemas_of_wide_tables_are_what_their_texts_say(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    made = wide_table([("A", "decimal(9,2)"), ("B", "f64"), ("C", "date"), ("D", "time")])
    assert spark_schema(made) == StructType.fromDDL(spark_ddl(made))


def test_types_of_wide_columns_come_from_the_values(spark: SparkSession) -> None:
    options: Any = {"format": "tibmsg", "table": "wide", "columns": ("BIDSIZE",)}
    wide = decode_column(messages(spark), "payload", select=("BIDSIZE",), keep=(), **options)
    assert wide.schema["BIDSIZE"].dataType.simpleString() == "bigint"
    assert sorted(row[0] for row in wide.collect()) == [1, 2, 3, 5]
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("cast(cast(value as string) as binary) payload")
    )
    with pytest.raises(OptionError, match="BIDSIZE needs a type"):
        decode_column(stream, "payload", **options)
