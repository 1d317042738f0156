from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wireloom.spark.paging import SETTING, add_paging
from wireloom.tables import table_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Expected = Callable[..., list[tuple[Any, ...]]]
RowsOf = Callable[["DataFrame"], list[tuple[Any, ...]]]


def load(spark: SparkSession, path: object, table: str = "frames", **options: object) -> DataFrame:
    reader = spark.read.format("wireloom").option("table", table)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


def files_in(folder: Path) -> list[Path]:
    """In the order in which they were captured."""
    raw = [folder / name for name in ("orders.bin", "quotes.bin", "rv.bin.gz")]
    return [*raw, *(folder / "packets" / f"cap{number}.pcap" for number in (8, 9, 10))]


@pytest.mark.parametrize("table", table_names())
def test_rows_of_every_table_are_those_of_one_pass(
    spark: SparkSession, captures: Path, rows_of: RowsOf, expected: Expected, table: str
) -> None:
    wanted = expected(files_in(captures), table)
    assert wanted
    found = load(spark, captures, table, split_bytes=20_000, packet_parts=2)
    assert rows_of(found) == wanted


def test_one_large_file_is_split_and_gives_the_same_rows(
    spark: SparkSession, captures: Path, rows_of: RowsOf, expected: Expected
) -> None:
    path = captures / "orders.bin"
    frame = load(spark, path, "errors", split_bytes=7_000)
    assert frame.rdd.getNumPartitions() >= 6
    assert rows_of(frame) == expected([path], "errors")
    assert load(spark, path, "accounting", split_bytes=7_000).count() == 1


def test_options_of_the_settings_arrive(
    spark: SparkSession, captures: Path, rows_of: RowsOf, expected: Expected
) -> None:
    path = captures / "quotes.bin"
    frame = load(spark, path, include_raw="true", formats="tibmsg", nested="false")
    wanted = expected([path], "frames", include_raw=True, formats=("tibmsg",), nested=False)
    assert rows_of(frame) == wanted
    assert frame.where("raw is null").count() == 0


def test_wide_columns_get_the_types_of_the_first_frames(
    spark: SparkSession, captures: Path, rows_of: RowsOf, expected: Expected
) -> None:
    path = captures / "quotes.bin"
    columns = ("SYMBOL", "BID", "BIDSIZE:double")
    frame = load(spark, path, "wide", columns=",".join(columns))
    types = dict(frame.dtypes)
    assert types["SYMBOL"] == "string"
    assert types["BIDSIZE"] == "double"
    assert rows_of(frame) == expected([path], "wide", columns=columns)


