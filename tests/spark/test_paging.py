from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.formats import nrep, tibmsg
from wireloom.spark import paging
from wireloom.spark.paging import SETTING, add_paging
from wireloom.tables import table_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
"""From Spark 4.1 on; ignored before."""


def added(spark: SparkSession) -> list[str]:
    """The names of the rules that were added to Spark's own."""
    found: Any = spark._jsparkSession.experimental().extraStrategies()
    return [found.apply(number).getClass().getSimpleName() for number in range(found.length())]


def load(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("wireloom").option("table", "fields").load(str(path))


def steps(frame: DataFrame) -> str:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan


def sent(frame: DataFrame) -> int:
    """How many rows the source gave Spark for a query."""
    frame.collect()
    step = frame._jdf.queryExecution().executedPlan()
    while step.nodeName() != "RowsOfPages" and step.children().length():
        step = step.children().head()
    count: int = step.metrics().apply("numOutputRows").value()
    return count


@pytest.fixture
def untouched(spark: SparkSession) -> SparkSession:
    """A session that plans as Spark does, with filters handed to sources where it can."""
    found = spark.newSession()
    assert added(found) == []
    found.conf.set(PUSH_DOWN, "true")
    return found


@pytest.mark.parametrize("table", [name for name in table_names() if name != "wide"])
def test_rows_come_in_pages_and_are_the_same(
    spark: SparkSession,
    untouched: SparkSession,
    captures: Path,
    rows_of: Callable[[DataFrame], Rows],
    table: str,
) -> None:
    assert added(spark) == ["Paging"]
    paged, plain = (
        session.read.format("wireloom").options(table=table, include_raw=True).load(str(captures))
        for session in (spark, untouched)
    )
    assert "RowsOfPages" in steps(paged)
    assert "BatchScan wireloom[page#" in steps(paged)
    assert "Project" not in steps(paged)
    assert "RowsOfPages" not in steps(plain)
    assert "Project" in steps(plain)
    rows = rows_of(paged)
    assert rows
    assert rows == rows_of(plain)


def both(
    sessions: Iterable[SparkSession],
    path: Path,
    rows_of: Callable[[DataFrame], Rows],
    **options: str,
) -> Rows:
    """The rows, which are the same in pages and without."""
    found = [
        rows_of(each.read.format("wireloom").options(**options).load(str(path)))
        for each in sessions
    ]
    assert found[0] == found[1]
    return found[0]


def test_values_of_every_size_come_through(
    spark: SparkSession,
    untouched: SparkSession,
    tmp_path: Path,
    rows_of: Callable[[DataFrame], Rows],
) -> None:
    texts = [
        "",
        *("é" * (size // 2) + "x" * (size % 2) for size in (1, 6, 7, 8, 9, 63, 64, 65, 99)),
    ]
    whole = [0, *(sign * (1 << bits) for bits in (0, 6, 7, 8, 15, 31, 47, 62) for sign in (1, -1))]
    reals = [0.0, -0.5, 1e-9, *(sign * 7.5 * 10**n for n in range(0, 15, 2) for sign in (1, -1))]
    quotes: list[dict[str, Any]] = [
        *({"TEXT": text, "RAW": text.encode()} for text in texts),
        *({"NUMBER": number, "FLAG": number > 0} for number in whole),
        *({"REAL": real, "TEXT": "t"} for real in reals),
        {"DAY": dt.date(1969, 12, 31)},
        {"DAY": dt.date(2100, 2, 28)},
    ]
    path = tmp_path / "values.bin"
    path.write_bytes(b"".join(tibmsg.build(quote).encode() for quote in quotes))
    sessions = spark, untouched
    assert len(both(sessions, path, rows_of, table="fields")) == sum(map(len, quotes))
    kinds = ("decimal(38,15)", "decimal(38,0)", "decimal(19,2)", "decimal(18,2)", "decimal(9,1)")
    for kind in (*kinds, "double", "int", "text"):
        columns = ",".join(f"{name}:{kind}" for name in ("NUMBER", "REAL", "TEXT"))
        rows = both(sessions, path, rows_of, table="wide", columns=columns)
        assert len(rows) == len(quotes)
        assert any(value is not None for row in rows for value in row[-4:-1])


def test_rows_of_more_columns_than_a_word_has_bits(
    spark: SparkSession,
    untouched: SparkSession,
    tmp_path: Path,
    rows_of: Callable[[DataFrame], Rows],
) -> None:
    # Every message lacks another field, so that each bit is set in some row.
    names = [f"F{number}" for number in range(130)]
    quotes = [{name: row for name in names if name != names[row]} for row in range(130)]
    path = tmp_path / "many.bin"
    path.write_bytes(b"".join(tibmsg.build(quote).encode() for quote in quotes))
    columns = ",".join(f"{name}:int" for name in names)
    rows = both((spark, untouched), path, rows_of, table="wide", columns=columns)
    assert len(rows) == 130
    assert all(sum(value is None for value in row[7:]) == 1 for row in rows)


def test_large_rows_and_batches_are_cut_into_pages(
    spark: SparkSession,
    untouched: SparkSession,
    captures: Path,
    tmp_path: Path,
    rows_of: Callable[[DataFrame], Rows],
) -> None:
    path = tmp_path / "large.bin"
    large = tibmsg.build({"RAW": bytes(range(256)) * 4000, "TEXT": "x" * 70_001}).encode()
    path.write_bytes((captures / "quotes.bin").read_bytes() * 100 + large * 20)
    query = "select sum(crc32(raw)), sum(frame_length), count(distinct frame_offset) from t"
    found = []
    for each in (spark, untouched):
        frames = each.read.format("wireloom").options(include_raw=True, split_bytes=1 << 30)
        frames.load(str(path)).createOrReplaceTempView("t")
        found.append(each.sql(query).first())
        each.catalog.dropTempView("t")
    assert found[0] == found[1]
    assert found[0][1] == path.stat().st_size


def test_lists_are_cut_into_pages(
    spark: SparkSession, untouched: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "lists.bin"
    answers = [
        nrep.InstanceReply(instance_ids=tuple(bytes([row, n]) * 5 for n in range(row % 9)))
        for row in range(200)
    ]
    path.write_bytes(b"".join(answer.encode() for answer in answers) * 700)
    query = "select count(*), sum(crc32(array_join(instance_ids, ','))), count(instance_ids) from t"
    found = []
    for each in (spark, untouched):
        packets = each.read.format("wireloom").options(table="nrep", split_bytes=1 << 30)
        packets.load(str(path)).createOrReplaceTempView("t")
        found.append(each.sql(query).first())
        each.catalog.dropTempView("t")
    assert found[0] == found[1]
    assert found[0][0] == 140_000


def test_a_column_that_has_become_another_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "quotes.bin"
    path.write_bytes(tibmsg.build({"BID": 1}).encode())
    frame = spark.read.format("wireloom").options(table="wide", columns="BID").load(str(path))
    assert frame.schema["BID"].dataType.simpleString() == "bigint"
    path.write_bytes(tibmsg.build({"BID": "one"}).encode())
    with pytest.raises(Exception, match="BID is string, not bigint"):
        frame.collect()


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
        assert f"RowsOfPages [{columns}]" in plan, query
    narrow = frame.select("size", "name")
    assert narrow.columns == ["size", "name"]
    assert "Project" not in steps(narrow)
    spark.catalog.dropTempView("t")


def test_rows_that_filters_drop_are_not_sent(
    spark: SparkSession, untouched: SparkSession, captures: Path
) -> None:
    frame = load(spark, captures / "quotes.bin")
    total, bids = frame.count(), frame.where("name = 'BID'").count()
    assert 0 < bids < total
    assert sent(frame.where("name = 'BID'")) == bids
    assert sent(frame.where("name = 'BID'").select("size")) == bids
    assert "[name, EqualTo, BID]" in steps(frame.where("name = 'BID'"))
    assert sent(frame) == total
    # Without the rule, the source would have to send what a later query needs.
    assert sent(load(untouched, captures / "quotes.bin").where("name = 'BID'")) == total


@pytest.mark.parametrize("push_down", ["true", "false"])
@pytest.mark.parametrize("with_paging", [True, False])
def test_a_filter_is_not_felt_by_other_queries(
    untouched: SparkSession, captures: Path, with_paging: bool, push_down: str
) -> None:
    untouched.conf.set(PUSH_DOWN, push_down)
    assert not with_paging or add_paging(untouched)
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


def test_the_rule_is_added_once_and_before_others(untouched: SparkSession) -> None:
    assert add_paging(untouched)
    assert added(untouched) == ["Paging"]
    experimental = untouched._jsparkSession.experimental()
    jvm: Any = untouched._jvm
    other = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy
    others = jvm.PythonUtils.toSeq([other(untouched._jsparkSession)])
    getattr(experimental, "extraStrategies_$eq")(others)
    assert add_paging(untouched)
    assert add_paging(untouched)
    assert added(untouched) == ["Paging", "DataSourceV2Strategy"]


def test_a_setting_leaves_planning_to_spark(untouched: SparkSession) -> None:
    untouched.conf.set(SETTING, "false")
    assert not add_paging(untouched)
    assert added(untouched) == []


def test_a_spark_that_differs_plans_as_ever(
    untouched: SparkSession,
    captures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = (paging._HERE / "Paging.java").read_text()
    changed = text.replace("v2.DataSourceV2ScanRelation;", "v3.DataSourceV3ScanRelation;")
    assert changed != text
    (tmp_path / "Paging.java").write_text(changed)
    monkeypatch.setattr(paging, "_HERE", tmp_path)
    with caplog.at_level(logging.INFO):
        assert not add_paging(untouched)
    assert "as Spark reads all sources in Python" in caplog.text
    assert "DataSourceV3ScanRelation" in caplog.text
    assert load(untouched, captures / "quotes.bin").count() > 0
