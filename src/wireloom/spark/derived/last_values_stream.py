"""`last_values` of a stream: after every micro-batch the same rows as a batch job over all of them.

The images so far are kept in a folder, one version per micro-batch, in the form that `compacted` of
`wireloom.spark.derived.last_values` gives. A micro-batch makes the next version from the one before
and its own rows. A version is named after its micro-batch: one that is run again, after a crash
before Spark recorded it, makes the same version again.

The rows of a frame must come in one micro-batch, as every reader of captures gives them; different
frames may come in any order. A micro-batch costs as much as its rows and all images together.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wireloom.errors import StateError
from wireloom.spark.derived.common import Tables, last_holes
from wireloom.spark.derived.last_values import changes, compacted, images
from wireloom.spark.derived.market import SUBJECT_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["follow_last_values", "read_last_values"]

_KEPT = 3
"""Versions that are kept, so that a reader can finish with the one it began with."""
_DONE = "_SUCCESS"
"""The file that Spark writes last."""


def follow_last_values(
    fields: DataFrame,
    path: str | os.PathLike[str],
    *,
    subject_fields: Sequence[str] = SUBJECT_FIELDS,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start to keep the images of a stream of field rows; one query per folder.

    Args:
        fields: a streaming DataFrame of the table `fields`.
        path: a folder for images and checkpoint that all workers can reach. A query that is started
            with the folder of an earlier one continues where that one ended.
        subject_fields: see `wireloom.spark.derived.market.SUBJECT_FIELDS`.
        trigger: when to run, as `DataStreamWriter.trigger` takes it; by default, the query
            reads all that is available and ends.
    """
    place = Path(path)

    def step(batch: DataFrame, number: int) -> None:
        rows = changes(batch, subject_fields)
        known = _version(place, before=number)
        if known is not None:
            rows = rows.unionByName(batch.sparkSession.read.parquet(str(known)))
        made = _folder(place, number)
        compacted(rows).write.mode("overwrite").parquet(str(made))
        for old in _versions(place)[:-_KEPT]:
            shutil.rmtree(_folder(place, old), ignore_errors=True)

    writer = fields.writeStream.foreachBatch(step)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def read_last_values(
    spark: SparkSession, path: str | os.PathLike[str], tables: Tables | None = None
) -> DataFrame:
    """The images that a query keeps, as of its last micro-batch.

    Args:
        spark: the session.
        path: the query's folder.
        tables: `gaps` and `errors`, which show what is stale, if they exist.

    Raises:
        StateError: there are none yet.
    """
    found = _version(Path(path))
    if found is None:
        raise StateError(f"{os.fspath(path)} has no images yet")
    rows = spark.read.parquet(str(found))
    return images(rows, last_holes({} if tables is None else tables, rows))


def _folder(place: Path, number: int) -> Path:
    return place / f"version={number}"


def _versions(place: Path) -> list[int]:
    """The numbers of the finished versions."""
    found = (folder.parent.name.partition("=")[2] for folder in place.glob(f"version=*/{_DONE}"))
    return sorted(int(number) for number in found)


def _version(place: Path, *, before: int | None = None) -> Path | None:
    """The last version, or the last one before a number."""
    found = [each for each in _versions(place) if before is None or each < before]
    return _folder(place, found[-1]) if found else None
