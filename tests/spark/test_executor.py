"""The pipeline on Spark: the same lake as without, and lakes that Spark reads."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from oracles.lakes import lake_tables, sorted_rows
from pyarrow import parquet as pq

from wireloom.cli import main
from wireloom.errors import DecodeError
from wireloom.generate import Faults, generate
from wireloom.lake import Lake
from wireloom.pipeline import PipelineOptions, follow, reprocess, run_pipeline
from wireloom.spark.executor import SparkExecutor
from wireloom.spark.lake import read_table, register_tables
from wireloom.tabulate import Settings, tabulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Starting Spark and its workers takes long on a machine that is busy.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("captures")
    paths = [folder / name for name in ("a.bin", "b.bin", "c1.pcap", "c2.pcapng")]
    damaged = Faults(corruption=0.01)
    generate(paths[0], ["tibmsg"], size=300_000, container="raw", faults=damaged)
    generate(paths[1], ["nrep"], size=20_000, container="raw")
    lossy = Faults(loss=0.01, reorder=0.02, duplicates=0.01)
    generate(paths[2], ["tibrv", "blaze", "nais"], size=150_000, container="pcap", faults=lossy)
    generate(paths[3], ["qform", "nrep", "tibrv"], size=150_000, seed=9, faults=lossy)
    return paths


@pytest.fixture(scope="module")
def wanted(captures: list[Path]) -> dict[str, list[str]]:
    parts: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, batch in tabulate([str(path) for path in captures], Settings()):
        parts[name].append(batch)
    rows = {name: sorted_rows(pa.Table.from_batches(found)) for name, found in parts.items()}
    return {name: rows.get(name, []) for name in Settings().tables}


@pytest.mark.parametrize("route", ["direct", "shuffle"])
def test_a_lake_made_on_spark_has_the_rows_of_one_pass(
    spark: SparkSession,
    captures: list[Path],
    wanted: dict[str, list[str]],
    tmp_path: Path,
    route: Any,
) -> None:
    how = PipelineOptions(split_bytes=50_000, parts=3, route=route)
    done: list[int] = []
    lake, executor = tmp_path / "lake", SparkExecutor(spark)
    report = run_pipeline(captures, lake, None, how, executor=executor, progress=done.append)
    assert lake_tables(lake) == wanted
    size = sum(path.stat().st_size for path in captures)
    assert report.bytes_read == done[-1] == size
    assert run_pipeline(captures, lake, None, how, executor=executor).commits == 0
    assert reprocess(lake, executor=executor).commits == 0


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_captures_are_followed_on_spark(
    spark: SparkSession, captures: list[Path], tmp_path: Path, writer: Any
) -> None:
    folder, lake = tmp_path / "live", tmp_path / "lake"
    folder.mkdir()
    settings, how = Settings(tables=("messages",)), PipelineOptions(writer=writer)
    stop = Event()
    stop.set()
    for path in captures:  # connections of the third may go on in the fourth
        shutil.copy(path, folder)
        report = follow([folder], lake, settings, how, stop=stop, executor=SparkExecutor(spark))
        assert report.files_read == 1
    run_pipeline(folder, tmp_path / "batch", settings)
    assert lake_tables(lake) == lake_tables(tmp_path / "batch")


def test_spark_may_write_the_tables(
    spark: SparkSession, captures: list[Path], wanted: dict[str, list[str]], tmp_path: Path
) -> None:
    raw = captures[:1]
    how = PipelineOptions(split_bytes=100_000, writer="spark")
    settings = Settings(tables=("messages",))
    report = run_pipeline(raw, tmp_path / "lake", settings, how, executor=SparkExecutor(spark))
    found = lake_tables(tmp_path / "lake")
    for name in ("messages", "errors", "accounting"):
        assert found.get(name, []) == [
            row for row in wanted[name] if row.startswith(f"('{raw[0]}'")
        ]
    assert report.rows == {name: len(rows) for name, rows in found.items() if rows}


def test_an_error_in_a_task_arrives_as_it_is(
    spark: SparkSession, captures: list[Path], tmp_path: Path
) -> None:
    strict, executor = Settings(mode="failfast"), SparkExecutor(spark)
    for route in ("direct", "shuffle"):
        how = PipelineOptions(route=route)  # type: ignore[arg-type]
        with pytest.raises(DecodeError) as caught:
            run_pipeline(captures, tmp_path / "lake", strict, how, executor=executor)
        assert any(str(path) in caught.value.reason for path in captures)
    assert Lake(tmp_path / "lake").version == 0


def test_spark_reads_the_folders_and_the_tables_of_a_lake(
    spark: SparkSession, captures: list[Path], wanted: dict[str, list[str]], tmp_path: Path
) -> None:
    root = tmp_path / "lake"
    run_pipeline(captures, root)
    assert set(register_tables(spark, root)) == set(wanted)
    for name, rows in wanted.items():
        assert spark.read.parquet(str(root / name)).count() == len(rows)
        table = read_table(spark, root, name)
        assert table.count() == len(rows)
        assert table.schema == spark.table(name).schema
    days = spark.sql("select distinct date from frames order by date").collect()
    assert [str(row[0]) for row in days] == ["1970-01-01", "2023-11-15"]
    (sums,) = spark.sql(
        "select sum(captured - decoded - quarantined - gap - duplicate) from accounting"
    ).collect()
    assert sums[0] == 0


def test_commands_on_a_lake(spark: SparkSession, captures: list[Path], tmp_path: Path) -> None:
    root = str(tmp_path / "lake")

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(main, [*arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done

    inputs = [str(path) for path in captures]
    for path in inputs:
        done = run("pipeline", path, "--out", root, "--master", "none", "--json")
        assert json.loads(done.stdout)["files_read"] == 1
        assert "the sum is right" in done.stderr
    assert "0 captures read, 4 known" in run("pipeline", *inputs, "--out", root).stderr
    before = lake_tables(root)
    assert "files of" in run("compact", root).stderr
    assert lake_tables(root) == before
    shown = run("tables", root).stdout
    assert "frames" in shown
    assert "the sum is right" in shown
    rows = [json.loads(line) for line in run("tables", root, "--json").stdout.splitlines()]
    assert {row["table"]: row["rows"] for row in rows} == {
        name: len(found) for name, found in before.items()
    }
    assert "value_time" in run("tables", root, "fields").stdout
    query = "select format, count(*) as n from frames group by format order by format"
    answers = []
    for engine in ("spark", "duckdb"):
        lines = run("sql", root, query, "--json", "--engine", engine).stdout.splitlines()
        answers.append([json.loads(line) for line in lines])
    assert answers[0] == answers[1] != []
    for engine in ("spark", "duckdb"):
        target = str(tmp_path / f"{engine}.parquet")
        run("sql", root, query, "-o", target, "--engine", engine)
        assert pq.read_table(target).to_pylist() == answers[0]
    nothing = ["sql", root, "create temporary view v as select 1", "--engine", "spark"]
    refused = CliRunner().invoke(main, [*nothing, "-o", str(tmp_path / "x.parquet")])
    assert "no answer to write" in refused.stderr
    same = run("sql", root, "select 1 as a, 2 as a", "--json", "--engine", "spark").stdout
    assert json.loads(same) == {"a": 1, "a_1": 2}
    spark.sql("select 1").collect()  # the commands left it running
    wrong = CliRunner().invoke(main, ["sql", root, "not sql", "--engine", "spark"])
    assert wrong.exit_code == 1
    assert "PARSE_SYNTAX_ERROR" in wrong.stderr
