"""Captures on Spark against what Spark and Polars do with the same rows in Parquet.

All figures of a ratio come from the same run, on the same rows and cores, measured in turns; the
best of each counts. What Spark itself costs with any Python data source is measured too: one that
gives the same batches ready-made, decoding nothing. Sizes can be set in the environment:
``BENCH_ROWS`` (rows of the table `fields`), ``BENCH_SMALL_MB`` and ``BENCH_LARGE_MB`` (captures for
the cost per byte).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wireloom.generate import generate
from wireloom.lake import Lake
from wireloom.pipeline import PipelineOptions, run_pipeline
from wireloom.spark import read_captures, session
from wireloom.spark.executor import SparkExecutor
from wireloom.spark.options import SourceOptions
from wireloom.spark.planning import plan, read
from wireloom.spark.schema import spark_schema
from wireloom.tabulate import Settings, tabulate

TABLE = "fields"
PIECE = 8_000_000
"""Bytes of generated traffic, which captures repeat: generating costs more than reading."""
GOALS = {
    "data source → noop / Parquet → noop": ("at most", 1.3),
    "read_captures → noop / Parquet → noop": ("at most", 1.3),
    "data source → noop / ready-made batches → noop": ("at most", 1.3),
    "capture → lake / Spark's Parquet → Parquet": ("at most", 0.6),
    "capture → lake / Polars' Parquet → Parquet": ("at most", 2.0),
    "one file on 2 cores / on 1": ("at least", 1.7),
    "cost per byte, large / small": ("at most", 1.1),
}


def main(quick: bool) -> dict[str, Any]:
    rows = _size("BENCH_ROWS", 600_000 if quick else 5_000_000)
    small = _size("BENCH_SMALL_MB", 20 if quick else 400) * 1_000_000
    large = _size("BENCH_LARGE_MB", 80 if quick else 4000) * 1_000_000
    rounds = 2 if quick else 3
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        piece = place / "piece.bin"
        generate(piece, ["tibmsg"], size=PIECE, container="raw")
        batches = tabulate(piece, tables=(TABLE,), select={TABLE: ("size",)})
        in_piece = sum(batch.num_rows for _, batch in batches)
        capture = repeated(piece, place / "capture.bin", -(-rows // in_piece))
        found: dict[str, Any] = {"rows": -(-rows // in_piece) * in_piece}
        found["capture_bytes"] = capture.stat().st_size
        seconds = compare(place, capture, rounds)
        capture.unlink()
        times = max(1, small // PIECE), max(2, large // PIECE)
        captures = [repeated(piece, place / f"{each}.bin", each) for each in times]
        seconds |= scale(place, captures[0], rounds)
        seconds |= growth(place, *captures, rounds)
    found["seconds"] = seconds
    found["ratios"] = ratios(seconds)
    show(found)
    return found


def _size(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


def repeated(piece: Path, path: Path, times: int) -> Path:
    with path.open("wb") as file:
        for _ in range(times):
            with piece.open("rb") as source:
                shutil.copyfileobj(source, file)
    return path


def best(rounds: int, **runs: Callable[[], Any]) -> dict[str, float]:
    """The best time of each, measured in turns so that other load affects all of them."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - began)
    for name, seconds in found.items():
        print(f"  {name:<20} {seconds:8.2f} s", flush=True)
    return found


def to_lake(spark: Any, capture: Path, lake: Path) -> None:
    shutil.rmtree(lake, ignore_errors=True)
    run_pipeline(capture, lake, Settings(tables=(TABLE,)), executor=SparkExecutor(spark))


