"""Images of a stream are those of a batch job, at every point and after any restart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.derivations import Rows, captured, frames, plain, same
from oracles.replay import replay

from wireloom.errors import StateError
from wireloom.tables import arrow_schema, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def rows() -> Rows:
    return captured("tibmsg", "qform", messages=400, seed=3)


def write(rows: Rows, folder: Path, first: int, last: int) -> None:
    """A file of field rows, as a pipeline leaves them."""
    folder.mkdir(exist_ok=True)
    schema = arrow_schema("fields", spark=True)
    table = pa.Table.from_pylist(rows["fields"][first:last], schema=schema)
    pq.write_table(table, folder / f"{first:09}.parquet")


def follow(spark: SparkSession, folder: Path, images: Path) -> None:
    """Take in what is new, and end."""
    from wireloom.spark.derived.last_values_stream import follow_last_values

    fields = spark.readStream.schema(spark_ddl("fields")).parquet(str(folder))
    query = follow_last_values(fields, images)
    query.awaitTermination(100)
    assert query.exception() is None
    assert not query.isActive


def check(spark: SparkSession, rows: Rows, count: int, images: Path) -> None:
    from wireloom.spark.derived.last_values import TABLE
    from wireloom.spark.derived.last_values_stream import read_last_values

    holes = {name: rows[name] for name in ("gaps", "errors")}
    expected = replay("last_values", {**holes, "fields": rows["fields"][:count]})
    found = read_last_values(spark, images, frames(spark, holes))
    same(plain(found), expected, TABLE.names)


def test_after_every_step_and_restart_the_images_are_those_of_all_rows(
    spark: SparkSession, rows: Rows, tmp_path: Path
) -> None:
    folder, images = tmp_path / "fields", tmp_path / "images"
    marks = [0, 1501, 4007, len(rows["fields"])]
    whole = [next_frame(rows, mark) for mark in marks]
    for first, last in pairwise(whole):
        write(rows, folder, first, last)
        follow(spark, folder, images)
        check(spark, rows, last, images)


def next_frame(rows: Rows, index: int) -> int:
    """The first field of a frame, from an index on."""
    fields = rows["fields"]
    while 0 < index < len(fields) and fields[index]["position"] > 0:
        index += 1
    return index


def test_a_step_that_is_run_again_changes_nothing(
    spark: SparkSession, rows: Rows, tmp_path: Path
) -> None:
    folder, images = tmp_path / "fields", tmp_path / "images"
    middle = next_frame(rows, 3000)
    write(rows, folder, 0, middle)
    follow(spark, folder, images)
    write(rows, folder, middle, len(rows["fields"]))
    follow(spark, folder, images)
    # As if the driver had died after the version was written and before Spark noted that.
    commits = images / "checkpoint" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    follow(spark, folder, images)
    check(spark, rows, len(rows["fields"]), images)


def test_a_folder_without_images_says_so(spark: SparkSession, tmp_path: Path) -> None:
    from wireloom.spark.derived.last_values_stream import read_last_values

    with pytest.raises(StateError, match="no images yet"):
        read_last_values(spark, tmp_path)