def test_columns_can_be_chosen_by_option_or_by_schema(
    spark: SparkSession, captures: Path, rows_of: RowsOf
) -> None:
    path = captures / "quotes.bin"
    chosen = load(spark, path, "fields", select="name, value_int")
    assert chosen.columns == ["name", "value_int"]
    reader = spark.read.format("wireloom").option("table", "fields")
    turned = reader.schema("value_int bigint, name string").load(str(path))
    assert turned.columns == ["value_int", "name"]
    assert rows_of(turned.select("name", "value_int")) == rows_of(chosen)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rows": "frames"}, "there is no option 'rows'"),
        ({"table": "ticks"}, "no table 'ticks'"),
        ({"tables": "frames"}, "did you mean table"),
        ({"mode": "lenient"}, "mode must be one of permissive, failfast, dropmalformed"),
        ({"split_bytes": "many"}, "split_bytes must be a whole number over 0"),
        ({"select": "price"}, "frames has no column 'price'"),
        ({"formats": "blaze,morse"}, "no format 'morse'"),
        ({"ports": "blaze"}, "ports must be like 7001=blaze"),
        ({"finish_after": "soon"}, "finish_after must be a number of seconds"),
        ({"dictionary": "/nowhere/at.all"}, "/nowhere/at.all"),
    ],
)
def test_a_bad_option_is_named_on_the_driver(
    spark: SparkSession, captures: Path, options: dict[str, str], reason: str
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.read.format("wireloom")
    for name, value in options.items():
        reader = reader.option(name, value)
    with pytest.raises(PySparkException) as caught:
        reader.load(str(captures))
    assert reason in str(caught.value)


def test_no_path_no_captures_and_wrong_types_are_errors(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="no path"):
        spark.read.format("wireloom").load()
    with pytest.raises(PySparkException, match="no captures at"):
        load(spark, tmp_path / "*.pcap").collect()
    reader = spark.read.format("wireloom").schema("ts_ns string")
    with pytest.raises(PySparkException, match="ts_ns is bigint, not string"):
        reader.load(str(captures)).collect()


def test_paths_are_files_folders_patterns_and_addresses(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    shutil.copy(captures / "quotes.bin", tmp_path / "a 1.bin")
    shutil.copy(captures / "orders.bin", tmp_path / "b.bin")
    shutil.copy(captures / "packets" / "cap8.pcap", tmp_path / "c.pcap")
    (tmp_path / "_hidden").write_bytes(b"\0" * 100)
    (tmp_path / ".part").write_bytes(b"\0" * 100)

    def sources(*paths: str) -> dict[str, int]:
        frame = spark.read.format("wireloom").load(list(paths) if len(paths) > 1 else paths[0])
        counted = frame.groupBy("source").count().collect()
        return {Path(row["source"]).name: row["count"] for row in counted}

    every = sources(str(tmp_path))
    assert set(every) == {"a 1.bin", "b.bin", "c.pcap"}
    first, second = ({name: every[name]} for name in ("a 1.bin", "b.bin"))
    assert sources(f"{tmp_path}/a*.bin") == first
    assert sources(f"{tmp_path}/b.bin") == second
    assert sources(f"{tmp_path}/a 1.bin", f"{tmp_path}/b.bin") == first | second
    assert sources(f"file://{tmp_path}/a%201.bin") == first
    # An address that pyarrow does not know, so that fsspec reads it.
    assert sources(f"local://{tmp_path}") == every
    assert sources(f"local://{tmp_path}/*.bin") == first | second


def test_filters_give_the_same_rows_applied_here_or_not(
    spark: SparkSession, captures: Path, rows_of: RowsOf, expected: Expected
) -> None:
    stamps = [row[4] for row in expected(files_in(captures), "frames") if row[4] is not None]
    middle = sorted(stamps)[len(stamps) // 2]
    when = datetime.datetime.fromtimestamp(middle / 1e9, datetime.UTC)
    for condition in (
        f"source in ('{captures}/quotes.bin', 'other') and frame_offset < 1000",
        f"ts_ns >= {middle} and format = 'blaze'",
        f"ts < timestamp '{when:%Y-%m-%d %H:%M:%S.%f}'",
        "format in ('nrep', 'qform') or frame_length > 100",
    ):
        found = {}
        for is_on in ("true", "false"):
            each = spark.newSession()
            each.conf.set(SETTING, is_on)
            assert add_paging(each) == (is_on == "true")
            found[is_on] = rows_of(load(each, captures).where(condition))
        assert found["true"] == found["false"], condition
        assert 0 < len(found["true"]) < len(stamps) * 3, condition


def test_a_filter_on_the_source_leaves_other_files_unread(captures: Path) -> None:
    from wireloom.pipeline.plan import FlowPartition, Whole
    from wireloom.spark.filters import sources
    from wireloom.spark.options import SourceOptions
    from wireloom.spark.planning import Task, plan

    options = SourceOptions.read({"path": str(captures)})
    quotes, orders = f"{captures}/quotes.bin", f"{captures}/orders.bin"
    wanted = [("source", "In", [quotes, orders]), ("source", "EqualTo", quotes)]
    found = sources([*wanted, ("source", "IsNotNull", None), ("frame_offset", "EqualTo", 1)])
    assert found == {quotes}
    # Connections may begin in another packet capture than the one they are called after.
    raw, *packets = plan(options, found)
    assert raw == Task(Whole((quotes,), Path(quotes).stat().st_size))
    assert all(isinstance(each, Task) and isinstance(each.unit, FlowPartition) for each in packets)


def test_a_filter_that_is_not_understood_lets_all_rows_through() -> None:
    import pyarrow as pa

    from wireloom.spark.filters import apply

    batch = pa.record_batch({"a": [1, 2, None], "b": ["x", "xy", None], "c": [1.0, 2.0, None]})
    assert apply(batch, [("a", "EqualTo", "text")]).num_rows == 3
    assert apply(batch, [("a", "GreaterThan", 1 << 70)]).num_rows == 3
    assert apply(batch, [("c", "GreaterThan", 1)]).num_rows == 3
    assert apply(batch, [("a", "Resembles", 1)]).num_rows == 3
    assert apply(batch, [("a", "GreaterThan", 1), ("b", "StartsWith", "x")]).num_rows == 1
    assert apply(batch, [("b", "IsNull", None), ("a", "IsNotNull", None)]).num_rows == 0
    assert apply(batch, [("b", "In", ["x", "z"])]).num_rows == 1


def test_filters_know_every_type_of_column() -> None:
    import pyarrow as pa

    from wireloom.spark.filters import apply

    columns = {
        "date": pa.array([10, 20, None], pa.int32()).cast(pa.date32()),
        "time": pa.array([10, 20, None], pa.int64()).cast(pa.time64("ns")),
        "stamp": pa.array([10, 20, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "name": pa.array(["b", "a", None]).dictionary_encode(),
        "bool": pa.array([False, True, None]),
    }
    batch = pa.record_batch(columns)
    for column, kind, value in (
        ("date", "GreaterThan", 10),
        ("time", "LessThanOrEqual", 19),
        ("stamp", "In", [20, 30]),
        ("name", "LessThan", "b"),
        ("name", "In", ["a", "c"]),
        ("name", "StartsWith", "a"),
        ("bool", "EqualTo", True),
    ):
        found = apply(batch, [(column, kind, value)])
        expected = batch.slice(0 if column == "time" else 1, 1)
        assert found.to_pylist() == expected.to_pylist(), (column, kind)


def test_filters_do_not_have_workers_import_pandas() -> None:
    code = """
import sys
from wireloom.arrow.arrays import strings
from wireloom.spark.filters import apply
import pyarrow as pa
batch = pa.RecordBatch.from_arrays([strings(["a", "b"])], names=["name"])
assert apply(batch, [("name", "In", ["b", "c"]), ("name", "EqualTo", "b")]).num_rows == 1
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modes(spark: SparkSession, captures: Path) -> None:
    from pyspark.errors import PySparkException

    path = captures / "orders.bin"
    quarantined = load(spark, path, "errors").count()
    assert quarantined > 0
    assert load(spark, path, "errors", mode="dropmalformed").count() == 0
    with pytest.raises(PySparkException, match=r"orders\.bin.*at byte \d+"):
        load(spark, path, mode="failfast").count()
    assert load(spark, captures / "quotes.bin", mode="failfast").count() > 0


def test_sql_reads_captures_too(spark: SparkSession, captures: Path) -> None:
    spark.sql(
        "create or replace temporary view quotes using wireloom "
        f"options (path '{captures}/quotes.bin', table 'messages')"
    )
    try:
        found = spark.sql("select format, count(*) as n from quotes group by format").collect()
        assert [row["format"] for row in found] == ["tibmsg"]
    finally:
        spark.catalog.dropTempView("quotes")


PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_on_spark_names_every_option_and_its_examples_work(
    spark: SparkSession,
    captures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    patient: Callable[[Callable[[], None]], None],
) -> None:
    from dataclasses import fields

    from wireloom.options import declared
    from wireloom.spark.options import OPTIONS
    from wireloom.tabulate import Settings

    text = PAGE.read_text("utf-8")
    inner = {"tables", "limits", "reassembly", "options"}
    names = {*OPTIONS, *(each.name for each in fields(Settings) if each.init)} - {"path"} - inner
    names |= {
        option.name
        for found in declared().values()
        for _, option in found
        if option.is_for_tables and option.type != "object"
    }
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
    (tmp_path / "captures").mkdir()
    shutil.copy(captures / "quotes.bin", tmp_path / "captures")
    os.utime(tmp_path / "captures" / "quotes.bin", (1_700_000_000, 1_700_000_000))
    monkeypatch.chdir(tmp_path)
    # Spark itself stays where it was started.
    text = text.replace('"captures/', f'"{tmp_path}/captures/').replace(
        "'captures/", f"'{tmp_path}/captures/"
    )
    text = text.replace('"checkpoint"', f'"{tmp_path}/checkpoint"').replace(
        '"ticks"', f'"{tmp_path}/ticks"'
    )
    names_seen: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        patient(partial(exec, block, names_seen))
    assert names_seen["spark"] is spark
    assert spark.read.parquet(f"{tmp_path}/ticks").count() > 0
    spark.catalog.dropTempView("errors")