def ready_made(place: Path, capture: Path) -> type[DataSource]:
    """A data source that gives our batches, read from Arrow files."""
    options = SourceOptions.read({"path": str(capture), "table": TABLE}).resolved()
    files = []
    for number, part in enumerate(plan(options)):
        batches = read(part, options.settings, options.table)
        first = next(batches)
        files.append(str(place / f"{number}.arrow"))
        with pa.OSFile(files[-1], "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
            for batch in (first, *batches):
                writer.write_batch(batch)
    types = spark_schema(options.schema)

    # Inside this function, so that they are sent to the workers, which cannot import them.
    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(name) for name in files]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            with pa.memory_map(partition.value) as file, pa.ipc.open_file(file) as batches:
                for number in range(batches.num_record_batches):
                    yield batches.get_batch(number)

    class ReadyMade(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ready_made"

        def schema(self) -> StructType:
            return types

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return ReadyMade


def compare(place: Path, capture: Path, rounds: int) -> dict[str, float]:
    """The same rows from the capture and from Parquet."""
    import polars as pl

    spark = session("local[2,4]")
    to_lake(spark, capture, place / "rows")
    rows = place / "rows" / TABLE
    count = sum(file.rows for file in Lake(place / "rows").files(TABLE))
    source = spark.read.format("wireloom").option("table", TABLE)
    assert source.load(str(capture)).count() == count == spark.read.parquet(str(rows)).count()
    spark.dataSource.register(ready_made(place, capture))
    made = spark.read.format("ready_made")
    assert made.load().schema == source.load(str(capture)).schema
    assert made.load().count() == count

    def noop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def rewrite() -> None:
        frame = spark.read.parquet(str(rows))
        frame.write.option("compression", "zstd").mode("overwrite").parquet(str(place / "again"))

    def polars() -> None:
        frame = pl.scan_parquet(str(rows / "**/*.parquet"))
        frame.sink_parquet(place / "polars.parquet", compression="zstd", compression_level=1)

    found = best(
        rounds,
        source_noop=lambda: noop(source.load(str(capture))),
        read_noop=lambda: noop(read_captures(spark, capture, table=TABLE)),
        ready_made_noop=lambda: noop(made.load()),
        parquet_noop=lambda: noop(spark.read.parquet(str(rows))),
        capture_lake=lambda: to_lake(spark, capture, place / "lake"),
        spark_parquet=rewrite,
        polars_parquet=polars,
    )
    spark.stop()
    return found


def scale(place: Path, capture: Path, rounds: int) -> dict[str, float]:
    """One file on one core and on two, in sessions that take turns."""
    found = {"cores_1": float("inf"), "cores_2": float("inf")}
    for _ in range(rounds):
        for cores in (1, 2):
            spark = session(f"local[{cores},4]")
            to_lake(spark, capture, place / "lake")  # starts the workers
            began = time.perf_counter()
            to_lake(spark, capture, place / "lake")
            name = f"cores_{cores}"
            found[name] = min(found[name], time.perf_counter() - began)
            spark.stop()
    for name, seconds in found.items():
        print(f"  {name:<20} {seconds:8.2f} s", flush=True)
    return found


def growth(place: Path, small: Path, large: Path, rounds: int) -> dict[str, float]:
    """A capture and one that is several times as large."""
    spark = session("local[2,4]")
    options = PipelineOptions(split_bytes=max(PIECE, small.stat().st_size // 4))

    def run(path: Path) -> None:
        shutil.rmtree(place / "lake", ignore_errors=True)
        run_pipeline(
            path, place / "lake", Settings(tables=(TABLE,)), options, executor=SparkExecutor(spark)
        )

    run(small)
    found = best(rounds, small=lambda: run(small), large=lambda: run(large))
    spark.stop()
    for name, path in (("small", small), ("large", large)):
        found[f"{name}_ns_a_byte"] = found[name] / path.stat().st_size * 1e9
    return found


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    return {
        "data source → noop / Parquet → noop": seconds["source_noop"] / seconds["parquet_noop"],
        "read_captures → noop / Parquet → noop": seconds["read_noop"] / seconds["parquet_noop"],
        "data source → noop / ready-made batches → noop": seconds["source_noop"]
        / seconds["ready_made_noop"],
        "capture → lake / Spark's Parquet → Parquet": seconds["capture_lake"]
        / seconds["spark_parquet"],
        "capture → lake / Polars' Parquet → Parquet": seconds["capture_lake"]
        / seconds["polars_parquet"],
        "one file on 2 cores / on 1": seconds["cores_1"] / seconds["cores_2"],
        "cost per byte, large / small": seconds["large_ns_a_byte"] / seconds["small_ns_a_byte"],
    }


def show(found: dict[str, Any]) -> None:
    print(f"{found['rows']:,} rows of {TABLE}, capture of {found['capture_bytes'] / 1e6:.0f} MB")
    for name, value in found["ratios"].items():
        how, goal = GOALS[name]
        is_met = value <= goal if how == "at most" else value >= goal
        print(f"  {name:<46} {value:5.2f}  ({how} {goal}: {'yes' if is_met else 'NO'})")
