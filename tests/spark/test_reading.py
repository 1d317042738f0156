from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.errors import OptionError, SourceError
from wireloom.spark import read_captures
from wireloom.spark.paging import SETTING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]


@pytest.mark.parametrize("paged", ["true", "false"])
@pytest.mark.parametrize("table", ["frames", "fields", "errors", "accounting"])
def test_rows_are_those_of_the_data_source(
    spark: SparkSession,
    captures: Path,
    rows_of: Callable[[DataFrame], Rows],
    table: str,
    paged: str,
) -> None:
    spark = spark.newSession()
    spark.conf.set(SETTING, paged)
    source = spark.read.format("wireloom").option("table", table).load(str(captures))
    found = read_captures(spark, captures, table=table, split_bytes=20_000, packet_parts=2)
    assert found.schema == source.schema
    steps = found._jdf.queryExecution().executedPlan().toString()
    assert ("RowsOfPages" if paged == "true" else "MapInArrow") in steps
    assert found.rdd.getNumPartitions() > 2
    rows = rows_of(found)
    assert rows
    assert rows == rows_of(source)


def test_several_paths_and_chosen_columns(spark: SparkSession, captures: Path) -> None:
    paths = [captures / "quotes.bin", str(captures / "rv.bin.gz")]
    found = read_captures(spark, paths, table="fields", select="source, name", nested=False)
    assert found.columns == ["source", "name"]
    assert {row["source"] for row in found.select("source").distinct().collect()} == {
        str(path) for path in paths
    }


def test_options_are_texts_or_lists(spark: SparkSession, captures: Path) -> None:
    quotes = captures / "quotes.bin"
    columns = ["SYMBOL:text", "BID:decimal(18,4)"]
    text = read_captures(spark, quotes, table="wide", columns=", ".join(columns), formats="tibmsg")
    listed = read_captures(spark, quotes, table="wide", columns=columns, formats=("tibmsg",))
    assert listed.columns[-2:] == ["SYMBOL", "BID"]
    assert listed.schema == text.schema
    assert listed.collect() == text.collect() != []
    mapped = read_captures(spark, quotes, ports={7001: "tibmsg"}, formats=["tibmsg"])
    assert mapped.count() == read_captures(spark, quotes, ports="7001=tibmsg").count() > 0


def test_what_cannot_be_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no option 'colour'"):
        read_captures(spark, tmp_path, colour="red")
    with pytest.raises((OptionError, SourceError), match="no"):
        read_captures(spark, tmp_path / "nothing.bin")
