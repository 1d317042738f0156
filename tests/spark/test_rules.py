from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSourceReader

from wireloom.spark import rules
from wireloom.spark.rules import SETTING, add_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]
OURS = {"extraStrategies": ["OneCopy"], "extraOptimizations": ["LessToRead"]}


def added(spark: SparkSession) -> dict[str, list[str]]:
    """The names of the rules that were added to Spark's own."""
    places = {}
    for place in OURS:
        found = getattr(spark._jsparkSession.experimental(), place)()
        each = [found.apply(number) for number in range(found.length())]
        places[place] = [rule.getClass().getSimpleName() for rule in each]
    return places


def load(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("wireloom").option("table", "fields").load(str(path))


def steps(frame: DataFrame) -> str:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan


def sent(frame: DataFrame) -> int:
    """How many rows the source gave Spark for a query."""
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    count: int = leaf.metrics().apply("numOutputRows").value()
    return count


@pytest.fixture
def untouched(spark: SparkSession) -> SparkSession:
    """A session that plans as Spark does, with filters handed to sources where it can."""
    found = spark.newSession()
    assert added(found) == {place: [] for place in OURS}
    found.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return found


def test_rows_are_copied_once_and_are_the_same(
    spark: SparkSession,
    untouched: SparkSession,
    captures: Path,
    rows_of: Callable[[DataFrame], Rows],
) -> None:
    assert added(spark) == OURS
    once, twice = load(spark, captures), load(untouched, captures)
    assert "BatchScan wireloom" in steps(once)
    assert "Project" not in steps(once)
    assert "Project" in steps(twice)
    rows = rows_of(once)
    assert len(rows) > 1000
    assert rows == rows_of(twice)


def test_only_columns_that_are_needed_are_read(spark: SparkSession, captures: Path) -> None:
    frame = load(spark, captures)
    frame.createOrReplaceTempView("t")
    for query, columns in (
        ("select size, name from t", "size, name"),
        ("select name from t where size > 2", "name, size"),
        ("select upper(name) from t", "name"),
        ("select count(*) from t", "frame_offset"),
        ("select name, max(value_real) from t group by name", "name, value_real"),
    ):
        plan = re.sub(r"#\d+L?", "", steps(spark.sql(query)))
        assert f"BatchScan wireloom[{columns}]" in plan, query
    narrow = frame.select("size", "name")
    assert narrow.columns == ["size", "name"]
    assert "Project" not in steps(narrow)
    spark.catalog.dropTempView("t")


@pytest.mark.skipif(not hasattr(DataSourceReader, "pushFilters"), reason="Spark has no push-down")
def test_rows_that_filters_drop_are_not_sent(
    spark: SparkSession, untouched: SparkSession, captures: Path
) -> None:
    frame = load(spark, captures / "quotes.bin")
    total, bids = frame.count(), frame.where("name = 'BID'").count()
    assert 0 < bids < total
    assert sent(frame.where("name = 'BID'")) == bids
    assert sent(frame.where("name = 'BID'").select("size")) == bids
    assert sent(frame) == total
    # Without the rule, the source would have to send what a later query needs.
    assert sent(load(untouched, captures / "quotes.bin").where("name = 'BID'")) == total


@pytest.mark.parametrize("push_down", ["true", "false"])
@pytest.mark.parametrize("with_rules", [True, False])
def test_a_filter_is_not_felt_by_other_queries(
    untouched: SparkSession, captures: Path, with_rules: bool, push_down: str
) -> None:
    untouched.conf.set("spark.sql.python.filterPushdown.enabled", push_down)
    assert not with_rules or add_rules(untouched)
    frame = load(untouched, captures / "quotes.bin")
    total = frame.count()
    assert 0 < len(frame.where("name = 'BID'").collect()) < total
    assert len(frame.collect()) == frame.count() == total
    bids, asks = (frame.where(f"name = '{name}'") for name in ("BID", "ASK"))
    assert bids.union(asks).select("name").distinct().count() == 2
    assert bids.crossJoin(asks.limit(1)).count() == bids.count() > 0
    assert frame.count() == total


@pytest.mark.parametrize(
    "query",
    [
        "select * from t",
        "select size, name from t where size > 2 and name is not null",
        "select * from t where position = 1",
        "select name, count(*), sum(value_decimal) from t group by name",
        "select * from t order by value_decimal desc, stream, frame_offset, path, position",
        "select distinct * from t",
        "select a.*, b.name n from t a join t b using (stream, frame_offset, path, position)",
        "select * from t union all select * from t",
        "select /*+ repartition(3, name) */ * from t",
        "select *, row_number() over (partition by stream order by frame_offset, position) from t",
        "select name from t where name in (select name from t where position = 3)",
        "select a.name, a.size from t a where exists (select 1 from t b where b.size > a.size + 5)",
        "select size + (select max(size) from t where position < 2) from t where size > 4",
        "select name, name as again, size * 2 as two from t where value_decimal > 10 and size = 8",
        "select count(*), count(value_text) from t where value_text like 'U%' or value_int > 5",
        "select * except (ts, ts_ns) from t where ts is null and value_real > 1.5 limit 100000",
        "select * from t tablesample (100 percent) where true",
        "select name, r from (select name, rand(1) * 0 as r from t) where r = 0",
        "select distinct source, stream from t where source like '%quotes.bin'",
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


def test_captures_are_named_and_chosen_in_every_way(
    spark: SparkSession, untouched: SparkSession, captures: Path
) -> None:
    paths = [str(captures / "quotes.bin"), str(captures / "rv.bin.gz")]
    found = []
    for session in (spark, untouched):
        reader = session.read.format("wireloom")
        several = reader.option("table", "fields").load(paths)
        chosen = reader.option("select", "source,name,size").load(paths)
        given = session.read.format("wireloom").schema("type_code int, source string")
        wide = session.read.format("wireloom").options(table="wide", columns="BID,SYMBOL")
        typed = wide.load(paths[0]).where("BID > 20")
        session.sql(
            f"create or replace temporary view v using wireloom options (path '{paths[0]}')"
        )
        found.append(
            [
                several.select("source").distinct().orderBy("source").collect(),
                chosen.where("size > 4").groupBy("name").count().orderBy("name").collect(),
                given.load(paths[0]).select("source").distinct().collect(),
                typed.select("BID").orderBy("BID").collect(),
                session.sql("select type_code, count(*) from v group by all").collect(),
            ]
        )
        session.catalog.dropTempView("v")
    assert all(found[0])
    assert found[0] == found[1]


def test_they_are_added_once_and_before_others(untouched: SparkSession) -> None:
    assert add_rules(untouched)
    assert added(untouched) == OURS
    experimental = untouched._jsparkSession.experimental()
    jvm: Any = untouched._jvm
    other = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy
    others = jvm.PythonUtils.toSeq([other(untouched._jsparkSession)])
    getattr(experimental, "extraStrategies_$eq")(others)
    assert add_rules(untouched)
    assert add_rules(untouched)
    assert added(untouched) == {**OURS, "extraStrategies": ["OneCopy", "DataSourceV2Strategy"]}


def test_a_setting_leaves_planning_to_spark(untouched: SparkSession) -> None:
    untouched.conf.set(SETTING, "false")
    assert not add_rules(untouched)
    assert added(untouched) == {place: [] for place in OURS}


def test_a_spark_that_differs_plans_as_ever(
    untouched: SparkSession,
    captures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("OneCopy", "LessToRead"):
        text = (rules._HERE / f"{name}.java").read_text()
        changed = text.replace("v2.DataSourceV2ScanRelation;", "v3.DataSourceV3ScanRelation;")
        assert changed != text
        (tmp_path / f"{name}.java").write_text(changed)
    monkeypatch.setattr(rules, "_HERE", tmp_path)
    with caplog.at_level(logging.INFO):
        assert not add_rules(untouched)
    assert "does not take rules" in caplog.text
    assert "DataSourceV3ScanRelation" in caplog.text
    assert load(untouched, captures / "quotes.bin").count() > 0
