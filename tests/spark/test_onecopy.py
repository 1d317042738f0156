from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.spark import onecopy
from wireloom.spark.onecopy import SETTING, copy_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]


def strategies(spark: SparkSession) -> list[str]:
    """The names of those that were added to Spark's own."""
    found = spark._jsparkSession.experimental().extraStrategies()
    return [found.apply(number).getClass().getSimpleName() for number in range(found.length())]


def load(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("wireloom").option("table", "fields").load(str(path))


def steps(frame: DataFrame) -> str:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan


@pytest.fixture
def untouched(spark: SparkSession) -> SparkSession:
    """A session that plans as Spark does."""
    found = spark.newSession()
    assert strategies(found) == []
    return found


def test_rows_are_copied_once_and_are_the_same(
    spark: SparkSession,
    untouched: SparkSession,
    captures: Path,
    rows_of: Callable[[DataFrame], Rows],
) -> None:
    assert "OneCopy" in strategies(spark)
    once, twice = load(spark, captures), load(untouched, captures)
    assert "BatchScan wireloom" in steps(once)
    assert "Project" not in steps(once)
    assert "Project" in steps(twice)
    rows = rows_of(once)
    assert len(rows) > 1000
    assert rows == rows_of(twice)


@pytest.mark.parametrize(
    "query",
    [
        "select * from t",
        "select size, name from t where size > 2 and name is not null",
        "select * from t where position = 1",
        "select name, count(*), sum(value_decimal) from t group by name",
        "select * from t order by value_decimal desc, stream, frame_offset, path, position",
        "select distinct * from t",
        "select a.*, b.name as other from t a join t b using (source, frame_offset, path, position)",
        "select * from t union all select * from t",
        "select /*+ repartition(3, name) */ * from t",
        "select *, row_number() over (partition by stream order by frame_offset, position) from t",
    ],
)
def test_whatever_is_asked_of_them(
    spark: SparkSession,
    untouched: SparkSession,
    captures: Path,
    rows_of: Callable[[DataFrame], Rows],
    query: str,
) -> None:
    # Steps that keep rows must copy them, as the source goes on in the same memory.
    found = []
    for session in (spark, untouched):
        load(session, captures / "quotes.bin").createOrReplaceTempView("t")
        found.append(rows_of(session.sql(query)))
    spark.catalog.dropTempView("t")
    assert found[0]
    assert found[0] == found[1]


def test_rows_that_are_kept_stay_as_they_are(spark: SparkSession, captures: Path) -> None:
    frame = load(spark, captures / "quotes.bin")
    expected = frame.collect()
    frame.cache()
    try:
        assert frame.collect() == frame.collect() == expected
        assert frame.take(7) == expected[:7]
    finally:
        frame.unpersist()


def test_it_is_added_once_and_before_others(untouched: SparkSession) -> None:
    assert copy_once(untouched)
    assert strategies(untouched) == ["OneCopy"]
    experimental = untouched._jsparkSession.experimental()
    jvm: Any = untouched._jvm
    other = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy
    added = jvm.PythonUtils.toSeq([other(untouched._jsparkSession)])
    getattr(experimental, "extraStrategies_$eq")(added)
    assert copy_once(untouched)
    assert copy_once(untouched)
    assert strategies(untouched) == ["OneCopy", "DataSourceV2Strategy"]


def test_a_setting_leaves_planning_to_spark(untouched: SparkSession) -> None:
    untouched.conf.set(SETTING, "false")
    assert not copy_once(untouched)
    assert strategies(untouched) == []


def test_a_spark_that_differs_plans_as_ever(
    untouched: SparkSession,
    captures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = tmp_path / "OneCopy.java"
    other.write_text(onecopy._SOURCE.read_text().replace("v2.python.PythonScan", "v3.PythonScan"))
    monkeypatch.setattr(onecopy, "_SOURCE", other)
    with caplog.at_level(logging.INFO):
        assert not copy_once(untouched)
    assert "copied twice" in caplog.text
    assert "PythonScan" in caplog.text
    assert load(untouched, captures / "quotes.bin").count() > 0
