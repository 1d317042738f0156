"""`last_values` of a stream: after every micro-batch the same rows as a batch job over all of them.

The images so far are kept in a folder, one version a micro-batch, in the form that `compacted` of
`wireloom.spark.derived.last_values` gives. A micro-batch makes the next version out of the one
before it and its own rows. The version is named after the micro-batch: one that is run again, after
a crash between the writing and Spark's own note of it, makes the same version once more.

The rows of a frame have to come in one micro-batch, as every reader of captures gives them; those
of different frames in any order. A micro-batch costs as much as its rows and all images together.
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
"""Versions that stay, so that a reader can finish with the one it began with."""
_DONE = "_SUCCESS"
"""What Spark writes last."""


def follow_last_values(
    fields: DataFrame,
    path: str | os.PathLike[str],
    *,
    subject_fields: Sequence[str] = SUBJECT_FIELDS,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start to keep the images of a stream of field rows; one query a folder.

    Args:
        fields: a streaming DataFrame of the table `fields`.
        path: a folder for images and checkpoint, which all workers see. A query that is started
            with the folder of an earlier one goes on where that one ended.
        subject_fields: see `wireloom.spark.derived.market.SUBJECT_FIELDS`.
        trigger: when to run, as `DataStreamWriter.trigger` takes it; by default all that is there,
            and then the query ends.
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
        tables: `gaps` and `errors`, which tell what is stale, if there are such.

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
